"""Latencies in a histogram of bounded size: percentiles are right within 1 %; pure."""

from __future__ import annotations

import math

GROWTH = 1.01  # from one bucket to the next
LEAST_SECONDS = 1e-6
MOST_SECONDS = 3600.0
_LOG_GROWTH = math.log(GROWTH)
BUCKETS = math.ceil(math.log(MOST_SECONDS / LEAST_SECONDS) / _LOG_GROWTH) + 2


class Latencies:
    """Latencies in seconds; values out of range count as the nearest bound."""

    def __init__(self) -> None:
        self._counts = [0] * BUCKETS
        self.count = 0
        self.total = 0.0
        self.largest = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count `times` latencies of `seconds` each."""
        within = min(max(seconds, LEAST_SECONDS), MOST_SECONDS)
        self._counts[int(math.log(within / LEAST_SECONDS) / _LOG_GROWTH)] += times
        self.count += times
        self.total += seconds * times
        self.largest = max(self.largest, seconds)

    @property
    def mean(self) -> float:
        """0 without any."""
        return self.total / self.count if self.count else 0.0

    def percentile(self, share: float) -> float:
        """The latency that this share (0 to 1) of all does not exceed; 0 if there are none."""
        rank = max(math.ceil(share * self.count), 1)
        seen = 0
        for bucket, count in enumerate(self._counts):
            seen += count
            if seen >= rank:
                return min(LEAST_SECONDS * GROWTH ** (bucket + 1), self.largest)
        return 0.0

    def row_ms(self) -> dict[str, float]:
        """The figures of Kafka's own tools: average, maximum and percentiles, in ms."""
        return {
            "avg_ms": round(self.mean * 1000, 3),
            "p50_ms": round(self.percentile(0.5) * 1000, 3),
            "p95_ms": round(self.percentile(0.95) * 1000, 3),
            "p99_ms": round(self.percentile(0.99) * 1000, 3),
            "p999_ms": round(self.percentile(0.999) * 1000, 3),
            "max_ms": round(self.largest * 1000, 3),
        }

    def copy(self) -> Latencies:
        """A copy of the present state."""
        made = Latencies()
        made._counts = list(self._counts)
        made.count, made.total, made.largest = self.count, self.total, self.largest
        return made

    def since(self, before: Latencies) -> Latencies:
        """The latencies added since a copy; the largest is that of all."""
        made = self.copy()
        made._counts = [a - b for a, b in zip(self._counts, before._counts, strict=True)]
        made.count -= before.count
        made.total -= before.total
        return made
