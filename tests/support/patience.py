"""How slow this machine is now, and limits of time that know it.

Job: a limit in a test guards against a hang; a busy machine must not pass it. `slowness()` says how
many times longer than alone a process takes now: from those that are ready to run for each
processor, from what a hypervisor takes away, and from a loop whose CPU time on a quiet machine is
known. `fair.now()` is a clock that runs so much slower than the wall's: limits on it pass after as
much CPU as they would get on a quiet machine. On it are pytest's limit of each test
(`pytest_timeout_set_timer`), every `timeout` of `subprocess` in a test process
(`stretch_limits`), and the waits in `tests/support`. Other limits are generous: a minute and more.
`pytest_runtest_protocol` notes tests that only waited: long on the wall's clock, and not on this.
`tests.run` tells them at its end.
Invariants: the clock never runs faster than the wall's, and never MAX_SLOWNESS times slower; what a
broker promises in time is measured on the wall's clock, or beside a twin in the same run.
"""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_timeout
import trio

MAX_SLOWNESS = 10.0
# The loop of `spin` where it was measured: a core of 2026 that does nothing else.
SPINS = 200_000
SPIN_CPU_SECONDS = 0.007
SAMPLE_SECONDS = 0.1  # what a sample is good for
# A gap between two looks that one sample does not tell of: the average of a minute does, too.
LONG_GAP_SECONDS = 5.0
# What a test took to be worth a word, and the part of it that it would have taken alone.
TOLD_SECONDS = 10.0
ONLY_WAITED = 0.6
NOTES = "TESTS_WAITED"  # the file for the notes, set by tests.run
WAIT_SECONDS = 120.0

T = TypeVar("T")


def spin() -> float:
    """CPU seconds of a loop of known length."""
    began, total = time.thread_time(), 0
    for number in range(SPINS):
        total += number
    return time.thread_time() - began


@functools.cache
def slow_core() -> float:
    """How many times slower a core is than the one that the limits were made for."""
    return max(1.0, min(spin() for _ in range(3)) / SPIN_CPU_SECONDS)


def ready_to_run() -> float:
    """Processes that run or could, now."""
    try:
        return float(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
    except OSError:
        return os.getloadavg()[0]


class Stolen:
    """The share of the processors' time that a hypervisor gave to others since the last look."""

    def __init__(self) -> None:
        self._last = (0, 0)

    def share(self) -> float:
        try:
            with open("/proc/stat", encoding="ascii") as stat:
                fields = [int(field) for field in stat.readline().split()[1:9]]
        except OSError:
            return 0.0
        last, self._last = self._last, (sum(fields), fields[7])
        total = self._last[0] - last[0]
        return (self._last[1] - last[1]) / total if total > 0 else 0.0


class FairClock:
    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may look while its thread does
        self._stolen = Stolen()
        self._wall = self._fair = self._sampled = time.monotonic()
        self._slowness = 1.0

    def slowness(self) -> float:
        """At least 1.0; looked at anew every SAMPLE_SECONDS."""
        with self._lock:
            self._advance()
            return self._slowness

    def now(self) -> float:
        """Seconds; only differences mean anything."""
        with self._lock:
            self._advance()
            return self._fair

    def _advance(self) -> None:
        wall = time.monotonic()
        gap = wall - self._sampled
        if gap >= SAMPLE_SECONDS:
            self._slowness = self._look(gap)
            self._sampled = wall
        self._fair += (wall - self._wall) / self._slowness
        self._wall = wall

    def _look(self, gap: float) -> float:
        ready = ready_to_run()
        if gap > LONG_GAP_SECONDS:
            ready = max(ready, os.getloadavg()[0])
        shared = max(1.0, ready / (os.cpu_count() or 1))
        left = max(1 - self._stolen.share(), 1 / MAX_SLOWNESS)
        return min(slow_core() * shared / left, MAX_SLOWNESS)


fair = FairClock()


class Limit:
    """A limit of so many seconds of a quiet machine, from now on."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._wall, self._ends = time.monotonic(), fair.now() + seconds

    @property
    def is_over(self) -> bool:
        if fair.now() >= self._ends:
            return True
        if self.waited > self.seconds:
            _note_stretched()
        return False

    @property
    def waited(self) -> float:
        """Seconds of the wall's clock."""
        return time.monotonic() - self._wall


def until(
    condition: Callable[[], T | None],
    what: object = "",
    seconds: float = WAIT_SECONDS,
    pause_seconds: float = 0.02,
) -> T:
    """The first result that is not false. AssertionError with `what` (the value of a function of
    that moment) at the limit."""
    limit = Limit(seconds)
    while not (found := condition()):
        if limit.is_over:
            told = what() if callable(what) else what
            raise AssertionError(f"not within {limit.waited:.0f} s: {told}")
        time.sleep(pause_seconds)
    return found


async def eventually(
    condition: Callable[[], object | Awaitable[object]], seconds: float = WAIT_SECONDS
) -> None:
    """`until` in a loop of trio, whose other tasks go on; with a condition that may be awaited."""
    limit = Limit(seconds)
    while True:
        found = condition()
        if await found if isinstance(found, Awaitable) else found:
            return
        assert not limit.is_over, f"not within {limit.waited:.0f} s"
        await trio.sleep(0.005)


def stretch_limits() -> None:
    """From now on each `timeout` of `subprocess` in this process is a time of the fair clock."""
    assert callable(subprocess._time)  # type: ignore[attr-defined]
    subprocess._time = fair.now  # type: ignore[attr-defined]


# pytest

_stretched = False  # whether this test has passed a limit on the wall's clock


def _note_stretched() -> None:
    global _stretched
    _stretched = True


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool | None:
    """pytest-timeout's, on the fair clock: what is left of it is waited for again."""
    is_main = threading.current_thread() is threading.main_thread()
    if settings.method != "signal" or not is_main:
        return None
    limit = Limit(settings.timeout)

    def over(_number: int, _frame: object) -> None:
        __tracebackhide__ = True
        if limit.is_over:
            pytest_timeout.timeout_sigalrm(item, settings)
        else:
            signal.setitimer(signal.ITIMER_REAL, max(1.0, settings.timeout / MAX_SLOWNESS))

    def cancel() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    item.cancel_timeout = cancel  # type: ignore[attr-defined]
    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    global _stretched
    _stretched = False
    wall, alone, cpu = time.monotonic(), fair.now(), os.times()
    try:
        return (yield)
    finally:
        seconds, alone = time.monotonic() - wall, fair.now() - alone
        if path := os.environ.get(NOTES):
            used = sum(os.times()[:4]) - sum(cpu[:4])
            _note(Path(path), item.nodeid, seconds, alone, used)


def _note(path: Path, test: str, seconds: float, alone: float, cpu: float) -> None:
    if not _stretched and (seconds < TOLD_SECONDS or alone > ONLY_WAITED * seconds):
        return
    line = json.dumps([test, round(seconds, 1), round(alone, 1), round(cpu, 1), _stretched])
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, line.encode() + b"\n")
    os.close(descriptor)


def told(path: Path) -> list[str]:
    """What the notes say, the longest first."""
    if not path.exists():
        return []
    notes = sorted(map(json.loads, path.read_text().splitlines()), key=lambda note: -note[1])
    return [
        f"{seconds:7.1f} s, {alone:5.1f} s of a quiet machine, {cpu:5.1f} CPU s of its own: {test}"
        + (" (past its limit)" if is_stretched else "")
        for test, seconds, alone, cpu, is_stretched in notes
    ]
