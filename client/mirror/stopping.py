"""Work that ends when the mirror is stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")


async def until(stop: trio.Event, work: Callable[[], Awaitable[T]]) -> T | None:
    """Run the work until it ends or `stop` is set; its result, None if it was cancelled."""
    result: T | None = None
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            await stop.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(wait)
        result = await work()
        nursery.cancel_scope.cancel()
    return result
