"""Acquiring: which of the fetched records a member gets.

Job: `acquire` looks at the batches that a fetch found in the log and acquires what is available of
them, up to a number of records. Records new to the share partition are acquired by whole batches of
the log (in mode `RECORD_LIMIT`, the rest of the last one is available to others); records that were
in flight before are acquired with the batches in which they stand.

Delivery slows down for records that were delivered often, so that one bad record does not use up
the deliveries of its neighbours: from half of the limit on, fewer and fewer at once, and at the
last delivery each alone.

Invariants: what is acquired lies within what was fetched, in order, and was available; records of
aborted transactions are archived, if the group reads committed records only.

Mirrors SharePartition.acquire, and what it calls. It does more than Kafka where the log has no
records in a gap: the gap is passed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.invariants import BrokenInvariant
from .in_flight import NO_MEMBER, InFlightBatch, RecordState, Run
from .share_partition import Phase, SharePartition

# The least number of deliveries from which on delivery slows down.
_MIN_SLOW_FROM: Final = 2


class AcquireMode(IntEnum):
    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class FetchedBatch(NamedTuple):
    """What the header of a batch says."""

    base_offset: int
    last_offset: int
    position: int
    size: int
    producer_id: int
    is_transactional: bool
    # The marker of an aborted transaction.
    is_abort: bool


class Acquired(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


class Asked(NamedTuple):
    member_id: str
    mode: AcquireMode
    # The number of records at which a new batch of acquired records begins.
    batch_size: int
    max_records: int


class Outcome(NamedTuple):
    acquired: list[Acquired]
    record_count: int


_NOTHING: Final = Outcome([], 0)


def enough_offset(partition: SharePartition, base_offset: int, max_records: int) -> int:
    """Batches behind the one with this offset can not be acquired by a fetch from there."""
    return max(partition.end_offset + 1, base_offset, partition.start_offset) + max(max_records, 1)


def acquire(
    partition: SharePartition,
    asked: Asked,
    fetch_offset: int,
    fetched: Sequence[FetchedBatch],
    now_ms: int,
    aborted: Sequence[tuple[int, int]] = (),
) -> Outcome:
    """`aborted`: (producer id, first offset) of aborted transactions; none if all are wanted."""
    if partition.phase is not Phase.ACTIVE or asked.max_records <= 0 or not fetched:
        return _NOTHING
    if fetch_offset < fetched[0].base_offset:
        _pass_missing(partition, fetch_offset, fetched[0].base_offset)
    last_offset = fetched[-1].last_offset
    if last_offset < partition.start_offset:
        return _NOTHING
    room = partition.limits.max_record_locks - partition.in_flight_count
    max_records = min(asked.max_records, room)
    if max_records <= 0:
        # Records that are in flight may be delivered again at any time.
        if fetch_offset > partition.end_offset:
            return _NOTHING
        max_records = min(asked.max_records, partition.end_offset - fetch_offset + 1)
        last_offset = min(last_offset, partition.end_offset)
        if max_records <= 0 or last_offset < fetched[0].base_offset:
            return _NOTHING
    work = _Acquiring(partition, asked, fetched, last_offset, max_records, now_ms)
    work.run()
    result, count = work.result, work.count
    if aborted and result:
        result = _without_aborted(partition, fetched, result, aborted)
        count = sum(last - first + 1 for first, last, _ in result)
        partition.advance_start()
    return Outcome(result, count)


def _pass_missing(partition: SharePartition, fetch_offset: int, base: int) -> None:
    """The log has no records from the fetch offset up to `base`: they were compacted away."""
    if partition.has_gaps and fetch_offset <= partition.gap_start:
        partition.pass_gap(base)
    if partition.archive(fetch_offset, base - 1, RecordState.AVAILABLE):
        partition.look_for_available()
    partition.advance_start()


class _Acquiring:
    """One call of `acquire`."""

    __slots__ = (
        "_asked",
        "_base",
        "_fetched",
        "_is_record_limit",
        "_last",
        "_max",
        "_now_ms",
        "_partition",
        "count",
        "result",
    )

    def __init__(
        self,
        partition: SharePartition,
        asked: Asked,
        fetched: Sequence[FetchedBatch],
        last_offset: int,
        max_records: int,
        now_ms: int,
    ) -> None:
        self._partition = partition
        self._asked = asked
        self._fetched = fetched
        # The offsets between which records may be acquired.
        self._base = fetched[0].base_offset
        self._last = last_offset
        self._max = max_records
        self._now_ms = now_ms
        self._is_record_limit = asked.mode is AcquireMode.RECORD_LIMIT
        self.result: list[Acquired] = []
        self.count = 0

    def run(self) -> None:
        partition, base = self._partition, self._base
        floor = partition.batches.floor(base)
        if floor is not None and floor.last >= base:
            first = floor.first
        else:
            first = max(base, partition.start_offset)
        known = partition.batches.between(min(base, first), self._last)
        if not known:
            self._acquire_new(first, self._last)
            return
        if not self._acquire_known(known, first):
            return
        last_known = known[-1].last
        if self.count < self._max and last_known < self._last:
            self._acquire_new(last_known + 1, self._last)
        if self.result:
            partition.pass_gap(self.result[-1].last_offset + 1)

    # Records in flight

    def _acquire_known(self, known: Sequence[InFlightBatch], gap_first: int) -> bool:
        """False: nothing else is to be acquired with these."""
        for batch in known:
            if self.count >= self._max:
                break
            if self._partition.has_gaps:
                if gap_first < batch.first:
                    self._acquire_new(gap_first, batch.first - 1)
                gap_first = batch.last + 1
                if self.count >= self._max:
                    break
            is_slow = self._is_slow(batch)
            if is_slow and self.count:
                return self._stop()
            if is_slow or not self._takes_whole(batch):
                taken = self._acquire_part(batch)
                if is_slow and taken:
                    return self._stop()
            else:
                self._acquire_whole(batch)
        return True

    def _stop(self) -> bool:
        if self.result:
            self._partition.pass_gap(self.result[-1].last_offset + 1)
        return False

    def _takes_whole(self, batch: InFlightBatch) -> bool:
        if batch.is_tracked or batch.first < self._base or batch.last > self._last:
            return False
        return not (self._is_record_limit and len(batch) > self._max - self.count)

    def _acquire_whole(self, batch: InFlightBatch) -> None:
        (run,) = batch.runs
        if not run.is_available:
            return
        self._lock(run)
        self._add(run)

    def _lock(self, run: Run) -> None:
        partition = self._partition
        run.move(RecordState.ACQUIRED, partition.limits.delivery_count_limit, self._asked.member_id)
        run.lock_ends_ms = partition.lock_end_ms(self._now_ms)

    def _add(self, run: Run) -> None:
        self.result.append(Acquired(run.first, run.last, run.delivery_count))
        self.count += len(run)

    @property
    def _slow_from(self) -> int:
        """The number of deliveries from which on fewer records are delivered at once."""
        return max(_MIN_SLOW_FROM, (self._partition.limits.delivery_count_limit + 1) // 2)

    def _is_slow(self, batch: InFlightBatch) -> bool:
        slow_from = self._slow_from
        return any(
            run.delivery_count >= slow_from
            and run.is_available
            and run.last >= self._base
            and run.first <= self._last
            for run in batch.runs
        )

    def _acquire_part(self, batch: InFlightBatch) -> int:
        """Acquire what is available of a batch; the number of records."""
        if not batch.is_tracked:
            if not batch.runs[0].is_available:
                return 0
            batch.is_tracked = True
        limit = self._partition.limits.delivery_count_limit
        slow_from = self._slow_from
        most = self._max - self.count
        slow_most = -1
        count = 0
        start = len(self.result)
        for run in batch.within(self._base, self._last):
            if not run.is_available:
                continue
            deliveries = run.delivery_count
            is_last_delivery = limit > 2 and deliveries == limit - 1
            if is_last_delivery and count:
                break
            if deliveries >= slow_from and slow_most < 0:
                slow_most = max(1, len(batch) >> (deliveries - slow_from + 1))
            take = len(run)
            if is_last_delivery:
                take = 1
            if self._is_record_limit:
                take = min(take, most - count)
            # Some records before the slow ones may have been more than that already.
            if slow_most > count:
                take = min(take, slow_most - count)
            if take < len(run):
                batch.cut(run, run.first + take)
            self._lock(run)
            self._join(run, start)
            count += take
            if is_last_delivery or (self._is_record_limit and count == most) or count == slow_most:
                break
        self.count += count
        return count

    def _join(self, run: Run, start: int) -> None:
        """Neighbours with the same delivery count are acquired as one."""
        result = self.result
        if len(result) > start:
            before = result[-1]
            if before.last_offset + 1 == run.first and before.delivery_count == run.delivery_count:
                result[-1] = before._replace(last_offset=run.last)
                return
        result.append(Acquired(run.first, run.last, run.delivery_count))

    # Records that are new

    def _acquire_new(self, first: int, last: int) -> None:
        partition = self._partition
        if not len(partition.batches) and partition.end_offset > first:
            first = partition.end_offset
        most = self._max - self.count
        acquired_last = last
        if most < last - first + 1:
            # Up to the end of the batch in which the limit is.
            acquired_last = self._end_of_batch_with(first + most - 1)
            if partition.has_gaps:
                acquired_last = min(acquired_last, last)
        if acquired_last < first:
            raise BrokenInvariant(f"{first}-{acquired_last} of {partition.batches} is acquired")
        if self._is_record_limit:
            pieces = [(first, acquired_last)]
        else:
            pieces = self._pieces(first, acquired_last)
        for piece_first, piece_last in pieces:
            run = Run(
                piece_first,
                piece_last,
                RecordState.ACQUIRED,
                1,
                self._asked.member_id,
                partition.lock_end_ms(self._now_ms),
            )
            batch = InFlightBatch(run)
            partition.batches.add(batch)
            if self._is_record_limit and len(run) > most:
                batch.is_tracked = True
                batch.cut(run, piece_first + most)
                _give_back(batch.runs[1])
                partition.look_for_available()
            self._add(run)
        if partition.batches.first.first == first:
            partition.start_offset = max(first, partition.start_offset)
        partition.end_offset = max(partition.end_offset, acquired_last)
        partition.pass_gap(self.result[-1].last_offset + 1)

    def _end_of_batch_with(self, offset: int) -> int:
        last = -1
        for batch in self._fetched:
            if offset < batch.base_offset:
                break
            last = batch.last_offset
        return max(last, offset)

    def _pieces(self, first: int, last: int) -> list[tuple[int, int]]:
        """Cut where a batch of the log begins and the batch size is reached."""
        batch_size = self._asked.batch_size
        pieces = []
        if last - first + 1 > batch_size:
            for batch in self._fetched:
                base = batch.base_offset
                if base > last:
                    break
                if base - first >= batch_size and base > first:
                    pieces.append((first, base - 1))
                    first = base
        pieces.append((first, last))
        return pieces


def _give_back(run: Run) -> None:
    """The records behind the limit were not delivered."""
    run.state = RecordState.AVAILABLE
    run.delivery_count -= 1
    run.member_id = NO_MEMBER
    run.lock_ends_ms = -1


# Aborted transactions


def _without_aborted(
    partition: SharePartition,
    fetched: Sequence[FetchedBatch],
    acquired: Sequence[Acquired],
    aborted: Sequence[tuple[int, int]],
) -> list[Acquired]:
    for batch in (found := _aborted_batches(fetched, aborted)):
        if partition.batches.floor(batch.base_offset) is None and not partition.batches.between(
            batch.base_offset, batch.last_offset
        ):
            raise KafkaError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"The batch at {batch.base_offset} is not in flight"
            )
        partition.archive(batch.base_offset, batch.last_offset, RecordState.ACQUIRED)
    ranges = [(batch.base_offset, batch.last_offset) for batch in found]
    return subtract(acquired, ranges)


def _aborted_batches(
    fetched: Sequence[FetchedBatch], aborted: Sequence[tuple[int, int]]
) -> list[FetchedBatch]:
    pending = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    producers: set[int] = set()
    found = []
    for batch in fetched:
        if batch.producer_id < 0:
            continue
        while pending and pending[-1][1] <= batch.last_offset:
            producers.add(pending.pop()[0])
        if batch.is_abort:
            producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            found.append(batch)
    return found


def subtract(acquired: Sequence[Acquired], ranges: Sequence[tuple[int, int]]) -> list[Acquired]:
    """The acquired records outside of the ranges; both are in order."""
    left = []
    index = 0
    for first, last, delivery_count in acquired:
        while index < len(ranges) and ranges[index][1] < first:
            index += 1
        at = index
        while at < len(ranges) and ranges[at][0] <= last:
            range_first, range_last = ranges[at]
            if first < range_first:
                left.append(Acquired(first, range_first - 1, delivery_count))
            first = range_last + 1
            at += 1
        if first <= last:
            left.append(Acquired(first, last, delivery_count))
    return left
