"""Trio tasks inside a simulation: they live by the kernel's clock, in an order that a seed says.

`run_in_trio` runs an async function; whenever all of its tasks wait, the kernel goes on: to its
next events, until one of them touches a task (`Driver.touch`), or to the next moment for which a
task waits. So neither side has a time of its own.

What makes a run a function of its seed: trio's scheduler draws from a seeded generator, as does
the global `random` of whoever uses it; cyclic garbage, with the finalizers of asynchronous
generators in it, is collected between runs only. Trio's private names for that are here and nowhere
else; `test_client.py` notices if they go. Nothing in a run may use a thread.
"""

import gc
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from math import ceil, inf
from typing import Any

import trio
import trio._core._run as trio_run
from trio.testing import wait_all_tasks_blocked

from tests.simulation.kernel import START_MS, Kernel

# The clock stands a little behind a whole millisecond: who counts in milliseconds rounds right.
_MARGIN_SECONDS = 1e-7
_LONGEST_STEP_MS = 3_600_000


class VirtualClock(trio.abc.Clock):
    """The kernel's milliseconds, as trio's seconds."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return (self._kernel.now_ms - START_MS) / 1000 + _MARGIN_SECONDS

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Never slept in earnest: the driver is always there to go on."""
        return deadline - self.current_time()


class Driver:
    """Lets the kernel go on when the tasks have come to rest.

    It outlives their cancellation: what they still do then takes time, too. If the kernel fails,
    nothing but time goes on.
    """

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._is_touched = False
        self._failure: Exception | None = None
        self._running = trio.CancelScope(shield=True)
        self._work = trio.CancelScope()

    def touch(self) -> None:
        """An event of the kernel has woken a task, or may have."""
        self._is_touched = True

    async def drive(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Do `work`. Raises what it or the kernel raises."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._run)
            try:
                with self._work:
                    await work()
            finally:
                self._running.cancel()
        if self._failure is not None:
            raise self._failure

    async def _run(self) -> None:
        with self._running:
            while True:
                await wait_all_tasks_blocked()
                self._is_touched = False
                seconds = trio.lowlevel.current_statistics().seconds_to_next_deadline
                wait_ms = _LONGEST_STEP_MS if seconds == inf else ceil(seconds * 1000 - 1e-4)
                self._go_on(max(1, wait_ms))

    def _go_on(self, most_ms: int) -> None:
        kernel = self._kernel
        end_ms = kernel.now_ms + most_ms
        if self._failure is None:
            try:
                kernel.run_until(end_ms, lambda: self._is_touched)
                return
            except Exception as error:
                self._failure = error
                self._work.cancel()
        kernel.now_ms = end_ms


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    is_deterministic = trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    state = random.getstate()
    trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio_run._r.seed(seed)
    random.seed(seed)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        random.setstate(state)
        trio_run._ALLOW_DETERMINISTIC_SCHEDULING = is_deterministic  # type: ignore[misc]


def run_in_trio(
    kernel: Kernel, driver: Driver, seed: int, work: Callable[[], Awaitable[Any]]
) -> None:
    """Do `work`, while the kernel goes on beside it.

    Raises what it raises; of several errors the first, an AssertionError before others.
    """

    with _seeded(seed):
        try:
            trio.run(driver.drive, work, clock=VirtualClock(kernel))
        except BaseExceptionGroup as group:
            errors = list(_leaves(group))
            found = [error for error in errors if isinstance(error, AssertionError)]
            raise (found or errors)[0] from None


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error
