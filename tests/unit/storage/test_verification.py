"""Verification of transactions before their first append, rule by rule (KIP-890)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.builder import build_end_txn_marker
from pybroker_kafka.storage.append_info import AppendInfo, AppendOrigin
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.producer_checks import MAX_EPOCH
from pybroker_kafka.storage.verification import (
    MAX_VERIFICATIONS,
    NOT_ADDED,
    NOT_VERIFIED,
    VerificationGuard,
)
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, log_of

PRODUCER = 7


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return log_of(tmp_path)


def begin(
    log: Log, sequence: int = 0, *, epoch: int = 0, now_ms: int = 0, adds: bool = False
) -> VerificationGuard:
    return log.producer_state.verifications.begin(PRODUCER, sequence, epoch, now_ms, adds)


def produce(
    log: Log,
    sequence: int,
    guard: VerificationGuard | None,
    *,
    epoch: int = 0,
    transactional: bool = True,
    origin: AppendOrigin = AppendOrigin.CLIENT,
) -> AppendInfo:
    batch = batch_of(
        b"v", producer_id=PRODUCER, epoch=epoch, sequence=sequence, transactional=transactional
    )
    return append_as_leader(log, batch, leader_epoch=0, now_ms=0, origin=origin, guard=guard)


def refusal(log: Log, sequence: int, guard: VerificationGuard | None, **options: int) -> ErrorCode:
    end_offset = log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        produce(log, sequence, guard, **options)  # type: ignore[arg-type]
    assert log.log_end_offset == end_offset
    return caught.value.code


def abort(log: Log, *, epoch: int = 0, version: int = 0) -> None:
    marker = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.ABORT, 0),
        timestamp=1,
        producer_id=PRODUCER,
        producer_epoch=epoch,
    )
    # A marker needs no verification, whatever is asked of data.
    append_as_leader(
        log, marker, leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR, guard=NOT_VERIFIED,
        transaction_version=version,
    )  # fmt: skip


def late(log: Log, epoch: int) -> None:
    """A marker of version 2 that is refused."""
    with pytest.raises(KafkaError) as caught:
        abort(log, epoch=epoch, version=2)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_transaction_begins_only_with_its_guard(log: Log) -> None:
    assert refusal(log, 0, NOT_VERIFIED) is ErrorCode.INVALID_TXN_STATE
    guard = begin(log)
    assert begin(log) is guard
    assert refusal(log, 0, NOT_VERIFIED) is ErrorCode.INVALID_TXN_STATE
    assert refusal(log, 0, VerificationGuard()) is ErrorCode.INVALID_TXN_STATE
    produce(log, 0, guard)
    # The transaction is open: the next batches need nothing.
    produce(log, 1, NOT_VERIFIED)
    assert len(log.producer_state.verifications) == 0


def test_without_a_demand_everything_passes(log: Log) -> None:
    produce(log, 0, None)
    abort(log)
    produce(log, 1, None)


def test_what_is_not_transactional_needs_no_guard(log: Log) -> None:
    produce(log, 0, NOT_VERIFIED, transactional=False)
    produce(log, 1, NOT_VERIFIED, transactional=False)


def test_the_coordinator_needs_a_guard_too(log: Log) -> None:
    """Offset commits of a transaction go through the same gate."""
    origin = AppendOrigin.COORDINATOR
    assert refusal(log, 0, NOT_VERIFIED, origin=origin) is ErrorCode.INVALID_TXN_STATE
    produce(log, 0, begin(log, -1), origin=origin)
    produce(log, 0, NOT_VERIFIED, origin=origin)


def test_a_marker_voids_the_guard(log: Log) -> None:
    """Asked, answered, then aborted: the append must not open a transaction that nobody ends."""
    guard = begin(log)
    abort(log)
    assert refusal(log, 0, guard) is ErrorCode.INVALID_TXN_STATE
    again = begin(log)
    assert again is not guard
    assert refusal(log, 0, guard) is ErrorCode.INVALID_TXN_STATE
    produce(log, 0, again)


def test_a_duplicate_is_known_without_verification(log: Log) -> None:
    produce(log, 0, begin(log))
    abort(log)
    assert produce(log, 0, NOT_VERIFIED).duplicate


def test_a_later_batch_does_not_pass_one_that_has_to_be_sent_again(log: Log) -> None:
    guard = begin(log, 0)
    assert begin(log, 3) is guard
    assert refusal(log, 3, guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, 0, guard)


def test_a_new_epoch_begins_its_sequences_anew(log: Log) -> None:
    begin(log, 5)
    guard = begin(log, 9, epoch=1)
    verification = log.producer_state.verifications.get(PRODUCER)
    assert verification is not None
    assert (verification.epoch, verification.lowest_sequence) == (1, 9)
    begin(log, 2, epoch=0)  # an old one lowers nothing
    assert verification.lowest_sequence == 9
    produce(log, 9, guard, epoch=1)


def test_what_nobody_came_back_for_expires(log: Log) -> None:
    state = log.producer_state
    begin(log, now_ms=1_000)
    sum(state.expire(1_999, None, 1_000))
    assert len(state.verifications) == 1
    sum(state.expire(2_000, None, 1_000))
    assert len(state.verifications) == 0


def test_a_follower_appends_what_the_leader_has_let_in(log: Log, tmp_path: Path) -> None:
    produce(log, 0, begin(log))
    follower = log_of(tmp_path / "follower")
    found = log.read(0, 1 << 20, upper_bound_offset=1).records.read()
    follower.append_as_follower(bytearray(found), now_ms=0)
    assert follower.producer_state.has_open_transaction(PRODUCER)


def test_whoever_invents_producers_does_not_fill_the_memory(log: Log) -> None:
    verifications = log.producer_state.verifications
    for producer_id in range(MAX_VERIFICATIONS + 10):
        verifications.begin(producer_id, 0, 0, 0)
    assert len(verifications) == MAX_VERIFICATIONS
    assert verifications.get(9) is None
    assert verifications.get(10) is not None


def test_a_marker_of_version_2_has_a_higher_epoch(log: Log) -> None:
    produce(log, 0, begin(log, adds=True))
    late(log, 0)
    abort(log, epoch=1, version=2)
    # Again, if nothing has begun since.
    abort(log, epoch=1, version=2)
    late(log, 0)
    produce(log, 0, begin(log, epoch=1, adds=True), epoch=1)
    late(log, 1)
    abort(log, epoch=2, version=2)


def test_a_marker_at_the_largest_epoch(log: Log) -> None:
    produce(log, 0, begin(log, epoch=MAX_EPOCH, adds=True), epoch=MAX_EPOCH)
    abort(log, epoch=MAX_EPOCH, version=2)


def test_a_marker_of_version_2_for_a_producer_without_records(log: Log) -> None:
    abort(log, epoch=4, version=2)
    abort(log, epoch=4, version=2)
    late(log, 3)


def test_a_transaction_of_version_2_begins_with_sequence_0(log: Log) -> None:
    guard = begin(log, 3, adds=True)
    assert refusal(log, 3, guard) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, 0, begin(log, 0, adds=True))
    assert produce(log, 1, NOT_ADDED).first_offset == 1


def test_an_open_transaction_of_another_epoch_lets_nothing_in(log: Log) -> None:
    produce(log, 0, begin(log, adds=True))
    assert refusal(log, 0, NOT_ADDED, epoch=1) is ErrorCode.INVALID_TXN_STATE
    produce(log, 0, begin(log, epoch=1, adds=True), epoch=1)
    assert refusal(log, 1, NOT_ADDED) is ErrorCode.INVALID_PRODUCER_EPOCH
    # The rule of before asks only whether there is one.
    produce(log, 1, NOT_VERIFIED, epoch=1)


def test_only_the_marker_of_the_transaction_makes_a_guard_void(log: Log) -> None:
    produce(log, 0, begin(log, adds=True))
    guard = begin(log, epoch=1, adds=True)
    abort(log, epoch=1, version=2)
    produce(log, 0, guard, epoch=1)
    guard = begin(log, epoch=2, adds=True)
    abort(log, epoch=3, version=2)
    assert refusal(log, 0, guard, epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_producer_that_changes_to_version_2_is_asked_about_anew(log: Log) -> None:
    before = begin(log)
    after = begin(log, adds=True)
    assert (before.adds, after.adds) == (False, True)
    assert begin(log, adds=True) is after
    assert refusal(log, 0, before) is ErrorCode.INVALID_TXN_STATE
    produce(log, 0, after)
