"""The processes of a local cluster: forked, awaited until they are ready, and ended in order.

The supervisor forks them before any thread or event loop is started, and stays a plain `select`
loop, so that it may fork again. Nothing is restarted silently: a node that dies is reported and
stays dead. The nodes share the directory's second lock with the supervisor: the next holder of that
lock knows that none of them is alive.

Invariants: `children` and the nodes of the cluster's state are in the same order, ZooKeepers first.
A node that does not end STOP_TIMEOUT_SECONDS after the order to stop is killed.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from .broker_sessions import BrokerSessions
from .cluster_spec import HOST, ClusterSpec
from .cluster_state import ClusterError, ClusterState, NodeState, NodeStatus
from .node_child import Lifeline, NodeChild, zookeepers_among
from .node_signals import STOP_SIGNALS, behave_as_node
from .orders import Execute, Orders

START_TIMEOUT_SECONDS = 60.0
STOP_TIMEOUT_SECONDS = 30.0


class NodeGroup:
    def __init__(
        self,
        spec: ClusterSpec,
        state: ClusterState,
        orders: Orders,
        report: Callable[[str], None],
    ) -> None:
        self.children: list[NodeChild] = []
        self.sessions = BrokerSessions(spec, state, self.children, report)
        self.lock = -1  # the supervisor's, which no node keeps
        self._spec = spec
        self._state = state
        self._orders = orders
        self._report = report
        self._lifelines = {kind: Lifeline(*os.pipe()) for kind in ("broker", "zookeeper")}

    def zookeepers(self) -> list[NodeChild]:
        return zookeepers_among(self.children)

    # Forks

    def fork(self, kind: str, node_id: int, port: int, directory: Path) -> NodeChild:
        """Fork a new node."""
        logs = self._spec.data_dir / "logs"
        logs.mkdir(exist_ok=True)
        directory.mkdir(exist_ok=True)
        state = NodeState(kind, node_id, 0, HOST, port, str(directory), "")
        name = f"broker-{node_id}" if kind == "broker" else state.name
        state.log_file = str(logs / f"{name}.log")
        child = NodeChild(state)
        self.children.append(child)
        self._state.nodes.append(state)
        self.fork_again(child)
        return child

    def fork_again(self, child: NodeChild) -> None:
        """Fork a node that does not run, on its own port and directory."""
        state = child.state
        status_read, status_write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            self._run_child(state, status_write, [status_read, *self._own_descriptors()])
        os.close(status_write)
        if child.status_fd >= 0:
            os.close(child.status_fd)
        child.status_fd = status_read
        child.received.clear()
        child.last_words = ""
        child.exit_status = None
        child.has_open_session = False  # it closes its own old session before it registers
        state.pid = pid
        state.status = NodeStatus.RUNNING

    def _own_descriptors(self) -> list[int]:
        """The descriptors that no node keeps."""
        return [self.lock, *self._orders.descriptors()]

    def descriptors(self) -> list[int]:
        """The descriptors that a process which is no node must close."""
        return [*self._own_descriptors(), *(line.write for line in self._lifelines.values())]

    def _run_child(self, state: NodeState, status_fd: int, not_ours: Iterable[int]) -> None:
        """Run the node in the forked process; never returns."""
        from . import node_process

        code = 1
        try:
            behave_as_node(state.kind, self._state.supervisor_pid)
            for descriptor in not_ours:
                os.close(descriptor)
            os.close(self._lifelines["broker"].write)
            if state.kind == "zookeeper":
                os.close(self._lifelines["zookeeper"].write)
            code = node_process.run_node(
                state,
                self._spec,
                self._state.zookeeper_connect,
                status_fd,
                self._lifelines[state.kind].read,
            )
        except BaseException as error:
            with contextlib.suppress(OSError):
                node_process.report_error(status_fd, error)
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    # Starts

    def await_ready(self, waiting: list[NodeChild], execute: Execute) -> None:
        """Wait for the ready line of each child; commands are for `execute`. Raises ClusterError
        with a node's error."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        pending = {child.status_fd: child for child in waiting}
        orders = self._orders
        with orders.all() as selector:
            for descriptor in pending:
                selector.register(descriptor, selectors.EVENT_READ)
            while pending and not orders.is_stopping:
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    raise _late(pending.values())
                for key, _ in selector.select(orders.patience(remaining)):
                    if orders.take(key, execute):
                        continue
                    child = pending.get(key.fd)
                    if child is None:
                        orders.forget_signals()
                        self.tend(waiting)
                        self.need_zookeeper()
                    elif not orders.is_stopping and child.read_report():
                        selector.unregister(key.fd)
                        del pending[key.fd]

    def need_zookeeper(self, advice: str = "") -> None:
        """Raises ClusterError without ZooKeeper: brokers that start would wait for it in vain."""
        own = self.zookeepers()
        ended = [child for child in own if child.exit_status is not None]
        if own and 2 * len(ended) >= len(own):
            names = ", ".join(f"{child.state.name} {child.fate}" for child in ended)
            raise ClusterError(names + advice.format(ended[0].state.name))

    # Deaths

    def tend(self, awaited: Collection[NodeChild] = ()) -> bool:
        """Notice deaths of nodes, and close their sessions at once. True if there were any.

        Deaths of the `awaited` are not reported here: their waiter reports them.
        """
        died = self._reap()
        for child in died:
            if child not in awaited:
                self._report(f"{child.state.name} {child.fate}")
        self.sessions.close_open()
        return bool(died)

    def _reap(self) -> list[NodeChild]:
        died = []
        for child in self.children:
            if child.exit_status is not None:
                continue
            pid, status = os.waitpid(child.state.pid, os.WNOHANG)
            if pid:
                child.end(status)
                died.append(child)
        return died

    # Ends

    def kill(self, child: NodeChild) -> None:
        os.kill(child.state.pid, signal.SIGKILL)
        _, status = os.waitpid(child.state.pid, 0)
        child.end(status)

    def stop(self, group: list[NodeChild]) -> None:
        """Stop these nodes and wait for their ends."""
        self.tend(group)
        for child in group:
            if child.exit_status is None:
                os.kill(child.state.pid, STOP_SIGNALS[child.state.kind])
                os.kill(child.state.pid, signal.SIGCONT)
        self._await_end(group)

    def remove(self, group: list[NodeChild]) -> None:
        """Forget nodes that have ended."""
        for child in group:
            os.close(child.status_fd)
            self.children.remove(child)
            self._state.nodes.remove(child.state)

    def sort(self) -> None:
        """ZooKeepers first, as after a start."""
        self.children.sort(key=lambda child: child.state.kind == "broker")
        self._state.nodes.sort(key=lambda state: state.kind == "broker")

    def stop_all(self) -> None:
        """Brokers first, together; ZooKeeper after them, since they close their sessions there.

        No broker hands leaderships over: none would be left to take them. An ephemeral cluster with
        its own ZooKeeper is killed.
        """
        self._reap()
        if self._spec.ephemeral and self._spec.zookeeper_connect is None:
            for child in self.children:
                if child.exit_status is None:
                    os.kill(child.state.pid, signal.SIGKILL)
            self._await_end(list(self.children))
        for child in self.children:
            if child.exit_status is None:
                os.kill(child.state.pid, signal.SIGCONT)
        for kind in ("broker", "zookeeper"):
            os.close(self._lifelines[kind].write)
            self._await_end([child for child in self.children if child.state.kind == kind])
        for child in self.children:
            if child.status_fd >= 0:
                os.close(child.status_fd)
        self.children.clear()

    def _await_end(self, group: list[NodeChild]) -> None:
        """Wait for the ends of these nodes, and kill those that do not end in time."""
        self._reap()
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        with self._orders.signals() as selector:
            while any(child.exit_status is None for child in group):
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    break
                selector.select(min(remaining, 0.2))
                self._orders.forget_signals()
                self.tend(group)
        for child in group:
            if child.exit_status is None:
                self._report(f"{child.state.name} did not stop; killing it")
                self.kill(child)
        self.sessions.close_open()


def _late(pending: Collection[NodeChild]) -> ClusterError:
    late = ", ".join(child.state.name for child in pending)
    log_file = next(iter(pending)).state.log_file
    return ClusterError(
        f"{late} not ready after {START_TIMEOUT_SECONDS:.0f} s; its log is {log_file}"
    )
