"""Waits of logins: delayed refusals, steps in threads, and the time limit of a login.

Invariants:
- Every wait belongs to an open connection, and connections have a limit; steps in threads have
  their own limit, and further steps queue.
- A failed step closes its connection.
- A connection without a login after LOGIN_SECONDS is closed. Kafka leaves it until it is idle.

Mirrors `delayedClosingChannels` of `Selector`.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from itertools import count
from time import perf_counter

import trio

from ..network.connection import Connection

LOGIN_SECONDS = 60.0
MAX_STEPS_IN_THREADS = 4
_LOOK_SECONDS = 1.0


class LoginTasks:
    __slots__ = ("_delayed", "_numbers", "_nursery", "_strangers", "_threads", "_wake")

    def __init__(self) -> None:
        # A heap, by the time at which they are due, then by when they came.
        self._delayed: list[tuple[float, int, Connection, Callable[[], None]]] = []
        self._numbers = count()
        self._strangers: dict[Connection, float] = {}  # until when
        self._threads = trio.CapacityLimiter(MAX_STEPS_IN_THREADS)
        self._wake = trio.Event()
        self._nursery: trio.Nursery | None = None

    def expect(self, connection: Connection) -> None:
        self._strangers[connection] = perf_counter() + LOGIN_SECONDS

    def forget(self, connection: Connection) -> None:
        """The connection has logged in, or is closed."""
        self._strangers.pop(connection, None)

    def later(self, connection: Connection, seconds: float, call: Callable[[], None]) -> None:
        due = perf_counter() + seconds
        heapq.heappush(self._delayed, (due, next(self._numbers), connection, call))
        self._wake.set()

    def in_thread(
        self, connection: Connection, step: Callable[[], None], then: Callable[[], None]
    ) -> None:
        """`step` in a thread, `then` on the loop."""
        assert self._nursery is not None, "run is not running"
        self._nursery.start_soon(self._in_thread, connection, step, then)

    async def _in_thread(
        self, connection: Connection, step: Callable[[], None], then: Callable[[], None]
    ) -> None:
        try:
            await trio.to_thread.run_sync(step, limiter=self._threads)
            then()
        except Exception as error:
            connection.fail(error)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Run the waits and steps until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            nursery.start_soon(_for_ever, self._close_strangers)
            nursery.start_soon(_for_ever, self._call_delayed)
            task_status.started()

    async def _close_strangers(self) -> None:
        await trio.sleep(_LOOK_SECONDS)
        now = perf_counter()
        for connection, until in list(self._strangers.items()):
            if until < now:
                self.forget(connection)
                connection.close(f"it did not log in within {LOGIN_SECONDS:.0f} s")

    async def _call_delayed(self) -> None:
        delayed = self._delayed
        self._wake = trio.Event()
        wait = delayed[0][0] - perf_counter() if delayed else float("inf")
        if wait > 0:
            with trio.move_on_after(wait):
                await self._wake.wait()
        else:
            _, _, connection, call = heapq.heappop(delayed)
            try:
                call()
            except Exception as error:
                connection.fail(error)
            await trio.lowlevel.checkpoint()


async def _for_ever(step: Callable[[], Awaitable[None]]) -> None:
    while True:
        await step()
