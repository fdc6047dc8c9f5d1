"""Clusters with the methods of testcontainers' `KafkaContainer` and `RedpandaContainer`.

Job: tests that were written for testcontainers-python run without Docker, with one import changed:
`from pybroker_kafka.testing import KafkaContainer`. One broker runs as processes of this machine,
and `cluster` is its `KafkaCluster`, with the faults and the rest.

KAFKA_* variables of `with_env` are keys of the broker; those of its place (ids, listeners,
directories, ZooKeeper, a controller) are left out. Methods that only shape a container (networks,
volumes, its command) change nothing; what needs one (`exec`, `get_wrapped_container`) is a
ClusterError. Mirrors: `testcontainers.kafka` up to 4.15.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar

from ..local.cluster_state import ClusterError
from .cluster import KafkaCluster

KAFKA_IMAGE = "confluentinc/cp-kafka:7.6.0"
REDPANDA_IMAGE = "docker.redpanda.com/redpandadata/redpanda:v23.1.13"
START_TIMEOUT_SECONDS = 30
HOST = "127.0.0.1"
OF_ITS_PLACE = frozenset(
    {
        "broker.id", "node.id", "listeners", "advertised.listeners", "log.dirs", "log.dir",
        "listener.security.protocol.map", "inter.broker.listener.name", "zookeeper.connect",
    }
)  # fmt: skip

ContainerT = TypeVar("ContainerT", bound="Container")


class Container:
    """The methods that both have. `port` is the one inside of the container that would be."""

    def __init__(self, image: str, port: int, **kwargs: Any) -> None:
        self.image = image
        self.env: dict[str, str] = {}
        self.ports: dict[int | str, int | str | None] = {port: None}
        self._inner_port = port
        self._kwargs = kwargs
        self._cluster: KafkaCluster | None = None

    # Life

    def start(self: ContainerT, timeout: int = START_TIMEOUT_SECONDS) -> ContainerT:
        """Returns itself once a produce would succeed; the timeout is that of `KafkaCluster`."""
        port = self.ports.get(self._inner_port) or 0
        self._cluster = KafkaCluster(config=self._config(), port=int(port)).start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:
        """All of it goes, whatever the arguments say. Without effect if it does not run."""
        if self._cluster is not None:
            self._cluster.stop()

    def __enter__(self: ContainerT) -> ContainerT:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._cluster is not None:
            self._cluster.__exit__(kind, error, trace)

    @property
    def cluster(self) -> KafkaCluster:
        """The running cluster: topics, records, faults."""
        if self._cluster is None:
            raise ClusterError("this container has not been started")
        return self._cluster

    @property
    def status(self) -> str:
        return "running" if self._cluster is not None and self._cluster.is_running else "exited"

    def _config(self) -> dict[str, str]:
        """The broker's keys of the variables. Raises ClusterError."""
        from ..broker.config import ConfigError, kraft
        from ..broker.config.loading import from_environment

        try:
            keys = kraft.translate(from_environment(self.env)).values
        except ConfigError as error:
            raise ClusterError(str(error)) from None
        return {key: value for key, value in keys.items() if key not in OF_ITS_PLACE}

    # Its address

    def get_bootstrap_server(self) -> str:
        """`host:port`, for `bootstrap_servers` and its like."""
        return self.cluster.bootstrap

    def get_container_host_ip(self) -> str:
        return HOST

    def get_exposed_port(self, port: int) -> int:
        """The port of this machine that leads to the broker's."""
        if port != self._inner_port:
            raise ClusterError(f"port {port} leads nowhere; the broker's is {self._inner_port}")
        return int(self.cluster.bootstrap.rpartition(":")[2])

    def get_logs(self) -> tuple[bytes, bytes]:
        """The broker's log, and nothing."""
        return Path(self.cluster.node(1).log_file).read_bytes(), b""

    # Settings

    def with_env(self: ContainerT, key: str, value: str) -> ContainerT:
        self.env[key] = str(value)
        return self

    def with_envs(self: ContainerT, **variables: str) -> ContainerT:
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def with_env_file(self: ContainerT, env_file: str | os.PathLike[str]) -> ContainerT:
        """Lines of KEY=VALUE, with # before comments."""
        for line in Path(env_file).read_text().splitlines():
            key, separator, value = line.strip().removeprefix("export ").partition("=")
            if separator and not key.startswith("#"):
                self.with_env(key.strip(), value.strip().strip("'\""))
        return self

    def with_bind_ports(
        self: ContainerT, container: int | str, host: int | str | None = None
    ) -> ContainerT:
        """The broker listens on this port of the machine, if it is its port that is bound."""
        number = str(container).partition("/")[0]
        self.ports[int(number) if number.isdecimal() else container] = host
        return self

    def with_exposed_ports(self: ContainerT, *ports: int | str) -> ContainerT:
        for port in ports:
            self.ports.setdefault(port, None)
        return self

    # What would shape a container

    def with_kwargs(self: ContainerT, **kwargs: Any) -> ContainerT:
        self._kwargs = kwargs
        return self

    def with_network(self: ContainerT, network: object) -> ContainerT:
        return self

    def with_network_aliases(self: ContainerT, *aliases: str) -> ContainerT:
        return self

    def with_command(self: ContainerT, command: str | Sequence[str]) -> ContainerT:
        return self

    def with_name(self: ContainerT, name: str) -> ContainerT:
        return self

    def with_volume_mapping(
        self: ContainerT,
        host: str | os.PathLike[str],
        container: str,
        mode: str = "ro",
    ) -> ContainerT:
        return self

    def with_tmpfs_mount(
        self: ContainerT,
        container_path: str,
        size: str | None = None,
    ) -> ContainerT:
        return self

    def waiting_for(self: ContainerT, strategy: object) -> ContainerT:
        return self

    def maybe_emulate_amd64(self: ContainerT) -> ContainerT:
        return self

    # What needs a container

    def exec(self, command: object) -> NoReturn:
        """Raises ClusterError."""
        raise ClusterError(
            "there is no container to run a command in; `cluster` has topics, records and faults, "
            "and Command runs commands of pybroker"
        )

    def get_wrapped_container(self) -> NoReturn:
        """Raises ClusterError."""
        raise ClusterError(
            "there is no container: kill, pause and restart are methods of `cluster`"
        )

    def get_docker_client(self) -> NoReturn:
        """Raises ClusterError."""
        raise ClusterError("there is no Docker: the broker is a process of this machine")


class KafkaContainer(Container):
    """`with KafkaContainer() as kafka: kafka.get_bootstrap_server()`."""

    def __init__(self, image: str = KAFKA_IMAGE, port: int = 9093, **kwargs: Any) -> None:
        port = int(kwargs.pop("port_to_expose", port))  # its name before 4.0
        super().__init__(image, port, **kwargs)
        self.port = port
        self.kraft_enabled = False
        self.cluster_id = ""
        self.with_env("KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS", "1")

    def with_kraft(self) -> KafkaContainer:
        """Without effect: clients see no difference."""
        self.kraft_enabled = True
        return self

    def with_cluster_id(self, cluster_id: str) -> KafkaContainer:
        """Without effect: the cluster makes its own id."""
        self.cluster_id = cluster_id
        return self


class RedpandaContainer(Container):
    """`with RedpandaContainer() as redpanda: redpanda.get_bootstrap_server()`."""

    def __init__(self, image: str = REDPANDA_IMAGE, **kwargs: Any) -> None:
        self.redpanda_port = 9092
        self.schema_registry_port = 8081
        super().__init__(image, self.redpanda_port, **kwargs)

    def get_schema_registry_address(self) -> str:
        """Raises ClusterError."""
        raise ClusterError("no schema registry runs beside this broker")
