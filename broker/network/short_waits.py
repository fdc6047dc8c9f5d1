"""Whether the network waits for the next request in the kernel, and not in trio's loop.

A wait in trio's loop costs two system calls and a turn of its scheduler more than one in the
processors' own set, a third of all that a small request costs where a client asks and waits in
turns. While the network waits in the kernel no other task of the broker runs, so it does so only
where requests follow each other closely, for at most WAIT_SECONDS at a time, and not where others
have something to wait for (`others_wait`: fetchers that replicate).

Invariants: it begins after ENOUGH waits in a row that were shorter than CLOSE_SECONDS, and ends
with the first one in the kernel that was in vain; others run between turns as they do without it.
Pure. Mirrors nothing in Kafka, whose network threads have nothing else to do.
"""

from __future__ import annotations

from collections.abc import Callable

WAIT_SECONDS = 0.001  # the shortest that epoll knows
CLOSE_SECONDS = 0.0003
ENOUGH = 16


class ShortWaits:
    __slots__ = ("_close_ones", "others_wait")

    def __init__(self) -> None:
        self._close_ones = 0  # in a row
        self.others_wait: Callable[[], bool] = bool  # nobody, until somebody says otherwise

    @property
    def seconds(self) -> float:
        """How long to wait in the kernel now; 0.0 for not at all."""
        return WAIT_SECONDS if self._close_ones >= ENOUGH and not self.others_wait() else 0.0

    def in_vain(self) -> None:
        """Nothing came while the network waited in the kernel."""
        self._close_ones = 0

    def waited(self, seconds: float) -> None:
        """In trio's loop, until something came."""
        self._close_ones = self._close_ones + 1 if seconds < CLOSE_SECONDS else 0
