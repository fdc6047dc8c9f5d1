"""A node as its supervisor knows it: its process, its reports, and its end.

A node reports on its status pipe with one line of JSON: `{"ready": PORT, "internal": PORT,
"metrics": PORT, "lacks": RELEASE}` or `{"error": TEXT}`; the latter also as its last line, when it
stops on an error later.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from .cluster_state import ClusterError, NodeState, NodeStatus

STATUS_LINE_MAX_BYTES = 64 * 1024
PAUSE_SECONDS = 1.0  # after that it counts as standing still


@dataclass(slots=True)
class NodeChild:
    state: NodeState
    status_fd: int = -1
    internal_port: int = 0  # where a broker listens for its like
    release_lacked: str = ""  # of Kafka, whose features a broker's cluster could have and has not
    received: bytearray = field(default_factory=bytearray)
    exit_status: int | None = None
    last_words: str = ""  # the reason of its stop, from its last report
    has_open_session: bool = False  # it is dead, and its ZooKeeper session is ours to close

    def pause(self) -> None:
        """SIGSTOP. Returns once all of its threads stand still: they run on until the thread that
        takes the signal has its turn.
        """
        os.kill(self.state.pid, signal.SIGSTOP)
        if not hasattr(os, "waitid"):
            return  # on macOS, before Python 3.13
        ends = time.monotonic() + PAUSE_SECONDS
        look = os.WSTOPPED | os.WNOWAIT | os.WNOHANG
        with contextlib.suppress(ChildProcessError):
            while os.waitid(os.P_PID, self.state.pid, look) is None and time.monotonic() < ends:
                time.sleep(0.001)

    def read_report(self) -> bool:
        """Read the report of a node that starts. True once it is ready; raises ClusterError if it
        failed."""
        chunk = os.read(self.status_fd, 4096)
        self.received += chunk
        line, newline, _ = self.received.partition(b"\n")
        if newline:
            message = json.loads(line)
            if "error" in message:
                raise ClusterError(message["error"])
            self.state.port, self.internal_port = message["ready"], message["internal"]
            self.state.metrics_port = message["metrics"]
            self.release_lacked = message["lacks"]
            return True
        if not chunk or len(self.received) > STATUS_LINE_MAX_BYTES:
            raise ClusterError(
                f"{self.state.name} died while starting; its log is {self.state.log_file}"
            )
        return False

    def end(self, wait_status: int) -> None:
        self._read_last_words()
        self.exit_status = os.waitstatus_to_exitcode(wait_status)
        self.state.status = _status_of_exit(self.exit_status)
        # A clean stop closes its own.
        self.has_open_session = self.state.kind == "broker" and self.exit_status != 0

    def _read_last_words(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.set_blocking(self.status_fd, False)
            self.received += os.read(self.status_fd, STATUS_LINE_MAX_BYTES)
        with contextlib.suppress(ValueError):
            last = json.loads(self.received.strip().rpartition(b"\n")[2])
            self.last_words = last.get("error", "")

    @property
    def fate(self) -> str:
        assert self.exit_status is not None
        if self.exit_status < 0:
            return f"was killed by {signal.Signals(-self.exit_status).name}"
        why = f": {self.last_words}" if self.last_words else f" with status {self.exit_status}"
        return f"stopped{why}; its log is {self.state.log_file}"


class Lifeline(NamedTuple):
    read: int
    write: int


def zookeepers_among(children: Iterable[NodeChild]) -> list[NodeChild]:
    return [child for child in children if child.state.kind == "zookeeper"]


def _status_of_exit(exit_status: int) -> NodeStatus:
    if exit_status == 0:
        return NodeStatus.STOPPED
    return NodeStatus.KILLED if exit_status < 0 else NodeStatus.FAILED
