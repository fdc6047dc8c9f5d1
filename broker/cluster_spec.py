"""What a local cluster is to be: nodes, ports, directories and configs, checked before it starts.

Everything that can be found wrong beforehand (an unknown key, a bad value, a port in use) is found
here, so that nothing has been started yet when the user reads of it.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from broker import cluster_state
from broker.cluster_state import ClusterError, NodeState

if TYPE_CHECKING:
    from broker.config import KafkaConfig

HOST = "127.0.0.1"


# What makes the nodes one cluster.
OWN_KEYS = {
    "broker.id": "the brokers have the ids 1 to N, see --brokers",
    "node.id": "the brokers have the ids 1 to N, see --brokers",
    "zookeeper.connect": "name an ensemble with --zookeeper HOST:PORT",
}


@dataclass(slots=True)
class ClusterSpec:
    """What to start. Port 0: any free port; `zookeeper_connect` replaces the embedded one."""

    data_dir: Path
    broker_count: int = 3
    first_port: int = 9092
    zookeeper_port: int = 2181
    zookeeper_connect: str | None = None
    ephemeral: bool = False
    overrides: Mapping[str, str] = field(default_factory=dict)
    first_metrics_port: int | None = None
    verbose: bool = False

    def local_defaults(self) -> dict[str, str]:
        """Where a local cluster departs from Kafka's defaults; `overrides` win over these."""
        replicas = str(min(3, self.broker_count))
        return {
            "default.replication.factor": replicas,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(2, self.broker_count)),
            "group.initial.rebalance.delay.ms": "0",
        }

    def broker_config(self, node: NodeState, zookeeper_connect: str) -> KafkaConfig:
        """The config of one broker. Raises ConfigError."""
        from broker.config.loading import load_config

        overrides = {
            key: value.replace("{id}", str(node.node_id)) for key, value in self.overrides.items()
        }
        return load_config(
            overrides={
                **self.local_defaults(),
                "broker.id": str(node.node_id),
                "listeners": f"PLAINTEXT://{node.host}:{node.port}",
                "log.dirs": node.directory,
                "zookeeper.connect": zookeeper_connect,
                **overrides,
            }
        )

    def check(self) -> None:
        """Raise ClusterError for a config that no broker could start with."""
        from broker.config import ConfigError
        from broker.config.checks import check_config

        for key, advice in OWN_KEYS.items():
            if key in self.overrides:
                raise ClusterError(f"{key} is not for --config: {advice}")
        directory = str(self.data_dir / "broker-1")
        node = NodeState("broker", 1, 0, HOST, self.first_port or 9092, directory, "")
        try:
            check_config(self.broker_config(node, self.zookeeper_connect or f"{HOST}:2181"))
        except ConfigError as error:
            raise ClusterError(str(error)) from None


def check_ports(spec: ClusterSpec) -> None:
    """Raise ClusterError if a wanted port is taken, before anything is started."""
    wanted: list[tuple[int, str, str]] = []
    if spec.zookeeper_connect is None and spec.zookeeper_port:
        wanted.append((spec.zookeeper_port, "ZooKeeper", "--zookeeper-port"))
    if spec.first_port:
        wanted += [
            (spec.first_port + node_id - 1, f"broker {node_id}", "--port")
            for node_id in range(1, spec.broker_count + 1)
        ]
    for port, owner, option in wanted:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError as error:
                raise ClusterError(
                    f"port {port}, wanted for {owner}, cannot be used: {error.strerror}; "
                    f"choose another with {option}, or 0 for any free port"
                ) from None


def ephemeral_directory() -> Path:
    """A fresh directory for a cluster that leaves nothing behind."""
    directory = Path(tempfile.mkdtemp(prefix="pybroker-"))
    (directory / cluster_state.LOCK_FILE).touch()
    return directory
