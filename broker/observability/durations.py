"""How long work of one kind took: a counter, the sum, and the last times for quantiles.

Mirrors: the timers of Yammer's library, whose quantiles are of samples that age.
"""

from __future__ import annotations

from collections import deque
from typing import Final

SAMPLES: Final = 1024


class Durations:
    __slots__ = ("count", "samples", "total_seconds")

    def __init__(self) -> None:
        self.count = 0
        self.total_seconds = 0.0
        self.samples: deque[float] = deque(maxlen=SAMPLES)

    def record(self, seconds: float) -> None:
        self.count += 1
        self.total_seconds += seconds
        self.samples.append(seconds)
