"""Ctrl-C for commands that end well: they finish their work in progress and report its results.

The first Ctrl-C cuts only waits short (`Interrupt.unless_told`); the second one breaks the
command off, as it would have without this.
"""

from __future__ import annotations

import functools
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from .options import run_client

T = TypeVar("T")


class Interrupt:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.is_told = False
        self._waiting: trio.CancelScope | None = None

    async def unless_told(self, wait: Callable[[], Awaitable[T]]) -> T | None:
        """The result of `wait`; None if Ctrl-C came before or meanwhile."""
        if self.is_told:
            return None
        with trio.CancelScope() as self._waiting:
            return await wait()
        return None

    async def watch(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Wait for the first Ctrl-C."""
        with trio.open_signal_receiver(signal.SIGINT) as signals:
            task_status.started()
            async for _ in signals:
                self.is_told = True
                if self._waiting is not None:
                    self._waiting.cancel()
                return


def run_interruptible(work: Callable[[Interrupt], Awaitable[None]]) -> None:
    """Do a client's work until it is done, or Ctrl-C. Raises UserError for expected failures."""
    run_client(functools.partial(interruptible, work))


async def interruptible(work: Callable[[Interrupt], Awaitable[None]]) -> None:
    """Do the work, and notify it of Ctrl-C."""
    interrupt = Interrupt()
    failure: BaseException | None = None
    async with trio.open_nursery() as nursery:
        await nursery.start(interrupt.watch)
        try:
            await work(interrupt)
        except (Exception, KeyboardInterrupt) as error:
            failure = error  # raised outside of the nursery, as itself and not in a group
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
