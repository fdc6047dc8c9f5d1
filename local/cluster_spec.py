"""The wanted local cluster: nodes, ports, directories and configs, checked before it starts.

Every error that can be found beforehand (an unknown key, a bad value, a port in use) is found here,
so that no node has been started yet when the user reads of it.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .cluster_state import MAX_BROKERS, ClusterError, NodeState, release_of_new_clusters
from .secured import SecurityFiles
from .tier import tier_keys
from .zookeeper_credentials import zookeeper_credentials
from .zookeeper_nodes import Detours, Ports, names_of

if TYPE_CHECKING:
    from ..broker.config import KafkaConfig
    from ..broker.server import Companion

HOST = "127.0.0.1"
PORT_PATIENCE_SECONDS = 1.0
PORT_POLL_SECONDS = 0.02
DEFAULT_BROKERS = 3
BROKER_PREFIX = "broker-"
TABLES = "tables"  # the directory of the tables of topics


# The keys that make the nodes one cluster.
OWN_KEYS = {
    "broker.id": "the brokers have the ids 1 to N, see --brokers",
    "node.id": "the brokers have the ids 1 to N, see --brokers",
    "zookeeper.connect": "name an ensemble with --zookeeper HOST:PORT",
}


@dataclass(slots=True)
class ClusterSpec:
    """A cluster to start. Port 0: any free port; `zookeeper_connect` replaces the embedded one."""

    data_dir: Path
    broker_count: int = DEFAULT_BROKERS
    first_port: int = 9092
    zookeeper_port: int = 2181  # of the first
    zookeeper_count: int = 1
    zookeeper_ports: list[int] = field(default_factory=list)  # by the supervisor, of a change
    ensemble_ports: Ports = field(default_factory=dict)  # set by the supervisor, if by no other
    ensemble_detours: Detours = field(default_factory=dict)
    zookeeper_connect: str | None = None
    zookeeper_credentials: Path | None = None  # closes the embedded one to all but the brokers
    security: SecurityFiles | None = None  # of a secured cluster
    ephemeral: bool = False
    release: str = field(default_factory=release_of_new_clusters)  # whose features it has, if new
    tier: str | None = None  # a directory or an URL, for tiered storage
    registry: str | None = None  # the URL of the schema registry, for tables of topics
    overrides: Mapping[str, str] = field(default_factory=dict)
    metrics_host: str = HOST
    first_metrics_port: int | None = None  # 0: any free ports
    verbose: bool = False
    log_format: str = "text"
    companion: Callable[[NodeState], Companion] | None = None  # in the process of each broker
    own_keys: Callable[[int], Mapping[str, str]] | None = None  # of a broker; they win over all

    def local_defaults(self) -> dict[str, str]:
        """The differences from Kafka's defaults in a local cluster; `overrides` win over these."""
        replicas, in_sync = str(min(3, self.broker_count)), str(min(2, self.broker_count))
        return {
            # Of a new cluster; one that exists keeps its features.
            "pybroker.features": self.release,
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            "share.coordinator.state.topic.replication.factor": replicas,
            "share.coordinator.state.topic.min.isr": in_sync,
            "group.initial.rebalance.delay.ms": "0",
            # A node that hangs is missed after 6 s, not after Kafka's 18 s.
            "zookeeper.session.timeout.ms": "6000",
            "zookeeper.connection.timeout.ms": "18000",
            "pybroker.zookeeper.follow.members": str(self.zookeeper_connect is None).lower(),
        }

    def metrics_address(self, node_id: int) -> tuple[str, int] | None:
        """The metrics address of a broker; the ports follow one another as the brokers do."""
        first = self.first_metrics_port
        if first is None:
            return None
        return self.metrics_host, first + node_id - 1 if first else 0

    def broker_config(self, node: NodeState, zookeeper_connect: str) -> KafkaConfig:
        """The config of one broker. Raises ConfigError."""
        from ..broker.config.loading import load_config

        overrides = {
            key: value.replace("{id}", str(node.node_id)) for key, value in self.overrides.items()
        }
        closed = {}
        if self.zookeeper_credentials is not None:
            credentials = str(self.zookeeper_credentials)
            closed = {
                "pybroker.zookeeper.credentials.file": credentials,
                "zookeeper.set.acl": "true",
            }
        listening: Mapping[str, str] = {"listeners": f"PLAINTEXT://{node.host}:{node.port}"}
        if self.security is not None:
            listening = self.security.broker_keys(node.node_id, node.host, node.port)
        return load_config(
            overrides={
                **self.local_defaults(),
                **closed,
                **self._tier_keys(),
                **self._table_keys(),
                **listening,
                "broker.id": str(node.node_id),
                "log.dirs": node.directory,
                "zookeeper.connect": zookeeper_connect,
                **overrides,
                **({} if self.own_keys is None else self.own_keys(node.node_id)),
            }
        )

    def _tier_keys(self) -> dict[str, str]:
        if self.tier is None:
            return {}
        in_cluster = {} if self.security is None else self.security.internal_settings()
        return tier_keys(self.tier, min(3, self.broker_count), in_cluster)

    def _table_keys(self) -> dict[str, str]:
        """Topics may have tables, in a directory beside those of the brokers."""
        client = {} if self.security is None else self.security.internal_settings()
        return {
            "pybroker.table.warehouse": str(self.data_dir.absolute() / TABLES),
            **({} if self.registry is None else {"pybroker.table.registry": self.registry}),
            **{f"pybroker.table.client.{name}": text for name, text in client.items()},
        }

    def zookeepers(self) -> list[tuple[int, int, Path]]:
        """Number (0: alone), client port (0: any) and directory of each ZooKeeper of ours."""
        first = 0 if self.zookeeper_count == 1 else 1
        counted = range(self.zookeeper_count)
        ports = self.zookeeper_ports or [
            self.zookeeper_port + index if self.zookeeper_port else 0 for index in counted
        ]
        paths = [self.data_dir / name for name in names_of(self.zookeeper_count)]
        return [(first + index, ports[index], paths[index]) for index in counted]

    def broker_directory(self, broker_id: int) -> Path:
        return self.data_dir / f"{BROKER_PREFIX}{broker_id}"

    def known_broker_ids(self) -> list[int]:
        """The brokers that are to start, and brokers left here by a start with more of them."""
        return list(range(1, max(self.broker_count, remembered_brokers(self.data_dir)) + 1))

    def log_dirs_of(self, broker_id: int) -> list[Path]:
        """The log directories of this broker, which hold its session file too."""
        directory = str(self.broker_directory(broker_id))
        node = NodeState("broker", broker_id, 0, HOST, 0, directory, "")
        return [Path(path) for path in self.broker_config(node, f"{HOST}:2181").log_dirs]

    def check(self) -> None:
        """Raise ClusterError for a config that no broker could start with."""
        from ..broker.config import ConfigError
        from ..broker.config.checks import check_config

        for key, advice in OWN_KEYS.items():
            if key in self.overrides:
                raise ClusterError(f"{key} is not for --config: {advice}")
        self._check_security()
        self.check_zookeepers(self.zookeeper_count)
        directory = str(self.broker_directory(1))
        node = NodeState("broker", 1, 0, HOST, self.first_port or 9092, directory, "")
        try:
            check_config(self.broker_config(node, self.zookeeper_connect or f"{HOST}:2181"))
        except ConfigError as error:
            raise ClusterError(str(error)) from None

    def check_zookeepers(self, count: int) -> None:
        """Raise ClusterError if this cluster cannot have as many."""
        if count > 1 and self.security is None and self.zookeeper_credentials:
            raise ClusterError(
                "--zookeeper-credentials alone would leave the ports between several ZooKeepers "
                "open to everyone on this machine: use --secure, which closes both"
            )

    def _check_security(self) -> None:
        """A secured cluster is never started open."""
        found = SecurityFiles(self.data_dir)
        if self.security is None:
            if found.exists:
                raise ClusterError(
                    f"the cluster on {self.data_dir} is secured: start it with --secure; it would "
                    "be open to everyone without"
                )
        else:
            self.security.check_overrides(self.overrides)
        if self.zookeeper_credentials is None and self.zookeeper_connect is not None:
            if self.security is not None:
                raise ClusterError(
                    "--secure with --zookeeper needs --zookeeper-credentials: without them, "
                    "every client of ZooKeeper could add users"
                )
        elif self.zookeeper_credentials != found.zookeeper:  # that one is made later
            zookeeper_credentials(self.zookeeper_credentials)


def remembered_brokers(data_dir: Path) -> int:
    """The number of brokers with data here; 0 for a new directory."""
    try:
        names = [entry.name for entry in data_dir.iterdir()]
    except OSError:
        return 0
    digits = [name[len(BROKER_PREFIX) :] for name in names if name.startswith(BROKER_PREFIX)]
    ids = [int(text) for text in digits if text.isascii() and text.isdecimal()]
    return max((number for number in ids if number <= MAX_BROKERS), default=0)


def check_ports(spec: ClusterSpec) -> None:
    """Raise ClusterError if a wanted port is taken, before anything is started.

    A port gets a second to become free: a process killed a moment ago may not be quite gone.
    """
    wanted: list[tuple[int, str, str]] = []
    if spec.zookeeper_connect is None and spec.zookeeper_port:
        wanted += [
            (port, f"ZooKeeper {number}" if number else "ZooKeeper", "--zookeeper-port")
            for number, port, _ in spec.zookeepers()
        ]
    if spec.first_port:
        wanted += [
            (spec.first_port + node_id - 1, f"broker {node_id}", "--port")
            for node_id in range(1, spec.broker_count + 1)
        ]
    give_up_at = time.monotonic() + PORT_PATIENCE_SECONDS
    for port, owner, option in wanted:
        while (problem := port_problem(port)) is not None:
            if time.monotonic() > give_up_at:
                raise ClusterError(
                    f"port {port}, wanted for {owner}, cannot be used: {problem}; "
                    f"choose another with {option}, or 0 for any free port"
                )
            time.sleep(PORT_POLL_SECONDS)


def port_problem(port: int) -> str | None:
    """Why nothing can listen on this port now, if that is so."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            return error.strerror
    return None
