"""A blocking call out of a coroutine, in a thread, under any loop."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(function: Callable[[], T]) -> T:
    """Await a blocking function in asyncio or trio."""
    if "trio" in sys.modules:
        import trio

        if trio.lowlevel.in_trio_run():
            # A started call is finished, so that nothing is left running.
            return await trio.to_thread.run_sync(function, abandon_on_cancel=False)
    import asyncio

    return await asyncio.shield(asyncio.to_thread(function))
