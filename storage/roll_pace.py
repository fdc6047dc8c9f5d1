"""Limit how often time makes a log begin a segment (SEMANTICS 11).

Job: `segment.ms` counts from the timestamp of a segment's first batch to that of the next one,
which producers choose: a batch of 70 bytes with a timestamp a week after that of the batch before
begins a segment, which takes four files, and memory for as long as it is kept. So small segments
are rolled by time only MAX_BURST times at once (enough to load nineteen years week by week), and
then once in REFILL_MS. A segment of FREE_BYTES has cost its producer as much as a roll costs us.
Meanwhile, the segment grows, so that its records are deleted, or compacted, later than they might
have been; full segments are never held back.

Mirrors nothing: Kafka rolls at each such batch.
"""

from __future__ import annotations

from typing import Final

MAX_BURST: Final = 1_000
REFILL_MS: Final = 1_000
FREE_BYTES: Final = 256 * 1024


class RollPace:
    __slots__ = ("_left", "_since_ms")

    def __init__(self) -> None:
        self._left = MAX_BURST
        self._since_ms = 0  # refills up to this time are counted in `_left`

    def allows(self, size: int, now_ms: int) -> bool:
        """Whether a segment of so many bytes may be rolled for its age; counted as done."""
        if size >= FREE_BYTES:
            return True
        came_back = (now_ms - self._since_ms) // REFILL_MS
        if came_back > 0:
            self._left = min(self._left + came_back, MAX_BURST)
            self._since_ms += came_back * REFILL_MS
        elif came_back < 0:  # the clock was set back
            self._since_ms = now_ms
        if not self._left:
            return False
        self._left -= 1
        return True
