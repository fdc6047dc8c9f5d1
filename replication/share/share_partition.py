"""A partition as one share group sees it: which records are delivered, by which member, how often.

Job: `SharePartition` is the machine of the leader. Records in front of `start_offset` are done
with; those up to `end_offset` are in flight, as far as they were fetched; later ones were not
fetched yet. Members acquire records (`acquiring`) and acknowledge them (`acknowledging`); what they
keep too long, and what a member leaves behind, is available again, or archived after too many
deliveries. Each change is a `StateWrite` for the share coordinator; the caller stores it and calls
`written`.

Invariants: a record that was accepted or rejected is never acquired again, from the moment at which
its write is complete; no record is acquired by two members; the start offset never goes back, and
passes only records that are done with, gaps, and the log's start; `delivery_complete_count` is the
number of records done with between start and end. Writes are to be stored in the order in which
they come.

A gap is a range that the stored state does not name: it was fetched and lost by an earlier leader,
and is fetched again (`gap_start` up to `gap_end`).

Mirrors kafka.server.share.SharePartition of Kafka 4.3 (KIP-932, KIP-1206, KIP-1222). Leaves out the
lock against two fetches at once, since a fetch here is one step, and remote storage. Goes beyond it
where records were compacted away or aborted: the start passes them without waiting for a write,
which may never come; in Kafka they can fill the limit of records in flight for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from ...protocol import invariants
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.invariants import BrokenInvariant
from .in_flight import (
    NO_LOCK,
    InFlightBatch,
    InFlightBatches,
    RecordState,
    Run,
    StateBatch,
    StateWrite,
    is_terminal,
)
from .limits import ShareLimits

_NO_GAP: Final = -1
_STATES: Final = {state.value: state for state in RecordState}


class Phase(Enum):
    EMPTY = "empty"  # the state was not read yet
    INITIALIZING = "initializing"
    ACTIVE = "active"
    FAILED = "failed"
    FENCED = "fenced"  # another leader, or the group is empty


class SharePartition:
    __slots__ = (
        "_earliest_lock_end_ms",
        "_find_available",
        "batches",
        "delivery_complete_count",
        "end_offset",
        "gap_end",
        "gap_start",
        "leader_epoch",
        "limits",
        "phase",
        "start_offset",
        "state_epoch",
    )

    def __init__(self, leader_epoch: int, limits: ShareLimits) -> None:
        # Of the partition, when the group was first served.
        self.leader_epoch = leader_epoch
        # The owner sets it when configs change.
        self.limits = limits
        self.phase = Phase.EMPTY
        self.start_offset = 0
        # The last offset in flight; if none is, the offset to fetch next.
        self.end_offset = 0
        self.state_epoch = 0
        self.batches = InFlightBatches()
        self.delivery_complete_count = 0
        # The window of gaps in the stored state; it counts as long as it ends at `end_offset`.
        self.gap_start = _NO_GAP
        self.gap_end = _NO_GAP
        # Whether there may be available records in flight.
        self._find_available = False
        # No lock ends earlier; None: there is no lock.
        self._earliest_lock_end_ms: int | None = None

    # The stored state

    def initialize(self, start_offset: int, state_epoch: int, stored: Sequence[StateBatch]) -> None:
        """Begin with the state that was read; one that can not be is an error."""
        try:
            self._load(start_offset, stored)
        except KafkaError:
            self.phase = Phase.FAILED
            raise
        self.state_epoch = state_epoch
        self.phase = Phase.ACTIVE

    def _load(self, start_offset: int, stored: Sequence[StateBatch]) -> None:
        self.start_offset = self.end_offset = start_offset
        expected = start_offset
        for first, last, code, delivery_count in stored:
            state = _STATES.get(code)
            if first < expected or last < first or state is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_SERVER_ERROR,
                    f"The stored state {first}-{last} ({code}) behind offset {expected} is invalid",
                )
            if self.gap_start == _NO_GAP and first > expected:
                self.gap_start = expected
            expected = last + 1
            run = Run(first, last, state, delivery_count)
            self.batches.add(InFlightBatch(run))
            if is_terminal(state):
                self.delivery_complete_count += len(run)
        if len(self.batches):
            self._find_available = True
            self.end_offset = self.gap_end = self.batches.last.last
            if self.gap_start == _NO_GAP:
                self.gap_end = _NO_GAP
            self.advance_start()

    # Where to fetch

    def next_fetch_offset(self) -> int:
        """The first available record in flight or gap; else the offset behind what is in flight."""
        batches = self.batches
        if not len(batches) or self.start_offset > batches.last.last:
            self._find_available = False
            return self.end_offset
        if not self._find_available:
            return self.end_offset + 1
        in_gaps = self.has_gaps
        gap_start = self.gap_start
        for batch in batches:
            if in_gaps:
                if batch.first > gap_start:
                    return gap_start
                # Gaps without data do not count: later batches may begin behind the gap's start.
                gap_start = max(batch.last + 1, gap_start)
            for run in batch.runs:
                if run.is_available:
                    return run.first
        self._find_available = False
        return self.end_offset + 1

    def can_acquire(self) -> bool:
        """Whether a fetch may acquire anything: something is available, or more may be in flight.

        A limit of locks never prevents a second delivery.
        """
        if self.next_fetch_offset() != self.end_offset + 1:
            return True
        return self.in_flight_count < self.limits.max_record_locks

    @property
    def in_flight_count(self) -> int:
        return self.end_offset - self.start_offset + 1 if len(self.batches) else 0

    @property
    def has_gaps(self) -> bool:
        return self.gap_end != _NO_GAP and self.gap_end == self.end_offset

    def pass_gap(self, offset: int) -> None:
        """Gaps in front of the offset are done with."""
        if self.gap_end == _NO_GAP:
            return
        if self.gap_end == self.end_offset and offset <= self.gap_end:
            offset = max(offset, self.gap_start)
            batch = self.batches.floor(offset)
            while batch is not None and batch.last >= offset:
                offset = batch.last + 1
                batch = self.batches.floor(offset)
            if offset <= self.gap_end:
                self.gap_start = offset
                return
        self.gap_start = self.gap_end = _NO_GAP

    def look_for_available(self) -> None:
        self._find_available = True

    # Locks

    def lock_end_ms(self, now_ms: int) -> int:
        """When a lock ends that is taken now."""
        ends_ms = now_ms + self.limits.record_lock_duration_ms
        earliest_ms = self._earliest_lock_end_ms
        if earliest_ms is None or ends_ms < earliest_ms:
            self._earliest_lock_end_ms = ends_ms
        return ends_ms

    @property
    def next_lock_end_ms(self) -> int | None:
        """When to call `expire`; it may be too early."""
        return self._earliest_lock_end_ms

    def expire(self, now_ms: int) -> tuple[StateWrite | None, int]:
        """Take back records whose locks have ended; (what to store, number of records)."""
        earliest_ms = self._earliest_lock_end_ms
        if earliest_ms is None or earliest_ms > now_ms:
            return None, 0
        write = StateWrite()
        earliest_ms, count = None, 0
        for batch in self.batches:
            # `free` may cut the run: the rest has its turn then.
            for run in batch.runs:
                ends_ms = run.lock_ends_ms
                if ends_ms == NO_LOCK:
                    continue
                if ends_ms > now_ms:
                    if earliest_ms is None or ends_ms < earliest_ms:
                        earliest_ms = ends_ms
                elif run.state is RecordState.ACQUIRED:
                    count += self._take_back(batch, run, write)
        self._earliest_lock_end_ms = earliest_ms
        if not write.batches:
            return None, count
        self._stamp(write)
        return write, count

    def _take_back(self, batch: InFlightBatch, run: Run, write: StateWrite) -> int:
        """Of a run that reaches over the start offset, only the records in front of it."""
        state = RecordState.AVAILABLE
        if run.first < self.start_offset:
            state = RecordState.ARCHIVED
            if run.last >= self.start_offset:
                batch.is_tracked = True
                batch.cut(run, self.start_offset)
        run.move(state, self.limits.delivery_count_limit)
        run.lock_ends_ms = NO_LOCK
        write.add(run)
        if run.state is RecordState.ARCHIVED:
            self._count(run)
        else:
            self._find_available = True
        return len(run)

    # A member leaves

    def release(self, member_id: str) -> StateWrite | None:
        """Give back what the member has acquired."""
        write = StateWrite()
        limit = self.limits.delivery_count_limit
        for batch in self.batches:
            for run in batch.runs:
                if run.state is not RecordState.ACQUIRED or run.member_id != member_id:
                    continue
                state = RecordState.AVAILABLE
                if run.first < self.start_offset:
                    state = RecordState.ARCHIVED
                    if run.last >= self.start_offset:
                        batch.is_tracked = True
                        batch.cut(run, self.start_offset)
                self.start(run, state, limit, write)
        return self.begin(write)

    # Writes

    def start(self, run: Run, state: RecordState, limit: int, write: StateWrite) -> None:
        run.start(state, limit, write)
        if is_terminal(run.state):
            self._count(run)

    def begin(self, write: StateWrite) -> StateWrite | None:
        """The write has all that belongs to it."""
        if not write.batches:
            return None
        self._stamp(write)
        return write

    def _stamp(self, write: StateWrite) -> None:
        write.start_offset = self.start_offset
        write.delivery_complete_count = self.delivery_complete_count

    def written(self, write: StateWrite, *, is_stored: bool, now_ms: int) -> bool:
        """The write has ended; True if the start offset may have moved."""
        self.finish(write, is_stored=is_stored, now_ms=now_ms)
        moved = (is_stored or not write.runs) and self.advance_start()
        if invariants.THOROUGH:
            self.check()
        return moved

    def finish(self, write: StateWrite, *, is_stored: bool, now_ms: int) -> None:
        for run in write.runs:
            was_done = is_terminal(run.state)
            run.finish(is_stored, now_ms)
            if is_terminal(run.state) != was_done:
                self._count(run, 1 if was_done is False else -1)
            if run.state is RecordState.AVAILABLE:
                self._find_available = True
                if run.first < self.start_offset:
                    self._archive_passed(run)
            elif run.state is RecordState.ACQUIRED and run.lock_ends_ms != NO_LOCK:
                earliest_ms = self._earliest_lock_end_ms
                if earliest_ms is None or run.lock_ends_ms < earliest_ms:
                    self._earliest_lock_end_ms = run.lock_ends_ms

    def _archive_passed(self, run: Run) -> None:
        """The log's start has passed records, or a part of them, that are available now."""
        if run.last >= self.start_offset:
            batch = self.batches.floor(run.first)
            assert batch is not None
            batch.is_tracked = True
            batch.cut(run, self.start_offset)
        run.archive()

    def _count(self, run: Run, sign: int = 1) -> None:
        """Records of the run that are in flight are done with (or with sign -1: are not)."""
        first = run.first if run.first > self.start_offset else self.start_offset
        if run.last >= first:
            self.delivery_complete_count += sign * (run.last - first + 1)

    # The start

    def advance_start(self) -> bool:
        """Move the start past the records that are done with; True if there are any."""
        if not self._may_advance():
            return False
        done_batch: InFlightBatch | None = None  # the last one that is done with entirely
        last_done, count = -1, 0
        has_gaps = self.has_gaps
        inside: InFlightBatch | None = None  # the batch of which only a part is done with
        for batch in self.batches:
            if has_gaps and batch.last >= self.gap_start:
                break
            for run in batch.runs:
                if run.write is not None or not is_terminal(run.state):
                    inside = batch
                    break
                last_done = run.last
                first = max(run.first, self.start_offset)
                count += max(0, run.last - first + 1)
            if inside is not None:
                break
            done_batch = batch
        if last_done == -1:
            return False
        if last_done == self.batches.last.last:
            self.start_offset = self.end_offset = last_done + 1
            self.batches.clear()
            self.delivery_complete_count = 0
            return True
        if done_batch is not None and last_done == done_batch.last:
            start_offset = max(self.batches.after(done_batch).first, self.start_offset)
            if has_gaps:
                start_offset = min(self.gap_start, start_offset)
            self.start_offset = max(start_offset, self.start_offset)
            self.batches.remove_through(done_batch)
        else:
            assert inside is not None
            self.start_offset = max(last_done + 1, self.start_offset)
            self.batches.remove_before(inside)
            inside.forget_before(last_done + 1)
        self.delivery_complete_count -= count
        return True

    def _may_advance(self) -> bool:
        """Whether the record at the start is done with."""
        batches = self.batches
        if not len(batches):
            return False
        batch = batches.floor(self.start_offset)
        if batch is None:  # a gap, which may have to be fetched
            return not (self.has_gaps and self.gap_start < batches.first.first)
        for run in batch.runs:
            if run.last >= self.start_offset or run is batch.runs[-1]:
                return run.write is None and is_terminal(run.state)
        raise BrokenInvariant(f"{batch!r} has no runs")

    def log_start_moved(self, log_start_offset: int) -> None:
        """The log begins later: available records in front of it are archived, without a write."""
        self.pass_gap(log_start_offset)
        if log_start_offset <= self.start_offset:
            return
        if not len(self.batches):
            self.start_offset = self.end_offset = log_start_offset
            self.delivery_complete_count = 0
            return
        if self.archive(self.start_offset, log_start_offset - 1, RecordState.AVAILABLE):
            self._find_available = True
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset)
        self.delivery_complete_count = self._count_all()
        self.advance_start()

    def archive(self, first: int, last: int, state: RecordState) -> bool:
        """Archive records of this state for good; True if there are any."""
        is_any = False
        from_batch = self.batches.floor(first)
        start = first if from_batch is None else from_batch.first
        for batch in self.batches.between(start, last):
            if not batch.is_tracked:
                if batch.runs[0].state is not state:
                    continue
                batch.is_tracked = batch.first < first or last < batch.last
            for run in batch.within(first, last):
                if run.state is state:
                    run.archive()
                    self._count(run)
                    is_any = True
        return is_any

    # Invariants

    def _count_all(self) -> int:
        start_offset, count = self.start_offset, 0
        for batch in self.batches:
            for run in batch.runs:
                if is_terminal(run.state):
                    count += max(0, run.last - max(run.first, start_offset) + 1)
        return count

    def check(self) -> None:
        """Walk over all records."""
        expected = 0
        for batch in self.batches:
            if batch.first < expected or batch.runs[0].first != batch.first:
                raise BrokenInvariant(f"{batch!r} begins in front of {expected}, or its runs do")
            expected = batch.first
            if not batch.is_tracked and len(batch.runs) > 1:
                raise BrokenInvariant(f"{batch!r} has several runs, and is not tracked")
            for run in batch.runs:
                if run.first != expected or run.last < run.first:
                    raise BrokenInvariant(f"{run!r} does not begin at {expected}")
                if (run.state is RecordState.ACQUIRED) != bool(run.member_id):
                    raise BrokenInvariant(f"{run!r} has a member, or has none")
                if run.state is RecordState.ACQUIRED and run.lock_ends_ms == NO_LOCK:
                    raise BrokenInvariant(f"{run!r} has no lock")
                expected = run.last + 1
            if expected != batch.last + 1:
                raise BrokenInvariant(f"the runs of {batch!r} end at {expected}")
        if len(self.batches) and self.end_offset < self.batches.last.last:
            raise BrokenInvariant(f"{self.batches.last!r} reaches beyond {self.end_offset}")
        if self.delivery_complete_count != self._count_all():
            raise BrokenInvariant(
                f"{self.delivery_complete_count} records are done with, not {self._count_all()}"
            )
