"""The two clocks of a broker, and the one place where they are read.

`now_ms` is the time of all machines: milliseconds that begin at the wall clock's reading at the
start and run with the monotonic clock, also when the wall clock is set. `wall` keeps the difference
between both (`protocol.wall_clock`); a look at it every second notices jumps.

A test may set the wall clock (`ahead_ms`, or another `read_wall_ms`) or let time pass (`advance`):
in its broker only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic_ns, time_ns
from typing import Final

import trio

from ...protocol.wall_clock import MAX_JITTER_MS, WallClock

logger = logging.getLogger("pybroker.broker.resources.clock")

LOOK_SECONDS: Final = 1.0

_NS_PER_MS: Final = 1_000_000


def wall_clock_ms() -> int:
    """Milliseconds since the epoch; it may be set, also back."""
    return time_ns() // _NS_PER_MS


class Clock:
    """The clocks of one broker."""

    def __init__(self, read_wall_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._read_wall_ms = read_wall_ms
        self._start_ms = read_wall_ms() - monotonic_ns() // _NS_PER_MS
        self._passed_ms = 0  # by `advance`
        self.ahead_ms = 0  # of the machine's wall clock; set by tests
        self.wall = WallClock()

    def now_ms(self) -> int:
        return monotonic_ns() // _NS_PER_MS + self._start_ms

    def wall_ms(self) -> int:
        """The wall clock's reading; for stamps and comparisons use `wall`."""
        return self._read_wall_ms() + self._passed_ms + self.ahead_ms

    def trusted_ms(self) -> int:
        """The wall clock's time, without a jump that is not trusted yet.

        `WallClock.trusted_ms` goes by readings of up to a second ago, and may be MAX_JITTER_MS off.
        A token of this very millisecond is not of a later time, so the wall clock is read here.
        """
        trusted_ms, wall_ms = self.wall.trusted_ms(self.now_ms()), self.wall_ms()
        return wall_ms if abs(wall_ms - trusted_ms) <= MAX_JITTER_MS else trusted_ms

    def advance(self, ms: int) -> None:
        """Let `ms` pass at once on both clocks."""
        self._start_ms += ms
        self._passed_ms += ms

    def look(self) -> None:
        """Notice changes of the wall clock."""
        step_ms = self.wall.note(self.now_ms(), self.wall_ms())
        if step_ms:
            logger.warning(
                "The system clock was set by %d ms; nothing is deleted by its timestamps for a"
                " while",
                step_ms,
            )

    async def watch(self) -> None:
        """Look every second until cancelled."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            self.look()
