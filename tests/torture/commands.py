"""`pybroker` commands as processes, and every process that comes of them.

A command is forked from this process, which has imported the house once: an interpreter that starts
and imports costs ten times what a cluster of one broker costs. Its process group is its own. This
process is the "subreaper" of all that it has forked (Linux): whoever is orphaned becomes its child,
so that `descendants` finds everything that is left running, and nothing of anybody else's.

Invariant: no thread is ever started here, because forks follow.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pybroker_kafka.broker.server
from pybroker_kafka.broker.resources.clock import Clock
from tests.support import clock_file
from tests.support.patience import Limit

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.01
COMMAND_TIMEOUT_SECONDS = 120.0

Limits = Mapping[int, int]


def end_with_parent() -> None:
    """Whoever ends the run ends its jobs, which clean up, and are not interrupted in that."""

    def end(_number: int, _frame: object) -> None:
        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, lambda _number, _frame: None)
        raise KeyboardInterrupt

    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, end)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)


def prepare() -> None:
    """Once in a process, before anything is forked."""
    import pybroker_kafka.cli.cluster
    import pybroker_kafka.cli.main
    import pybroker_kafka.cli.nodes
    import pybroker_kafka.local.cluster_start
    import pybroker_kafka.local.supervisor

    pybroker_kafka.local.cluster_start.import_broker_code()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Command:
    """A running or ended `pybroker ...`; its output, of both kinds, is in a file."""

    def __init__(self, words: list[str], output: Path, pid: int) -> None:
        self.words = words
        self.pid = pid
        self._output = output
        self.status: int | None = None
        self.started = time.monotonic()
        _waited_for[pid] = self

    @classmethod
    def run(
        cls, words: list[str], output: Path, clock: Path, limits: Limits | None = None
    ) -> Command:
        """`clock`: the file that says what its wall clock shows (`tests.support.clock_file`)."""
        sys.stdout.flush()
        sys.stderr.flush()
        has_a_group, becomes = os.pipe()
        with output.open("wb") as file:
            pid = os.fork()
            if pid == 0:
                _become(words, file.fileno(), clock, limits or {})
        os.close(becomes)
        os.read(has_a_group, 1)  # it ends when the child, in a group of its own, closes what it has
        os.close(has_a_group)
        return cls(words, output, pid)

    def detached(self, pid: int) -> Command:
        """The process that this command has left behind, which is our child by now."""
        return Command(self.words, self._output, pid)

    @property
    def told(self) -> str:
        return self._output.read_text(errors="replace")

    def poll(self) -> int | None:
        if self.status is None:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.status = os.waitstatus_to_exitcode(status)
                del _waited_for[self.pid]
        return self.status

    def wait(self, timeout_s: float = COMMAND_TIMEOUT_SECONDS) -> int:
        wait_until(lambda: self.poll() is not None, timeout_s, lambda: f"{self.words} hangs")
        assert self.status is not None
        return self.status

    def signal(self, number: signal.Signals, *, group: bool) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if group else os.kill)(self.pid, number)


_waited_for: dict[int, Command] = {}


def _become(words: list[str], output: int, clock: Path, limits: Limits) -> None:
    """In the forked process; never returns."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.closerange(3, 256)
        server: Any = pybroker_kafka.broker.server
        server.Clock = partial(Clock, partial(clock_file.read, clock))
        for kind, limit in limits.items():
            resource.setrlimit(kind, (limit, limit))
        from pybroker_kafka.cli.main import main

        main(words, prog_name="pybroker")
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def wait_until(
    is_true: Callable[[], object], timeout_s: float, problem: Callable[[], str]
) -> float:
    """The seconds that it took. Raises AssertionError with the problem."""
    limit = Limit(timeout_s)
    while not is_true():
        if limit.is_over:
            raise AssertionError(f"{problem()}, for {limit.waited:.0f} s")
        time.sleep(POLL_SECONDS)
    return limit.waited


def children_of(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(keep: set[int]) -> list[int]:
    """All living processes that this one has brought into being, but those to keep."""
    _reap(keep)
    found, waiting = [], [pid for pid in children_of(os.getpid()) if pid not in keep]
    while waiting:
        pid = waiting.pop()
        waiting += children_of(pid)
        if not _is_zombie(pid):
            found.append(pid)
    return found


def starved_seconds(pids: list[int]) -> float:
    """How long living processes could have run and were not let, all in all: a limit of time that
    is not to measure a busy machine leaves that out."""
    waited_ns = 0
    for pid in pids:
        for file in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            with contextlib.suppress(OSError):
                waited_ns += int(file.read_text().split()[1])
    return waited_ns / 1e9


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _reap(keep: set[int]) -> None:
    """Whoever has ended: commands keep their status, orphans' is nobody's."""
    for pid in children_of(os.getpid()):
        if pid in _waited_for:
            _waited_for[pid].poll()
        elif pid not in keep:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def describe(pids: list[int]) -> str:
    told = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            files = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        told.append(f"{pid} in state {state} with {[name for name in files if '/' in name]}")
    return "; ".join(told)


def kill_all(keep: set[int]) -> None:
    while pids := descendants(keep):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
