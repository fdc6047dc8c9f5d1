"""Work that ends when the mirror is stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


async def until(stop: trio.Event, work: Callable[[], Awaitable[None]]) -> None:
    """Run the work until it ends or `stop` is set."""
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            await stop.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(wait)
        await work()
        nursery.cancel_scope.cancel()
