"""Apache Kafka of other releases than 3.9, from Maven Central: brokers from 2016 on, and KRaft.

All of them run on Java 17; those of 0.10 want JAXB, which Java has no more. A release is resolved
once (some seconds, 15 to 55 MB) and kept in the cache.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support import apache_kafka_4
from tests.support.apache_kafka import HEAP, ApacheKafkaProcess
from tests.support.maven import maven_jars
from tests.support.processes import LEFT_OUT, free_port
from tests.support.short_lived_java import JVM_OPTIONS

_LOGGING: Final = {"org.slf4j:slf4j-simple": "1.7.36"}
_JAXB: Final = {"javax.xml.bind:jaxb-api": "2.3.1"}
RELEASES: Final[Mapping[str, Mapping[str, str]]] = {
    "0.10.0.1": {"org.apache.kafka:kafka_2.11": "0.10.0.1", **_JAXB},
    "0.10.2.2": {"org.apache.kafka:kafka_2.11": "0.10.2.2", **_JAXB},
    "1.1.1": {"org.apache.kafka:kafka_2.11": "1.1.1", **_LOGGING},
    "2.8.2": {"org.apache.kafka:kafka_2.13": "2.8.2", **_LOGGING},
    "4.1.0": {
        "org.apache.kafka:kafka_2.13": "4.1.0",
        "org.apache.kafka:kafka-tools": "4.1.0",
        **_LOGGING,
    },
    "4.3.1": apache_kafka_4.ARTIFACTS,
}
FORMAT_TIMEOUT_SECONDS = 300
_CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def _java(version: str) -> list[str]:
    """Skips the test where the release cannot be had."""
    jars = maven_jars(f"kafka-{version}", RELEASES[version])
    frugal = [HEAP, *JVM_OPTIONS]
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", *frugal, "-Dfile.encoding=UTF-8", logging, "-cp", f"{jars}/*"]


class ReleaseProcess(ApacheKafkaProcess):
    """One broker of a release that has a ZooKeeper."""

    def __init__(
        self, version: str, directory: Path, zookeeper_connect: str, config: Mapping[str, str]
    ) -> None:
        super().__init__(directory, zookeeper_connect, config, java=_java(version))


class KRaftProcess(ApacheKafkaProcess):
    """One node that is broker and controller, without ZooKeeper: Kafka 4."""

    def __init__(self, version: str, directory: Path, config: Mapping[str, str]) -> None:
        java = _java(version)
        port, controller = free_port(), free_port()
        without_zookeeper = {
            "broker.id": LEFT_OUT,
            "zookeeper.connect": LEFT_OUT,
            "zookeeper.session.timeout.ms": LEFT_OUT,
            "node.id": "1",
            "process.roles": "broker,controller",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        }
        super().__init__(directory, "", {**without_zookeeper, **config}, port=port, java=java)
        properties = str(directory / "server.properties")
        done = subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c", properties],
            capture_output=True,
            text=True,
            timeout=FORMAT_TIMEOUT_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
