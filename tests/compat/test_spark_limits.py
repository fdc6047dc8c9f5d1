"""How much of a topic a trigger takes: with Spark 4.2 and later, `make spark-newest`.

Before, Spark does not tell a source in Python where a batch begins, and limits are refused: see
tests/unit/spark_jobs/source/test_stream_reader.py.
"""

from __future__ import annotations

import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka.spark_jobs.source.data_source import FORMAT, HAS_LIMITS
from tests.support.patience import until
from tests.support.processes import BrokerProcess

WAIT_SECONDS = 120.0
COUNT = 30

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not HAS_LIMITS, reason="Spark 4.2 tells a source how much it may read"),
]


@pytest.fixture
def topic(shared_broker: BrokerProcess) -> str:
    """Of two partitions, of which the second has twice as many records."""
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with closing(KafkaAdminClient(bootstrap_servers=shared_broker.bootstrap)) as admin:
        admin.create_topics([NewTopic(name, 2, 1)])
    for partition in range(2):
        produce(shared_broker.bootstrap, name, partition, COUNT * (1 + partition))
    return name


def produce(servers: str, topic: str, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=partition)
    assert producer.flush(WAIT_SECONDS) == 0


class Batches:
    """A query, and how many records each of its batches had."""

    def __init__(self, spark: Any, servers: str, topic: str, place: Path, **options: str) -> None:
        self.sizes: list[int] = []
        trigger = (
            {"availableNow": True} if options.pop("once", "") else {"processingTime": "0 seconds"}
        )
        self.query = (
            spark.readStream.format(FORMAT)
            .option("kafka.bootstrap.servers", servers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .options(**options)
            .load()
            .writeStream.foreachBatch(lambda batch, _: self.sizes.append(batch.count()))
            .option("checkpointLocation", str(place))
            .trigger(**trigger)
            .start()
        )


def test_no_batch_is_larger(
    spark: Any, shared_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    servers = shared_broker.bootstrap
    limit = {"maxOffsetsPerTrigger": "20", "once": "yes"}
    batches = Batches(spark, servers, topic, tmp_path, **limit)
    assert batches.query.awaitTermination(int(WAIT_SECONDS))
    assert batches.sizes[:3] == [19, 19, 19]  # a third and two thirds of 20, rounded down
    assert sum(batches.sizes) == 3 * COUNT
    assert max(batches.sizes) <= 20
    produce(servers, topic, 0, 5)
    again = Batches(spark, servers, topic, tmp_path, **limit)
    assert again.query.awaitTermination(int(WAIT_SECONDS))
    assert again.sizes == [5]


def test_available_now_takes_what_was_there(
    spark: Any, shared_broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    """Records that come while the query runs are not read: it has an end."""
    servers = shared_broker.bootstrap
    found: list[int] = []

    def write(batch: Any, _: int) -> None:
        found.append(batch.count())
        produce(servers, topic, 0, 1)

    query = (
        spark.readStream.format(FORMAT)
        .options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="50")
        .option("kafka.bootstrap.servers", servers)
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(WAIT_SECONDS))
    assert sum(found) == 3 * COUNT


@pytest.mark.parametrize(("delay", "comes"), [("1s", True), ("1h", False)])
def test_a_batch_waits_for_enough(
    spark: Any, shared_broker: BrokerProcess, topic: str, tmp_path: Path, delay: str, comes: bool
) -> None:
    """Too few records wait for others, or for so long."""
    servers = shared_broker.bootstrap
    batches = Batches(
        spark, servers, topic, tmp_path, minOffsetsPerTrigger="30", maxTriggerDelay=delay
    )
    try:
        until(lambda: sum(batches.sizes) == 3 * COUNT)
        produce(servers, topic, 0, 7)
        if not comes:
            produce(servers, topic, 1, 30)
        wanted = 7 if comes else 37
        until(lambda: sum(batches.sizes) == 3 * COUNT + wanted)
        assert comes or batches.sizes[-1] >= 30
    finally:
        batches.query.stop()
