"""Trio tasks inside a simulation: they live by the kernel's clock, in an order that a seed says.

A `TrioRun` is one run of trio without a loop of its own: `step` does an event of the kernel, and
then lets the tasks run that it has woken, until all of them wait. The next moment for which a task
waits becomes an event of the kernel. So a process's tasks stop with its events (SIGSTOP), and end
with them (`kill`): then they are cancelled, and nothing that they still do leaves the process.

Work for a thread (`trio.to_thread`) takes as long as the run's `thread_ms` says, and is done at the
end of that time; a process that is killed before has not done it.

Each broker has a run, and all programs with the real client share one. Trio's private names for
this are here and nowhere else; `test_virtual_trio.py` notices if they go.
"""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import Context
from functools import cache
from heapq import heappop
from math import ceil, inf
from typing import Any, TypeVar, TypeVarTuple
from unittest.mock import patch

import trio
import trio._core._run as trio_run
from outcome import Error
from sniffio import thread_local as sniffio_library
from trio._core._entry_queue import EntryQueue
from trio._core._instrumentation import Instruments
from trio._core._ki import KIManager

from pybroker_kafka.broker.resources import stopwatch
from tests.simulation.crashes import noticing_crashes
from tests.simulation.kernel import START_MS, Kernel, Process

# The clock stands a little behind a whole millisecond: who counts in milliseconds rounds right.
_MARGIN_SECONDS = 1e-7
_LAST_DIGITS_SECONDS = 1e-12
_NOTHING: Any = ()
NETWORK = "pybroker_kafka.broker.network."
# Of its clock: 0.0 stands for a moment that has not come.
NETWORK_START_SECONDS = 1_000.0
_CONTEXT = trio_run.GLOBAL_RUN_CONTEXT

T = TypeVar("T")
Args = TypeVarTuple("Args")

_RUN: trio.lowlevel.RunVar[TrioRun] = trio.lowlevel.RunVar("simulated run")


class VirtualClock(trio.abc.Clock):
    """The kernel's milliseconds, as trio's seconds."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.ahead_seconds = _MARGIN_SECONDS

    def start_clock(self) -> None:
        pass

    def current_time(self) -> float:
        return (self._kernel.now_ms - START_MS) / 1000 + self.ahead_seconds

    def deadline_to_sleep_time(self, deadline: float) -> float:
        return deadline - self.current_time()


class _Outside:
    """Stands for the operating system and other threads, which the tasks do without."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.force_wakeup = wake
        self._news = trio.Event()

    def process_events(self, _events: Any) -> None:
        pass

    def close(self) -> None:
        pass

    async def wait_woken(self) -> None:
        await self._news.wait()
        self._news = trio.Event()

    def wakeup_thread_and_signal_safe(self) -> None:
        self._news.set()

    async def wait_readable(self, source: Any) -> None:
        """Of a simulated socket, or a set of them (`sockets`)."""
        await source.wait_readable()

    def notify_closing(self, _source: Any) -> None:
        pass


async def _run_sync(
    work: Callable[[*Args], T], *args: *Args, limiter: trio.CapacityLimiter | None = None
) -> T:
    """Stands for `trio.to_thread.run_sync`."""
    await trio.lowlevel.checkpoint_if_cancelled()
    limiter = limiter or trio.to_thread.current_default_thread_limiter()
    return await _RUN.get().work_in_thread(work, args, limiter)


class TrioRun:
    """Runs `work` and all that it starts as tasks of `process`."""

    def __init__(
        self,
        kernel: Kernel,
        process: Process,
        work: Callable[[], Awaitable[object]],
        thread_ms: Callable[[Callable[..., object]], int] | None = None,
    ) -> None:
        """`thread_ms` draws the time that a thread takes for its work; without it no thread may be
        used."""
        self._kernel = kernel
        self._process = process
        self._thread_ms = thread_ms
        self._is_killed = False
        self._in_threads: dict[trio.lowlevel.Task, None] = {}
        process.tasks = self
        self._scope = trio.CancelScope()
        self._due_ms: float = inf  # of the earliest event that will wake a task
        self.is_over = False
        outside: Any = _Outside(self._wake)
        self._is_awake = True
        self._clock = VirtualClock(kernel)
        self._runner = runner = trio_run.Runner(
            clock=self._clock,
            instruments=Instruments([]),
            io_manager=outside,
            ki_manager=KIManager(),
            strict_exception_groups=True,
            system_context=Context(),
            entry_queue=EntryQueue(wakeup=outside),
        )
        runner.is_guest = runner.guest_tick_scheduled = True
        hooks = sys.get_asyncgen_hooks()
        runner.asyncgens.install_hooks(runner)
        # A plain tuple: the collector of cycles does not look into the other kind.
        self._hooks = tuple(sys.get_asyncgen_hooks())
        sys.set_asyncgen_hooks(*hooks)
        self._loop = trio_run.unrolled_run(
            runner, self._main, (work,), host_uses_signal_set_wakeup_fd=True
        )
        self._loop_argument: Any = None
        kernel.running[self] = None

    async def _main(self, work: Callable[[], Awaitable[object]]) -> None:
        _RUN.set(self)
        with self._scope:
            await work()

    def _wake(self) -> None:
        self._is_awake = True

    def step(self, run: Callable[..., object], args: tuple[Any, ...]) -> None:
        """Do an event of the process, and all that tasks do of it. Raises what a task raises."""
        context = _CONTEXT.__dict__
        before = context.copy() if context else None  # of another run, which kills this one
        context.clear()
        context["runner"] = self._runner
        try:
            run(*args)
            if self._is_awake and not self.is_over:
                self._run_tasks()
        finally:
            context.clear()
            if before:
                context.update(before)

    def _run_tasks(self) -> None:
        """Until all of them wait."""
        runner, loop = self._runner, self._loop
        runner.guest_tick_scheduled = True
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(*self._hooks)
        try:
            while loop.send(self._loop_argument) <= 0:
                self._loop_argument = _NOTHING
        except StopIteration:
            self.is_over = True
            del self._kernel.running[self]
            outcome = runner.main_task_outcome
            if isinstance(outcome, Error):
                raise _first_of(outcome.error) from None
            return
        finally:
            sys.set_asyncgen_hooks(*hooks)
        runner.guest_tick_scheduled = self._is_awake = False
        self._note_deadline()

    def _wait_seconds(self) -> float:
        """Until the first moment for which a task waits."""
        heap = self._runner.deadlines._heap
        while heap and heap[0][2]._registered_deadline != heap[0][0]:
            heappop(heap)  # nobody waits for it any more
        return heap[0][0] - self._clock.current_time() if heap else inf

    def _note_deadline(self) -> None:
        wait_seconds = self._wait_seconds()
        if wait_seconds == inf:
            return
        kernel = self._kernel
        wait_ms = max(1, ceil(wait_seconds * 1000 - 1e-4))
        due_ms = kernel.now_ms + wait_ms
        if due_ms < self._due_ms:
            self._due_ms = due_ms
            kernel.after(wait_ms, self._process, self._ring, due_ms)

    def _ring(self, due_ms: int) -> None:
        if due_ms == self._due_ms:
            self._due_ms = inf
        wait_seconds = self._wait_seconds()
        if wait_seconds >= _MARGIN_SECONDS:
            self._note_deadline()
            return
        if wait_seconds > 0:  # sums of floats differ in their last digits
            self._clock.ahead_seconds += wait_seconds + _LAST_DIGITS_SECONDS
        self._is_awake = True

    async def work_in_thread(
        self, work: Callable[[*Args], T], args: tuple[*Args], limiter: trio.CapacityLimiter
    ) -> T:
        """Wait for the turn of this work in its threads, and for the time that it takes."""
        assert self._thread_ms is not None, f"{self._process.name} has no threads for {work}"
        task = trio.lowlevel.current_task()
        try:
            limiter.acquire_on_behalf_of_nowait(task)
        except trio.WouldBlock:
            await limiter.acquire_on_behalf_of(task)
        self._in_threads[task] = None
        try:
            self._kernel.after(self._thread_ms(work), self._process, trio.lowlevel.reschedule, task)
            await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)
            if self._is_killed:
                await trio.sleep_forever()
            return work(*args)
        finally:
            del self._in_threads[task]
            limiter.release_on_behalf_of(task)

    def _cancel(self) -> None:
        self._scope.cancel()
        for task in self._in_threads:
            trio.lowlevel.reschedule(task)

    def kill(self) -> None:
        """Cancel all tasks. What they wait for even so does not come, but its time is over."""
        self._is_killed = True
        if not self.is_over:
            self.step(self._cancel, ())
        while not self.is_over:
            wait_seconds = self._wait_seconds()
            assert wait_seconds < inf, "a task outlives its process"
            self._clock.ahead_seconds += max(0, wait_seconds) + _MARGIN_SECONDS
            self.step(self._wake, ())


@cache
def _freeze_modules() -> None:
    """What there is before the first run stays: no collection need look at it."""
    gc.collect()
    gc.freeze()


@contextmanager
def simulated(kernel: Kernel, seed: int) -> Iterator[None]:
    """What makes all that runs a function of the seed: turns take no time, a loop has a share of
    its processor; threads are simulated; trio's scheduler draws from a seeded generator, as does
    the global `random` of whoever uses it; cyclic garbage, with the finalizers of asynchronous
    generators in it, is collected between runs only."""
    is_deterministic = trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    state = random.getstate()
    trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio_run._r.seed(seed)
    random.seed(seed)
    cpu_share = random.random()
    _freeze_modules()
    gc.collect()
    collects = gc.isenabled()
    gc.disable()

    def seconds() -> float:
        return (kernel.now_ms - START_MS) / 1000

    try:
        with (
            patch.object(stopwatch, "now", seconds),
            patch.object(stopwatch, "cpu", lambda: cpu_share * seconds()),
            _network_clock(lambda: NETWORK_START_SECONDS + seconds()),
            patch.object(trio.to_thread, "run_sync", _run_sync),
            patch.object(sniffio_library, "name", "trio"),
            noticing_crashes(kernel),
        ):
            try:
                yield
            finally:
                for run in list(kernel.running):
                    run.kill()
    finally:
        if collects:
            gc.enable()
        random.setstate(state)
        trio_run._ALLOW_DETERMINISTIC_SCHEDULING = is_deterministic  # type: ignore[misc]


@contextmanager
def _network_clock(seconds: Callable[[], float]) -> Iterator[None]:
    """The clock of `broker.network`, whose modules import the function itself."""
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith(NETWORK) and hasattr(module, "perf_counter"):
                stack.enter_context(patch.object(module, "perf_counter", seconds))
        yield


def _first_of(error: BaseException) -> BaseException:
    """The first of several errors, an AssertionError before others."""
    errors = list(_leaves(error))
    return ([one for one in errors if isinstance(one, AssertionError)] or errors)[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error
