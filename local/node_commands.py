"""The commands that a running supervisor carries out, for single nodes and for the cluster.

shutdown orders the stop of the cluster; stop, kill, kill-as-lost, pause, resume, restart and
expire-session are for one node; zookeepers changes the number of ZooKeepers while the brokers run.
kill-as-lost leaves the ZooKeeper session of a broker open, as a machine that vanishes would. While
nodes start, a further stop, restart or change waits; the other commands are executed at once.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from .cluster_control import Later
from .cluster_spec import HOST, ClusterSpec
from .cluster_start import ClusterStart
from .cluster_state import ClusterError, NodeStatus
from .node_child import NodeChild
from .node_group import NodeGroup
from .orders import Orders
from .zookeeper_change import ZooKeepers, planned
from .zookeeper_nodes import status_of

RECONNECT_TIMEOUT_SECONDS = 20.0
RECONNECT_POLL_SECONDS = 0.05


class NodeCommands:
    def __init__(
        self,
        spec: ClusterSpec,
        nodes: NodeGroup,
        start: ClusterStart,
        orders: Orders,
        save_state: Callable[[], None],
    ) -> None:
        self.has_started = False  # once: nodes may be restarted since
        self._spec = spec
        self._nodes = nodes
        self._start = start
        self._orders = orders
        self._save_state = save_state

    def execute_meanwhile(self, command: str, node: str) -> str:
        """As `execute`, while nodes start. Raises Later for what would wait itself."""
        if command != "shutdown":
            if not self.has_started:
                raise ClusterError("the cluster is still starting; try again")
            if command in ("restart", "stop", "zookeepers"):
                raise Later
        return self.execute(command, node)

    def execute(self, command: str, node: str) -> str:
        """Carry out a command; returns a text for the user. Raises ClusterError."""
        if command == "shutdown":
            self._orders.is_stopping = True
            return "stopping"
        if command == "zookeepers":
            return self._change_zookeepers(node)
        child = self._find(node)
        state = child.state
        if command == "restart":
            return self._restart(child)
        if child.exit_status is not None:
            raise ClusterError(
                f"{state.name} is not running; start it with: pybroker restart {node}"
            )
        if command == "stop":
            self._nodes.stop([child])
            state.status = NodeStatus.STOPPED
        elif command in ("kill", "kill-as-lost"):
            self._nodes.kill(child)
            child.has_open_session &= command == "kill"
            self._nodes.sessions.close_open()
        elif command == "pause":
            child.pause()
            state.status = NodeStatus.PAUSED
        elif command == "expire-session":
            problem = self._nodes.sessions.close([state.node_id])
            if problem:
                raise ClusterError(problem)
            return f"the ZooKeeper session of {state.name} has ended"
        elif command == "resume":
            os.kill(state.pid, signal.SIGCONT)
            state.status = NodeStatus.RUNNING
        else:
            raise ClusterError(f"there is no command {command!r}")
        self._save_state()
        return f"{state.name} is {state.status}"

    def _find(self, node: str) -> NodeChild:
        for child in self._nodes.children:
            if node == child.state.label:
                return child
        known = ", ".join(child.state.label for child in self._nodes.children)
        raise ClusterError(f"there is no node {node!r}; the nodes are: {known}")

    def _restart(self, child: NodeChild) -> str:
        """Stop the node if it runs, and fork it again on its own port and directory."""
        nodes = self._nodes
        started = time.monotonic()
        if child.exit_status is None:
            nodes.stop([child])
        if child.state.kind == "broker":
            nodes.need_zookeeper("; start it first, with: pybroker restart {}")
            if child.exit_status and nodes.sessions.may_be_closed:
                # It can close its own old session only with its session file: not so on a full
                # disk.
                nodes.sessions.close([child.state.node_id])
        self._start.prepare_certificates()
        nodes.fork_again(child)
        try:
            nodes.await_ready([child], self.execute_meanwhile)
        finally:
            self._save_state()
        self._check_not_stopping()
        return f"{child.state.name} is ready after {time.monotonic() - started:.2f} s"

    def _check_not_stopping(self) -> None:
        if self._orders.is_stopping:
            raise ClusterError("the cluster is being stopped")

    # Another number of ZooKeepers

    def _change_zookeepers(self, wanted: str) -> str:
        """Replace our ZooKeepers by another number of them; if that fails, by the old ones."""
        spec, old = self._spec, self._nodes.zookeepers()
        new = planned(spec, [child.state.port for child in old], wanted)
        before = ZooKeepers(
            spec.zookeeper_count, [child.state.port for child in old], spec.ensemble_ports
        )
        started = time.monotonic()
        try:
            self._replace_zookeepers(new)
        except (ClusterError, OSError) as error:
            self._replace_zookeepers(before)
            raise ClusterError(f"{error}; the cluster has {before.number} again") from error
        finally:
            self._save_state()
        self._await_reconnects()
        self._check_not_stopping()
        are = "ZooKeepers are" if new.number > 1 else "ZooKeeper is"
        return f"{new.number} {are} ready after {time.monotonic() - started:.2f} s"

    def _replace_zookeepers(self, new: ZooKeepers) -> None:
        old = self._nodes.zookeepers()
        self._nodes.stop(old)
        self._nodes.remove(old)
        new.set_in(self._spec)
        self._start.start_zookeepers(self.execute_meanwhile)
        self._nodes.sort()

    def _await_reconnects(self) -> None:
        """Wait until the members have a client for each broker that runs: a broker that has not
        reached the first member yet knows no other one. One that comes too late is not waited for.
        """
        nodes = self._nodes
        members = [(HOST, child.state.port) for child in nodes.zookeepers()]
        deadline = time.monotonic() + RECONNECT_TIMEOUT_SECONDS
        while len(members) > 1 and not self._orders.is_stopping and time.monotonic() < deadline:
            nodes.tend()
            states = [child.state for child in nodes.children if child.state.kind == "broker"]
            running = sum(1 for state in states if state.status is NodeStatus.RUNNING)
            if sum(status_of(*member).connections for member in members) >= running:
                return
            time.sleep(RECONNECT_POLL_SECONDS)
