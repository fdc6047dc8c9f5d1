"""Java clients of Kafka 4.3.1 at a broker with a finalized feature: topic ids, and their metrics.

The broker is the only judge that they use the new versions: it counts requests by version.
"""

from __future__ import annotations

import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker_kafka.protocol.features import Feature
from tests.support.maven import compiled, maven_jars
from tests.support.patience import until
from tests.support.processes import BrokerProcess, free_port, zookeeper_process
from tests.support.short_lived_java import JVM_OPTIONS
from tests.support.wire import WireClient
from tests.wire.feature_steps import finalize

pytestmark = pytest.mark.nightly

SOURCE = Path(__file__).with_name("java") / "ClientOfKafka4.java"
VERSION = "4.3.1"
# The newest versions of the requests that these clients send; only a consumer of the new groups
# commits by topic id.
NEWEST = {"Produce": 13, "FetchConsumer": 18, "Metadata": 13, "ListOffsets": 11}
NEWEST |= {"ListTransactions": 2, "DescribeCluster": 2}
NEWEST |= {"ListConfigResources": 1, "GetTelemetrySubscriptions": 0, "PushTelemetry": 0}


class Measured(BrokerProcess):
    """A broker with a metrics port."""

    def __init__(self, directory: Path, zookeeper_connect: str, metrics_port: int) -> None:
        self._metrics_port = metrics_port
        super().__init__(directory, zookeeper_connect)

    def command_for(self, properties: Path) -> list[str]:
        return [*super().command_for(properties), "--metrics-port", str(self._metrics_port)]


@pytest.fixture
def metrics_port() -> int:
    return free_port()


@pytest.fixture
def broker(tmp_path: Path, metrics_port: int) -> Iterator[BrokerProcess]:
    with zookeeper_process(tmp_path) as connect:
        process = Measured(tmp_path / "broker", connect, metrics_port)
        process.start()
        try:
            with WireClient(process.bootstrap) as client:
                finalize(client, {Feature.GROUP: 1})
            yield process
        finally:
            process.kill()


def shown(port: int) -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text: str = answer.read().decode()
    return text.splitlines()


def test_they_use_the_new_versions_and_push_metrics(
    broker: BrokerProcess, metrics_port: int
) -> None:
    jars = maven_jars(
        f"kafka-clients-{VERSION}",
        {"org.apache.kafka:kafka-clients": VERSION, "org.slf4j:slf4j-simple": "1.7.36"},
    )
    command = ["java", *JVM_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    command += ["-cp", compiled(SOURCE, jars), SOURCE.stem, broker.bootstrap]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as java:
        assert java.stdout is not None
        try:
            lines = [java.stdout.readline().strip() for _ in range(4)]
            assert lines == ["subscribed", "produced", "committed 100", "described 100 -1 0 1"]

            def pushes() -> bool:
                return any(
                    line.startswith("pybroker_client_value{")
                    and 'client_id="consumer-of-kafka-4"' in line
                    and 'metric="org.apache.kafka.consumer.' in line
                    for line in shown(metrics_port)
                )

            until(pushes)
            (info,) = [line for line in shown(metrics_port) if "consumer-of-kafka-4" in line
                       and line.startswith("pybroker_client_info{")]  # fmt: skip
            assert 'client_software_name="apache-kafka-java"' in info
            assert f'client_software_version="{VERSION}"' in info
            requests = "kafka_network_requestmetrics_requests_total"
            lines = shown(metrics_port)
            assert [
                name
                for name, version in NEWEST.items()
                if not any(
                    line.startswith(f'{requests}{{request="{name}",version="{version}"}}')
                    for line in lines
                )
            ] == []
            java.communicate("end", timeout=60)
        finally:
            java.kill()
    until(lambda: not any("consumer-of-kafka-4" in line for line in shown(metrics_port)))
