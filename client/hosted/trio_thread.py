"""The thread with a trio loop in which the hosted clients of this process run.

Invariants: it starts with the first hosted client and ends with the last one. After a fork the
child has no such thread; a client that the parent opened does not work there, new ones do.

Left out: limits on its work; each client brings its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import ClassVar, TypeVarTuple

import trio

Ts = TypeVarTuple("Ts")


class TrioThread:
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _shared: ClassVar[TrioThread | None] = None

    def __init__(self) -> None:
        self._users = 0
        self._last_left = trio.Event()
        started: Future[None] = Future()
        # A daemon: a program that forgets to close its clients can end.
        self._thread = threading.Thread(
            target=self._work, args=(started,), name="pybroker-client", daemon=True
        )
        self._thread.start()
        started.result()

    @classmethod
    def join(cls) -> TrioThread:
        """The thread, for one user more; `leave` once."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = TrioThread()
            cls._shared._users += 1
            return cls._shared

    def leave(self) -> None:
        """The thread has one user less; the last one ends it, without waiting for the end."""
        with self._lock:
            self._users -= 1
            if not self._users:
                if TrioThread._shared is self:
                    TrioThread._shared = None
                self.run_soon(self._last_left.set)

    def run_soon(self, function: Callable[[*Ts], object], *arguments: *Ts) -> bool:
        """Call a function in the thread, in the order of these calls; False if the thread has
        ended, and never calls it. Any thread may call."""
        try:
            self._token.run_sync_soon(function, *arguments)
        except trio.RunFinishedError:
            return False
        return True

    def start_soon(self, function: Callable[[*Ts], Awaitable[object]], *arguments: *Ts) -> None:
        """Start a task in the thread, which must not raise. Any thread may call."""
        self.run_soon(self._start, function, arguments)

    def _start(self, function: Callable[[*Ts], Awaitable[object]], arguments: tuple[*Ts]) -> None:
        self._nursery.start_soon(function, *arguments)

    def _work(self, started: Future[None]) -> None:
        trio.run(self._main, started)

    async def _main(self, started: Future[None]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            started.set_result(None)
            await self._last_left.wait()

    @classmethod
    def _forget(cls) -> None:
        """In the child of a fork."""
        cls._lock = threading.Lock()
        cls._shared = None


os.register_at_fork(after_in_child=TrioThread._forget)
