"""Records of a share partition that are in flight: runs, batches, and writes under way.

Job: the state of each record that was fetched and is not done with. A `Run` is a range of records
that have all of their state in common; an `InFlightBatch` is the range that was acquired together,
cut into runs; `InFlightBatches` finds them by offset. A `StateWrite` is a change that a share
coordinator has to store: its runs have their new state already, and return to the old one if the
write fails.

Invariants: the runs of a batch cover it without gap and in order; batches do not overlap; a run in
a write is in that write alone and takes no other change of state but the end of the log's start
moving past it; the lock of a run ends at one time, whether its state changes meanwhile or not.

Mirrors InFlightState, InFlightBatch, RecordState and PersisterStateBatch of Kafka 4.3, which keep
one object for each offset of a batch whose records differ; `is_tracked` is that Kafka would.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from ...protocol.invariants import BrokenInvariant

NO_MEMBER: Final = ""
NO_LOCK: Final = -1


class RecordState(IntEnum):
    """On disk as well (`__share_group_state`)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    # KIP-1191, not in use yet.
    ARCHIVING = 3
    ARCHIVED = 4


# The transitions that a member or a lock's end may cause; the log's start archives from all states.
_NEXT: Final = {
    RecordState.AVAILABLE: frozenset({RecordState.ACQUIRED}),
    RecordState.ACQUIRED: frozenset(
        {RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}
    ),
    RecordState.ACKNOWLEDGED: frozenset[RecordState](),
    RecordState.ARCHIVING: frozenset[RecordState](),
    RecordState.ARCHIVED: frozenset[RecordState](),
}


def is_terminal(state: RecordState) -> bool:
    return state is RecordState.ACKNOWLEDGED or state is RecordState.ARCHIVED


class StateBatch(NamedTuple):
    """As share coordinators store it."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int


class StateWrite:
    """A change of state on its way to the share coordinator."""

    __slots__ = ("batches", "delivery_complete_count", "runs", "start_offset")

    def __init__(self) -> None:
        self.batches: list[StateBatch] = []
        # Each returns to its old state if the write fails. None for locks that have ended: those
        # records are available whether that is stored or not.
        self.runs: list[Run] = []
        # Set when the write is complete.
        self.start_offset = -1
        self.delivery_complete_count = -1

    def add(self, run: Run) -> None:
        """The new state of the run; neighbours alike are one batch."""
        batches = self.batches
        first, last = run.first, run.last
        if batches:
            before = batches[-1]
            if (
                before.last_offset + 1 == first
                and before.state == run.state
                and before.delivery_count == run.delivery_count
            ):
                first = before.first_offset
                batches.pop()
        batches.append(StateBatch(first, last, run.state, run.delivery_count))


class _Before(NamedTuple):
    """The state to return to."""

    state: RecordState
    member_id: str
    delivery_limit: int


class Run:
    """Records that have all of their state in common."""

    __slots__ = (
        "_before",
        "delivery_count",
        "first",
        "is_final",
        "last",
        "lock_ends_ms",
        "member_id",
        "state",
        "write",
    )

    def __init__(
        self,
        first: int,
        last: int,
        state: RecordState,
        delivery_count: int,
        member_id: str = NO_MEMBER,
        lock_ends_ms: int = NO_LOCK,
    ) -> None:
        self.first = first
        self.last = last
        self.state = state
        # Deliveries so far, the present one among them.
        self.delivery_count = delivery_count
        # That has acquired them; NO_MEMBER in every other state.
        self.member_id = member_id
        # Still set while a write is under way, which may fail.
        self.lock_ends_ms = lock_ends_ms
        # The log's start has passed them: no failed write brings them back.
        self.is_final = False
        self.write: StateWrite | None = None
        self._before: _Before | None = None

    def __repr__(self) -> str:
        return (
            f"<Run {self.first}-{self.last} {self.state.name} {self.delivery_count}x"
            f"{' of ' + self.member_id if self.member_id else ''}"
            f"{' being written' if self.write else ''}>"
        )

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def is_available(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.write is None

    def move(self, state: RecordState, delivery_limit: int, member_id: str = NO_MEMBER) -> None:
        """Change the state; records that were delivered too often are archived, not available."""
        if self.write is not None:
            raise BrokenInvariant(f"{self!r} is to be {state.name}")
        if state is RecordState.AVAILABLE and self.delivery_count >= delivery_limit:
            state = RecordState.ARCHIVED
        if state not in _NEXT[self.state]:
            raise BrokenInvariant(f"{self!r} can not be {state.name}")
        if state is RecordState.ACQUIRED:
            self.delivery_count += 1
        self.state = state
        self.member_id = member_id

    def start(self, state: RecordState, delivery_limit: int, write: StateWrite) -> None:
        """Change the state for as long as the write does not fail."""
        before = _Before(self.state, self.member_id, delivery_limit)
        self.move(state, delivery_limit)
        self._before = before
        self.write = write
        write.runs.append(self)
        write.add(self)

    def finish(self, is_stored: bool, now_ms: int) -> None:
        """The write has ended."""
        before = self._before
        if before is None:
            raise BrokenInvariant(f"{self!r} is in no write")
        self.write = self._before = None
        if is_stored or self.is_final:
            self.lock_ends_ms = NO_LOCK
        elif NO_LOCK < self.lock_ends_ms <= now_ms:
            # The lock has ended meanwhile.
            used_up = self.delivery_count >= before.delivery_limit
            self.state = RecordState.ARCHIVED if used_up else RecordState.AVAILABLE
            self.member_id = NO_MEMBER
            self.lock_ends_ms = NO_LOCK
        else:
            self.state = before.state
            self.member_id = before.member_id

    def archive(self) -> None:
        """For good, whatever the state is."""
        self.is_final = True
        self.state = RecordState.ARCHIVED
        self.member_id = NO_MEMBER
        self.lock_ends_ms = NO_LOCK

    def split_off(self, offset: int) -> Run:
        """The records from `offset` on, as a run of their own."""
        if not self.first < offset <= self.last:
            raise BrokenInvariant(f"{self!r} is to be cut at {offset}")
        rest = Run(
            offset, self.last, self.state, self.delivery_count, self.member_id, self.lock_ends_ms
        )
        rest.is_final = self.is_final
        rest.write = self.write
        rest._before = self._before
        self.last = offset - 1
        if self.write is not None:
            self.write.runs.append(rest)
        return rest


def _first_of(run: Run) -> int:
    return run.first


class InFlightBatch:
    """The records that were acquired together, or whose state was read together."""

    __slots__ = ("first", "is_tracked", "last", "runs")

    def __init__(self, run: Run) -> None:
        self.first = run.first
        self.last = run.last
        self.runs = [run]
        # Once records have been dealt with one by one.
        self.is_tracked = False

    def __repr__(self) -> str:
        return f"<InFlightBatch {self.first}-{self.last} {self.runs}>"

    def __len__(self) -> int:
        return self.last - self.first + 1

    def within(self, first: int, last: int) -> Iterator[Run]:
        """The runs between two offsets; one that reaches beyond is cut when its turn comes."""
        runs = self.runs
        if first <= self.first:
            index = 0
        else:
            index = bisect_right(runs, first, key=_first_of) - 1
            if runs[index].first < first:
                if runs[index].last < first:
                    return
                runs.insert(index + 1, runs[index].split_off(first))
                index += 1
        while index < len(runs):
            run = runs[index]
            if run.first > last:
                return
            if run.last > last:
                runs.insert(index + 1, run.split_off(last + 1))
            yield run
            index += 1

    def cut(self, run: Run, offset: int) -> None:
        """Let `run` end in front of `offset`."""
        index = bisect_right(self.runs, run.first, key=_first_of)
        self.runs.insert(index, run.split_off(offset))

    def forget_before(self, offset: int) -> None:
        """All records in front of `offset` are done with: one run is enough for them."""
        runs = self.runs
        count = bisect_right(runs, offset - 1, key=_first_of)
        if count > 1:
            runs[0].last = runs[count - 1].last
            del runs[1:count]


class InFlightBatches:
    """Batches in the order of their offsets."""

    __slots__ = ("_batches", "_firsts")

    def __init__(self) -> None:
        self._batches: list[InFlightBatch] = []
        self._firsts: list[int] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        firsts, batches = self._firsts, self._batches
        index = bisect_right(firsts, batch.first)
        if (index and batches[index - 1].last >= batch.first) or (
            index < len(batches) and firsts[index] <= batch.last
        ):
            raise BrokenInvariant(f"{batch!r} overlaps one of {batches}")
        firsts.insert(index, batch.first)
        batches.insert(index, batch)

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that begins at or before the offset."""
        index = bisect_right(self._firsts, offset)
        return self._batches[index - 1] if index else None

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """The batches that begin between two offsets, both included."""
        firsts = self._firsts
        return self._batches[bisect_right(firsts, first - 1) : bisect_right(firsts, last)]

    def after(self, batch: InFlightBatch) -> InFlightBatch:
        return self._batches[bisect_right(self._firsts, batch.first)]

    def remove_through(self, batch: InFlightBatch) -> None:
        """Remove all batches up to this one."""
        count = bisect_right(self._firsts, batch.first)
        del self._firsts[:count]
        del self._batches[:count]

    def remove_before(self, batch: InFlightBatch) -> None:
        count = bisect_right(self._firsts, batch.first) - 1
        del self._firsts[:count]
        del self._batches[:count]

    def clear(self) -> None:
        self._firsts.clear()
        self._batches.clear()
