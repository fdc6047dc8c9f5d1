"""Two measures of "too much": a rate over the last windows, and a bucket of tokens.

`LimitedRate` is the average since the oldest of its samples, over all but one window at least: the
first windows may take more at the cost of later ones, and a client over the limit waits until the
average is the limit again. `TokenBucket` is full at first and may go into debt once.

A limit of zero, which no wait could ever satisfy, throttles for as long as the windows reach; in
Kafka the division by zero overflows there and throttles no client.

Mirrors Rate, TokenBucket (KIP-599) and QuotaUtils of Kafka.
"""

from __future__ import annotations

import math
from typing import Final

from ...replication.sampled_sum import DEFAULT_SAMPLES, DEFAULT_WINDOW_MS, SampledSum

MAX_THROTTLE_MS: Final = 2**31 - 1  # of an int32 on the wire


class LimitedRate:
    """The recorded value a second, and a limit on it."""

    __slots__ = ("_sum", "limit", "max_throttle_ms")

    def __init__(
        self,
        limit: float,
        *,
        samples: int = DEFAULT_SAMPLES,
        window_ms: int = DEFAULT_WINDOW_MS,
        max_throttle_ms: int = MAX_THROTTLE_MS,
    ) -> None:
        self._sum = SampledSum(samples, window_ms)
        self.limit = limit
        self.max_throttle_ms = max_throttle_ms

    def record(self, value: float, now_ms: float) -> None:
        self._sum.record(value, now_ms)

    def measure(self, now_ms: float) -> float:
        """The rate a second."""
        total = self._sum.total(now_ms)
        return total * 1000 / self._elapsed_ms(now_ms)

    def throttle_ms(self, now_ms: float) -> int:
        """The wait until the average is the limit; 0 if it is not over it."""
        limit = self.limit
        total = self._sum.total(now_ms)
        elapsed_ms = self._elapsed_ms(now_ms)
        rate = total * 1000 / elapsed_ms
        if not rate > limit:
            return 0
        if limit <= 0:
            wait_ms = self._sum.samples * self._sum.window_ms
        else:
            wait_ms = math.floor(min((rate - limit) / limit * elapsed_ms, MAX_THROTTLE_MS) + 0.5)
        return min(wait_ms, self.max_throttle_ms)

    def charge(self, value: float, now_ms: float) -> int:
        """Record it, and how long to wait for that."""
        self._sum.record(value, now_ms)
        return self.throttle_ms(now_ms)

    def is_forgettable(self, now_ms: float) -> bool:
        """Whether a new one would give the same answers."""
        return self._sum.total(now_ms) == 0

    def refresh(self, now_ms: float) -> None:
        """Nothing to do: usage without a limit is not recorded."""

    def _elapsed_ms(self, now_ms: float) -> float:
        summed = self._sum
        elapsed_ms = now_ms - summed.oldest_ms(now_ms)
        full = int(elapsed_ms // summed.window_ms)
        if full < summed.samples - 1:
            elapsed_ms += (summed.samples - 1 - full) * summed.window_ms
        return max(elapsed_ms, 1)


class TokenBucket:
    """Tokens that come back at the rate of `limit` a second, up to all windows' worth of them."""

    __slots__ = ("_span_seconds", "_tokens", "_updated_ms", "limit")

    def __init__(
        self,
        limit: float,
        now_ms: float,
        *,
        samples: int = DEFAULT_SAMPLES,
        window_ms: int = DEFAULT_WINDOW_MS,
    ) -> None:
        self.limit = limit
        self._span_seconds = samples * window_ms / 1000
        self._tokens = self._burst
        self._updated_ms = now_ms

    @property
    def _burst(self) -> float:
        return self._span_seconds * max(self.limit, 0)

    def tokens(self, now_ms: float) -> float:
        """The tokens in the bucket; a debt is negative."""
        gained = max(self.limit, 0) * max(now_ms - self._updated_ms, 0) / 1000
        self._tokens = min(self._burst, self._tokens + gained)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, now_ms: float) -> None:
        self._tokens = min(self._burst, self.tokens(now_ms) - count)

    def throttle_ms(self, now_ms: float) -> int:
        """The wait until the debt is paid."""
        tokens = self.tokens(now_ms)
        if tokens >= 0:
            return 0
        if self.limit <= 0:
            return round(1000 * self._span_seconds)
        return math.floor(min(-tokens / self.limit * 1000, MAX_THROTTLE_MS - 1) + 0.5)

    def is_forgettable(self, now_ms: float) -> bool:
        return self.tokens(now_ms) >= self._burst

    def refresh(self, now_ms: float) -> None:
        """Without a limit the bucket is full at once, and stays so."""
        self.tokens(now_ms)
