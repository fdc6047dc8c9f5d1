"""The times and sizes of the requests of one API: a few numbers for each, on the hot path.

Quantiles come from the last `RESERVOIR_SIZE` samples of an API: every request while they are few,
one of sixteen afterwards.

A fetch counts also as a fetch of a consumer or of a follower, and a request that only verifies a
transaction counts under a name of its own.

Mirrors `RequestMetrics`, and `RequestChannel.Request.updateRequestMetrics`, where names are chosen.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

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
    @property
    def body(self) -> Any: ...


class Conversions:
    """The requests of one API whose records were converted: most APIs have none."""

    __slots__ = ("count", "samples", "total_bytes", "total_seconds")

    def __init__(self) -> None:
        self.count = 0
        self.total_seconds = 0.0
        self.total_bytes = 0
        self.samples: list[tuple[float, int]] = []

    def record(self, seconds: float, temporary_bytes: int) -> None:
        """Count one request, and the size of its converted records."""
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

    @property
    def parts(self) -> tuple[RequestMetrics, ...]:
        """The metrics that it counts under other names."""
        return ()

    def record(self, request: Timed, sent_at: float) -> None:
        """Count one request whose response has been sent."""
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


class FetchMetrics(RequestMetrics):
    """All fetches; each of both kinds also counts as `FetchConsumer` or `FetchFollower`."""

    __slots__ = ("consumer", "follower")

    def __init__(self, name: str, version: int) -> None:
        super().__init__(name, version)
        self.consumer = RequestMetrics(f"{name}Consumer", version)
        self.follower = RequestMetrics(f"{name}Follower", version)

    @property
    def parts(self) -> tuple[RequestMetrics, ...]:
        return (self.consumer, self.follower)

    def record(self, request: Timed, sent_at: float) -> None:
        super().record(request, sent_at)
        body = request.body
        replica_id = body.replica_id if self.version < 15 else body.replica_state.replica_id
        if replica_id >= 0:
            self.follower.record(request, sent_at)
        else:
            self.consumer.record(request, sent_at)


class AddPartitionsToTxnMetrics(RequestMetrics):
    """Requests that add; a request that only verifies is an `AddPartitionsToTxnVerification`."""

    __slots__ = ("verification",)

    def __init__(self, name: str, version: int) -> None:
        super().__init__(name, version)
        self.verification = RequestMetrics(f"{name}Verification", version)

    @property
    def parts(self) -> tuple[RequestMetrics, ...]:
        return (self.verification,)

    def record(self, request: Timed, sent_at: float) -> None:
        if self.version >= 4 and all(one.verify_only for one in request.body.transactions):
            self.verification.record(request, sent_at)
        else:
            super().record(request, sent_at)


def request_metrics(name: str, version: int) -> RequestMetrics:
    """The metrics of one API in one version, by its name; further ones inside are its `parts`."""
    if name == "Fetch":
        return FetchMetrics(name, version)
    if name == "AddPartitionsToTxn":
        return AddPartitionsToTxnMetrics(name, version)
    return RequestMetrics(name, version)
