"""The wall clock beside the monotonic clock.

All machines count in `now_ms`: milliseconds of a clock that never jumps. It begins at the wall
clock's time and runs with the system's monotonic clock, so setting the wall clock has no effect on
deadlines, intervals, delays and ages in memory. Timestamps of records, and times compared with
them, need the wall clock's time. A `WallClock` has it: its owner reads both clocks periodically and
notes them (`note`); machines that hold it read it.

Rules:
- Code that deletes by comparing with timestamps calls `rests` or `comparable_ms`, and does nothing
  in the first interval after a jump: a clock that jumps and comes back deletes nothing. A jump that
  was not noted changes no time here, so it deletes nothing either.
- Timestamps to store come from `stamp_ms`: the wall clock's time, but not that of a clock that has
  just jumped back. Records with old timestamps would soon be deleted as old.
- Code that compares with timestamps and cannot pause (has this token expired?) takes `trusted_ms`:
  the time as if there had been no jump, until the clock has kept its new time for `REST_MS`.

SEMANTICS 12 lists the uses of each clock. Apache Kafka compares the wall clock with timestamps at
any time.
"""

from __future__ import annotations

from typing import Final

# How far the two clocks may drift apart before it counts as a jump.
MAX_DRIFT_MS: Final = 1_000
# Smaller differences come from reading one clock after the other.
MAX_JITTER_MS: Final = 10
# The time for which a wall clock must keep its new time to be trusted again.
REST_MS: Final = 60_000
# In place of a `now_ms`: the event was read from disk and not seen by this process.
NOT_SEEN: Final = -1


class WallClock:
    """The state of the wall clock. Times in ms: `now_ms` of the monotonic clock, all others since
    1970."""

    __slots__ = ("_held_lead_ms", "_jumped_ms", "_trusted_lead_ms", "lead_ms")

    def __init__(self, lead_ms: int = 0) -> None:
        # The lead of the wall clock over `now_ms`, as noted last.
        self.lead_ms = lead_ms
        # The same after the last jump, and before it. The latter counts until REST_MS after it.
        self._held_lead_ms = lead_ms
        self._trusted_lead_ms = lead_ms
        self._jumped_ms: int | None = None  # when a jump was noted last

    def note(self, now_ms: int, wall_ms: int) -> int:
        """Note readings of both clocks; by how much the wall clock has jumped since the last time,
        0 if it has not."""
        lead_ms = wall_ms - now_ms
        before_ms = self.lead_ms
        if abs(lead_ms - before_ms) <= MAX_JITTER_MS:
            return 0
        trusted_lead_ms = self._trusted_lead(now_ms)
        self.lead_ms = lead_ms
        if abs(lead_ms - self._held_lead_ms) <= MAX_DRIFT_MS:
            return 0
        self._trusted_lead_ms = trusted_lead_ms
        self._held_lead_ms = lead_ms
        self._jumped_ms = now_ms
        return lead_ms - before_ms

    def resume(self, now_ms: int, known_ms: int) -> None:
        """At a start: the wall clock showed `known_ms` when the process before noted it last.

        A clock that is far from there may have jumped meanwhile, or the process was away for long.
        The trusted time is at least `known_ms`.
        """
        if abs(self.lead_ms + now_ms - known_ms) > REST_MS:
            self._jumped_ms = now_ms
            self._trusted_lead_ms = max(self.lead_ms, known_ms - now_ms)

    def rests(self, now_ms: int, interval_ms: int) -> bool:
        """Whether a job that runs every `interval_ms` must not use timestamps now: in its first
        interval after a jump, and for REST_MS at least."""
        jumped_ms = self._jumped_ms
        return jumped_ms is not None and now_ms - jumped_ms < max(interval_ms, REST_MS)

    def at_ms(self, now_ms: int) -> int:
        """The wall clock's time."""
        return now_ms + self.lead_ms

    def comparable_ms(self, now_ms: int, interval_ms: int) -> int | None:
        """The wall clock's time for a job that runs every `interval_ms` and deletes by timestamps;
        None while it `rests`."""
        return None if self.rests(now_ms, interval_ms) else now_ms + self.lead_ms

    def stamp_ms(self, now_ms: int) -> int:
        """The time for stored timestamps."""
        return now_ms + self.stamp_lead_ms(now_ms)

    def stamp_lead_ms(self, now_ms: int) -> int:
        """By how much stored timestamps are ahead of `now_ms`."""
        if self._jumped_ms is None:
            return self.lead_ms
        return max(self.lead_ms, self._trusted_lead(now_ms))

    def trusted_ms(self, now_ms: int) -> int:
        """The wall clock's time, without a jump that is not trusted yet."""
        return now_ms + self._trusted_lead(now_ms)

    def _trusted_lead(self, now_ms: int) -> int:
        jumped_ms = self._jumped_ms
        if jumped_ms is None or now_ms - jumped_ms >= REST_MS:
            return self.lead_ms
        return self._trusted_lead_ms
