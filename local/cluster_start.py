"""The start of a local cluster, step by step: code, secrets, ZooKeepers, brokers, first users.

Each step is cut short by an order to stop, and then does nothing more. A node that cannot start is
a ClusterError, and the caller ends the others.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

from .cluster_spec import HOST, ClusterSpec
from .cluster_state import ClusterError, ClusterState
from .kept_objects import kept_objects
from .node_child import NodeChild
from .node_group import START_TIMEOUT_SECONDS, NodeGroup
from .node_signals import prepare_for_forks
from .orders import Execute, Orders
from .secured import SecurityFiles
from .zookeeper_nodes import await_leader, free_ports, names_of, prepare_directories


class ClusterStart:
    def __init__(
        self,
        spec: ClusterSpec,
        state: ClusterState,
        nodes: NodeGroup,
        orders: Orders,
        report: Callable[[str], None],
    ) -> None:
        self._spec = spec
        self._state = state
        self._nodes = nodes
        self._orders = orders
        self._report = report

    def start_all(self, execute: Execute) -> None:
        """Start the cluster; commands meanwhile are for `execute`."""
        prepare_for_forks()
        spec = self._spec
        if spec.security is not None:
            spec.security.prepare_secrets()
        if spec.zookeeper_connect is None:
            self.start_zookeepers(execute)
        else:
            self.prepare_certificates()
            self._state.zookeeper_connect = spec.zookeeper_connect
        import_broker_code()
        if self._orders.is_stopping:
            return
        self._close_old_sessions()
        brokers = self._start_brokers(execute)
        if spec.security is not None and not self._orders.is_stopping:
            self._make_first_users(spec.security, brokers, execute)

    def _close_old_sessions(self) -> None:
        """Before any broker is forked all of them are dead."""
        problem = self._nodes.sessions.close(self._spec.known_broker_ids())
        if problem:
            self._nodes.tend(self._nodes.children)
            self._nodes.need_zookeeper()
            self._report(f"{problem}; the sessions of dead brokers are left to expire")

    def _start_brokers(self, execute: Execute) -> list[NodeChild]:
        spec = self._spec
        brokers = [
            self._nodes.fork(
                "broker",
                node_id,
                spec.first_port + node_id - 1 if spec.first_port else 0,
                spec.broker_directory(node_id),
            )
            for node_id in range(1, spec.broker_count + 1)
        ]
        if spec.security is not None:
            from . import set_up  # noqa: F401, while they start
        self._nodes.await_ready(brokers, execute)
        if release := brokers[0].release_lacked:
            self._report(
                f"the cluster keeps the features that it has; for those of Kafka {release}: "
                f"pybroker features upgrade --release {release}"
            )
        return brokers

    def start_zookeepers(self, execute: Execute) -> None:
        """Start the ZooKeepers of the spec, and wait until they have a leader."""
        spec = self._spec
        prepare_directories(spec.data_dir, spec.zookeeper_count)
        import_zookeeper_code()
        if spec.zookeeper_count > 1:
            from ..broker.zookeeper import member_server  # noqa: F401, once for all members

            spec.ensemble_ports = spec.ensemble_ports or free_ports(spec.zookeeper_count, set())
            self.prepare_certificates()
        started = [
            self._nodes.fork("zookeeper", number, port, directory)
            for number, port, directory in spec.zookeepers()
        ]
        # While they start; they are forked without the broker's code, which is most of the memory.
        import_broker_code()
        self.prepare_certificates()
        self._nodes.await_ready(started, execute)
        addresses = [(HOST, child.state.port) for child in started]
        self._state.zookeeper_connect = ",".join(f"{host}:{port}" for host, port in addresses)
        if len(started) > 1:
            self._await_leader(started, addresses)

    def _await_leader(self, started: list[NodeChild], addresses: list[tuple[str, int]]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS

        def may_go_on() -> bool:
            self._nodes.tend(started)
            self._nodes.need_zookeeper()
            return not self._orders.is_stopping and time.monotonic() < deadline

        if not await_leader(addresses, may_go_on) and not self._orders.is_stopping:
            raise ClusterError(
                f"the ZooKeepers have no leader after {START_TIMEOUT_SECONDS:.0f} s; their "
                f"logs are in {self._spec.data_dir / 'logs'}"
            )

    def prepare_certificates(self) -> None:
        spec = self._spec
        if spec.security is not None:
            members = names_of(spec.zookeeper_count) if spec.ensemble_ports else []
            spec.security.prepare_certificates(spec.known_broker_ids(), members)

    def _make_first_users(
        self, security: SecurityFiles, brokers: list[NodeChild], execute: Execute
    ) -> None:
        """Make the users and files that clients need to log in; only the first start makes
        users.
        """
        from .client_files import write_client_files
        from .set_up import set_up_process

        write_client_files(security, self._state.bootstrap)
        not_ours = self._nodes.descriptors()
        with set_up_process(security, brokers, self._state.supervisor_pid, not_ours) as process:
            self._nodes.await_ready([process], execute)


@functools.cache
def import_zookeeper_code() -> None:
    """Pay for the imports once, before forking."""
    with kept_objects():
        from ..broker.zookeeper import server  # noqa: F401
        from . import node_process  # noqa: F401


@functools.cache
def import_broker_code() -> None:
    """Pay for the imports once, before forking."""
    import_zookeeper_code()
    with kept_objects():
        from ..broker import server  # noqa: F401
