"""The times for which the broker's loop and its garbage collector hold up everything else.

A task that sleeps TICK_SECONDS at a time measures how late it wakes: a stall shorter than a tick
may be missed, a longer one never is. The collector's pauses are measured by its callbacks. Both
run only where metrics are served.

Invariant: of the past only the longest time in each of the last SLOTS seconds is kept.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from .metrics import BrokerMetrics

TICK_SECONDS = 0.02
# Nothing should hold the loop for longer.
STALL_SECONDS = 0.01
SLOTS = 60


class Longest:
    """Count, sum, and the longest of the last minute; times in seconds of one clock."""

    __slots__ = ("_seconds", "_slots", "count", "total_seconds")

    def __init__(self) -> None:
        self.count = 0
        self.total_seconds = 0.0
        self._slots = [0.0] * SLOTS
        self._seconds = [-SLOTS] * SLOTS

    def add(self, duration: float, now: float) -> None:
        self.count += 1
        self.total_seconds += duration
        second = int(now)
        slot = second % SLOTS
        if self._seconds[slot] != second:
            self._seconds[slot], self._slots[slot] = second, 0.0
        self._slots[slot] = max(self._slots[slot], duration)

    def register(self, metrics: BrokerMetrics, name: str) -> None:
        metrics.gauge(f"{name}s_total", lambda: self.count)
        metrics.gauge(f"{name}_seconds_total", lambda: self.total_seconds)
        metrics.gauge(f"{name}_longest_seconds", lambda: self.of_last_minute(perf_counter()))

    def of_last_minute(self, now: float) -> float:
        oldest = int(now) - SLOTS
        known = zip(self._seconds, self._slots, strict=True)
        return max((longest for second, longest in known if second > oldest), default=0.0)


class LoopWatch:
    """Exports the stalls of this process's loop and the pauses of its collector while it runs."""

    def __init__(self, metrics: BrokerMetrics) -> None:
        self._stalls, self._pauses = Longest(), Longest()
        self._collecting_since = 0.0
        for name, longest in (("loop_stall", self._stalls), ("gc_pause", self._pauses)):
            longest.register(metrics, f"pybroker_{name}")

    async def run(self) -> None:
        """Watch until cancelled."""
        gc.callbacks.append(self._collector)
        try:
            while True:
                due = trio.current_time() + TICK_SECONDS
                await trio.sleep_until(due)
                late = trio.current_time() - due
                if late >= STALL_SECONDS:
                    self._stalls.add(late, perf_counter())
        finally:
            gc.callbacks.remove(self._collector)

    def _collector(self, phase: str, _info: Mapping[str, int]) -> None:
        now = perf_counter()
        if phase == "start":
            self._collecting_since = now
        else:
            self._pauses.add(now - self._collecting_since, now)
