"""Replication throttles: the rates for reads from and writes to throttled replicas on this broker.

The throttled replicas are set by the topic configs `leader.` and
`follower.replication.throttled.replicas` ("*" or a list of partition:broker); the rates are dynamic
broker configs. One quota for each side, over all throttled partitions together.

The rate is the bytes of the last `samples` windows divided by the time since the oldest of them
began, one window at least. Unlimited (the default) costs one comparison.

Beyond Kafka: a fetch or a move takes no more than `piece` bytes at once, so that a throttle applies
from the first byte. Kafka's follower takes up to `replica.fetch.max.bytes` before anything is
counted.

Mirrors ReplicationQuotaManager with its SimpleRate (KIP-73).
"""

from collections.abc import Sequence

from .sampled_sum import DEFAULT_SAMPLES, DEFAULT_WINDOW_MS, SampledSum

UNLIMITED = 2**63 - 1
# However little is left: an exchange for each few bytes would cost more than they do.
MIN_PIECE_BYTES = 16_384
ALL_REPLICAS = "*"


class ReplicationQuota:
    __slots__ = ("_broker_id", "_latest_ms", "_sum", "limit")

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id
        self.limit = UNLIMITED  # bytes a second
        self._sum = SampledSum(DEFAULT_SAMPLES, DEFAULT_WINDOW_MS)
        self._latest_ms = 0

    def measure_over(self, samples: int, window_ms: int) -> None:
        """Measure over so many windows from now on."""
        if (self._sum.samples, self._sum.window_ms) != (samples, window_ms):
            self._sum = SampledSum(samples, window_ms)

    def throttles(self, partition: int, replicas: Sequence[str]) -> bool:
        """Whether there is a limit, and the topic's list names this broker's replica."""
        if self.limit == UNLIMITED or not replicas:
            return False
        return ALL_REPLICAS in replicas or f"{partition}:{self._broker_id}" in replicas

    def record(self, size: int, now_ms: int) -> None:
        self._advance(now_ms)
        self._sum.record(size, self._latest_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        self._advance(now_ms)
        return self.rate() > self.limit

    def left(self, now_ms: int) -> int:
        """The bytes that may still be recorded before the quota is exceeded."""
        self._advance(now_ms)
        if self.limit == UNLIMITED:
            return UNLIMITED
        total = self._sum.total(self._latest_ms)
        return max(0, int(self.limit * self._measured_ms() / 1000 - total))

    def piece(self, now_ms: int, shares: int = 1) -> int:
        """The bytes that one of `shares` concurrent reads may take next."""
        return max(MIN_PIECE_BYTES, self.left(now_ms) // shares)

    def rate(self) -> float:
        """Bytes a second."""
        total = self._sum.total(self._latest_ms)
        return total * 1000 / self._measured_ms()

    def _measured_ms(self) -> float:
        """Since the oldest sample, one window at least; after the total of the same time."""
        elapsed_ms = self._latest_ms - self._sum.oldest_ms(self._latest_ms)
        return max(elapsed_ms, self._sum.window_ms)

    def _advance(self, now_ms: int) -> None:
        self._latest_ms = max(self._latest_ms, now_ms)
