"""The four quotas of clients, and the cost of a request under each.

Job: `apply` takes the stored quotas of an entity; `charge` counts a request that is about to be
answered and returns how long its connection is to be throttled. A produce is charged by its size, a
fetch by the size of its answer, every request by its time on the one loop that all requests share,
topics by their partitions. If several quotas are exceeded, the longest wait counts.

Invariants: a throttled fetch gets no records, and those that it would have got are not counted. A
wait for time is a window at most. `is_active` is False while no client has a limit: then none of
this is called.

Mirrors QuotaFactory, ClientRequestQuotaManager and ControllerMutationQuotaManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from ...protocol.errors import ErrorCode, KafkaError
from .entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Entity,
)
from .limits import Limits, Metered
from .rates import LimitedRate, TokenBucket
from .windows import DEFAULT_WINDOWS, Windows

logger = logging.getLogger("pybroker.broker.quotas")

PERCENT_OF_SECONDS: Final = 100


class MutationQuota:
    """The changes of the cluster's topics that one request may make (KIP-599)."""

    __slots__ = ("_is_strict", "_now_ms", "_wait_ms", "_waits_from_ms", "metered")

    def __init__(
        self, metered: Metered[TokenBucket], now_ms: Callable[[], float], *, is_strict: bool
    ) -> None:
        self.metered = metered
        self._now_ms = now_ms
        self._is_strict = is_strict
        self._wait_ms = 0
        self._waits_from_ms = 0.0

    def take(self, partitions: int) -> None:
        """Before so many partitions are made or removed; KafkaError if the client, which is strict
        and knows that error, is in debt."""
        now_ms, bucket = self._now_ms(), self.metered.meter
        if not self._is_strict:
            bucket.take(partitions, now_ms)
        wait_ms = bucket.throttle_ms(now_ms)
        if wait_ms:
            self._wait_ms, self._waits_from_ms = wait_ms, now_ms
            if self._is_strict:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        elif self._is_strict:
            bucket.take(partitions, now_ms)

    def throttle_ms(self, now_ms: float) -> int:
        """The rest of the wait."""
        return max(0, int(self._wait_ms - (now_ms - self._waits_from_ms)))


class ClientQuotas:
    __slots__ = (
        "_on_change", "exempt", "fetch", "fetch_span_seconds", "mutation", "produce", "request",
    )  # fmt: skip

    def __init__(
        self, windows: Windows = DEFAULT_WINDOWS, mutation_windows: Windows = DEFAULT_WINDOWS
    ) -> None:
        samples, window_ms = windows

        def bytes_rate(limit: float, _now_ms: float) -> LimitedRate:
            return LimitedRate(limit, samples=samples, window_ms=window_ms)

        def time_rate(limit: float, _now_ms: float) -> LimitedRate:
            return LimitedRate(
                limit, samples=samples, window_ms=window_ms, max_throttle_ms=window_ms
            )

        def bucket(limit: float, now_ms: float) -> TokenBucket:
            return TokenBucket(
                limit,
                now_ms,
                samples=mutation_windows.samples,
                window_ms=mutation_windows.window_ms,
            )

        self.produce = Limits(bytes_rate)
        self.fetch = Limits(bytes_rate)
        self.request = Limits(time_rate)
        self.mutation = Limits(bucket)
        # Requests between brokers cost time as well, and are never throttled for it.
        self.exempt = time_rate(float("inf"), 0)
        # A fetch gets no more than its quota allows in this time.
        self.fetch_span_seconds = (samples - 1) * window_ms / 1000
        self._on_change: list[Callable[[bool], None]] = []

    @property
    def is_active(self) -> bool:
        return bool(self.produce or self.fetch or self.request or self.mutation)

    def on_change(self, hear: Callable[[bool], None]) -> None:
        """Call `hear(is_active)` after every change, and now."""
        self._on_change.append(hear)
        hear(self.is_active)

    def apply(self, entity: Entity, values: Mapping[str, str]) -> None:
        """Replace the configs of `entity`."""
        for key, limits in (
            (PRODUCER_BYTE_RATE, self.produce),
            (CONSUMER_BYTE_RATE, self.fetch),
            (REQUEST_PERCENTAGE, self.request),
            (CONTROLLER_MUTATION_RATE, self.mutation),
        ):
            text = values.get(key)
            try:
                limits.set(entity, None if text is None else float(text))
            except ValueError:
                logger.error("The quota %s of %s is no number; it is left as it was", key, entity)
        for hear in self._on_change:
            hear(self.is_active)

    def limits_bytes(self, user: str, client: str) -> bool:
        """Whether a produce of this client may have to wait."""
        return (
            self.produce.limit_of(user, client) is not None
            or self.request.limit_of(user, client) is not None
        )

    def most_to_fetch(self, user: str, client: str) -> float:
        """The bytes of one answer."""
        limit = self.fetch.limit_of(user, client)
        return float("inf") if limit is None else limit * self.fetch_span_seconds


def longest(
    waits: list[tuple[int, Metered[LimitedRate] | Metered[TokenBucket]]], now_ms: float
) -> int:
    """The longest of several waits; only its meter records a throttle."""
    wait_ms, metered = max(waits, key=lambda wait: wait[0])
    if wait_ms > 0:
        metered.throttled(wait_ms, now_ms)
    return wait_ms
