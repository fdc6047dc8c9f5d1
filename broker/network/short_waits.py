"""The decision whether the network waits for the next request in the kernel or in trio's loop.

A wait in trio's loop costs two system calls and a turn of its scheduler more than one in the
processors' own set, a third of the cost of a small request if a client sends one at a time. While
the network waits in the kernel no other task of the broker runs, so it does so only while requests
follow each other closely, for at most WAIT_SECONDS at a time, and not while other tasks wait for
events (`others_wait`: fetchers that replicate).

Going to sleep in the kernel and being woken takes longer than a small request: on a virtual
machine, whose other core is woken too, a round trip took 115 us with it and 65 us without. So if
the next request repeatedly comes within LOOK_SECONDS, the network first polls that long without
going to sleep. On a single core that would keep the client from running (`can_look`).

Invariants: waiting in the kernel begins after ENOUGH waits in a row that were shorter than
CLOSE_SECONDS, and ends with the first wait without a request; other tasks run between turns as
usual. Looking begins after ENOUGH waits in the kernel in a row that were shorter than
VERY_CLOSE_SECONDS, and ends with the first look without a request: so it costs at most LOOK_SECONDS
per ENOUGH requests where it does not help. Pure. Mirrors nothing in Kafka, whose network threads
have nothing else to do; looking corresponds to Seastar's `idle-poll-time-us`.
"""

from __future__ import annotations

from collections.abc import Callable

WAIT_SECONDS = 0.001  # the shortest that epoll knows
CLOSE_SECONDS = 0.0003
ENOUGH = 16
LOOK_SECONDS = 0.00005
VERY_CLOSE_SECONDS = 0.0001  # with going to sleep and being woken


class ShortWaits:
    __slots__ = ("_can_look", "_close_ones", "_very_close_ones", "others_wait")

    def __init__(self, can_look: bool) -> None:
        self._can_look = can_look
        self._close_ones = 0  # in a row
        self._very_close_ones = 0  # of waits in the kernel
        self.others_wait: Callable[[], bool] = bool  # False until the owner sets it

    @property
    def seconds(self) -> float:
        """How long to wait in the kernel now; 0.0 for not at all."""
        return WAIT_SECONDS if self._close_ones >= ENOUGH and not self.others_wait() else 0.0

    @property
    def look_seconds(self) -> float:
        """How long to look before that; 0.0 for not at all."""
        return LOOK_SECONDS if self._very_close_ones >= ENOUGH else 0.0

    def looked_in_vain(self) -> None:
        """The network has looked without an event."""
        self._very_close_ones = 0

    def waited_in_kernel(self, seconds: float) -> None:
        """The network has waited in the kernel until an event."""
        is_very_close = self._can_look and seconds < VERY_CLOSE_SECONDS
        self._very_close_ones = self._very_close_ones + 1 if is_very_close else 0

    def in_vain(self) -> None:
        """The network has waited in the kernel without an event."""
        self._close_ones = self._very_close_ones = 0

    def waited(self, seconds: float) -> None:
        """The network has waited in trio's loop until an event."""
        self._close_ones = self._close_ones + 1 if seconds < CLOSE_SECONDS else 0
