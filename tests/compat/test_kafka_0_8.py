"""The clients of Kafka 0.8.2.2 (2015): both producers, SimpleConsumer and the ZooKeeper consumer.

They speak Produce v0, Fetch v0, ListOffsets v0, OffsetCommit v0-1 and Metadata v0, read and write
message format v0, and keep their groups in ZooKeeper. One Java process, `OldClients`, runs them
all.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pybroker_kafka.protocol.records.compression import Compression
from tests.support.maven import compiled, maven_jars
from tests.support.nightly import chosen
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.short_lived_java import JVM_OPTIONS
from tests.support.wire import WireClient, unique

ARTIFACTS = {"org.apache.kafka:kafka_2.11": "0.8.2.2"}
SOURCE = Path(__file__).parent / "java" / "OldClients.java"
LOGGING = "log4j.rootLogger=ERROR, out\nlog4j.appender.out=org.apache.log4j.ConsoleAppender\n" + (
    "log4j.appender.out.Target=System.err\nlog4j.appender.out.layout=org.apache.log4j.SimpleLayout\n"
)
CODECS = ("none", "gzip", "snappy", "lz4")
WAIT_SECONDS = 120.0
ALL_GROUPS = "/consumers"


class OldClients:
    """The Java process; `ask` sends a command and returns the lines of its answer."""

    def __init__(self, directory: Path, broker: BrokerProcess, zookeeper: str) -> None:
        jars = maven_jars("kafka-0.8.2.2", ARTIFACTS)
        (directory / "log4j.properties").write_text(LOGGING)
        options = ["-Xmx128m", *JVM_OPTIONS]
        logging = f"-Dlog4j.configuration=file:{directory / 'log4j.properties'}"
        where = ["127.0.0.1", str(broker.port), zookeeper]
        self._errors = (directory / "errors").open("w+")
        self._process = subprocess.Popen(
            ["java", *options, logging, "-cp", compiled(SOURCE, jars), "OldClients", *where],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def ask(self, *words: object) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        lines: list[str] = []
        for line in self._process.stdout:
            text = line.rstrip("\n")
            if text == ".":
                return lines
            if text.startswith("!"):
                break
            lines.append(text)
        self._errors.seek(0)
        raise AssertionError(f"{words}: {text}\n{self._errors.read()[-3000:]}")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()


class Old:
    """What the tests share: the clients, a connection of today, ZooKeeper."""

    def __init__(self, clients: OldClients, kafka: WireClient, zookeeper: KazooClient) -> None:
        self.clients = clients
        self.kafka = kafka
        self.zookeeper = zookeeper

    def children(self, path: str) -> list[str]:
        return sorted(self.zookeeper.get_children(path)) if self.zookeeper.exists(path) else []

    def text(self, path: str) -> str:
        return str(self.zookeeper.get(path)[0].decode())

    def topic(self, partitions: int = 1) -> str:
        return self.kafka.create_topic(partitions).name


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Old]:
    directory = tmp_path_factory.mktemp("old")
    jars = maven_jars("kafka-0.8.2.2", ARTIFACTS)
    compiled(SOURCE, jars)
    config = {"offsets.topic.num.partitions": "1"}
    with zookeeper_process(directory) as connect:
        broker = BrokerProcess(directory / "broker", connect, config)
        try:
            broker.start()
            clients = OldClients(directory, broker, connect)
            zookeeper = KazooClient(connect)
            zookeeper.start()
            try:
                with WireClient(broker.bootstrap) as kafka:
                    yield Old(clients, kafka, zookeeper)
            finally:
                clients.close()
                zookeeper.stop()
                zookeeper.close()
        finally:
            broker.kill()


def text_of(name: str, number: int) -> str:
    text = f"{name}-{number} "
    while len(text) < 60:
        text += "again and "
    return text.strip()


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", chosen(["scala", "java"], ["java"]))
def test_producers_and_the_simple_consumer(old: Old, producer: str, codec: str) -> None:
    created = old.kafka.create_topic()
    topic = created.name
    old.clients.ask(f"{producer}-produce", topic, codec, 200)
    rows = [f"{n}\tkey{n}\t{text_of(producer, n)}" for n in range(200)]
    assert old.clients.ask("fetch", topic, 0, 1 << 20) == rows
    # Small fetches, from the middle on: a v0 consumer skips what it did not ask for.
    assert old.clients.ask("fetch", topic, 77, 20_000) == rows[77:]
    assert [(r.offset, r.key, r.timestamp) for r in old.kafka.read(created)] == [
        (n, b"key%d" % n, -1) for n in range(200)
    ]


@pytest.mark.parametrize("codec", [*Compression])
def test_records_of_today(old: Old, codec: Compression) -> None:
    """Batches v2 with ids, headers and times, in every codec: old consumers get what they know."""
    topic = old.topic()
    values = [b"value %d " % n * 4 for n in range(50)]
    for sequence in (0, 50):
        identity = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
        old.kafka.append(topic, *values, compression=codec, **identity)
    rows = [f"{n}\tk\t{values[n % 50].decode().strip()}" for n in range(100)]
    if codec is Compression.ZSTD:
        assert old.clients.ask("fetch", topic, 0, 1 << 20) == ["error 76"]
    else:
        assert old.clients.ask("fetch", topic, 0, 1 << 20) == rows
        assert old.clients.ask("fetch", topic, 60, 1 << 20) == rows[60:]


def test_offsets_by_time(old: Old) -> None:
    topic = old.topic()
    old.kafka.append(topic, b"a", b"b", b"c")
    assert old.clients.ask("offsets", topic, -1) == ["3", "0"]
    assert old.clients.ask("offsets", topic, -2) == ["0"]


def test_offsets_are_committed_to_zookeeper_or_to_kafka(old: Old) -> None:
    topic, group = old.topic(), unique("group")
    assert old.clients.ask("committed", group, topic, 0) == ["-1 3"]
    assert old.clients.ask("commit", group, topic, 41, 0) == ["0"]
    assert old.clients.ask("committed", group, topic, 0) == ["41 0"]
    assert old.text(f"{ALL_GROUPS}/{group}/offsets/{topic}/0") == "41"
    old.kafka.coordinator(group)
    assert old.clients.ask("committed", group, topic, 1) == ["-1 0"]
    assert old.clients.ask("commit", group, topic, 42, 1) == ["0"]
    assert old.clients.ask("committed", group, topic, 1) == ["42 0"]
    assert old.text(f"{ALL_GROUPS}/{group}/offsets/{topic}/0") == "41"


def test_two_zookeeper_consumers_rebalance(old: Old) -> None:
    topic, group = old.topic(4), unique("group")
    place = f"{ALL_GROUPS}/{group}"

    def produce(number: int) -> None:
        for partition in range(4):
            old.kafka.append(topic, b"%d.%d" % (number, partition), partition=partition)

    def owners() -> dict[str, str]:
        """The owner of each partition, once all have one."""
        owned = f"{place}/owners/{topic}"
        return {p: old.text(f"{owned}/{p}").rsplit("-", 1)[0] for p in old.children(owned)}

    def wait_for_owners(*names: str) -> None:
        """Each partition has one, and each of the consumers its share."""
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                found = owners()
            except Exception:  # between two looks an owner let go
                found = {}
            shares = [list(found.values()).count(f"{group}_{name}") for name in names]
            if shares == [4 // len(names)] * len(names):
                return
            assert time.monotonic() < deadline, found
            time.sleep(0.05)

    produce(1)
    old.clients.ask("consume", "one", group, topic, "zookeeper")
    assert sorted(old.clients.ask("read", "one", 4)) == [f"{p}\t0\t1.{p}" for p in range(4)]
    assert len(old.children(f"{place}/ids")) == 1
    subscription = json.loads(old.text(f"{place}/ids/{group}_one"))
    assert subscription["subscription"] == {topic: 1}
    wait_for_owners("one")
    old.clients.ask("save", "one")
    assert {p: old.text(f"{place}/offsets/{topic}/{p}") for p in range(4)} == dict.fromkeys(
        range(4), "1"
    )
    old.clients.ask("consume", "two", group, topic, "zookeeper")
    wait_for_owners("one", "two")
    produce(2)
    first, second = old.clients.ask("read", "one", 2), old.clients.ask("read", "two", 2)
    assert sorted(first + second) == [f"{p}\t1\t2.{p}" for p in range(4)]
    old.clients.ask("save", "one")
    old.clients.ask("save", "two")
    old.clients.ask("leave", "one")
    wait_for_owners("two")
    produce(3)
    assert sorted(old.clients.ask("read", "two", 4)) == [f"{p}\t2\t3.{p}" for p in range(4)]
    old.clients.ask("leave", "two")
    assert old.children(f"{place}/ids") == []


def test_a_zookeeper_consumer_keeps_its_offsets_in_kafka(old: Old) -> None:
    topic, group = old.topic(), unique("group")
    old.kafka.coordinator(group)
    old.clients.ask("scala-produce", topic, "gzip", 10)
    old.clients.ask("consume", "first", group, topic, "kafka")
    assert len(old.clients.ask("read", "first", 10)) == 10
    old.clients.ask("save", "first")
    old.clients.ask("leave", "first")
    assert old.children(f"{ALL_GROUPS}/{group}/offsets") == []
    assert old.clients.ask("committed", group, topic, 1) == ["10 0"]
    old.clients.ask("java-produce", topic, "snappy", 5)
    old.clients.ask("consume", "second", group, topic, "kafka")
    found = [line.split("\t")[:2] for line in old.clients.ask("read", "second", 5)]
    assert found == [["0", str(n)] for n in range(10, 15)]
    old.clients.ask("leave", "second")
