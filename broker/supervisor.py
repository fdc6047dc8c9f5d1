"""A local cluster on one machine: the embedded ZooKeeper and N brokers, each its own process.

The supervisor imports the broker once and forks the nodes, before any thread or event loop is
started; it stays a plain `select` loop, so that it may fork again. It restarts nothing silently:
a node that dies is reported and stays dead. Children learn of the supervisor's own death by the
end of a pipe that only it holds open, and stop cleanly.

While it waits it takes commands for single nodes from `cluster_control`'s socket: stop, kill,
pause, resume, restart.

A node reports on its status pipe with one line of JSON: `{"ready": PORT}` or `{"error": TEXT}`.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from broker import cluster_state
from broker.cluster_control import ControlSocket
from broker.cluster_spec import HOST, ClusterSpec, check_ports
from broker.cluster_state import ClusterError, ClusterState, NodeState, NodeStatus

if TYPE_CHECKING:
    pass

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 30.0
STATUS_LINE_MAX_BYTES = 64 * 1024


@dataclass(slots=True)
class _Child:
    state: NodeState
    status_fd: int = -1
    received: bytearray = field(default_factory=bytearray)
    exit_status: int | None = None


class Supervisor:
    """Starts the nodes of a `ClusterSpec`, waits, and stops them in order."""

    def __init__(self, spec: ClusterSpec, report: Callable[[str], None]) -> None:
        self.spec = spec
        self.state = ClusterState(os.getpid(), str(spec.data_dir), spec.ephemeral, "")
        self._report = report
        self._children: list[_Child] = []
        self._stopping = False
        self._lifeline_read, self._lifeline_write = os.pipe()
        self._wake_read, self._wake_write = os.pipe()
        for descriptor in (self._wake_read, self._wake_write):
            os.set_blocking(descriptor, False)

    def run(self, on_ready: Callable[[ClusterState], None]) -> int:
        """Start, call `on_ready` once a produce would succeed, wait for a signal, stop.

        Returns the exit status. Raises ClusterError if the cluster cannot start; nothing is left
        running then.
        """
        try:
            self.spec.check()
            return self._run(on_ready)
        finally:
            if self.spec.ephemeral:
                shutil.rmtree(self.spec.data_dir, ignore_errors=True)

    def _run(self, on_ready: Callable[[ClusterState], None]) -> int:
        lock = cluster_state.claim(self.spec.data_dir)
        try:
            check_ports(self.spec)
            self._install_signals()
            self._start_all()
            with ControlSocket(self.spec.data_dir) as control:
                if not self._stopping:
                    self.state.save()
                    on_ready(self.state)
                return self._wait(control)
        finally:
            self._stop_all()
            with contextlib.suppress(FileNotFoundError):
                (self.spec.data_dir / cluster_state.STATE_FILE).unlink()
            os.close(lock)

    def _install_signals(self) -> None:
        def note(_signal: int, _frame: object) -> None:
            self._stopping = True

        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, note)
        signal.signal(signal.SIGINT, note)
        signal.signal(signal.SIGCHLD, lambda _signal, _frame: None)

    def _start_all(self) -> None:
        import_broker_code()
        gc.collect()
        gc.freeze()
        spec = self.spec
        if spec.zookeeper_connect is None:
            directory = spec.data_dir / "zookeeper"
            zookeeper = self._fork("zookeeper", 0, spec.zookeeper_port, directory)
            self._await_ready([zookeeper])
            self.state.zookeeper_connect = f"{HOST}:{zookeeper.state.port}"
        else:
            self.state.zookeeper_connect = spec.zookeeper_connect
        brokers = [
            self._fork(
                "broker",
                node_id,
                spec.first_port + node_id - 1 if spec.first_port else 0,
                spec.data_dir / f"broker-{node_id}",
            )
            for node_id in range(1, spec.broker_count + 1)
        ]
        self._await_ready(brokers)

    def _fork(self, kind: str, node_id: int, port: int, directory: Path) -> _Child:
        logs = self.spec.data_dir / "logs"
        logs.mkdir(exist_ok=True)
        directory.mkdir(exist_ok=True)
        name = f"broker-{node_id}" if kind == "broker" else kind
        state = NodeState(kind, node_id, 0, HOST, port, str(directory), str(logs / f"{name}.log"))
        child = _Child(state)
        self._children.append(child)
        self.state.nodes.append(state)
        self._fork_child(child)
        return child

    def _fork_child(self, child: _Child) -> None:
        state = child.state
        status_read, status_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            os.close(status_read)
            os.close(self._lifeline_write)
            signal.set_wakeup_fd(-1)
            self._run_child(state, status_write)
        os.close(status_write)
        if child.status_fd >= 0:
            os.close(child.status_fd)
        child.status_fd = status_read
        child.received.clear()
        child.exit_status = None
        state.pid = pid
        state.status = NodeStatus.RUNNING

    def _run_child(self, state: NodeState, status_fd: int) -> None:
        """In the forked process; never returns."""
        from broker import node_process

        code = 1
        try:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            code = node_process.run_node(
                state, self.spec, self.state.zookeeper_connect, status_fd, self._lifeline_read
            )
        except BaseException as error:
            with contextlib.suppress(OSError):
                node_process.report_error(status_fd, error)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _await_ready(self, waiting: list[_Child]) -> None:
        """Wait for the ready line of each child. Raises ClusterError with what a node said."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        pending = list(waiting)
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_read, selectors.EVENT_READ, None)
            for child in pending:
                selector.register(child.status_fd, selectors.EVENT_READ, child)
            while pending and not self._stopping:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    late = ", ".join(child.state.name for child in pending)
                    raise ClusterError(
                        f"{late} not ready after {START_TIMEOUT_SECONDS:.0f} s; "
                        f"its log is {pending[0].state.log_file}"
                    )
                for key, _ in selector.select(remaining):
                    if key.data is None:
                        self._drain_wakeups()
                    elif self._read_status(key.data):
                        selector.unregister(key.data.status_fd)
                        pending.remove(key.data)

    def _read_status(self, child: _Child) -> bool:
        """Take in what the child said. True once it is ready; raises ClusterError if it failed."""
        chunk = os.read(child.status_fd, 4096)
        child.received += chunk
        line, newline, _ = child.received.partition(b"\n")
        if newline:
            message = json.loads(line)
            if "error" in message:
                raise ClusterError(message["error"])
            child.state.port = message["ready"]
            return True
        if not chunk or len(child.received) > STATUS_LINE_MAX_BYTES:
            raise ClusterError(
                f"{child.state.name} died while starting; its log is {child.state.log_file}"
            )
        return False

    def _drain_wakeups(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_read, 512):
                pass

    def _reap(self) -> list[_Child]:
        died = []
        for child in self._children:
            if child.exit_status is not None:
                continue
            pid, status = os.waitpid(child.state.pid, os.WNOHANG)
            if pid:
                child.exit_status = os.waitstatus_to_exitcode(status)
                child.state.status = _status_of_exit(child.exit_status)
                died.append(child)
        return died

    def _wait(self, control: ControlSocket) -> int:
        """Until a signal says stop, or every broker is gone for good."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_read, selectors.EVENT_READ)
            selector.register(control, selectors.EVENT_READ, control)
            while not self._stopping:
                if died := self._reap():
                    for child in died:
                        self._report(f"{child.state.name} {_describe_exit(child)}")
                    self.state.save()
                for key, _ in selector.select():
                    if key.data is control:
                        control.serve_one(self._obey)
                self._drain_wakeups()
        return 0

    def _obey(self, command: str, node: str) -> str:
        """Carry out a command for one node; returns what to tell the user. Raises ClusterError."""
        child = self._find(node)
        state = child.state
        if command == "restart":
            return self._restart(child)
        if child.exit_status is not None:
            raise ClusterError(
                f"{state.name} is not running; start it with: pybroker restart {node}"
            )
        if command == "stop":
            self._stop_group([child])
            state.status = NodeStatus.STOPPED
        elif command == "kill":
            os.kill(state.pid, signal.SIGKILL)
            _, status = os.waitpid(state.pid, 0)
            child.exit_status = os.waitstatus_to_exitcode(status)
            state.status = NodeStatus.KILLED
        elif command == "pause":
            os.kill(state.pid, signal.SIGSTOP)
            state.status = NodeStatus.PAUSED
        elif command == "resume":
            os.kill(state.pid, signal.SIGCONT)
            state.status = NodeStatus.RUNNING
        else:
            raise ClusterError(f"there is no command {command!r}")
        self.state.save()
        return f"{state.name} is {state.status}"

    def _find(self, node: str) -> _Child:
        for child in self._children:
            if node in (child.state.kind, str(child.state.node_id)) and (
                child.state.kind == "zookeeper" or node != "broker"
            ):
                return child
        known = ", ".join(
            str(child.state.node_id) if child.state.kind == "broker" else child.state.kind
            for child in self._children
        )
        raise ClusterError(f"there is no node {node!r}; the nodes are: {known}")

    def _restart(self, child: _Child) -> str:
        """Stop the node if it runs, and fork it again on its own port and directory."""
        started = time.monotonic()
        if child.exit_status is None:
            self._stop_group([child])
        self._fork_child(child)
        try:
            self._await_ready([child])
        finally:
            self.state.save()
        return f"{child.state.name} is ready after {time.monotonic() - started:.2f} s"

    def _stop_all(self) -> None:
        """Brokers first, together; ZooKeeper after them, since they say goodbye to it."""
        for kind in ("broker", "zookeeper"):
            group = [child for child in self._children if child.state.kind == kind]
            self._stop_group(group)
        for child in self._children:
            if child.status_fd >= 0:
                os.close(child.status_fd)
        self._children.clear()
        os.close(self._lifeline_write)

    def _stop_group(self, group: list[_Child]) -> None:
        self._reap()
        for child in group:
            if child.exit_status is None:
                os.kill(child.state.pid, signal.SIGTERM)
                os.kill(child.state.pid, signal.SIGCONT)
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_read, selectors.EVENT_READ)
            while any(child.exit_status is None for child in group):
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                selector.select(min(remaining, 0.2))
                self._drain_wakeups()
                self._reap()
        for child in group:
            if child.exit_status is None:
                self._report(f"{child.state.name} did not stop; killing it")
                os.kill(child.state.pid, signal.SIGKILL)
                _, status = os.waitpid(child.state.pid, 0)
                child.exit_status = os.waitstatus_to_exitcode(status)


def _status_of_exit(exit_status: int) -> NodeStatus:
    if exit_status == 0:
        return NodeStatus.STOPPED
    return NodeStatus.KILLED if exit_status < 0 else NodeStatus.FAILED


def _describe_exit(child: _Child) -> str:
    assert child.exit_status is not None
    if child.exit_status < 0:
        return f"was killed by {signal.Signals(-child.exit_status).name}"
    return f"stopped with status {child.exit_status}; its log is {child.state.log_file}"


def import_broker_code() -> None:
    """Pay for the imports once, before forking."""
    import broker.node_process
    import broker.server
    import broker.zookeeper_server  # noqa: F401
