"""The bounded queue between processors and request handlers.

The queue holds connections whose buffers contain at least one whole request: a connection has one
request in progress at a time, so the length of the queue is the number of waiting requests, and
`queued.max.requests` bounds it. A processor that finds the queue full reads no more in this round.
Connections whose requests have just come are in `queue`; connections that had a turn and have more
requests are in `continuing`, behind all others: a client with few requests never waits for clients
with many.

Mirrors `kafka.network.RequestChannel`, whose response queues are `SendQueue`s of connections here.
"""

from __future__ import annotations

from collections import deque

from .connection import Connection
from .parked_task import ParkedTask


class RequestChannel:
    __slots__ = ("capacity", "continuing", "queue", "wait_for_work", "wake")

    def __init__(self, capacity: int) -> None:
        assert capacity > 0
        self.capacity = capacity
        self.queue: deque[Connection] = deque()
        self.continuing: deque[Connection] = deque()
        handlers = ParkedTask()
        self.wake = handlers.wake
        self.wait_for_work = handlers.wait

    def __len__(self) -> int:
        return len(self.queue) + len(self.continuing)

    @property
    def full(self) -> bool:
        return len(self.queue) + len(self.continuing) >= self.capacity

    def put(self, connection: Connection) -> None:
        """Queue one connection; the caller sees to it that the handlers run."""
        self.queue.append(connection)

    def put_again(self, connection: Connection) -> None:
        """Queue one that has just had a turn."""
        self.continuing.append(connection)
