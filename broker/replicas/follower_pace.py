"""How long to collect records before waiting followers are told of them.

A follower that waits for records is told of all that came in one round of the loop, not of the
first record alone. While the broker has idle time it is told at once. A busy broker spends most of
its time on exchanges with followers, each for one record or two; it collects for a few milliseconds
between one answer and the next, so that an exchange carries more and there is time for the rest.

Clients that wait for an answer before they send more bring nothing during a pause: it only holds
them up. So a pause in which nothing came is followed by answers without one, twice as many after
each pause in vain, and a pause in which something came ends that.

Invariants: nothing waits longer than MAX_PAUSE_SECONDS, or once URGENT_BYTES have come; who is
alone with a broker waits at one of MAX_SKIPS answers.

Mirrors nothing in Kafka, which answers a waiting fetch at the first append.
"""

from __future__ import annotations

MAX_PAUSE_SECONDS = 0.004
URGENT_BYTES = 64 * 1024
# Shares of a processor: from the first on there is a pause, from the second on the whole.
BUSY_SHARE = 0.30
FULL_SHARE = 0.55
WINDOW_SECONDS = 0.05
MAX_SKIPS = 256


class FollowerPace:
    __slots__ = (
        "_answered_at", "_cpu_seconds", "_looked_at", "_skips", "_skips_left", "pause_seconds",
    )  # fmt: skip

    def __init__(self) -> None:
        self.pause_seconds = 0.0
        self._answered_at = 0.0
        self._looked_at = 0.0
        self._cpu_seconds = 0.0
        self._skips = 0
        self._skips_left = 0

    @property
    def is_on(self) -> bool:
        """Whether there is a pause before the next answer, if that comes soon."""
        return self.pause_seconds > 0 and not self._skips_left

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
        if self._skips_left:
            self._skips_left -= 1
            return 0.0
        wait = self._answered_at + self.pause_seconds - now
        return wait if wait > 0 else 0.0

    def paused(self, append_count: int) -> None:
        """A pause is over in which so much has come."""
        self._skips = 0 if append_count else min(MAX_SKIPS, self._skips * 2 or 1)
        self._skips_left = self._skips

    def answered(self, now: float) -> None:
        self._answered_at = now
