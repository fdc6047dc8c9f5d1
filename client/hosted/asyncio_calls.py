"""The block of a client for asyncio, and its calls, which await the client in the trio thread."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from .host import C, Host

P = ParamSpec("P")
R = TypeVar("R")


async def result_of(future: Future[R]) -> R:
    """Wait for the result of a call; a cancellation cancels the call.

    `asyncio.wrap_future` takes 22 us more, 10 % of the CPU of a batch.
    """
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_: Future[R]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_end_wait, waiter)

    future.add_done_callback(wake)
    try:
        await waiter
    except BaseException:
        future.cancel()
        raise
    return future.result()


def _end_wait(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def close(host: Host[C], error: BaseException | None) -> None:
    """Close the client, by the exception that ended its block. It closes within its limits of time,
    also if this task is cancelled meanwhile."""
    await asyncio.shield(asyncio.wrap_future(host.close(error)))


class Hosted(Generic[C]):
    """A client in the trio thread, and its block in asyncio."""

    _host: Host[C]

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await result_of(self._host.open())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await close(self._host, error)


def passed_on(
    method: Callable[Concatenate[C, P], Awaitable[R]],
) -> Callable[Concatenate[Hosted[C], P], Coroutine[Any, Any, R]]:
    """A coroutine function that awaits the client's method in the trio thread."""

    @functools.wraps(method)
    async def call(self: Hosted[C], *arguments: P.args, **keywords: P.kwargs) -> R:
        host = self._host
        return await result_of(host.call(method, host.client, *arguments, **keywords))

    return cast("Callable[Concatenate[Hosted[C], P], Coroutine[Any, Any, R]]", call)


def passed_on_at_once(
    method: Callable[Concatenate[C, P], R],
) -> Callable[Concatenate[Hosted[C], P], Coroutine[Any, Any, R]]:
    """A coroutine function that calls the client's method in the trio thread."""

    @functools.wraps(method)
    async def call(self: Hosted[C], *arguments: P.args, **keywords: P.kwargs) -> R:
        host = self._host
        future = host.call_at_once(method, host.client, *arguments, **keywords)
        return await result_of(future)

    return cast("Callable[Concatenate[Hosted[C], P], Coroutine[Any, Any, R]]", call)
