"""Idempotent producers and transactions, case by case (KIP-98, KIP-360)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.builder import build_end_txn_marker
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.storage.append_info import AppendInfo, AppendOrigin
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.transaction_index import AbortedTransaction
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, log_of, manager_of

MAX_SEQUENCE = 2**31 - 1


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return log_of(tmp_path)


def produce(
    log: Log,
    sequence: int,
    count: int = 1,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    transactional: bool = False,
    origin: AppendOrigin = AppendOrigin.CLIENT,
    now_ms: int = 0,
) -> AppendInfo:
    batch = batch_of(
        *[b"v"] * count,
        producer_id=producer_id,
        epoch=epoch,
        sequence=sequence,
        transactional=transactional,
    )
    return append_as_leader(log, batch, leader_epoch=0, now_ms=now_ms, origin=origin)


def end(
    log: Log,
    kind: ControlRecordType,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    coordinator_epoch: int = 0,
) -> AppendInfo:
    marker = build_end_txn_marker(
        EndTxnMarker(kind, coordinator_epoch),
        timestamp=1,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    return append_as_leader(log, marker, leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR)


def refused(log: Log, sequence: int, count: int = 1, **arguments: object) -> ErrorCode:
    before = log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        produce(log, sequence, count, **arguments)  # type: ignore[arg-type]
    assert log.log_end_offset == before
    return caught.value.code


def test_any_of_the_last_five_batches_may_be_sent_again(log: Log) -> None:
    for number in range(7):
        produce(log, 2 * number, 2)
    for number in range(2, 7):
        info = produce(log, 2 * number, 2)
        assert info.duplicate
        assert (info.first_offset, info.last_offset) == (2 * number, 2 * number + 1)
    assert log.log_end_offset == 14
    assert refused(log, 2, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, 12, 1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("sequence", [0, 4, 6, MAX_SEQUENCE])
def test_the_next_sequence_is_the_only_one(log: Log, sequence: int) -> None:
    produce(log, 0, 5)
    assert refused(log, sequence) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, 5)


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    produce(log, 40)
    produce(log, 41)


def test_sequences_wrap(log: Log) -> None:
    produce(log, MAX_SEQUENCE - 1)
    produce(log, MAX_SEQUENCE, 3)  # MAX, 0, 1
    assert log.producer_state.entries[7].last_sequence == 1
    assert produce(log, MAX_SEQUENCE, 3).duplicate
    produce(log, 2)
    produce(log, 3, 1)


def test_a_wrap_exactly_at_the_end(log: Log) -> None:
    produce(log, MAX_SEQUENCE)
    produce(log, 0)
    assert log.log_end_offset == 2


def test_epochs(log: Log) -> None:
    produce(log, 0, epoch=3)
    assert refused(log, 1, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, 1, epoch=4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, 0, epoch=4)
    assert refused(log, 0, epoch=3) is ErrorCode.INVALID_PRODUCER_EPOCH
    produce(log, 1, epoch=4)


def test_the_coordinator_writes_without_sequences(log: Log) -> None:
    produce(log, 0)
    produce(log, -1, origin=AppendOrigin.COORDINATOR)
    produce(log, -1, origin=AppendOrigin.COORDINATOR)
    assert log.producer_state.entries[7].last_sequence == -1


def test_producers_expire_unless_a_transaction_is_open(log: Log) -> None:
    produce(log, 5, producer_id=1, now_ms=1000)
    produce(log, 0, producer_id=2, transactional=True, now_ms=1000)
    state = log.producer_state
    assert sum(state.expire(1000 + 99, None, 100)) == 0
    assert sum(state.expire(1000 + 100, None, 100)) == 1
    assert list(state.entries) == [2]
    produce(log, 77, producer_id=1)  # unknown again: any sequence


def test_producers_do_not_notice_a_jump_of_the_wall_clock(tmp_path: Path) -> None:
    day_ms = 86_400_000
    wall = WallClock()
    manager = manager_of(tmp_path, now_ms=day_ms, wall=wall)
    log = manager.get_or_create_log("t", 0, None, None, day_ms)
    produce(log, 0, producer_id=1, now_ms=day_ms)
    manager.maintenance.begin(day_ms)
    wall.note(day_ms, 11 * day_ms)
    for minutes in (1, 12, 23, 34):
        list(manager.look_after_producers(day_ms + minutes * 60_000))
    assert produce(log, 0, producer_id=1, now_ms=day_ms + 1).duplicate
    list(manager.look_after_producers(2 * day_ms + 600_001))
    assert not log.producer_state.entries


def test_producers_that_were_read_go_by_their_timestamps(tmp_path: Path) -> None:
    day_ms = 86_400_000
    manager = manager_of(tmp_path)
    log = manager.get_or_create_log("t", 0, None, None, 0)
    produce(log, 0, producer_id=1)  # its timestamp is 1000
    manager.clean_shutdown()
    wall = WallClock()
    again = manager_of(tmp_path, now_ms=1000, wall=wall)
    log = again.logs()[0]
    wall.note(1000, 10 * day_ms)
    list(again.look_after_producers(31_000))
    assert list(log.producer_state.entries) == [1]  # the clock has just jumped
    list(again.look_after_producers(31_000 + 600_000))
    assert list(log.producer_state.entries) == [1]  # it may come back for ten minutes
    list(again.look_after_producers(31_000 + 1_200_000))
    assert not log.producer_state.entries


def test_state_survives_a_clean_restart(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    log = manager.get_or_create_log("t", 0, None, None, 0)
    for number in range(3):
        produce(log, number)
    manager.clean_shutdown()
    manager = manager_of(tmp_path)
    again = manager.get_log("t", 0)
    assert again is not None
    assert produce(again, 2).duplicate  # the snapshot holds the last batch
    assert refused(again, 4) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(again, 3)
    manager.release()


def test_a_transaction_bounds_the_last_stable_offset(log: Log) -> None:
    produce(log, 0, 2, producer_id=1)
    produce(log, 0, 2, transactional=True)
    produce(log, 2, 1, producer_id=1)
    log.update_high_watermark(5)
    assert (log.first_unstable_offset, log.last_stable_offset) == (2, 2)
    end(log, ControlRecordType.COMMIT)
    assert log.last_stable_offset == 2  # the marker is not replicated yet
    log.update_high_watermark(6)
    assert (log.first_unstable_offset, log.last_stable_offset) == (None, 6)


def test_a_non_transactional_batch_in_a_transaction(log: Log) -> None:
    produce(log, 0, transactional=True)
    assert refused(log, 1) is ErrorCode.INVALID_TXN_STATE
    end(log, ControlRecordType.ABORT)
    produce(log, 1)


def test_aborted_transactions_are_indexed(log: Log) -> None:
    produce(log, 0, producer_id=1, transactional=True)  # 0
    produce(log, 0, producer_id=2, transactional=True)  # 1
    produce(log, 1, producer_id=1, transactional=True)  # 2
    end(log, ControlRecordType.ABORT, producer_id=1)  # 3
    end(log, ControlRecordType.COMMIT, producer_id=2)  # 4
    produce(log, 2, producer_id=1, transactional=True)  # 5
    end(log, ControlRecordType.ABORT, producer_id=1)  # 6
    log.update_high_watermark(7)

    def aborted(offset: int, upper: int) -> list[AbortedTransaction] | None:
        return log.read(
            offset, 1 << 20, upper_bound_offset=upper, include_aborted=True
        ).aborted_transactions

    first, second = AbortedTransaction(1, 0, 3, 1), AbortedTransaction(1, 5, 6, 7)
    assert aborted(0, 7) == [first, second]
    assert aborted(4, 7) == [second]
    assert aborted(7, 7) == []
    assert log.read(0, 1 << 20, upper_bound_offset=7).aborted_transactions is None


def test_an_empty_transaction_leaves_no_trace(log: Log) -> None:
    end(log, ControlRecordType.ABORT)
    log.update_high_watermark(1)
    assert log.last_stable_offset == 1
    found = log.read(0, 1000, upper_bound_offset=1, include_aborted=True)
    assert found.aborted_transactions == []


def test_zombie_coordinators_and_producers_cannot_end_a_transaction(log: Log) -> None:
    produce(log, 0, epoch=2, transactional=True)
    with pytest.raises(KafkaError) as caught:
        end(log, ControlRecordType.COMMIT, epoch=1)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    end(log, ControlRecordType.COMMIT, epoch=2, coordinator_epoch=5)
    with pytest.raises(KafkaError) as caught:
        end(log, ControlRecordType.ABORT, epoch=2, coordinator_epoch=4)
    assert caught.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    end(log, ControlRecordType.ABORT, epoch=3, coordinator_epoch=5)  # the coordinator bumps
    assert refused(log, 1, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    produce(log, 0, epoch=3)


def test_late_transactions_are_told(log: Log) -> None:
    produce(log, 0, transactional=True, now_ms=1000)
    state = log.producer_state
    timeout_ms = 1000
    edge_ms = 1000 + timeout_ms + 5 * 60 * 1000
    assert not state.has_late_transaction(edge_ms, 0, timeout_ms)
    assert state.has_late_transaction(edge_ms + 1, 0, timeout_ms)
    end(log, ControlRecordType.ABORT)
    assert not state.has_late_transaction(edge_ms + 1, 0, timeout_ms)


def test_open_transactions_and_aborts_survive_a_crash(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    log = manager.get_or_create_log("t", 0, None, None, 0)
    produce(log, 0, producer_id=1, transactional=True)
    end(log, ControlRecordType.ABORT, producer_id=1)
    produce(log, 0, producer_id=2, transactional=True)
    manager.release()
    manager = manager_of(tmp_path)
    again = manager.get_log("t", 0)
    assert again is not None
    again.update_high_watermark(3)
    assert again.last_stable_offset == 2
    found = again.read(0, 1000, upper_bound_offset=3, include_aborted=True)
    assert found.aborted_transactions == [AbortedTransaction(1, 0, 1, 2)]
    end(again, ControlRecordType.COMMIT, producer_id=2)
    again.update_high_watermark(4)
    assert again.last_stable_offset == 4
    manager.release()
