"""The bounded queue between processors and request handlers.

What is queued is a connection whose buffer holds at least one whole request: a connection has one
request in progress at a time, so the length of the queue is the number of waiting requests, and
`queued.max.requests` bounds it. A processor that finds it full reads no more in this round.
Connections whose requests have just come are in `queue`; those that had a turn and still have more
are in `continuing`, behind everybody who has not: however many ask however much, who asks little
does not wait for them.

Mirrors `kafka.network.RequestChannel`; its response queues are `HandlersPool.respond`.
"""

from __future__ import annotations

from collections import deque

import trio

from .connection import Connection


class RequestChannel:
    __slots__ = ("_parked", "capacity", "continuing", "queue")

    def __init__(self, capacity: int) -> None:
        assert capacity > 0
        self.capacity = capacity
        self.queue: deque[Connection] = deque()
        self.continuing: deque[Connection] = deque()
        self._parked: trio.lowlevel.Task | None = None

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

    def wake(self) -> None:
        task = self._parked
        if task is not None:
            self._parked = None
            trio.lowlevel.reschedule(task)

    async def wait_for_work(self) -> None:
        """Park the handler task until `wake`."""
        assert self._parked is None
        self._parked = trio.lowlevel.current_task()

        def abort(_raise_cancel: object) -> trio.lowlevel.Abort:
            self._parked = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(abort)
