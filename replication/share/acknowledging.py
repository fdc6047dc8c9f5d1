"""Acknowledging: a member says what has become of the records that it acquired.

Job: `acknowledge` applies batches of acknowledgements: accepted, released (to be delivered again),
rejected, a gap (there is no record), or renewed (the lock begins anew, KIP-1222). A batch has one
type for all of its offsets, or one for each.

Invariants: all or nothing: at the first record that the member has not acquired, everything that
was changed for the call is taken back (but renewed locks); nothing is done with for good before the
write is complete. The time is that of the records in flight that are named, however many offsets a
batch claims.

Mirrors SharePartition.acknowledge, and what it calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from .in_flight import InFlightBatch, RecordState, Run, StateWrite
from .share_partition import SharePartition


class AcknowledgeType(IntEnum):
    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_STATE_OF: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
_RENEW: Final = AcknowledgeType.RENEW


class Acknowledgement(NamedTuple):
    first_offset: int
    last_offset: int
    # One for all, or one for each offset: `is_valid` has found that.
    types: Sequence[int]


def is_valid(batches: Sequence[Acknowledgement], *, may_renew: bool, is_renewal: bool) -> bool:
    """Whether a client may send these: batches in order, and types that it knows.

    Mirrors KafkaApis.validateAcknowledgementBatches.
    """
    highest = _RENEW if may_renew else AcknowledgeType.REJECT
    previous_last = -1
    for first, last, types in batches:
        if first > last or first < previous_last or not types:
            return False
        if len(types) > 1 and len(types) != last - first + 1:
            return False
        if min(types) < 0 or max(types) > highest:
            return False
        if not is_renewal and _RENEW in types:
            return False
        previous_last = last
    return True


def acknowledge(
    partition: SharePartition, member_id: str, batches: Sequence[Acknowledgement], now_ms: int
) -> StateWrite | None:
    """What to store; raises KafkaError, and then nothing has changed."""
    write = StateWrite()
    try:
        for batch in batches:
            if batch.last_offset >= partition.start_offset:
                _apply(partition, member_id, batch, write, now_ms)
    except KafkaError:
        partition.finish(write, is_stored=False, now_ms=now_ms)
        raise
    return partition.begin(write)


def _apply(
    partition: SharePartition,
    member_id: str,
    batch: Acknowledgement,
    write: StateWrite,
    now_ms: int,
) -> None:
    first, last, types = batch
    is_single = len(types) == 1
    start_offset = partition.start_offset
    for in_flight in _in_flight(partition, first, last):
        if in_flight.last < start_offset:
            continue
        is_whole = first <= in_flight.first and in_flight.last <= last
        is_cut = not is_single or not is_whole or in_flight.first < start_offset
        if is_cut and not in_flight.is_tracked:
            _check(in_flight.runs[0], member_id)
            in_flight.is_tracked = True
        for run in in_flight.within(max(first, start_offset), last):
            _check(run, member_id)
            if is_single:
                code = types[0]
            else:
                index = run.first - first
                code = types[index]
                end = _end_of(types, index, run.last - first)
                if end < run.last - first:
                    in_flight.cut(run, first + end + 1)
            if code == _RENEW:
                _renew(partition, run, now_ms)
            else:
                state = _STATE_OF[AcknowledgeType(code)]
                partition.start(run, state, partition.limits.delivery_count_limit, write)


def _in_flight(partition: SharePartition, first: int, last: int) -> list[InFlightBatch]:
    """The batches in flight that the offsets concern."""
    batches = partition.batches
    floor = batches.floor(first)
    if floor is None:
        if first < partition.start_offset <= last:
            floor = batches.floor(partition.start_offset)
        if floor is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE,
                "Batch record not found. The request batch offsets are not found in the cache.",
            )
    found = batches.between(floor.first, last)
    last_known = found[-1].last
    if last_known < first:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Batch record not found. The first offset in request is past acquired records.",
        )
    if last > last_known:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            "Batch record not found. The last offset in request is past acquired records.",
        )
    return found


def _check(run: Run, member_id: str) -> None:
    if run.state is not RecordState.ACQUIRED or run.write is not None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE,
            "The batch cannot be acknowledged. The batch is not in the acquired state.",
        )
    if run.member_id != member_id:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record")


def _end_of(types: Sequence[int], start: int, last: int) -> int:
    """The last index from `start` on up to which the type is the same."""
    code = types[start]
    while start < last and types[start + 1] == code:
        start += 1
    return start


def _renew(partition: SharePartition, run: Run, now_ms: int) -> None:
    if not partition.limits.renew_acknowledge_enable:
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE,
            "Renewing acquisition locks is not enabled for the group.",
        )
    run.lock_ends_ms = partition.lock_end_ms(now_ms)
