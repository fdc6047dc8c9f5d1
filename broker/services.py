"""The long-running tasks of a broker, each under its own name, stopped one after the other.

trio cancels a nursery all at once; a broker has to stop in order (sockets before logs), so every
service has its own cancel scope. A service that fails takes the nursery, and so the broker, down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio


class Services:
    __slots__ = ("_nursery", "_running")

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._running: dict[str, tuple[trio.CancelScope, trio.Event]] = {}

    async def start(self, name: str, run: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        """Start `run(*args, task_status=...)` and wait until it has reported that it runs."""
        return await self._nursery.start(self._run, name, run, args)

    def spawn(self, name: str, run: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Start `run(*args)` without waiting for anything."""
        self._nursery.start_soon(self._run_plain, name, run, args)

    async def stop(self, *names: str) -> None:
        """Cancel services in this order, each to its end; those never started are skipped."""
        for name in names:
            running = self._running.get(name)
            if running is not None:
                scope, ended = running
                scope.cancel()
                await ended.wait()

    async def _run(
        self, name: str, run: Callable[..., Awaitable[Any]], args: tuple[Any, ...], *,
        task_status: trio.TaskStatus[Any],
    ) -> None:  # fmt: skip
        with self._enter(name) as ended:
            try:
                await run(*args, task_status=task_status)
            finally:
                ended.set()

    async def _run_plain(
        self, name: str, run: Callable[..., Awaitable[Any]], args: tuple[Any, ...]
    ) -> None:
        with self._enter(name) as ended:
            try:
                await run(*args)
            finally:
                ended.set()

    def _enter(self, name: str) -> _Entered:
        assert name not in self._running, f"service {name} runs already"
        scope, ended = trio.CancelScope(), trio.Event()
        self._running[name] = (scope, ended)
        return _Entered(scope, ended)


class _Entered:
    __slots__ = ("_ended", "_scope")

    def __init__(self, scope: trio.CancelScope, ended: trio.Event) -> None:
        self._scope = scope
        self._ended = ended

    def __enter__(self) -> trio.Event:
        self._scope.__enter__()
        return self._ended

    def __exit__(self, *details: Any) -> bool:
        return self._scope.__exit__(*details)
