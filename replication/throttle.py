"""Replication throttles: how fast throttled replicas may be read from, and written to, here.

Which replicas are throttled say the topic configs `leader.` and
`follower.replication.throttled.replicas` ("*" or a list of partition:broker); the rates are dynamic
broker configs. One quota for each side, over all throttled partitions together.

The rate is what passed in the last `samples` windows by the time since the oldest of them began,
one window at least. Unlimited (the default) costs one comparison.

Mirrors ReplicationQuotaManager with its SimpleRate (KIP-73).
"""

from collections import deque
from collections.abc import Sequence

UNLIMITED = 2**63 - 1
DEFAULT_SAMPLES = 11
DEFAULT_WINDOW_MS = 1_000
ALL_REPLICAS = "*"


class ReplicationQuota:
    __slots__ = ("_broker_id", "_latest_ms", "_windows", "limit", "samples", "window_ms")

    def __init__(
        self,
        broker_id: int,
        *,
        samples: int = DEFAULT_SAMPLES,
        window_ms: int = DEFAULT_WINDOW_MS,
    ) -> None:
        self._broker_id = broker_id
        self.limit = UNLIMITED  # bytes a second
        self.samples = samples
        self.window_ms = window_ms
        # [start, bytes] of each window, oldest first.
        self._windows: deque[list[int]] = deque()
        self._latest_ms = 0

    def throttles(self, partition: int, replicas: Sequence[str]) -> bool:
        """Whether there is a limit, and the topic's list names this broker's replica."""
        if self.limit == UNLIMITED or not replicas:
            return False
        return ALL_REPLICAS in replicas or f"{partition}:{self._broker_id}" in replicas

    def record(self, size: int, now_ms: int) -> None:
        self._advance(now_ms)
        windows = self._windows
        if not windows or self._latest_ms - windows[-1][0] >= self.window_ms:
            windows.append([self._latest_ms, 0])
        windows[-1][1] += size

    def is_exceeded(self, now_ms: int) -> bool:
        self._advance(now_ms)
        return self.rate() > self.limit

    def rate(self) -> float:
        """Bytes a second."""
        windows = self._windows
        if not windows:
            return 0.0
        elapsed_ms = max(self._latest_ms - windows[0][0], self.window_ms)
        return sum(size for _, size in windows) * 1000 / elapsed_ms

    def _advance(self, now_ms: int) -> None:
        """Forget what is too old. A clock that went back starts anew."""
        if now_ms < self._latest_ms - self.window_ms and now_ms > 0:
            self._windows.clear()
            self._latest_ms = now_ms
        self._latest_ms = max(self._latest_ms, now_ms)
        oldest_ms = self._latest_ms - self.samples * self.window_ms
        while self._windows and self._windows[0][0] <= oldest_ms:
            self._windows.popleft()
