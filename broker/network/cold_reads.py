"""Threads that read the next data to send from the disk if it is not in the page cache.

Job: a connection whose answer is on the disk (`SendQueue.cold`) waits here, while others are
served.
Invariants: READERS ranges are read at once; a connection waits once, so the queue is no longer than
the number of connections. Data that was read is sent without another check: a page cache too small
for it costs time, but no read is repeated for ever.

Goes beyond Kafka, where a network thread and all its connections wait for the disk in
`FileChannel.transferTo`. Leaves out: the look-up of an offset, which reads a few KB on the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from .page_cache import read_to_cache

if TYPE_CHECKING:
    from .connection import Connection

READERS = 4


class ColdReads:
    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel["Connection"](math.inf)
        self._waiting: set[Connection] = set()  # those in the channel, and those that are read for
        self.count = 0  # ranges that were read

    def add(self, connection: Connection) -> None:
        """Read the cold range of the connection; repeated calls before it continues have no
        effect."""
        if connection not in self._waiting:
            self._waiting.add(connection)
            self._send.send_nowait(connection)

    async def run(self, go_on: Callable[[Connection], None]) -> None:
        """Read for one connection after the other, for ever; `go_on` continues a connection's
        sending."""
        async with trio.open_nursery() as nursery:
            for _ in range(READERS):
                nursery.start_soon(self._read, go_on)

    async def _read(self, go_on: Callable[[Connection], None]) -> None:
        async for connection in self._receive:
            cold = connection.out.cold
            if cold is not None and not connection.closed:
                self.count += 1
                try:
                    await trio.to_thread.run_sync(
                        read_to_cache, cold.fileno(), cold.position, len(cold)
                    )
                except OSError as error:  # the send then fails for the client
                    cold.read_failed(error)
            self._waiting.discard(connection)
            connection.out.was_read()
            if not connection.closed:
                go_on(connection)
