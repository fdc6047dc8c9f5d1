"""A process that has imported the broker once and forks servers, as the supervisor does.

Importing costs a second of CPU, and a fault test starts dozens of servers. `Zygote.spawn` takes the
command line that a new process would get (`python -P -m module arguments`) and returns what behaves
like a `subprocess.Popen` of it, with the environment of its caller. What is read while modules are
imported, and what the dynamic linker reads, it has from the zygote. One request and one answer at a
time, a JSON line each.
When the pipe to it closes, the zygote kills what it has forked and ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.support.patience import Limit

ROOT = Path(__file__).resolve().parent.parent.parent
POLL_SECONDS = 0.01
CLONE_NEWNET = 0x40000000
PRELOADED = (
    "pybroker_kafka.broker.server",
    "pybroker_kafka.local.node_process",
    "pybroker_kafka.cli.server",
    "pybroker_kafka.broker.zookeeper.server",
    "pybroker_kafka.cli.cluster",
    "pybroker_kafka.cli.nodes",
    "pybroker_kafka.local.supervisor",
)


class ForkedProcess:
    """The part of `subprocess.Popen` that the tests use."""

    def __init__(self, zygote: Zygote, pid: int) -> None:
        self._zygote = zygote
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._zygote.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        limit = None if timeout is None else Limit(timeout)
        while self.poll() is None:
            if limit is not None and limit.is_over:
                raise subprocess.TimeoutExpired(f"process {self.pid}", limit.seconds)
            time.sleep(POLL_SECONDS)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Zygote:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.zygote"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def spawn(
        self,
        command: list[str],
        log: Path,
        *,
        new_session: bool = False,
        namespace: str | None = None,
    ) -> ForkedProcess:
        """The output is appended to `log`; a new session is also a process group of its own; in
        the network namespace of this name, if any."""
        assert is_module(command), command
        at = command.index("-m")
        pid = self.ask(
            {
                "module": command[at + 1],
                "arguments": command[at + 2 :],
                "environment": dict(os.environ),
                "log": str(log),
                "new_session": new_session,
                "namespace": namespace,
            }
        )
        assert pid is not None
        return ForkedProcess(self, pid)

    def ask(self, request: dict[str, object]) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer: int | None = json.loads(self._process.stdout.readline())
        return answer


def is_module(command: list[str]) -> bool:
    """Whether a command line is one that a zygote can fork."""
    at = command.index("-m") if "-m" in command else 0
    return command[:at] in ([sys.executable], [sys.executable, "-P"])


@functools.cache
def shared_zygote() -> Zygote:
    """One for all tests of a run; ends with it."""
    return Zygote()


# In the zygote


def fork(request: dict[str, object]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ.clear()
        os.environ.update(request["environment"])  # type: ignore[call-overload]
        if request["new_session"]:
            os.setsid()
        if request["namespace"]:
            enter_namespace(str(request["namespace"]))
        log = os.open(str(request["log"]), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        sys.argv = [str(request["module"]), *request["arguments"]]  # type: ignore[misc]
        runpy.run_module(str(request["module"]), run_name="__main__", alter_sys=True)
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


def enter_namespace(name: str) -> None:
    """Python 3.11 has no os.setns."""
    descriptor = os.open(f"/run/netns/{name}", os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns", name)
    os.close(descriptor)


def serve() -> None:
    for module in PRELOADED:
        __import__(module)
    exits: dict[int, int | None] = {}
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "poll" in request:
            answer = exits[request["poll"]] = exit_of(request["poll"], exits)
        else:
            answer = fork(request)
            exits[answer] = None
        os.write(1, json.dumps(answer).encode() + b"\n")
    for pid in exits:
        if exit_of(pid, exits) is None:
            os.kill(pid, signal.SIGKILL)


def exit_of(pid: int, exits: dict[int, int | None]) -> int | None:
    """Its status once it has ended, however often it is asked for."""
    if exits[pid] is None:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
    return exits[pid]


if __name__ == "__main__":
    serve()
