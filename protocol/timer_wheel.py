"""Hierarchical timer wheel: many deadlines, constant time to add and to cancel.

Job: hold entries until their deadline (milliseconds) and hand out those that are due. Six levels of
64 slots with a 1 ms tick; a level's slot is found from the highest bit in which deadline and
current time differ, and one integer a level marks the slots in use, so that empty time is skipped
in one step however far the clock jumps. One more slot holds overdue entries: due, and not handed
out yet, because a call takes at most a limit. The two machines with many deadlines have wheels: the
purgatories and the groups. Heartbeats push a deadline back all the time, so a later one is only
noted in the entry, which moves when its slot is reached.

Invariants: an entry is in exactly one slot while it is scheduled and knows that slot; `advance`
never hands out an entry before its deadline, and keeps one past it only beyond the limit;
`next_deadline_ms` is never later than the earliest deadline (it may be earlier: then the entry only
moves down a level).

Mirrors Kafka's TimingWheel (1 ms tick, 20 slots a level). Leaves out its delay queue and threads:
time comes in as `now_ms`.
"""

from itertools import islice
from typing import Final, Generic, TypeVar

from mypy_extensions import mypyc_attr

from .invariants import BrokenInvariant

_BITS: Final = 6
_SLOTS: Final = 1 << _BITS
_MASK: Final = _SLOTS - 1
_LEVELS: Final = 6
_SPAN: Final = 1 << (_BITS * _LEVELS)  # about two years in milliseconds
_OVERDUE: Final = _LEVELS * _SLOTS
_NEVER: Final = 1 << 61


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerEntry:
    """The part of an entry that the wheel needs; operations derive from it."""

    __slots__ = ("deadline_ms", "wheel_slot")

    def __init__(self) -> None:
        self.deadline_ms: int = 0
        self.wheel_slot: int = -1

    @property
    def is_scheduled(self) -> bool:
        return self.wheel_slot >= 0


EntryT = TypeVar("EntryT", bound=TimerEntry)


class TimerWheel(Generic[EntryT]):
    __slots__ = ("_count", "_occupied", "_overdue", "_slots", "_soonest_ms", "now_ms")

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self._count = 0
        self._occupied = [0] * _LEVELS
        # Dicts as ordered sets: entries of one slot leave in the order in which they came.
        self._slots: list[dict[EntryT, None] | None] = [None] * _OVERDUE
        self._overdue: dict[EntryT, None] = {}
        self._soonest_ms = _NEVER  # nothing is due before that

    def __len__(self) -> int:
        return self._count

    def schedule(self, entry: EntryT, deadline_ms: int) -> None:
        """A deadline that has passed is due at once."""
        if entry.wheel_slot >= 0:
            raise BrokenInvariant(f"an entry is scheduled already, in slot {entry.wheel_slot}")
        entry.deadline_ms = deadline_ms
        self._place(entry)
        self._count += 1

    def reschedule(self, entry: EntryT, deadline_ms: int) -> None:
        """Schedule it, instead of any deadline that it had."""
        slot = entry.wheel_slot
        if 0 <= slot < _OVERDUE and deadline_ms >= entry.deadline_ms:
            entry.deadline_ms = deadline_ms
            return
        self.cancel(entry)
        self.schedule(entry, deadline_ms)

    def cancel(self, entry: EntryT) -> bool:
        index = entry.wheel_slot
        if index < 0:
            return False
        if index == _OVERDUE:
            del self._overdue[entry]
        else:
            slot = self._slots[index]
            assert slot is not None
            del slot[entry]
            if not slot:
                self._occupied[index >> _BITS] &= ~(1 << (index & _MASK))
        entry.wheel_slot = -1
        self._count -= 1
        return True

    def next_deadline_ms(self) -> int | None:
        """The time at which `advance` has something to do next, or None."""
        if self._overdue:
            return self.now_ms
        found = self._next_slot()
        self._soonest_ms = _NEVER if found is None else found[2]
        return None if found is None else found[2]

    def is_due_before(self, at_ms: float) -> bool:
        """Whether an entry may be due before `at_ms`. Costs nothing while deadlines are pushed
        back."""
        if self._soonest_ms >= at_ms:
            return False
        deadline_ms = self.next_deadline_ms()
        return deadline_ms is not None and deadline_ms < at_ms

    def advance(self, now_ms: int, limit: int) -> list[EntryT]:
        """Move the clock to `now_ms`, which is never less than before, and return the due entries,
        at most `limit`."""
        while True:
            found = self._next_slot()
            if found is None or found[2] > now_ms:
                break
            level, position, start_ms = found
            self.now_ms = max(self.now_ms, start_ms)
            self._empty_slot(level, position)
        self.now_ms = max(self.now_ms, now_ms)
        overdue = self._overdue
        due = list(islice(overdue, max(limit, 0)))
        for entry in due:
            del overdue[entry]
            entry.wheel_slot = -1
        self._count -= len(due)
        return due

    def _place(self, entry: EntryT) -> None:
        now_ms = self.now_ms
        deadline_ms = entry.deadline_ms
        self._soonest_ms = min(self._soonest_ms, deadline_ms)
        if deadline_ms <= now_ms:
            entry.wheel_slot = _OVERDUE
            self._overdue[entry] = None
            return
        if deadline_ms - now_ms >= _SPAN:
            deadline_ms = now_ms + _SPAN - 1
        level = ((deadline_ms ^ now_ms).bit_length() - 1) // _BITS
        if level >= _LEVELS:
            level = _LEVELS - 1
        position = (deadline_ms >> (_BITS * level)) & _MASK
        index = (level << _BITS) | position
        slot = self._slots[index]
        if slot is None:
            slot = self._slots[index] = {}
        slot[entry] = None
        self._occupied[level] |= 1 << position
        entry.wheel_slot = index

    def _next_slot(self) -> tuple[int, int, int] | None:
        """(level, position, start time) of the slot that is reached first."""
        best: tuple[int, int, int] | None = None
        for level, occupied in enumerate(self._occupied):
            if not occupied:
                continue
            shift = _BITS * level
            current = (self.now_ms >> shift) & _MASK
            # The slot at the hand is empty or, as those behind it, of the level's next turn.
            ahead = occupied >> (current + 1)
            turn, bits, base = (0, ahead, current + 1) if ahead else (1, occupied, 0)
            position = base + (bits & -bits).bit_length() - 1
            turn_start = (self.now_ms >> (shift + _BITS)) + turn
            start_ms = (turn_start << (shift + _BITS)) | (position << shift)
            if best is None or start_ms < best[2]:
                best = (level, position, start_ms)
        return best

    def _empty_slot(self, level: int, position: int) -> None:
        index = (level << _BITS) | position
        slot = self._slots[index]
        assert slot
        self._slots[index] = None
        self._occupied[level] &= ~(1 << position)
        for entry in slot:
            self._place(entry)
