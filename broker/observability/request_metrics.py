"""What requests of one API took: a few numbers for each request, on the hot path.

Quantiles come from the last `RESERVOIR_SIZE` samples of an API: every request while there are few,
one of sixteen afterwards.

Mirrors `RequestMetrics`.
"""

from __future__ import annotations

from typing import Final, Protocol

RESERVOIR_SIZE: Final = 512
_SAMPLE_ALL_BELOW: Final = 1024
_SAMPLE_MASK: Final = 15

# Seconds in the phases of `metrics.PHASES`.
Sample = tuple[float, float, float, float, float, float]


class Timed(Protocol):
    """The times of one request, in seconds of one clock."""

    @property
    def received_at(self) -> float: ...
    @property
    def started_at(self) -> float: ...
    @property
    def local_done_at(self) -> float: ...
    @property
    def responded_at(self) -> float: ...
    @property
    def throttle_ms(self) -> int: ...


class Conversions:
    """What requests of one API took that had records converted: most have none."""

    __slots__ = ("count", "samples", "total_bytes", "total_seconds")

    def __init__(self) -> None:
        self.count = 0
        self.total_seconds = 0.0
        self.total_bytes = 0
        self.samples: list[tuple[float, int]] = []

    def record(self, seconds: float, temporary_bytes: int) -> None:
        """One request, and how large what was built anew for it is."""
        if len(self.samples) < RESERVOIR_SIZE:
            self.samples.append((seconds, temporary_bytes))
        else:
            self.samples[self.count % RESERVOIR_SIZE] = (seconds, temporary_bytes)
        self.count += 1
        self.total_seconds += seconds
        self.total_bytes += temporary_bytes


class RequestMetrics:
    """Counters of one API in one version (Kafka counts requests per version, times per API)."""

    __slots__ = (
        "conversions", "count", "error_counts", "name", "samples", "total_seconds", "version",
    )  # fmt: skip

    def __init__(self, name: str, version: int) -> None:
        self.name = name
        self.version = version
        self.count = 0
        self.total_seconds = 0.0
        self.samples: list[Sample] = []
        self.error_counts: dict[str, int] = {}
        self.conversions = Conversions()

    def record(self, request: Timed, sent_at: float) -> None:
        """One request whose response has left."""
        count = self.count
        self.count = count + 1
        self.total_seconds += sent_at - request.received_at
        if count < _SAMPLE_ALL_BELOW or not count & _SAMPLE_MASK:
            self._sample(request, sent_at, count)

    def _sample(self, request: Timed, sent_at: float, count: int) -> None:
        responded_at = request.responded_at
        sample = (
            request.started_at - request.received_at,
            request.local_done_at - request.started_at,
            max(0.0, responded_at - request.local_done_at),
            request.throttle_ms / 1000,
            0.0,
            sent_at - responded_at,
        )
        if len(self.samples) < RESERVOIR_SIZE:
            self.samples.append(sample)
        else:
            slot = count if count < _SAMPLE_ALL_BELOW else count // (_SAMPLE_MASK + 1)
            self.samples[slot % RESERVOIR_SIZE] = sample

    def error(self, name: str) -> None:
        self.error_counts[name] = self.error_counts.get(name, 0) + 1
