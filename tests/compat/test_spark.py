"""PySpark with the official connector against a real broker process: batch, stream, write.

One Spark session serves the files that need one, since starting one takes many seconds.
"""

from __future__ import annotations

import collections
import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
import uuid
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka import BlockingAdmin
from pybroker_kafka.client.admin.config_types import (
    Alteration,
    ConfigOperation,
    ConfigResource,
    ResourceKind,
)
from pybroker_kafka.spark_jobs.pipelines import flight_delays
from pybroker_kafka.testing import KafkaCluster
from tests.support.page_blocks import blocks
from tests.support.patience import until
from tests.support.processes import ROOT, BrokerProcess

WAIT_SECONDS = 120.0
BASE_MS = int(time.time() * 1000) - 3_600_000  # of today, or retention deletes the records
COUNT = 200
HISTORY_TEST = "test_history_from_the_table_and_the_rest_from_the_brokers"

pytestmark = pytest.mark.timeout(240)


def new_topic(broker: BrokerProcess, partitions: int = 2) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])
    return name


def produce(broker: BrokerProcess, topic: str, numbers: range, partitions: int = 2) -> None:
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for number in numbers:
            producer.send(
                topic,
                b"%d" % number,
                partition=number % partitions,
                timestamp_ms=BASE_MS + number * 1000,
            )
        producer.flush(WAIT_SECONDS)


def source(frame: Any, broker: BrokerProcess, topic: str, **options: str) -> Any:
    reader = frame.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
    for key, value in options.items():
        reader = reader.option(key, value)
    return reader.load().selectExpr("CAST(value AS STRING) AS value", "partition", "offset")


def values(frame: Any) -> list[int]:
    return sorted(int(row.value) for row in frame.collect())


@pytest.mark.nightly
def test_batch_read(shared_broker: BrokerProcess, spark: Any) -> None:
    topic = new_topic(shared_broker)
    produce(shared_broker, topic, range(COUNT))
    assert values(source(spark.read, shared_broker, topic)) == list(range(COUNT))


@pytest.mark.nightly
def test_starting_offsets_as_json_and_by_timestamp(
    shared_broker: BrokerProcess, spark: Any
) -> None:
    topic = new_topic(shared_broker)
    produce(shared_broker, topic, range(COUNT))
    offsets = json.dumps({topic: {"0": 90, "1": 95}})
    chosen = source(spark.read, shared_broker, topic, startingOffsets=offsets)
    expected = [n for n in range(COUNT) if n // 2 >= (90, 95)[n % 2]]
    assert values(chosen) == expected
    by_time = source(
        spark.read,
        shared_broker,
        topic,
        startingOffsetsByTimestamp=json.dumps({topic: {"0": BASE_MS + 150_500, "1": BASE_MS}}),
    )
    assert values(by_time) == [n for n in range(COUNT) if n % 2 == 1 or n > 150]


def stream_to(frame: Any, out: Path, **trigger: Any) -> Any:
    return (
        frame.writeStream.format("parquet")
        .option("path", str(out / "data"))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


@pytest.mark.nightly
def test_stream_available_now(shared_broker: BrokerProcess, spark: Any, tmp_path: Path) -> None:
    topic = new_topic(shared_broker)
    for part in (range(100), range(100, COUNT)):
        produce(shared_broker, topic, part)
        query = stream_to(
            source(spark.readStream, shared_broker, topic, maxOffsetsPerTrigger="40"),
            tmp_path,
            availableNow=True,
        )
        assert query.awaitTermination(int(WAIT_SECONDS))
    assert values(spark.read.parquet(str(tmp_path / "data"))) == list(range(COUNT))


@pytest.mark.nightly
def test_continuous_stream_stopped_and_started_again(
    shared_broker: BrokerProcess, spark: Any, tmp_path: Path
) -> None:
    topic = new_topic(shared_broker)

    def run_until(count: int) -> None:
        query = stream_to(
            source(spark.readStream, shared_broker, topic),
            tmp_path,
            processingTime="200 milliseconds",
        )
        deadline = time.monotonic() + WAIT_SECONDS
        seen = 0
        while seen < count:
            assert time.monotonic() < deadline, f"{seen} of {count}"
            assert query.exception() is None
            time.sleep(0.2)
            seen = sum(batch["numInputRows"] for batch in query.recentProgress)
        query.stop()

    produce(shared_broker, topic, range(100))
    run_until(100)
    produce(shared_broker, topic, range(100, COUNT))
    run_until(100)
    assert values(spark.read.parquet(str(tmp_path / "data"))) == list(range(COUNT))


@pytest.mark.nightly
def test_write_to_kafka(shared_broker: BrokerProcess, spark: Any) -> None:
    topic = new_topic(shared_broker, 1)
    (
        spark.range(COUNT)
        .selectExpr("CAST(id % 7 AS STRING) AS key", "CAST(id AS STRING) AS value")
        .write.format("kafka")
        .option("kafka.bootstrap.servers", shared_broker.bootstrap)
        .option("topic", topic)
        .save()
    )
    consumer = KafkaConsumer(
        bootstrap_servers=shared_broker.bootstrap, consumer_timeout_ms=int(WAIT_SECONDS * 1000)
    )
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        read = [int(next(consumer).value) for _ in range(COUNT)]
    assert sorted(read) == list(range(COUNT))


def flight(number: int) -> bytes:
    hour = f"2013-01-{number % 28 + 1:02}T{number % 24:02}:00:00Z"
    return json.dumps(
        {"carrier": "ABC"[number % 3], "dep_delay": number % 50, "dep_time": 1, "time_hour": hour}
    ).encode()


@pytest.mark.nightly
def test_pipeline_killed_in_the_middle_counts_every_record_once(
    shared_broker: BrokerProcess, spark: Any, tmp_path: Path
) -> None:
    topic, output_topic = new_topic(shared_broker), new_topic(shared_broker, 1)
    with closing(KafkaProducer(bootstrap_servers=shared_broker.bootstrap)) as producer:
        for number in range(3000):
            producer.send(topic, flight(number), partition=number % 2)
        producer.flush(WAIT_SECONDS)
    options = flight_delays.PipelineOptions(
        bootstrap_servers=shared_broker.bootstrap,
        input_topic=topic,
        output_topic=output_topic,
        output_dir=str(tmp_path),
        max_offsets_per_trigger=500,
        source="kafka",
    )
    flights = flight_delays.parse_flights(spark, options).good
    query = flight_delays.start_pipeline(flights, options)
    until(lambda: len(query.recentProgress) >= 2)
    query.stop()
    done = sum(batch["numInputRows"] for batch in query.recentProgress)
    assert 0 < done < 3000
    # The state of a job killed between its output and its commit: the last batch runs again.
    newest = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"), key=lambda p: int(p.name))
    newest.unlink()
    (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)
    assert flight_delays.start_pipeline(flights, options).awaitTermination(int(WAIT_SECONDS))
    counted: collections.Counter[str] = collections.Counter()
    for row in flight_delays.read_result(spark, options).collect():
        counted[row.carrier] += row.flights
    assert counted == {"A": 1000, "B": 1000, "C": 1000}


@pytest.mark.nightly
def test_a_demo_that_is_ended_stops_its_cluster(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-P", "-m", "pybroker_kafka.spark_jobs.demo"],
        cwd=tmp_path,
        env=dict(os.environ, TMPDIR=str(tmp_path), COLUMNS="200"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert demo.stdout is not None
    while "kafka-python writes" not in (line := demo.stdout.readline()):
        assert line, "the demo ended"
    assert list(tmp_path.glob("pybroker-demo-*"))
    demo.terminate()
    assert demo.wait(60) == 128 + signal.SIGTERM
    assert not list(tmp_path.glob("pybroker-demo-*"))
    deadline = time.monotonic() + 120
    while left := [one.pid for one in psutil.process_iter() if is_of(tmp_path, one)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert [path.name for path in tmp_path.iterdir()] == ["demo-output"]


def is_of(directory: Path, process: psutil.Process) -> bool:
    """Whether it, or who started it, was given this directory for temporary files."""
    try:
        return bool(process.environ().get("TMPDIR") == str(directory))
    except psutil.Error:
        return False


@pytest.mark.nightly
def test_a_secured_cluster(spark: Any) -> None:
    """With the options that `pybroker start --secure` has written for it."""
    with KafkaCluster(secure=True) as cluster:
        snippet = cluster.data_dir / "security" / "user" / "with_spark.py"
        options = runpy.run_path(str(snippet))["SECURED"]
        frame = spark.createDataFrame([("1",), ("2",)], ["value"])
        frame.write.format("kafka").options(**options).option("topic", "sparks").save()
        for source in ("kafka", "pybroker"):
            reader = spark.read.format(source).options(**options).option("subscribe", "sparks")
            assert values(reader.load().selectExpr("CAST(value AS STRING) AS value")) == [1, 2]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["iceberg", pytest.param("delta", marks=pytest.mark.nightly)])
def test_history_from_the_table_and_the_rest_from_the_brokers(
    kind: str, spark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same rows as from the brokers, and those that the brokers have deleted since."""
    configs = {"pybroker.table": kind, "pybroker.table.target.lag.ms": 100}
    with KafkaCluster() as cluster:
        topic = cluster.topic("flights", 2, exact=True, config=configs)
        produce_committed(cluster.bootstrap, topic, 40)
        cluster.table(topic, timeout=600)
        with BlockingAdmin(cluster.bootstrap) as admin:  # the next records stay out of the table
            late = Alteration("pybroker.table.target.lag.ms", ConfigOperation.SET, "3600000")
            admin.configs.alter({ConfigResource(ResourceKind.TOPIC, topic): [late]})
        produce_committed(cluster.bootstrap, topic, 10)

        def read(**options: str) -> Any:
            reader = spark.read.format("pybroker").option("subscribe", topic)
            reader = reader.option("kafka.bootstrap.servers", cluster.bootstrap)
            return reader.option("kafka.isolation.level", "read_committed").options(**options)

        def rows(frame: Any) -> list[Any]:
            return sorted(frame.load().collect(), key=lambda row: (row.partition, row.offset))

        expected = rows(read(includeHeaders="true"))
        assert len(expected) == 50
        assert rows(read(includeHeaders="true", history="table")) == expected
        part = {"startingOffsets": json.dumps({topic: {"0": 5, "1": 9}})}
        part["endingOffsets"] = json.dumps({topic: {"0": 12, "1": -1}})
        assert rows(read(history="table", **part)) == rows(read(**part))

        with BlockingAdmin(cluster.bootstrap) as admin:
            admin.records.delete_before({(topic, 0): 10, (topic, 1): 10})
        assert len(rows(read())) < len(expected)
        assert rows(read(includeHeaders="true", history="table")) == expected
        frame = read(history="table").schema("value BINARY, partition INT").load()
        assert frame.columns == ["value", "partition"]
        assert sorted(bytes(row.value) for row in frame.collect()) == sorted(
            bytes(row.value) for row in expected
        )
        note = f"tests/compat/test_spark.py::{HISTORY_TEST}"
        (block,) = (one for one in blocks(ROOT / "docs" / "TABLES.md") if note in one.note)
        exec(block.text.replace("localhost:9092", cluster.bootstrap), {})
        assert re.findall(r"\| *(\d) *\| *(\d+)\|", capsys.readouterr().out) == [
            ("0", "25"),
            ("1", "25"),
        ]
        with pytest.raises(Exception, match="has no table"):
            read(history="table").option("subscribe", cluster.topic("plain")).load().collect()


def produce_committed(bootstrap: str, topic: str, count: int) -> None:
    """So many records to both partitions in turn, and as many of aborted transactions."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(WAIT_SECONDS)
    for is_kept in (True, False):
        producer.begin_transaction()
        for number in range(count):
            headers: dict[str, str | bytes | None] = {"n": b"1"} if number % 3 == 0 else {}
            producer.produce(topic, b"%d" % number, partition=number % 2, headers=headers)
        assert producer.flush(WAIT_SECONDS) == 0
        if is_kept:
            producer.commit_transaction(WAIT_SECONDS)
        else:
            producer.abort_transaction(WAIT_SECONDS)
