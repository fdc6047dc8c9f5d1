"""Rejected connections that are closed late: an address that connects too often has to wait.

Invariants: there are at most MAX_HELD, each with a file descriptor; for one more, the connection
that is nearest to its end is closed. None is read or written.

Mirrors `throttledSockets` of `kafka.network.Acceptor`.
"""

from __future__ import annotations

import heapq
import socket
from itertools import count
from time import perf_counter

import trio

MAX_HELD = 1000


class HeldSockets:
    __slots__ = ("_heap", "_numbers", "_wake")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, socket.socket]] = []
        self._numbers = count()
        self._wake = trio.Event()

    def __len__(self) -> int:
        return len(self._heap)

    def hold(self, sock: socket.socket, seconds: float) -> None:
        """Close it after so long."""
        if len(self._heap) >= MAX_HELD:
            heapq.heappop(self._heap)[2].close()
        heapq.heappush(self._heap, (perf_counter() + seconds, next(self._numbers), sock))
        self._wake.set()

    async def run(self) -> None:
        """Close each in its time; all of them when cancelled."""
        try:
            while True:
                if not self._heap:
                    self._wake = trio.Event()
                    await self._wake.wait()
                delay = self._heap[0][0] - perf_counter()
                if delay > 0:
                    self._wake = trio.Event()
                    with trio.move_on_after(delay):
                        await self._wake.wait()
                    continue
                heapq.heappop(self._heap)[2].close()
        finally:
            for _, _, sock in self._heap:
                sock.close()
            self._heap.clear()
