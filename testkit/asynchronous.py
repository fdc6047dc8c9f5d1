"""A blocking call out of a coroutine, in a thread of its own, under asyncio and trio.

Invariant: a call never waits for a thread: a pool whose threads all wait for records would keep the
call from beginning that writes them.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


async def in_thread(function: Callable[[], T], *, is_question: bool = False) -> T:
    """Await a blocking function. A cancelled call under trio waits until the function has ended, so
    that nothing is left half done, unless it only asks a question."""
    if "trio" in sys.modules:
        import trio

        if trio.lowlevel.in_trio_run():
            return await trio.to_thread.run_sync(
                function, abandon_on_cancel=is_question, limiter=trio.CapacityLimiter(1)
            )
    return await _in_asyncio(function)


async def _in_asyncio(function: Callable[[], T]) -> T:
    import asyncio

    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = function()
        except BaseException as error:
            _settle(loop, outcome, partial(outcome.set_exception, error))
        else:
            _settle(loop, outcome, partial(outcome.set_result, result))

    threading.Thread(target=run, name="pybroker-testing", daemon=True).start()
    return await outcome


def _settle(
    loop: asyncio.AbstractEventLoop, outcome: asyncio.Future[T], settle: Callable[[], None]
) -> None:
    """From the thread; a call that was cancelled meanwhile, or a closed loop, does not hear it."""

    def settle_in_loop() -> None:
        if not outcome.done():
            settle()

    with contextlib.suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(settle_in_loop)
