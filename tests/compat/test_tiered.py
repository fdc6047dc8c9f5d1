"""kafka-python and our own client read a tiered topic from its first record on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.client.consumer.consumer import Consumer
from pybroker_kafka.local.tier import tier_keys
from tests.support.kafka_python_values import read_values
from tests.support.patience import Limit, until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient
from tests.wire.test_offsets import list_offsets

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
    return [b"value %d " % number * 4 for number in range(COUNT)]


def test_clients_read_through_both_tiers(tiered: BrokerProcess) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=tiered.bootstrap)) as admin:
        admin.create_topics([NewTopic("history", 1, 1, topic_configs=CONFIGS)])
    with closing(KafkaProducer(bootstrap_servers=tiered.bootstrap, linger_ms=5)) as producer:
        for future in [producer.send("history", value) for value in values()]:
            future.get(timeout=60)
    with WireClient(tiered.bootstrap) as kafka:
        until(lambda: list_offsets(kafka, 9, "history", EARLIEST_LOCAL).offset > COUNT // 2)
    assert read_values("history", COUNT, bootstrap_servers=tiered.bootstrap) == values()
    assert trio.run(read_with_ours, tiered.bootstrap) == values()


async def read_with_ours(bootstrap: str) -> list[bytes]:
    found: list[bytes] = []
    async with Cluster(bootstrap) as cluster, Consumer(cluster) as consumer:
        await consumer.assign([("history", 0)])
        await consumer.seek_to_beginning([("history", 0)])
        limit = Limit(120)
        while len(found) < COUNT:
            assert not limit.is_over, f"{len(found)} records"
            found += [bytes(record.value or b"") for record in await consumer.poll(1.0)]
    return found
