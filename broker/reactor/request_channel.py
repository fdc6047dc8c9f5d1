"""The bounded queue between processors and request handlers.

What is queued is a connection whose buffer holds at least one whole request: a connection has one
request in progress at a time, so the length of the queue is the number of waiting requests, and
`queued.max.requests` bounds it. A processor that finds it full stops reading its sockets.

Mirrors `kafka.network.RequestChannel`; its response queues are `HandlersPool.respond`.
"""

from __future__ import annotations

from collections import deque

import trio

from .connection import Connection


class RequestChannel:
    __slots__ = ("_parked", "_space", "capacity", "queue")

    def __init__(self, capacity: int) -> None:
        assert capacity > 0
        self.capacity = capacity
        self.queue: deque[Connection] = deque()
        self._parked: trio.lowlevel.Task | None = None
        self._space = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self.queue)

    @property
    def full(self) -> bool:
        return len(self.queue) >= self.capacity

    def put(self, connection: Connection) -> None:
        """Queue one connection; the caller wakes the handlers once a round with `wake`."""
        self.queue.append(connection)

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

    async def wait_for_space(self) -> None:
        while self.full:
            await self._space.park()

    def taken(self) -> None:
        """The handlers emptied the queue: processors that waited for space go on."""
        if self._space:
            self._space.unpark_all()
