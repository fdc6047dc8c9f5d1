"""Each alert fires by a fault of its kind, and none on a cluster in health."""

from __future__ import annotations

import contextlib
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import psutil
import pytest
from confluent_kafka.admin import AdminClient

from pybroker_kafka.broker.observability.alerts import ALERTS
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.testing import KafkaCluster
from tests.support.processes import free_port
from tests.support.promql import Recording
from tests.support.wire import WireClient

EXPRESSIONS = {alert.name: alert.expression for alert in ALERTS}
CONFIG = {
    "zookeeper.session.timeout.ms": 2000,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.partition.verification.enable": "false",
    "log.cleaner.backoff.ms": 100,
    "log.initial.task.delay.ms": 0,
}
PATIENCE_SECONDS = 120.0


class Watch:
    """Scrapes brokers as Prometheus does, a little more often."""

    def __init__(self, *ports: int) -> None:
        self._ports = ports
        self._recording = Recording()

    def firing(self) -> set[str]:
        """The alerts that have a sample now."""
        self._recording.add({f"127.0.0.1:{port}": scraped(port) for port in self._ports})
        evaluate = self._recording.evaluate
        return {name for name, expression in EXPRESSIONS.items() if evaluate(expression)}

    def until(self, *names: str) -> None:
        seen: set[str] = set()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not seen >= set(names):
            assert time.monotonic() < deadline, f"{names}: only {seen} fired"
            seen |= self.firing()
            time.sleep(0.1)

    def until_quiet(self, *but: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while left := self.firing() - set(but):
            assert time.monotonic() < deadline, f"{left} do not end"
            time.sleep(0.1)


def scraped(port: int) -> str | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
            return text
    except (OSError, urllib.error.URLError):
        return None


def process_of(port: int) -> psutil.Process:
    """Who listens there."""
    return next(
        psutil.Process(found.pid)
        for found in psutil.net_connections("tcp")
        if found.status == psutil.CONN_LISTEN and found.laddr.port == port
    )


@pytest.fixture(scope="module")
def first_port() -> int:
    return free_port(3)


@pytest.fixture(scope="module")
def cluster(first_port: int) -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=3, config=CONFIG, metrics_port=first_port) as kafka:
        yield kafka


@pytest.fixture
def kafka(cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    yield cluster
    cluster.heal()
    cluster.wait_for_brokers()


@pytest.fixture
def watch(kafka: KafkaCluster, first_port: int) -> Watch:
    """Everything is well when it begins; what it has seen before does not count."""
    Watch(*range(first_port, first_port + 3)).until_quiet("KafkaLoopStalls")
    return Watch(*range(first_port, first_port + 3))


def produce(kafka: KafkaCluster, topic: str, *values: bytes, **settings: object) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap, **settings})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def test_a_broker_is_gone(kafka: KafkaCluster, watch: Watch) -> None:
    for name, replicas, config in (
        ("single", 1, {}),
        ("whole", 3, {"min.insync.replicas": 3}),
    ):
        kafka.topic(name, partitions=3, replication_factor=replicas, config=config)
        for partition in range(3):
            kafka.leader(name, partition)
    kafka.wait_for_isr("whole", 3)
    assert watch.firing() <= {"KafkaLoopStalls"}
    with kafka.kill(3):
        watch.until(
            "KafkaBrokerDown", "KafkaOfflinePartitions", "KafkaUnderReplicated", "KafkaUnderMinIsr"
        )
    watch.until_quiet("KafkaLoopStalls")


def test_a_leader_that_was_not_in_sync(kafka: KafkaCluster, watch: Watch) -> None:
    topic = kafka.topic(
        "unclean", replication_factor=2, config={"unclean.leader.election.enable": "true"}
    )
    produce(kafka, topic, b"x")
    kafka.wait_for_isr(topic, 2)
    leader = kafka.leader(topic)
    client = AdminClient({"bootstrap.servers": kafka.bootstrap})
    replicas = client.list_topics(topic).topics[topic].partitions[0].replicas
    follower = next(broker for broker in replicas if broker != leader)
    watch.firing()
    with kafka.kill(leader):
        produce(kafka, topic, b"y", acks=1)
        with kafka.kill(follower):
            kafka.restart(leader)
            watch.until("KafkaUncleanElection")


def test_a_session_and_a_pause(kafka: KafkaCluster, watch: Watch) -> None:
    watch.firing()
    kafka.expire_session(1)
    watch.until("KafkaSessionExpired")
    with kafka.pause(2):
        time.sleep(0.8)  # the fault itself
    watch.until("KafkaLoopStalls")


def test_a_group_that_does_not_read(kafka: KafkaCluster, watch: Watch) -> None:
    topic = kafka.topic("unread")
    produce(kafka, topic, *[b"x"] * 100_001, **{"queue.buffering.max.messages": 200_000})
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": kafka.bootstrap, "group.id": "lazy", "enable.auto.commit": False}
    )
    consumer.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    watch.until("KafkaGroupBehind")
    kafka.delete_topics(topic)


def test_a_transaction_that_hangs(kafka: KafkaCluster, watch: Watch) -> None:
    """Its coordinator was never told of the partition, and its time is over."""
    topic = kafka.topic("hangs", replication_factor=1)
    confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap, "transactional.id": "t"}
    ).init_transactions(30)
    batch = build_batch(
        [SimpleRecord(int(time.time() * 1000), None, b"x")],
        producer_id=0,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    address = kafka.bootstrap.split(",")[kafka.leader(topic) - 1]
    with contextlib.closing(WireClient(address)) as client:
        # Version 12 would tell it.
        answer = client.produce(topic, bytes(batch), transactional_id="t", version=11)
        assert answer.error_code == 0
    kafka.advance(hours=1)
    watch.until("KafkaHangingTransaction")
    kafka.delete_topics(topic)


def test_few_descriptors(kafka: KafkaCluster, watch: Watch, first_port: int) -> None:
    process = process_of(first_port)
    before = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (process.num_fds() + 3, before[1]))
    try:
        watch.until("KafkaFewDescriptors")
    finally:
        process.rlimit(psutil.RLIMIT_NOFILE, before)


def test_a_log_that_cannot_be_cleaned(kafka: KafkaCluster, watch: Watch) -> None:
    topic = kafka.topic(
        "keyed",
        replication_factor=1,
        config={"cleanup.policy": "compact", "segment.bytes": 1000, "min.cleanable.dirty.ratio": 0},
    )
    with contextlib.ExitStack() as end:
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
        for number in range(10):
            producer.produce(topic, b"x" * 500, key=b"%d" % number, partition=0)
            producer.flush(30)
        end.callback(kafka.delete_topics, topic)
        segment = min(Path(kafka.data_dir).rglob(f"{topic}-0/*.log"))
        with segment.open("r+b") as file:  # a batch whose bytes are not those of its CRC
            file.seek(100)
            file.write(b"\xff" * 50)
        watch.until("KafkaCleanerStuck")


def test_no_controller() -> None:
    """Nobody can become one without ZooKeeper."""
    first = free_port(2)
    ports = {1: first, 2: first + 1}
    with KafkaCluster(brokers=2, metrics_port=first) as kafka:
        is_controller = "kafka_controller_kafkacontroller_activecontrollercount 1.0"
        controller = next(b for b in kafka.brokers if is_controller in (scraped(ports[b]) or ""))
        watch = Watch(*ports.values())
        assert "KafkaNotOneController" not in watch.firing()
        kafka.kill("zookeeper")
        kafka.kill(controller)
        watch.until("KafkaNotOneController", "KafkaBrokerDown")


def test_a_log_directory_is_lost(tmp_path: Path) -> None:
    port = free_port()
    directories = [tmp_path / "one", tmp_path / "two"]
    config = {"log.dirs": ",".join(map(str, directories))}
    with KafkaCluster(config=config, metrics_port=port) as kafka:
        topics = [kafka.topic(name, config={"segment.bytes": 500}) for name in ("a", "b")]
        for topic in topics:
            produce(kafka, topic, b"x" * 300)
        watch = Watch(port)
        watch.firing()
        shutil.rmtree(directories[0])
        for topic in topics:
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": kafka.bootstrap, "message.timeout.ms": 1000}
            )
            producer.produce(topic, b"x" * 300)
            producer.flush(5)
        watch.until("KafkaLogDirectoryOffline")


def test_logins_that_fail() -> None:
    port = free_port()
    with KafkaCluster(secure=True, metrics_port=port) as kafka:
        watch = Watch(port)
        watch.firing()
        settings = kafka.client_settings("confluent-kafka") | {"sasl.password": "wrong"}
        with contextlib.ExitStack() as end:
            for _ in range(12):
                client = confluent_kafka.Producer({**settings, "log_level": 0})
                end.callback(client.flush, 0)
                client.poll(0)
            watch.until("KafkaLoginsFail")
