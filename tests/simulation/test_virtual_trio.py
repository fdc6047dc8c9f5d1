"""Runs of trio inside the kernel: their time, and what a stop or a kill of their process does."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial

import pytest
import trio

from tests.simulation.kernel import START_MS, Kernel, Process
from tests.simulation.virtual_trio import TrioRun, simulated


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kernel = Kernel(1)
    with simulated(kernel, 1):
        yield kernel


def nothing() -> None:
    """An event in which nothing happens but what tasks do."""


class Sleeper:
    """A process with a task that notes the time every 20 ms."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.process = Process("sleeper")
        self.times: list[float] = []
        self.is_cancelled = False
        self.run = TrioRun(kernel, self.process, self._work)
        self.run.step(nothing, ())

    async def _work(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sleep)

    async def _sleep(self) -> None:
        try:
            while True:
                await trio.sleep(0.02)
                self.times.append(self.kernel.now_ms - START_MS)
        finally:
            self.is_cancelled = True

    def until(self, ms: int) -> list[float]:
        self.kernel.run_until(START_MS + ms)
        return self.times


def test_tasks_live_by_the_clock_of_the_kernel(kernel: Kernel) -> None:
    assert Sleeper(kernel).until(100) == [20, 40, 60, 80, 100]


def test_a_sleep_of_a_millisecond_takes_one(kernel: Kernel) -> None:
    """Whatever the last digits of its deadline are."""
    times: list[float] = []

    async def work() -> None:
        while True:
            await trio.sleep(0.001)
            times.append(kernel.now_ms - START_MS)

    TrioRun(kernel, Process("sleeper"), work).step(nothing, ())
    kernel.run_until(START_MS + 5_000)
    assert times == list(range(1, 5_001))


def test_the_tasks_of_a_stopped_process_wait(kernel: Kernel) -> None:
    sleeper = Sleeper(kernel)
    sleeper.until(30)
    kernel.pause(sleeper.process)
    assert sleeper.until(90) == [20]
    kernel.resume(sleeper.process)
    assert sleeper.until(130) == [20, 90, 110, 130]


def test_a_kill_ends_all_tasks_at_once(kernel: Kernel) -> None:
    sleeper = Sleeper(kernel)
    sleeper.until(30)
    sleeper.process.kill()
    assert sleeper.is_cancelled
    assert sleeper.run.is_over
    assert not kernel.running
    assert sleeper.until(100) == [20]


def test_a_kill_leaves_no_time_to_tasks_that_shield_themselves(kernel: Kernel) -> None:
    async def stubborn() -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(3_600)

    process = Process("stubborn")
    run = TrioRun(kernel, process, stubborn)
    run.step(nothing, ())
    process.kill()
    assert run.is_over
    assert kernel.now_ms == START_MS


class Worker:
    """A process whose threads note when they have done their work, which takes 30 ms."""

    def __init__(self, kernel: Kernel, pieces: int, threads: int) -> None:
        self.kernel = kernel
        self.process = Process("worker")
        self.done: list[float] = []
        self._pieces = pieces
        self._threads = threads
        self.run = TrioRun(kernel, self.process, self._work, lambda _work: 30)
        self.run.step(nothing, ())

    async def _work(self) -> None:
        limiter = trio.CapacityLimiter(self._threads)
        async with trio.open_nursery() as nursery:
            for _ in range(self._pieces):
                nursery.start_soon(partial(trio.to_thread.run_sync, self._note, limiter=limiter))

    def _note(self) -> None:
        self.done.append(self.kernel.now_ms - START_MS)


def test_the_work_of_threads_takes_its_time(kernel: Kernel) -> None:
    worker = Worker(kernel, pieces=3, threads=2)
    kernel.run_until(START_MS + 100)
    assert worker.done == [30, 30, 60]
    assert worker.run.is_over


def test_a_kill_ends_the_work_of_threads(kernel: Kernel) -> None:
    worker = Worker(kernel, pieces=2, threads=1)
    kernel.run_until(START_MS + 40)
    worker.process.kill()
    assert worker.run.is_over
    kernel.run_until(START_MS + 100)
    assert worker.done == [30]


def test_a_crash_that_is_only_logged_ends_the_run(kernel: Kernel) -> None:
    def survive() -> None:
        try:
            raise ValueError("found")
        except ValueError:
            logging.getLogger("pybroker.anything").exception("Something failed")

    kernel.after(1, None, survive)
    with pytest.raises(AssertionError, match="Something failed: ValueError: found"):
        kernel.run_until(START_MS + 2)


def test_an_error_of_a_task_is_an_error_of_the_kernel(kernel: Kernel) -> None:
    async def fail() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 5)
            await trio.sleep(1)
            raise AssertionError("found")

    TrioRun(kernel, Process("failing"), fail).step(nothing, ())
    with pytest.raises(AssertionError, match="found"):
        kernel.run_until(START_MS + 2_000)


def test_an_event_of_one_process_wakes_a_task_within_it(kernel: Kernel) -> None:
    woken: list[float] = []

    async def wait() -> None:
        await news.wait()
        woken.append(kernel.now_ms - START_MS)

    news = trio.Event()
    process = Process("waiting")
    TrioRun(kernel, process, wait).step(nothing, ())
    kernel.after(7, process, news.set)
    kernel.run_until(START_MS + 8)
    assert woken == [7]
