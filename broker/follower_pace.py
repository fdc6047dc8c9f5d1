"""How long to collect records before waiting followers are told of them.

A follower that waits for records is told of all that came in one round of the loop, not of the
first record alone. While the broker has idle time it is told at once. A busy broker spends most of
its time on exchanges with followers, each for one record or two; it collects for a few milliseconds
between one answer and the next, so that an exchange carries more and there is time for the rest.

Invariants: nothing waits longer than MAX_PAUSE_SECONDS, or once URGENT_BYTES have come; who is
alone with a broker (one request at a time, however fast) does not make it busy and never waits.

Mirrors nothing in Kafka, which answers a waiting fetch at the first append.
"""

from __future__ import annotations

MAX_PAUSE_SECONDS = 0.004
URGENT_BYTES = 64 * 1024
# Shares of a processor: from the first on there is a pause, from the second on the whole.
BUSY_SHARE = 0.30
FULL_SHARE = 0.55
WINDOW_SECONDS = 0.05


class FollowerPace:
    __slots__ = ("_answered_at", "_cpu_seconds", "_looked_at", "pause_seconds")

    def __init__(self) -> None:
        self.pause_seconds = 0.0
        self._answered_at = 0.0
        self._looked_at = 0.0
        self._cpu_seconds = 0.0

    def wait_seconds(self, now: float, cpu_seconds: float) -> float:
        """How long to go on collecting; `now` counts up, `cpu_seconds` is what the loop has used.

        Call it whenever there is something to tell; with 0 the followers are told now.
        """
        elapsed = now - self._looked_at
        if elapsed >= WINDOW_SECONDS:
            share = (cpu_seconds - self._cpu_seconds) / elapsed
            part = (share - BUSY_SHARE) / (FULL_SHARE - BUSY_SHARE)
            self.pause_seconds = MAX_PAUSE_SECONDS * min(1.0, max(0.0, part))
            self._looked_at = now
            self._cpu_seconds = cpu_seconds
        wait = self._answered_at + self.pause_seconds - now
        return wait if wait > 0 else 0.0

    def answered(self, now: float) -> None:
        self._answered_at = now
