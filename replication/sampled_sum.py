"""A sum of recent values over the last windows, each of them one sample.

Job: `record` puts a value into the newest sample, or into a new one once that is a window old;
rates are computed from `total` and `oldest_ms` (quotas of clients and of replication). A sample
counts until `samples` windows have passed since its last event; it is removed as a whole.

Invariants: there are never more than `samples` + 1 samples; while no sample is added or removed,
`record` and `total` look at none of them.

Mirrors SampledStat and WindowedSum of Kafka's metrics, to the order in which its ring is written.
"""

from __future__ import annotations

from typing import Final

DEFAULT_SAMPLES: Final = 11
DEFAULT_WINDOW_MS: Final = 1_000
_NEVER: Final = float("inf")

# [time of its begin, time of its last event, sum]
Sample = list[float]


class SampledSum:
    __slots__ = ("_at", "_expires_ms", "_oldest_ms", "_ring", "_total", "samples", "window_ms")

    def __init__(self, samples: int = DEFAULT_SAMPLES, window_ms: int = DEFAULT_WINDOW_MS) -> None:
        self.samples = samples
        self.window_ms = window_ms
        self._ring: list[Sample] = []
        self._at = 0  # the newest
        # The sum of all samples, while none is added or removed.
        self._total = 0.0
        self._oldest_ms = 0.0
        self._expires_ms = _NEVER  # no sample is too old before

    def record(self, value: float, now_ms: float) -> None:
        ring = self._ring
        if not ring:
            ring.append([now_ms, now_ms, 0])
            self._count()
        newest = ring[self._at]
        if now_ms - newest[0] >= self.window_ms:
            newest = self._advance(now_ms)
        newest[1] = now_ms
        newest[2] += value
        self._total += value

    def total(self, now_ms: float) -> float:
        if now_ms >= self._expires_ms:
            self._forget(now_ms)
        return self._total

    def oldest_ms(self, now_ms: float) -> float:
        """When the oldest sample began; now, if there is none. After `total` of the same time."""
        return self._oldest_ms if self._ring else now_ms

    def _advance(self, now_ms: float) -> Sample:
        self._at = (self._at + 1) % (self.samples + 1)
        fresh: Sample = [now_ms, now_ms, 0]
        if self._at < len(self._ring):
            self._ring[self._at] = fresh
        else:
            self._at = len(self._ring)
            self._ring.append(fresh)
        self._count()
        return fresh

    def _forget(self, now_ms: float) -> None:
        """Reset samples that are too old."""
        longest_ms = self.samples * self.window_ms
        for sample in self._ring:
            if now_ms - sample[1] >= longest_ms:
                sample[:] = (now_ms, now_ms, 0)
        self._count()

    def _count(self) -> None:
        ring = self._ring
        self._total = sum([sample[2] for sample in ring])
        self._oldest_ms = min([sample[0] for sample in ring])
        self._expires_ms = min([sample[1] for sample in ring]) + self.samples * self.window_ms
