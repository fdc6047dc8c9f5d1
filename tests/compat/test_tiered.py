"""Clients read a tiered topic from its first record on: kafka-python, ours, librdkafka, Java's, and
Spark through both of its sources."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.client.consumer.consumer import Consumer
from pybroker_kafka.local.tier import tier_keys
from tests.compat.test_confluent import read_all
from tests.compat.test_spark_sources import SOURCES, read
from tests.support.kafka_python_values import read_values
from tests.support.kafka_tools import kafka_tool
from tests.support.patience import Limit, until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient
from tests.wire.test_offsets import list_offsets

TOPIC = "history"
COUNT = 3000
EARLIEST_LOCAL = -4
CONFIGS = {
    "remote.storage.enable": "true",
    "segment.bytes": "20000",
    "local.retention.bytes": "1",
}


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory: Path = tmp_path_factory.mktemp("tiered")
    config = {
        **tier_keys(str(directory / "tier"), 1, {}),
        "remote.log.manager.task.interval.ms": "100",
        "log.retention.check.interval.ms": "100",
        "log.initial.task.delay.ms": "0",
    }
    with running_broker(directory, config) as broker:
        yield broker


def values() -> list[bytes]:
    return [b"value %d," % number * 4 for number in range(COUNT)]


@pytest.fixture(scope="module")
def history(tiered: BrokerProcess) -> BrokerProcess:
    """The broker, once more than half of the topic is in the tier alone."""
    with closing(KafkaAdminClient(bootstrap_servers=tiered.bootstrap)) as admin:
        admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs=CONFIGS)])
    with closing(KafkaProducer(bootstrap_servers=tiered.bootstrap, linger_ms=5)) as producer:
        for future in [producer.send(TOPIC, value) for value in values()]:
            future.get(timeout=60)
    with WireClient(tiered.bootstrap) as kafka:
        until(lambda: list_offsets(kafka, 9, TOPIC, EARLIEST_LOCAL).offset > COUNT // 2)
    return tiered


def test_kafka_python(history: BrokerProcess) -> None:
    assert read_values(TOPIC, COUNT, bootstrap_servers=history.bootstrap) == values()


def test_ours(history: BrokerProcess) -> None:
    assert trio.run(read_with_ours, history.bootstrap) == values()


async def read_with_ours(bootstrap: str) -> list[bytes]:
    found: list[bytes] = []
    async with Cluster(bootstrap) as cluster, Consumer(cluster) as consumer:
        await consumer.assign([(TOPIC, 0)])
        await consumer.seek_to_beginning([(TOPIC, 0)])
        limit = Limit(120)
        while len(found) < COUNT:
            assert not limit.is_over, f"{len(found)} records"
            found += [bytes(record.value or b"") for record in await consumer.poll(1.0)]
    return found


def test_librdkafka(history: BrokerProcess) -> None:
    assert read_all(history, TOPIC, COUNT) == values()


def test_java(history: BrokerProcess) -> None:
    printed = kafka_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", history.bootstrap, "--topic", TOPIC, "--from-beginning"),
        *("--max-messages", str(COUNT)),
    )
    assert [line.encode() for line in printed.splitlines()] == values()


@pytest.mark.nightly
@pytest.mark.parametrize("source", SOURCES)
def test_spark(history: BrokerProcess, spark: Any, source: str) -> None:
    """A batch from the earliest offset."""
    rows = read(spark, source, history.bootstrap, subscribe=TOPIC)
    assert [bytes(value) for _, value, *_ in rows] == values()
