"""Apache Kafka 4.3 itself, from Maven Central: one broker in KRaft mode, which is its controller.

Where the jars cannot be had, tests that need them are skipped; see `maven`.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.support.apache_kafka import has_answered
from tests.support.maven import maven_jars
from tests.support.processes import ServerProcess, free_port
from tests.support.short_lived_java import JVM_OPTIONS

KAFKA_VERSION = "4.3.1"
ARTIFACTS = {
    "org.apache.kafka:kafka_2.13": KAFKA_VERSION,
    "org.slf4j:slf4j-nop": "1.7.36",
}
HEAP = "-Xmx512m"
FORMAT_SECONDS = 120
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"


def kafka_4_jars() -> Path:
    """The directory of Kafka's jars. Skips the test where they cannot be had."""
    return maven_jars(f"kafka-{KAFKA_VERSION}", ARTIFACTS)


class ApacheKafka4Process(ServerProcess):
    """One node with both roles, on its own directory and ports."""

    def __init__(
        self,
        directory: Path,
        config: Mapping[str, str] | None = None,
        listeners: Sequence[str] = (),
    ) -> None:
        """`listeners`: more of them for clients, whose security protocols are in `config`."""
        directory.mkdir(parents=True, exist_ok=True)
        self.port, controller = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        clients = [f"PLAINTEXT://{self.bootstrap}", *listeners]
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join([*clients, f"CONTROLLER://127.0.0.1:{controller}"]),
            "advertised.listeners": ",".join(clients),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(directory / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.ms": "-1",
            **(config or {}),
        }
        self._properties = directory / "server.properties"
        self._properties.write_text(
            "".join(f"{key}={value}\n" for key, value in properties.items())
        )
        java = ["java", HEAP, *JVM_OPTIONS, "-cp", f"{kafka_4_jars()}/*"]
        self._format = [
            *java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c",
            str(self._properties),
        ]  # fmt: skip
        super().__init__([*java, "kafka.Kafka", str(self._properties)], directory / "broker.log")

    def format(self) -> None:
        """Make the directory of the cluster, once."""
        done = subprocess.run(
            self._format, capture_output=True, timeout=FORMAT_SECONDS, check=False, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def is_ready(self) -> bool:
        return has_answered(self.port)


@contextlib.contextmanager
def running_kafka_4(
    directory: Path, config: Mapping[str, str] | None = None, listeners: Sequence[str] = ()
) -> Iterator[ApacheKafka4Process]:
    """Such a broker, started, and killed at the end."""
    broker = ApacheKafka4Process(directory, config, listeners)
    broker.format()
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()
