"""Loading and unloading, coordinator epochs, and what is refused meanwhile."""

import pytest

from pybroker_kafka.coordinator.group.core import GroupConfig, Reply
from pybroker_kafka.coordinator.group.group_coordinator import GroupCoordinator
from pybroker_kafka.coordinator.group.loader import PartitionLoad
from pybroker_kafka.coordinator.group.offsets import OffsetAndMetadata
from pybroker_kafka.coordinator.group.records import (
    group_tombstone,
    offset_commit_records,
    offset_tombstones,
)
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.record import SimpleRecord
from tests.unit.coordinator.group.harness import GROUP, START_MS, Harness, partition_errors

T0, T1 = ("topic-1", 0), ("topic-1", 1)


def value(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, -1, "", START_MS)


def offsets_of(load: PartitionLoad) -> dict[str, dict[tuple[str, int], int]]:
    return {
        group.group_id: {p: v.offset for p, v in group.offsets.snapshot().items()}
        for group in load.groups(START_MS)
    }


class TestLoad:
    def test_later_records_win_and_tombstones_remove(self) -> None:
        load = PartitionLoad(0, 1)
        load.add(build_batch(offset_commit_records("g", {T0: value(1), T1: value(1)}, 0)))
        load.add(build_batch(offset_commit_records("g", {T0: value(2)}, 0), base_offset=2))
        load.add(build_batch(offset_tombstones("g", [T1], 0), base_offset=3))
        assert load.next_offset == 4
        assert offsets_of(load) == {"g": {T0: 2}}

    @pytest.mark.parametrize("codec", Compression)
    def test_compressed_batches(self, codec: Compression) -> None:
        load = PartitionLoad(0, 1)
        records = offset_commit_records("g", {T0: value(1), T1: value(2)}, 0)
        load.add(build_batch(records, compression=codec))
        assert offsets_of(load) == {"g": {T0: 1, T1: 2}}

    def test_a_group_tombstone_leaves_its_offsets(self) -> None:
        load = PartitionLoad(0, 1)
        load.add(build_batch(offset_commit_records("g", {T0: value(1)}, 0)))
        load.add(build_batch([group_tombstone("g", 0), group_tombstone("h", 0)], base_offset=1))
        assert offsets_of(load) == {"g": {T0: 1}}

    def test_markers_decide_about_the_offsets_of_transactions(self) -> None:
        load = PartitionLoad(0, 1)

        def commit(producer_id: int, base_offset: int, offset: int) -> None:
            load.add(
                build_batch(
                    offset_commit_records("g", {T0: value(offset)}, 0),
                    base_offset=base_offset,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=0,
                    is_transactional=True,
                )
            )

        def mark(producer_id: int, base_offset: int, kind: ControlRecordType) -> None:
            load.add(
                build_end_txn_marker(
                    EndTxnMarker(kind, coordinator_epoch=0),
                    producer_id=producer_id,
                    producer_epoch=0,
                    timestamp=0,
                    base_offset=base_offset,
                )
            )

        load.add(build_batch(offset_commit_records("g", {T0: value(1)}, 0)))
        commit(7, 1, 2)
        commit(8, 2, 3)
        mark(7, 3, ControlRecordType.COMMIT)
        mark(8, 4, ControlRecordType.ABORT)
        commit(9, 5, 4)
        (group,) = load.groups(START_MS)
        assert group.offsets.snapshot()[T0].offset == 2
        assert list(group.offsets.open_producers()) == [9]
        assert group.offsets.has_pending(T0)

    def test_what_cannot_be_read_is_skipped(self) -> None:
        load = PartitionLoad(0, 1)
        records = [
            SimpleRecord(0, b"\x00\x63future", b"x"),
            SimpleRecord(0, None, b"x"),
            SimpleRecord(0, b"\x00", b"x"),
            SimpleRecord(0, b"\x00\x01\x00\xff", b"x"),
            *offset_commit_records("g", {T0: value(1)}, 0),
            SimpleRecord(0, group_tombstone("h", 0).key, b"\x00\x09"),
        ]
        load.add(build_batch(records))
        assert offsets_of(load) == {"g": {T0: 1}}
        assert load.skipped_count == 5

    def test_both_versions_of_an_offset_key_are_the_same_key(self) -> None:
        load = PartitionLoad(0, 1)
        (new,) = offset_commit_records("g", {T0: value(1)}, 0)
        assert new.key is not None
        old = new._replace(key=b"\x00\x00" + new.key[2:])
        (newer,) = offset_commit_records("g", {T0: value(2)}, 0)
        load.add(build_batch([old, newer]))
        assert offsets_of(load) == {"g": {T0: 2}}

    def test_a_value_from_the_future_does_not_hide_the_one_before(self) -> None:
        load = PartitionLoad(0, 1)
        (record,) = offset_commit_records("g", {T0: value(1)}, 0)
        assert record.value is not None
        load.add(build_batch([record, record._replace(value=b"\x00\x05" + record.value[2:])]))
        assert offsets_of(load) == {"g": {T0: 1}}
        assert load.skipped_count == 1

    def test_a_cut_off_batch_at_the_end_waits_for_its_rest(self) -> None:
        load = PartitionLoad(0, 1)
        first = build_batch(offset_commit_records("g", {T0: value(1)}, 0))
        second = build_batch(offset_commit_records("g", {T0: value(2)}, 0), base_offset=1)
        load.add(first + second[:-1])
        assert load.next_offset == 1
        load.add(second)
        assert offsets_of(load) == {"g": {T0: 2}}


class TestOwnership:
    def heartbeat(self, machine: GroupCoordinator) -> ErrorCode:
        request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m")
        machine.heartbeat(None, request, START_MS)
        (effect,) = machine.take_effects()
        assert isinstance(effect, Reply)
        return ErrorCode(effect.response.error_code)

    def test_before_the_start(self) -> None:
        machine = GroupCoordinator(GroupConfig(), lambda: "uuid")
        assert self.heartbeat(machine) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert machine.list_groups().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    def test_a_partition_that_is_not_led_here(self) -> None:
        h = Harness(load=False)
        assert h.join().error is ErrorCode.NOT_COORDINATOR
        assert h.sync("m", 1).error is ErrorCode.NOT_COORDINATOR
        assert h.heartbeat("m", 1) is ErrorCode.NOT_COORDINATOR
        assert h.leave(("m", None)).error_code == ErrorCode.NOT_COORDINATOR
        assert partition_errors(h.commit({T0: 1})) == {T0: ErrorCode.NOT_COORDINATOR}
        assert h.machine.fetch_offsets(GROUP, None).error_code == ErrorCode.NOT_COORDINATOR
        assert h.machine.describe_group(GROUP).error_code == ErrorCode.NOT_COORDINATOR
        assert h.machine.describe_group(GROUP).group_state == ""
        assert h.delete_group() is ErrorCode.NOT_COORDINATOR
        assert h.delete_offsets(T0).error is ErrorCode.NOT_COORDINATOR

    def test_a_partition_that_is_loading(self) -> None:
        h = Harness(partition_count=1, load=False)
        load = h.machine.begin_load(0, 1)
        assert load is not None
        assert h.join().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert h.sync("m", 1).error is ErrorCode.REBALANCE_IN_PROGRESS
        assert h.heartbeat("m", 1) is ErrorCode.NONE
        assert partition_errors(h.commit({T0: 1})) == {T0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert h.machine.list_groups().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        h.machine.finish_load(load, h.now_ms)
        h.perform()
        assert h.machine.list_groups().error_code == ErrorCode.NONE
        assert h.join().error is ErrorCode.MEMBER_ID_REQUIRED

    def test_a_load_that_fails_leaves_the_partition_unserved(self) -> None:
        h = Harness(partition_count=1, load=False)
        load = h.machine.begin_load(0, 1)
        assert load is not None
        h.machine.abandon_load(load)
        assert h.join().error is ErrorCode.NOT_COORDINATOR
        assert h.machine.begin_load(0, 2) is not None

    def test_epochs(self) -> None:
        h = Harness(partition_count=1, load=False)
        first = h.machine.begin_load(0, 5)
        assert first is not None
        assert h.machine.begin_load(0, 6) is None, "it is being loaded"
        h.machine.unload(0, 4, h.now_ms)
        assert not h.machine.take_effects()
        h.machine.finish_load(first, h.now_ms)
        h.perform()
        assert h.machine.begin_load(0, 7) is None, "it is loaded"
        h.commit({T0: 1})
        h.machine.unload(0, 6, h.now_ms)
        assert h.offset(*T0) == 1, "an old resignation"
        h.machine.unload(0, 8, h.now_ms)
        assert h.join().error is ErrorCode.NOT_COORDINATOR
        assert h.machine.begin_load(0, 7) is None, "an old election"
        assert h.machine.begin_load(0, 9) is not None

    def test_unloading_during_a_load(self) -> None:
        h = Harness(partition_count=1, load=False)
        load = h.machine.begin_load(0, 1)
        assert load is not None
        h.machine.unload(0, 2, h.now_ms)
        h.machine.finish_load(load, h.now_ms)
        assert not h.machine.take_effects()
        assert h.join().error is ErrorCode.NOT_COORDINATOR

    def test_unloading_answers_those_who_wait(self) -> None:
        h = Harness(partition_count=1)
        leader, _ = h.stable_group(members=2, group="other")
        _, joining = h.join_new()
        h.is_holding = True
        h.join(leader, group="other", protocols={"range": b"", "x": b""})
        committing = h.commit({T0: 1}, group="simple")
        waiting = [call for call in h.calls if call.is_waiting]
        assert len(waiting) == 3
        h.machine.unload(0, None, h.now_ms)
        h.perform()
        assert joining.error is ErrorCode.NOT_COORDINATOR
        assert [call.name for call in h.calls if call.is_waiting] == [committing.name]
        h.release(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert partition_errors(committing) == {T0: ErrorCode.NOT_COORDINATOR}
        assert not h.machine.groups
        h.advance(10**9)

    def test_sessions_of_loaded_members_start_anew(self) -> None:
        h = Harness()
        (leader,) = h.stable_group(session_ms=10_000)
        h.now_ms += 3_600_000
        h.restart()
        h.advance(9_999)
        assert h.heartbeat(leader, 1) is ErrorCode.NONE
        h.advance(10_000)
        assert h.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_marker_completes_offsets_that_were_loaded() -> None:
    h = Harness(partition_count=1, load=False)
    load = h.machine.begin_load(0, 1)
    assert load is not None
    for producer_id, offset in ((7, 1), (8, 2)):
        load.add(
            build_batch(
                offset_commit_records(f"g{producer_id}", {T0: value(offset)}, 0),
                base_offset=producer_id,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        )
    h.machine.finish_load(load, h.now_ms)
    h.perform()
    assert h.offset(*T0, group="g7") == -1
    h.machine.complete_transaction(7, {0}, committed=True)
    h.machine.complete_transaction(8, {0}, committed=False)
    assert h.offset(*T0, group="g7") == 1
    assert h.offset(*T0, group="g8") == -1
    (stable,) = h.fetch_stable(T0, group="g8").response
    assert stable.topics[0].partitions[0].error_code == ErrorCode.NONE
