"""Transactions of version 2 (KIP-890, part 2) with clients of others, on one cluster.

A Java application of Kafka 4.3.1 copies a topic exactly once while the feature is lowered and
raised, and a broker is killed; librdkafka, which knows version 0 only, copies it beside it. The
epochs of their transactional ids say which version they used.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from pybroker_kafka.testing import KafkaCluster
from tests.support.commands import Commands
from tests.support.maven import compiled, maven_jars
from tests.support.patience import Limit, until
from tests.support.short_lived_java import JVM_OPTIONS

pytestmark = pytest.mark.nightly

confluent_kafka = pytest.importorskip("confluent_kafka")

SOURCE: Final = (
    Path(__file__).resolve().parents[1] / "support" / "java" / "TransactionsOfVersion2.java"
)
JARS: Final = {
    "org.apache.kafka:kafka-clients": "4.3.1",
    "org.slf4j:slf4j-simple": "1.7.36",
}
PARTITIONS: Final = 3
RECORDS: Final = 60  # of a phase
IDLE_MS: Final = "1000"  # a connection is made anew, and asks for features
FEATURE: Final = "transaction.version"


@pytest.fixture
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster(3, config={"pybroker.features": "4.3"}) as cluster:
        for topic in ("source", "java", "librdkafka"):
            cluster.topic(topic, PARTITIONS)
        yield cluster


class Application:
    """The Java program; `copy` waits until it has copied so many records."""

    def __init__(self, bootstrap: str, name: str) -> None:
        jars = maven_jars("kafka-clients-4.3.1", JARS)
        command = ["java", *JVM_OPTIONS, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command += ["-cp", compiled(SOURCE, jars), SOURCE.stem, bootstrap, "source", name]
        self._process = subprocess.Popen(
            [*command, IDLE_MS, name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def begin(self, count: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count}\n")
        self._process.stdin.flush()

    def end(self) -> None:
        assert self._line().startswith("copied ")

    def copy(self, count: int) -> None:
        self.begin(count)
        self.end()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def fill(kafka: KafkaCluster, first: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(first, first + RECORDS):
        producer.produce("source", f"{number}".encode(), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def level(run: Commands) -> int:
    rows = run.json("features", "describe")["features"]
    (found,) = [row["finalized"] for row in rows if row["feature"] == FEATURE]
    return int(found or 0)


def epoch_of(run: Commands, name: str) -> int:
    (found,) = run.json("transactions", "describe", name)
    epoch: int = found["epoch"]
    return epoch


def read(bootstrap: str, topic: str, at_least: int) -> list[int]:
    """The committed records up to the end, once there are `at_least` so many: a commit is answered
    before its markers are written, and until then a reader sees less."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-of-{topic}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    found: list[int] = []
    ends: set[int] = set()
    limit = Limit(120)
    while len(ends) < PARTITIONS or len(found) < at_least:
        assert not limit.is_over, f"{len(found)} records"
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            if message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ends.add(message.partition())
            continue
        found.append(int(message.value()))
    consumer.close()
    return sorted(found)


class Librdkafka:
    """The same in librdkafka, which ends each transaction under the same epoch."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._target = name
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": name}
        )
        self._producer.init_transactions(60)
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe(["source"])

    def copy(self, count: int) -> None:
        limit = Limit(120)
        while count > 0:
            assert not limit.is_over
            messages = self._consumer.consume(7, 0.2)
            if not messages:
                continue
            self._producer.begin_transaction()
            try:
                self._copy(messages)
            except confluent_kafka.KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                self._producer.abort_transaction()
                for place in self._consumer.committed(self._consumer.assignment()):
                    place.offset = max(place.offset, 0)
                    self._consumer.seek(place)
            else:
                count -= len(messages)

    def _copy(self, messages: list[Any]) -> None:
        for message in messages:
            assert not message.error()
            self._producer.produce(self._target, message.value(), partition=message.partition())
        self._producer.send_offsets_to_transaction(
            self._consumer.position(self._consumer.assignment()),
            self._consumer.consumer_group_metadata(),
        )
        self._producer.commit_transaction()

    def close(self) -> None:
        self._consumer.close()


def test_java_copies_exactly_once_while_the_feature_changes(kafka: KafkaCluster) -> None:
    run = Commands(kafka.bootstrap)
    fill(kafka, 0)
    java, old = Application(kafka.bootstrap, "java"), Librdkafka(kafka.bootstrap, "librdkafka")
    try:
        java.copy(RECORDS)
        old.copy(RECORDS)
        raised = epoch_of(run, "java")
        assert raised > RECORDS // 7
        assert epoch_of(run, "librdkafka") == 0
        # A broker goes in the middle, with whatever it leads and coordinates.
        fill(kafka, RECORDS)
        java.begin(RECORDS)
        kafka.kill(2)
        java.end()
        old.copy(RECORDS)
        kafka.heal()
        assert epoch_of(run, "java") > raised
        run.text("features", "downgrade", f"{FEATURE}=0")
        until(lambda: level(run) == 0)
        fill(kafka, 2 * RECORDS)
        java.copy(RECORDS)
        old.copy(RECORDS)
        lowered = epoch_of(run, "java")
        run.text("features", "upgrade", f"{FEATURE}=2")
        fill(kafka, 3 * RECORDS)
        java.copy(RECORDS)
        old.copy(RECORDS)
        assert epoch_of(run, "java") >= lowered
        for topic in ("java", "librdkafka"):
            assert read(kafka.bootstrap, topic, 4 * RECORDS) == list(range(4 * RECORDS))
    finally:
        java.kill()
        old.close()
