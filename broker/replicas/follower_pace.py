"""The time to collect records before the fetches of waiting followers are answered.

A waiting follower gets all records of one round of the loop, not only the first one. While the
broker has idle time, the answer leaves at once. A busy broker would spend most of its time on
exchanges with followers, each for one or two records; it collects for a few milliseconds between
two answers, so that an exchange carries more and time is left for other work.

Clients that wait for an answer before they send more append nothing during a pause, which only
delays them. So after a pause without appends some answers skip the pause, twice as many after each
such pause; a pause with appends resets this.

Invariants: no record waits longer than MAX_PAUSE_SECONDS, or once URGENT_BYTES have come; a client
alone with a broker waits at one of MAX_SKIPS answers.

Mirrors nothing in Kafka, which answers a waiting fetch at the first append.
"""

from __future__ import annotations

MAX_PAUSE_SECONDS = 0.004
URGENT_BYTES = 64 * 1024
# Shares of a processor: above the first there is a pause, from the second on the full pause.
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
        """The time to continue collecting; `now` is monotonic, `cpu_seconds` is the loop's CPU
        time.

        Call it whenever there are records to answer with; with 0 the followers are answered now.
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
        """A pause is over; `append_count` is the number of its appends."""
        self._skips = 0 if append_count else min(MAX_SKIPS, self._skips * 2 or 1)
        self._skips_left = self._skips

    def answered(self, now: float) -> None:
        self._answered_at = now
