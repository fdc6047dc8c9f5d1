"""Verification of transactions before their first append, rule by rule (KIP-890, part 1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.records.builder import build_end_txn_marker
from pybroker_kafka.storage.append_info import AppendInfo, AppendOrigin
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.verification import MAX_VERIFICATIONS, NOT_VERIFIED, VerificationGuard
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, log_of

PRODUCER = 7


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return log_of(tmp_path)


def begin(log: Log, sequence: int = 0, *, epoch: int = 0, now_ms: int = 0) -> VerificationGuard:
    return log.producer_state.verifications.begin(PRODUCER, sequence, epoch, now_ms)


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


def abort(log: Log) -> None:
    marker = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.ABORT, 0),
        timestamp=1,
        producer_id=PRODUCER,
        producer_epoch=0,
    )
    # A marker needs no verification, whatever is asked of data.
    append_as_leader(
        log, marker, leader_epoch=0, now_ms=0, origin=AppendOrigin.COORDINATOR, guard=NOT_VERIFIED
    )


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
    state.remove_expired(1_999, None, 1_000)
    assert len(state.verifications) == 1
    state.remove_expired(2_000, None, 1_000)
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
