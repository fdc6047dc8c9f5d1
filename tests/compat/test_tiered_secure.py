"""Transactions on a tiered topic of a secured cluster, with clients of others.

librdkafka and kafka-python write overlapping transactions, some of them aborted, some longer than a
segment, and read them from the tier, read_committed and read_uncommitted.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka.local.secured import SecurityFiles
from pybroker_kafka.testkit.client_settings import client_settings
from tests.support.kafka_python_values import read_values
from tests.support.patience import Limit, until
from tests.support.processes import PYBROKER

confluent_kafka = pytest.importorskip("confluent_kafka")

TOPIC = "history"
ROUNDS = 12
BATCH = 10  # records of a producer in a round
SEGMENT_BYTES = 6000
CONFIGS = {
    "remote.storage.enable": "true",
    "segment.bytes": str(SEGMENT_BYTES),
    "local.retention.bytes": "1",
}
FAST = {
    "remote.log.manager.task.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "0",
}


class Secured(NamedTuple):
    bootstrap: str
    data_dir: Path
    tier: Path

    def settings(self, library: str) -> dict[str, Any]:
        return client_settings(library, self.bootstrap, SecurityFiles(self.data_dir), "user")

    @property
    def local_start(self) -> int:
        """The first offset that is on the broker's disk."""
        directory = self.data_dir / "broker-1" / f"{TOPIC}-0"
        return min(int(path.stem) for path in directory.glob("*.log"))


def command(*words: str) -> str:
    done = subprocess.run([*PYBROKER, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    data_dir, tier = tmp_path / "data", tmp_path / "tier"
    where = ["--data-dir", str(data_dir)]
    words = ["start", "--secure", "--tier", str(tier), "--detach", "--brokers", "1"]
    words += ["--port", "0", "--zookeeper-port", "0"]
    for name, text in FAST.items():
        words += ["--config", f"{name}={text}"]
    command(*words, *where)
    try:
        state = json.loads(command("status", "--json", *where))
        yield Secured(state["bootstrap"], data_dir, tier)
    finally:
        command("stop", *where)


class Writers:
    """The expected values, in the order of their offsets."""

    def __init__(self, secured: Secured) -> None:
        self.all: list[bytes] = []
        self._aborted: set[bytes] = set()
        self._confluent = confluent_kafka.Producer(
            {**secured.settings("confluent-kafka"), "transactional.id": "librdkafka"}
        )
        self._python = KafkaProducer(
            **secured.settings("kafka-python"), transactional_id="kafka-python"
        )

    def write(self) -> None:
        with closing(self._python):
            self._confluent.init_transactions(60)
            self._python.init_transactions()
            for number in range(ROUNDS):
                self._round(number)

    def _round(self, number: int) -> None:
        """A transaction of librdkafka; one of kafka-python has two rounds, and is around it."""
        if number % 2 == 0:
            self._python.begin_transaction()
        self._confluent.begin_transaction()
        fates = number % 3 == 0, number // 2 % 2 == 0
        for _ in range(BATCH):
            value = self._next(aborts=fates[0])
            self._confluent.produce(TOPIC, value, partition=0)
            assert self._confluent.flush(60) == 0
            value = self._next(aborts=fates[1])
            self._python.send(TOPIC, value, partition=0).get(60)
        if fates[0]:
            self._confluent.abort_transaction(60)
        else:
            self._confluent.commit_transaction(60)
        if number % 2 == 1:
            if fates[1]:
                self._python.abort_transaction()
            else:
                self._python.commit_transaction()

    def _next(self, *, aborts: bool) -> bytes:
        value = b"value %d " % len(self.all) * 6
        self.all.append(value)
        if aborts:
            self._aborted.add(value)
        return value

    @property
    def committed(self) -> list[bytes]:
        return [value for value in self.all if value not in self._aborted]


def read_with_kafka_python(secured: Secured, isolation: str, count: int) -> list[bytes]:
    settings = secured.settings("kafka-python")
    return read_values(TOPIC, count, **settings, isolation_level=isolation)


def read_with_librdkafka(secured: Secured, isolation: str, count: int) -> list[bytes]:
    found: list[bytes] = []
    settings = {**secured.settings("confluent-kafka"), "group.id": "readers"}
    consumer = confluent_kafka.Consumer({**settings, "isolation.level": isolation})
    with closing(consumer):
        first = confluent_kafka.OFFSET_BEGINNING
        consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, first)])
        limit = Limit(120)
        while len(found) < count:
            assert not limit.is_over, f"{len(found)} records"
            for message in consumer.consume(100, timeout=1):
                assert message.error() is None, message.error()
                found.append(message.value())
    return found


@pytest.mark.nightly
def test_transactions_are_read_from_the_tier_of_a_secured_cluster(secured: Secured) -> None:
    with closing(KafkaAdminClient(**secured.settings("kafka-python"))) as admin:
        admin.create_topics([NewTopic(TOPIC, 1, 1, topic_configs=CONFIGS)])
    writers = Writers(secured)
    writers.write()
    until(lambda: secured.local_start > len(writers.all) * 2 // 3)
    assert list(secured.tier.rglob("*.txnindex"))
    for read in (read_with_kafka_python, read_with_librdkafka):
        committed = writers.committed
        assert read(secured, "read_committed", len(committed)) == committed
        assert read(secured, "read_uncommitted", len(writers.all)) == writers.all
