"""A `pybroker` command in a process of its own, forked from the warm fork server.

Job: `Command("broker", "server.properties", output="broker.log")` runs the same code as the command
line does, without the CPU time that Python and the imports of a new process take (the most part of
the start of a broker). It has the part of `subprocess.Popen` that a test needs.
Invariants: the process ends with the fork server, which ends with the test's process; any threads
may ask for its end at once, since one at a time reads the channel, which it closes at the end.
Leaves out: pipes (the output goes to a file, the input is empty), and variables that Python or the
dynamic linker read at their start (`LD_PRELOAD`): the fork server has started without them.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..local.cluster_state import ClusterError
from .launching import LINE_MAX_BYTES, START_TIMEOUT_SECONDS, shared_launcher
from .options import CommandOptions

if TYPE_CHECKING:
    import socket

LAST_LINES = 10
POLL_SECONDS = 0.02
LOCKED_SECONDS = 0.05  # for as long one that waits keeps out the others


class Command:
    """Runs as soon as it is made. Raises ClusterError if no process can be forked.

    output: the file to which both outputs are appended. new_session: the process leads a session
    and a process group. network_namespace: the name of one that `ip netns add` has made (Linux,
    root). The environment and the directory are those of the caller.
    """

    def __init__(
        self,
        *words: str,
        output: str | Path,
        new_session: bool = False,
        network_namespace: str | None = None,
    ) -> None:
        self.words = words
        self.returncode: int | None = None
        self._output = Path(output).absolute()
        self._output.touch()
        self._mark = self._output.stat().st_size  # of the output of others
        options = CommandOptions(
            words=list(words),
            environment=dict(os.environ),
            directory=str(Path.cwd()),
            output=str(self._output),
            new_session=new_session,
            network_namespace=network_namespace,
        )
        self._channel: socket.socket = shared_launcher().run(options)
        self._received = b""
        self._reading = threading.Lock()
        told = self._next_line() or {}
        if "pid" not in told:
            self._channel.close()
            raise ClusterError(told.get("error", "the command has ended before it began"))
        self.pid: int = told["pid"]

    def poll(self) -> int | None:
        """The exit status, negative after a signal; None while the process runs."""
        return self._status(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit status. Raises subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self._status(LOCKED_SECONDS)) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(["pybroker", *self.words], timeout or 0)
        return status

    def _status(self, timeout: float) -> int | None:
        with self._reading:
            if self.returncode is None and self._has_told(timeout):
                told = self._next_line()
                # Without a word of it: the fork server was killed, and this process with it.
                self.returncode = -signal.SIGKILL if told is None else told["exit"]
                self._channel.close()
            return self.returncode

    def wait_for(self, text: str, timeout: float = START_TIMEOUT_SECONDS) -> str:
        """The first line of the output with this text, such as `is ready`, once it is there. Raises
        ClusterError with the last lines if the process ends before, or does not print it in time.
        """
        deadline = time.monotonic() + timeout
        while True:
            has_ended = self.poll() is not None
            with self._output.open("rb") as output:
                output.seek(self._mark)
                lines = output.read().decode(errors="replace").splitlines()
            for line in lines:
                if text in line:
                    return line
            if has_ended or time.monotonic() > deadline:
                told = "\n".join(lines[-LAST_LINES:])
                raise ClusterError(f"pybroker {' '.join(self.words)} did not say {text!r}: {told}")
            time.sleep(POLL_SECONDS)

    def send_signal(self, number: int) -> None:
        """Without effect on a process that has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM: a broker hands its leaderships over, and ends."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill the process if it still runs, and wait for its end."""
        self.kill()
        self.wait()

    def _has_told(self, timeout: float) -> bool:
        """Whether there is more from the fork server, within this time."""
        if self._received:
            return True
        poll = select.poll()  # `select` refuses the descriptors of a process that has a thousand
        poll.register(self._channel, select.POLLIN)
        return bool(poll.poll(max(0.0, timeout) * 1000))

    def _next_line(self) -> dict[str, Any] | None:
        while b"\n" not in self._received:
            chunk = self._channel.recv(LINE_MAX_BYTES)
            if not chunk:
                return None
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        told: dict[str, Any] = json.loads(line)
        return told
