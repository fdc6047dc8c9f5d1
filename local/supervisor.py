"""A local cluster on one machine: the embedded ZooKeeper and N brokers, each its own process.

`Supervisor` takes the data directory, has the nodes started (`cluster_start`), waits, and has them
stopped in order. Its parts: the processes (`node_group`), the ZooKeeper sessions of dead brokers
(`broker_sessions`), the commands (`node_commands`), and whatever interrupts a wait (`orders`).
Signals, and how nodes learn of the supervisor's own end, are in `node_signals`. From its first
moment it takes commands from `cluster_control`'s socket.

Limits, each longer than the limits inside it: a broker hands over for 20 s at most
(`controlled_shutdown`), is killed 30 s after the order to stop, as is ZooKeeper, and `pybroker
stop` waits for both. systemd kills after 90 s.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable

from . import cluster_state
from .broker_sessions import SESSION_RETRY_SECONDS
from .cluster_control import ControlSocket
from .cluster_spec import ClusterSpec, check_ports
from .cluster_start import ClusterStart
from .cluster_state import ClusterError, ClusterState
from .node_commands import NodeCommands
from .node_group import NodeGroup
from .orders import Orders


class Supervisor:
    """Starts the nodes of a `ClusterSpec`, waits, and stops them in order."""

    def __init__(
        self, spec: ClusterSpec, report: Callable[[str], None], owner: int | None = None
    ) -> None:
        """Something to read on the descriptor `owner`, or its end, is an order to stop."""
        self.spec = spec
        self.state = ClusterState(
            os.getpid(), str(spec.data_dir), spec.ephemeral, "", secured=spec.security is not None
        )
        self._reporter = report
        self._orders = Orders(owner)
        self._nodes = NodeGroup(spec, self.state, self._orders, self._report)
        self._start = ClusterStart(spec, self.state, self._nodes, self._orders, self._report)
        self._commands = NodeCommands(
            spec, self._nodes, self._start, self._orders, self._save_state
        )

    def run(self, on_ready: Callable[[ClusterState], None]) -> int:
        """Start, call `on_ready` once a produce would succeed, wait for a signal, stop.

        Returns the exit status. Raises ClusterError if the cluster cannot start; nothing is left
        running then.
        """
        try:
            self.spec.check()
            return self._run(on_ready)
        except OSError as error:
            from .node_process import describe

            raise ClusterError(
                f"no cluster can run on {self.spec.data_dir}: {describe(error)}"
            ) from error
        finally:
            if self.spec.ephemeral:
                shutil.rmtree(self.spec.data_dir, ignore_errors=True)

    def _run(self, on_ready: Callable[[ClusterState], None]) -> int:
        data_dir = self.spec.data_dir
        self._orders.install_signals()
        lock = self._nodes.lock = cluster_state.claim(data_dir)
        try:
            with ControlSocket(data_dir) as self._orders.control:
                nodes_lock = cluster_state.claim_nodes(data_dir, self._report)
                try:
                    check_ports(self.spec)
                    self._start.start_all(self._commands.execute_meanwhile)
                    if not self._orders.is_stopping:
                        self._commands.has_started = True
                        self.state.save()
                        on_ready(self.state)
                    return self._wait(self._orders.control)
                finally:
                    self._nodes.stop_all()
                    os.close(nodes_lock)
        finally:
            cluster_state.forget(data_dir)
            os.close(lock)

    def _wait(self, control: ControlSocket) -> int:
        """Wait until a signal, the owner or a command orders the stop."""
        orders, nodes, execute = self._orders, self._nodes, self._commands.execute
        with orders.all() as selector:
            while not orders.is_stopping:
                control.serve_waiting(execute)
                if nodes.tend():
                    self._save_state()
                unclosed = any(child.has_open_session for child in nodes.children)
                patience = orders.patience(SESSION_RETRY_SECONDS if unclosed else None)
                for key, _ in selector.select(patience):
                    orders.take(key, execute)
                orders.forget_signals()
        return 0

    def _report(self, line: str) -> None:
        """Report a line, without errors: the terminal may be gone, or the disk full."""
        with contextlib.suppress(OSError):
            self._reporter(line)

    def _save_state(self) -> None:
        """Save the state; if that fails, the nodes keep running."""
        try:
            self.state.save()
        except OSError as error:
            self._report(f"pybroker status shows old data: {error}")
