"""Offsets of transactions: pending until the marker, who may commit them, what becomes of them."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.protocol.apis.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import read_batch_header
from pybroker_kafka.protocol.records.builder import build_end_txn_marker
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from tests.unit.coordinator.group.harness import GROUP, Call, Harness, partition_errors

T0, T1 = ("topic-1", 0), ("topic-1", 1)
PRODUCER, OTHER = 7, 8
ABSENT = -1


@pytest.fixture
def broker() -> Harness:
    return Harness(GroupConfig(offset_metadata_max_bytes=20))


def commit(
    broker: Harness,
    offsets: dict[tuple[str, int], int],
    *,
    producer_id: int = PRODUCER,
    group: str = GROUP,
    generation_id: int = -1,
    member_id: str = "",
    instance: str | None = None,
    metadata: str | None = "",
    unknown: frozenset[tuple[str, int]] = frozenset(),
    verification: object = None,
    connection: int = 0,
) -> Call:
    call = Call(f"transactional commit {offsets}")
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id=group,
        producer_id=producer_id,
        producer_epoch=0,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=instance,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=3,
                        committed_metadata=metadata,
                    )
                ],
            )
            for (topic, partition), offset in offsets.items()
        ],
    )
    broker.machine.commit_transactional_offsets(
        call, request, broker.now_ms, unknown, verification, connection
    )
    broker.perform()
    return call


def mark(
    broker: Harness, *, producer_id: int = PRODUCER, committed: bool = True, group: str = GROUP
) -> None:
    """The marker is in the log; then the coordinator hears of it."""
    partition = broker.machine.partition_for(group)
    kind = ControlRecordType.COMMIT if committed else ControlRecordType.ABORT
    marker = build_end_txn_marker(
        EndTxnMarker(kind, 0),
        timestamp=broker.now_ms,
        producer_id=producer_id,
        producer_epoch=0,
        base_offset=broker.end_offset[partition],
    )
    broker.log[partition].append(marker)
    broker.end_offset[partition] += 1
    broker.machine.complete_transaction(producer_id, {partition}, committed=committed)


def only_error(call: Call) -> ErrorCode:
    (error,) = set(partition_errors(call).values())
    return error


def stable_error(broker: Harness, partition: tuple[str, int], *, stable: bool) -> tuple[int, int]:
    topic, index = partition
    if stable:
        was_holding, broker.is_holding = broker.is_holding, False
        (answer,) = broker.fetch_stable(partition).response
        broker.is_holding = was_holding
    else:
        answer = broker.machine.fetch_offsets(GROUP, [(topic, [index])])
    entry = answer.topics[0].partitions[0]
    return entry.error_code, entry.committed_offset


def test_a_commit_marker_makes_the_offsets_visible(broker: Harness) -> None:
    assert partition_errors(commit(broker, {T0: 5, T1: 6})) == {T0: 0, T1: 0}
    assert (broker.offset(*T0), broker.offset(*T1)) == (ABSENT, ABSENT)
    mark(broker)
    assert (broker.offset(*T0), broker.offset(*T1)) == (5, 6)
    answer = broker.machine.fetch_offsets(GROUP, [("topic-1", [0])])
    assert answer.topics[0].partitions[0].committed_leader_epoch == 3


def test_offsets_that_come_late_are_not_of_the_next_transaction(broker: Harness) -> None:
    """They were sent again on a newer connection; the producer is one transaction further."""
    commit(broker, {T0: 5}, connection=7)
    mark(broker)
    commit(broker, {T0: 6}, connection=7)
    assert only_error(commit(broker, {T0: 5}, connection=4)) is ErrorCode.NOT_COORDINATOR
    mark(broker)
    assert broker.offset(*T0) == 6
    # Another producer of the group has its own; whoever asks again on the older one is alive.
    assert only_error(commit(broker, {T0: 7}, connection=4, producer_id=PRODUCER + 1)) == 0
    assert only_error(commit(broker, {T0: 8}, connection=4)) == 0


def test_an_abort_marker_drops_them(broker: Harness) -> None:
    broker.commit({T0: 1})
    commit(broker, {T0: 5})
    mark(broker, committed=False)
    assert broker.offset(*T0) == 1
    mark(broker)  # nothing is left that a later marker could commit
    assert broker.offset(*T0) == 1


def test_what_is_appended(broker: Harness) -> None:
    commit(broker, {T0: 5, T1: 6})
    (batch,) = broker.log[broker.machine.partition_for(GROUP)]
    header = read_batch_header(batch)
    assert header.is_transactional
    assert not header.is_control
    assert (header.producer_id, header.producer_epoch, header.record_count) == (PRODUCER, 0, 2)


def test_pending_offsets_are_unstable(broker: Harness) -> None:
    broker.commit({T0: 1, T1: 1})
    commit(broker, {T0: 5})
    assert stable_error(broker, T0, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, ABSENT)
    assert stable_error(broker, T0, stable=False) == (0, 1)
    assert stable_error(broker, T1, stable=True) == (0, 1)
    mark(broker)
    assert stable_error(broker, T0, stable=True) == (0, 5)


def test_an_append_under_way_is_unstable_too(broker: Harness) -> None:
    broker.is_holding = True
    call = commit(broker, {T0: 5})
    assert call.is_waiting
    assert stable_error(broker, T0, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, ABSENT)
    broker.release()
    assert only_error(call) == 0
    assert stable_error(broker, T0, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, ABSENT)


def test_each_producer_has_its_own(broker: Harness) -> None:
    commit(broker, {T0: 5})
    commit(broker, {T1: 6}, producer_id=OTHER)
    mark(broker, producer_id=OTHER)
    assert (broker.offset(*T0), broker.offset(*T1)) == (ABSENT, 6)
    mark(broker)
    assert (broker.offset(*T0), broker.offset(*T1)) == (5, 6)


def test_the_later_position_in_the_log_wins(broker: Harness) -> None:
    """A plain commit that came after the transactional one is not undone by its marker."""
    commit(broker, {T0: 5})
    broker.commit({T0: 9})
    mark(broker)
    assert broker.offset(*T0) == 9
    commit(broker, {T0: 11})
    commit(broker, {T0: 12})
    mark(broker)
    assert broker.offset(*T0) == 12


def test_a_marker_of_another_partition_changes_nothing(broker: Harness) -> None:
    commit(broker, {T0: 5})
    elsewhere = {p for p in range(3) if p != broker.machine.partition_for(GROUP)}
    broker.machine.complete_transaction(PRODUCER, elsewhere, committed=True)
    assert broker.offset(*T0) == ABSENT


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_a_failed_append_is_forgotten(broker: Harness, error: ErrorCode, answer: ErrorCode) -> None:
    broker.is_holding = True
    call = commit(broker, {T0: 5})
    broker.release(error)
    assert only_error(call) is answer
    assert stable_error(broker, T0, stable=True) == (0, ABSENT)


def test_a_failed_repetition_leaves_what_is_in_the_log(broker: Harness) -> None:
    commit(broker, {T0: 5})
    broker.is_holding = True
    commit(broker, {T0: 6})
    broker.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    mark(broker)
    assert broker.offset(*T0) == 5


def test_an_append_that_ends_after_the_marker_changes_nothing(broker: Harness) -> None:
    broker.is_holding = True
    call = commit(broker, {T0: 5})
    mark(broker, committed=False)
    broker.release()
    assert only_error(call) == 0
    assert stable_error(broker, T0, stable=True) == (0, ABSENT)
    mark(broker)
    assert broker.offset(*T0) == ABSENT


class TestWhoMayCommit:
    """KIP-447: members by their generation; before it, any transactional producer."""

    def test_nobody_in_particular(self, broker: Harness) -> None:
        broker.stable_group()
        assert only_error(commit(broker, {T0: 5})) == 0

    def test_a_member_of_the_generation(self, broker: Harness) -> None:
        (member,) = broker.stable_group()
        cases: list[tuple[dict[str, Any], ErrorCode]] = [
            ({"member_id": member, "generation_id": 1}, ErrorCode.NONE),
            ({"member_id": member, "generation_id": 2}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": member}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "nobody", "generation_id": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"generation_id": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"instance": "i", "member_id": member}, ErrorCode.UNKNOWN_MEMBER_ID),
        ]
        for claimed, error in cases:
            assert only_error(commit(broker, {T0: 5}, **claimed)) is error

    def test_a_static_member_that_was_replaced(self, broker: Harness) -> None:
        call = broker.join(instance="i")
        broker.advance(broker.config.initial_rebalance_delay_ms * 2)
        member = call.response.member_id
        claimed: dict[str, Any] = {"instance": "i", "generation_id": 1}
        fenced = commit(broker, {T0: 5}, member_id="earlier", **claimed)
        assert only_error(fenced) is ErrorCode.FENCED_INSTANCE_ID
        assert only_error(commit(broker, {T0: 5}, member_id=member, **claimed)) == 0

    def test_a_rebalance_is_no_obstacle(self, broker: Harness) -> None:
        _, call = broker.join_new()
        broker.advance(broker.config.initial_rebalance_delay_ms * 2)
        assert broker.state() == "CompletingRebalance"
        member = call.response.member_id
        assert only_error(commit(broker, {T0: 5}, member_id=member, generation_id=1)) == 0

    def test_a_generation_of_a_group_that_does_not_exist(self, broker: Harness) -> None:
        call = commit(broker, {T0: 5}, member_id="m", generation_id=4)
        assert only_error(call) is ErrorCode.UNKNOWN_MEMBER_ID


def test_refusals_partition_by_partition(broker: Harness) -> None:
    call = commit(broker, {T0: 5, T1: 6}, unknown=frozenset({T1}))
    assert partition_errors(call) == {T0: 0, T1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    too_large = commit(broker, {T0: 7}, metadata="x" * 21)
    assert only_error(too_large) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert only_error(commit(broker, {T0: 7}, group="")) is ErrorCode.INVALID_GROUP_ID
    mark(broker)
    assert broker.offset(*T0) == 5


def test_a_coordinator_that_is_none(broker: Harness) -> None:
    partition = broker.machine.partition_for(GROUP)
    broker.machine.unload(partition, 2, broker.now_ms)
    broker.perform()
    assert only_error(commit(broker, {T0: 5})) is ErrorCode.NOT_COORDINATOR
    assert broker.machine.begin_load(partition, 3) is not None
    assert only_error(commit(broker, {T0: 5})) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("committed", [True, False])
def test_pending_offsets_survive_a_restart(broker: Harness, committed: bool) -> None:
    commit(broker, {T0: 5})
    broker.restart()
    assert stable_error(broker, T0, stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, ABSENT)
    mark(broker, committed=committed)
    assert stable_error(broker, T0, stable=True) == (0, 5 if committed else ABSENT)
    broker.restart()
    assert stable_error(broker, T0, stable=True) == (0, 5 if committed else ABSENT)


def test_a_marker_while_the_partition_is_loading(broker: Harness) -> None:
    """What it ends has been read already: it must not be pending for ever."""
    commit(broker, {T0: 5})
    partition = broker.machine.partition_for(GROUP)
    broker.machine.unload(partition, 2, broker.now_ms)
    broker.perform()
    load = broker.machine.begin_load(partition, 3)
    assert load is not None
    for batch in broker.log[partition]:
        load.add(batch)
    mark(broker)
    broker.machine.finish_load(load, broker.now_ms)
    broker.perform()
    assert stable_error(broker, T0, stable=True) == (0, 5)


def test_a_group_with_pending_offsets_is_not_swept_away(broker: Harness) -> None:
    commit(broker, {T0: 5})
    broker.advance(broker.config.offsets_retention_check_interval_ms * 2)
    assert broker.state() == "Empty"
    mark(broker)
    assert broker.offset(*T0) == 5


def test_a_deleted_group_forgets_its_pending_offsets(broker: Harness) -> None:
    broker.commit({T0: 1})
    commit(broker, {T0: 5})
    assert broker.delete_group() == 0
    broker.machine.complete_transaction(
        PRODUCER, {broker.machine.partition_for(GROUP)}, committed=True
    )
    assert broker.offset(*T0) == ABSENT


def test_deleted_offsets_are_not_brought_back(broker: Harness) -> None:
    broker.commit({T0: 1, T1: 1})
    commit(broker, {T0: 5})
    assert partition_errors(broker.delete_offsets(T0)) == {T0: 0}
    mark(broker)
    assert (broker.offset(*T0), broker.offset(*T1)) == (ABSENT, 1)
