"""Deadlines of the group machine: a heap of timers that are cheap to push back.

Heartbeats push a member's session deadline back all the time, so a later deadline is only noted
in the timer; its heap entry stays and is moved when it comes to the top. The heap therefore holds
about one entry a timer, and `next_deadline_ms` is exact because it settles the top first.

Invariant: `timer.queued_ms` is the deadline of the timer's one valid heap entry (older entries of
the same timer are stale and dropped), and never later than `timer.deadline_ms`.
"""

import heapq
from enum import Enum
from typing import Final, Generic, TypeVar

Owner = TypeVar("Owner")

_COMPACT_MIN_ENTRIES: Final = 1024


class TimerKind(Enum):
    """What is to be done when a timer fires."""

    SESSION = "session"
    PENDING_MEMBER = "pending member"
    JOIN = "join"
    SYNC = "sync"
    OFFSET_EXPIRY = "offset expiry"


class Timer(Generic[Owner]):
    """One timer of a group, its `owner`; at most one deadline at a time, None when it is not
    running."""

    __slots__ = ("deadline_ms", "kind", "member_id", "owner", "queued_ms")

    def __init__(self, kind: TimerKind, owner: Owner | None = None, member_id: str = "") -> None:
        self.kind = kind
        self.owner = owner
        self.member_id = member_id
        self.deadline_ms: int | None = None
        self.queued_ms: int | None = None


class TimerHeap(Generic[Owner]):
    """All timers of the machine, ordered by deadline and then by the order of scheduling."""

    __slots__ = ("_cancelled", "_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer[Owner]]] = []
        self._sequence = 0
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap)

    def schedule(self, timer: Timer[Owner], deadline_ms: int) -> None:
        """Run `timer` at `deadline_ms`, instead of any deadline that it had."""
        timer.deadline_ms = deadline_ms
        if timer.queued_ms is None or deadline_ms < timer.queued_ms:
            self._push(timer, deadline_ms)

    def cancel(self, timer: Timer[Owner]) -> None:
        """Stop `timer`; it may be scheduled again later."""
        if timer.deadline_ms is None:
            return
        timer.deadline_ms = None
        self._cancelled += 1
        if self._cancelled > _COMPACT_MIN_ENTRIES and self._cancelled * 2 > len(self._heap):
            self._compact()

    def next_deadline_ms(self) -> int | None:
        """When the next timer fires, or None."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def is_due_before(self, at_ms: float) -> bool:
        """Does a timer fire before that? Costs nothing while deadlines are only pushed back."""
        if not self._heap or self._heap[0][0] >= at_ms:
            return False
        self._settle()
        return bool(self._heap) and self._heap[0][0] < at_ms

    def pop_due(self, now_ms: int) -> Timer[Owner] | None:
        """Take the next timer that is due, or None; the timer is no longer running."""
        self._settle()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        timer = heapq.heappop(self._heap)[2]
        timer.deadline_ms = timer.queued_ms = None
        return timer

    def _push(self, timer: Timer[Owner], deadline_ms: int) -> None:
        timer.queued_ms = deadline_ms
        self._sequence += 1
        heapq.heappush(self._heap, (deadline_ms, self._sequence, timer))

    def _settle(self) -> None:
        """Make the top entry a running timer at its real deadline."""
        heap = self._heap
        while heap:
            queued_ms, _, timer = heap[0]
            if queued_ms == timer.queued_ms == timer.deadline_ms:
                return
            heapq.heappop(heap)
            if queued_ms != timer.queued_ms:
                continue
            timer.queued_ms = None
            if timer.deadline_ms is not None:
                self._push(timer, timer.deadline_ms)

    def _compact(self) -> None:
        entries = []
        for entry in self._heap:
            timer = entry[2]
            if entry[0] != timer.queued_ms:
                continue
            if timer.deadline_ms is None:
                timer.queued_ms = None
                continue
            entries.append(entry)
        heapq.heapify(entries)
        self._heap = entries
        self._cancelled = 0
