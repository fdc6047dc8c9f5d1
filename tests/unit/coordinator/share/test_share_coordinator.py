"""The share coordinator, case by case."""

from __future__ import annotations

import pytest

from pybroker_kafka.coordinator.share.batches import StateBatch
from pybroker_kafka.coordinator.share.records import SNAPSHOT, UPDATE, read, record
from pybroker_kafka.coordinator.share.state import Key, State, Update
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_batch_headers, iter_records
from pybroker_kafka.protocol.uuids import uuid_to_text
from tests.support.coordinators import pass_time
from tests.support.share_node import PARTITIONS, TOPIC, ShareNode, result_of, written

KEY = Key("g", TOPIC, 0)
AVAILABLE, ACKNOWLEDGED = 0, 2


def kinds(node: ShareNode) -> list[bytes]:
    """Of the records in the log."""
    return [
        bytes(key or b"")[:2] if value is not None else b"gone"
        for batch in node.log
        for position, _ in iter_batch_headers(batch)
        for _, _, key, value, _, _ in iter_records(batch, position)
    ]


def test_a_state_begins_changes_and_ends() -> None:
    node = ShareNode()
    assert node.initialize(10).error_code == 0
    assert node.write((10, 19, ACKNOWLEDGED, 1), (20, 29, AVAILABLE, 2), leader=3).error_code == 0
    found = node.read()
    assert (found.state_epoch, found.start_offset) == (1, 10)
    batches = [
        (b.first_offset, b.last_offset, b.delivery_state, b.delivery_count)
        for b in found.state_batches
    ]
    assert batches == [(10, 19, ACKNOWLEDGED, 1), (20, 29, AVAILABLE, 2)]
    assert node.delete().error_code == 0
    assert node.entries == {}
    assert kinds(node) == [SNAPSHOT, UPDATE, b"gone"]
    assert node.delete().error_code == 0  # again


def test_a_summary_tells_how_much_is_delivered() -> None:
    node = ShareNode()
    unknown = node.summary()
    assert (unknown.start_offset, unknown.delivery_complete_count) == (-1, -1)
    node.initialize(-1)
    assert node.summary().delivery_complete_count == -1
    node.write((5, 5, ACKNOWLEDGED, 1), start=4, leader=2, count=1)
    found = node.summary()
    assert (found.state_epoch, found.start_offset, found.delivery_complete_count) == (1, 4, 1)


def test_earlier_leaders_and_states_are_fenced() -> None:
    node = ShareNode()
    node.initialize(0, epoch=2)
    assert node.read(leader=5).error_code == 0
    assert kinds(node) == [SNAPSHOT, UPDATE]  # the epoch of the leader
    assert node.read(leader=5).error_code == 0
    assert kinds(node) == [SNAPSHOT, UPDATE]
    assert node.read(leader=4).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert node.write(leader=4, epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert node.write(leader=5, epoch=1).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert node.initialize(0, epoch=1).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert node.write(leader=5, epoch=2).error_code == 0
    assert node.initialize(7, epoch=3).error_code == 0
    assert node.read(leader=5).start_offset == 7


def test_what_does_not_begin_cannot_be_used() -> None:
    node = ShareNode()
    for result in (node.write(), node.read()):
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert "uninitialized" in result.error_message
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.initialize(partition=PARTITIONS).error_code == missing
    assert node.summary(partition=PARTITIONS).error_code == missing
    assert node.delete(partition=PARTITIONS).error_code == missing
    assert node.initialize(partition=-1).error_code == ErrorCode.INVALID_REQUEST


def test_after_too_many_updates_comes_a_snapshot() -> None:
    node = ShareNode(limit=2)
    node.initialize(0)
    for offset in range(5):
        node.write((offset, offset, ACKNOWLEDGED, 1))
    assert kinds(node) == [SNAPSHOT, UPDATE, UPDATE, SNAPSHOT, UPDATE, UPDATE]
    state = node.entries[KEY].state
    assert state.snapshot_epoch == 1
    assert state.batches == (StateBatch(0, 4, 1, ACKNOWLEDGED),)
    assert node.replayed() == node.entries


def test_a_change_that_is_not_written_is_undone() -> None:
    node = ShareNode()
    node.initialize(0)
    before = node.entries
    node.holds, node.error = True, ErrorCode.NOT_ENOUGH_REPLICAS
    first = node.ask("write", written((0, 0, ACKNOWLEDGED, 1)))
    second = node.ask("write", written((1, 1, ACKNOWLEDGED, 1)))
    third = node.ask("read", written())
    assert first.is_waiting
    assert third.is_waiting
    node.release()
    for call in (first, second, third):
        assert result_of(call).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert node.entries == before == node.replayed()


def test_answers_wait_for_the_log() -> None:
    node = ShareNode()
    node.initialize(0)
    node.holds = True
    call = node.ask("write", written((0, 0, ACKNOWLEDGED, 1)))
    later = node.ask("read", written())
    assert call.is_waiting
    assert later.is_waiting
    node.release()
    assert result_of(call).error_code == 0
    assert len(result_of(later).state_batches) == 1


def test_another_broker_takes_over() -> None:
    node = ShareNode()
    node.initialize(0)
    node.read(leader=1)
    node.write((0, 3, ACKNOWLEDGED, 1), leader=1)
    node.holds = True
    call = node.ask("write", written((4, 5, ACKNOWLEDGED, 1), leader=1))
    node.machine.unload(0, 1)
    assert node.read().error_code == ErrorCode.NOT_COORDINATOR
    node.release()
    assert result_of(call).error_code == ErrorCode.NOT_COORDINATOR
    other = ShareNode(log=node.log)
    assert other.entries == node.replayed()
    assert other.write(leader=0).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_partition_that_is_loading_is_not_served() -> None:
    node = ShareNode()
    node.machine.unload(0, 1)
    load = node.machine.begin_load(0, 2)
    assert load is not None
    assert node.read().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    node.machine.abandon_load(load)
    assert node.read().error_code == ErrorCode.NOT_COORDINATOR
    node.machine.stop()
    assert node.read().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_request_without_a_group_or_partitions_has_no_results() -> None:
    node = ShareNode()
    assert node.ask("read").result.results == []


def test_superseded_records_are_pruned() -> None:
    node = ShareNode(limit=1)
    interval_ms = node.config.prune_interval_ms
    node.initialize(0)
    node.initialize(0, partition=1)
    pass_time(node, interval_ms)
    assert node.pruned == []  # the first record is needed
    for offset in range(4):
        node.write((offset, offset, ACKNOWLEDGED, 1))
    pass_time(node, interval_ms)
    assert node.pruned == [3]  # up to the snapshot of the other one at rest
    node.delete(partition=1)
    pass_time(node, interval_ms)
    assert node.pruned[-1] > 3
    assert node.machine.pruned() == [(0, node.pruned[-1])]
    assert node.machine.writes == 4
    assert node.replayed() == node.entries


def test_partitions_at_rest_get_a_snapshot_while_others_change() -> None:
    node = ShareNode()
    node.initialize(0)
    node.initialize(0, partition=1)
    interval_ms = node.config.cold_partition_snapshot_interval_ms
    pass_time(node, interval_ms)
    assert kinds(node)[2:] == [SNAPSHOT, SNAPSHOT]
    assert [entry.state.snapshot_epoch for entry in node.entries.values()] == [1, 1]
    pass_time(node, 3 * interval_ms)
    assert len(kinds(node)) == 4  # all are at rest
    node.initialize(0, epoch=2)
    pass_time(node, interval_ms)
    assert kinds(node)[4:] == [SNAPSHOT, SNAPSHOT, SNAPSHOT]
    assert node.replayed() == node.entries


def test_states_go_with_their_topics() -> None:
    node = ShareNode()
    node.initialize(0)
    node.topics.ids.clear()
    node.machine.topics_deleted(node.now_ms)
    node.perform()
    assert node.entries == node.replayed() == {}


def test_a_large_request_is_written_in_batches() -> None:
    node = ShareNode()
    for partition in range(PARTITIONS):
        node.initialize(0, partition=partition)
    batches = [(offset, offset, ACKNOWLEDGED, 1 + offset % 2) for offset in range(400)]
    asked = [written(*batches, partition=partition) for partition in range(PARTITIONS)]
    before = len(node.log)
    call = node.ask("write", *asked)
    assert [r.error_code for r in call.result.results[0].partitions] == [0] * PARTITIONS
    assert len(node.log) - before > 1
    assert node.replayed() == node.entries


@pytest.mark.parametrize(
    "change",
    [
        State(1, 2, 3, 4, 5, (StateBatch(6, 7, 1, 2),), 8, 9),
        State(),
        Update(1, 2, -1, 5, (StateBatch(6, 7, 1, 0),)),
        None,
    ],
)
def test_records_are_read_as_they_were_written(change: State | Update | None) -> None:
    assert read(*record(KEY, change)) == (KEY, change)


def test_a_key_has_a_text() -> None:
    assert KEY.text == f"g:{uuid_to_text(TOPIC)}:0"
