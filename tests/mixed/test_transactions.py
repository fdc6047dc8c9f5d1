"""Transactions over brokers of both kinds: either coordinates, writes markers, and takes over.

The partitions of `__transaction_state` are led by all three nodes, those of the data as well, so
WriteTxnMarkers and the verification of partitions (AddPartitionsToTxn) go between the kinds in both
directions. librdkafka's producer is the client; kafka-transactions.sh sees the same of both.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from pybroker_kafka.coordinator.group.placement import partition_for_key
from pybroker_kafka.protocol.apis.elect_leaders import ElectLeadersRequest
from tests.mixed.cluster import EACH_LEADS, KAFKA_A, KAFKA_B, OURS, MixedCluster
from tests.support.apache_kafka import java_command
from tests.support.consumed import collect_errors, partition_of, value_of
from tests.support.kafka_tools import kafka_tool
from tests.support.wire import TRANSACTION, WireClient, unique

pytestmark = pytest.mark.timeout(900)

STATE_TOPIC = "__transaction_state"
WAIT_SECONDS = 120.0
RECORDS = 30


@pytest.fixture
def topic(cluster: MixedCluster) -> str:
    name = unique("mixed-txn")
    cluster.create_topic(name, assignment=EACH_LEADS)
    cluster.all_agree_on_in_sync(name)
    with WireClient(cluster.nodes[OURS].bootstrap) as kafka:
        kafka.coordinator("any", TRANSACTION)
    # After a node was dead, it leads nothing until somebody asks for it.
    cluster.all_agree_on_in_sync(STATE_TOPIC)
    cluster.ask_controller(ElectLeadersRequest(topic_partitions=None, timeout_ms=30_000))
    cluster.all_agree(STATE_TOPIC, lambda v: v.leader == v.replicas[0], "all have their places")
    return name


def name_of(cluster: MixedCluster, coordinator: int) -> str:
    """A transactional id that this node coordinates, once it leads a partition of the log."""

    def found() -> str | None:
        leaders = {p: view.leader for p, view in cluster.partitions(STATE_TOPIC).items()}
        names = (unique("txn") for _ in range(200))
        return next(
            (n for n in names if leaders[partition_for_key(n, len(leaders))] == coordinator), None
        )

    return cluster.wait_for(found, f"{coordinator} leads a partition of {STATE_TOPIC}")


@contextmanager
def a_producer(cluster: MixedCluster, name: str) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name})
    producer.init_transactions(WAIT_SECONDS)
    try:
        yield producer
    finally:
        producer.purge()


def send(producer: Producer, topic: str, what: str) -> list[bytes]:
    """A transaction over all partitions, delivered and left open; its values."""
    producer.begin_transaction()
    failures: list[KafkaError] = []
    values = [b"%s-%d" % (what.encode(), n) for n in range(RECORDS)]
    for n, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=n % len(EACH_LEADS),
            on_delivery=collect_errors(failures),
        )
    assert producer.flush(WAIT_SECONDS) == 0
    assert failures == []
    return values


def read(cluster: MixedCluster, topic: str) -> list[bytes]:
    """All committed values, to the end of each partition."""
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": unique("reader"),
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    values: list[bytes] = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, p, 0) for p in EACH_LEADS])
        at_end: set[int] = set()
        deadline = time.monotonic() + WAIT_SECONDS
        while len(at_end) < len(EACH_LEADS):
            assert time.monotonic() < deadline, f"{len(values)} read"
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    values.append(value_of(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    at_end.add(partition_of(message))
    return sorted(values)


def wait_until_read(cluster: MixedCluster, topic: str, expected: list[bytes]) -> None:
    """The markers of a transaction may be behind its answer."""
    cluster.wait_for(
        lambda: len(read(cluster, topic)) >= len(expected), f"{len(expected)} committed values"
    )
    assert read(cluster, topic) == sorted(expected)


@pytest.mark.parametrize("coordinator", [OURS, KAFKA_A])
def test_either_coordinates(cluster: MixedCluster, topic: str, coordinator: int) -> None:
    expected: list[bytes] = []
    with a_producer(cluster, name_of(cluster, coordinator)) as producer:
        for number in range(4):
            values = send(producer, topic, f"round {number}")
            if number % 2:
                producer.abort_transaction(WAIT_SECONDS)
            else:
                producer.commit_transaction(WAIT_SECONDS)
                expected += values
    wait_until_read(cluster, topic, expected)


@pytest.mark.parametrize("coordinator", [OURS, KAFKA_A])
def test_either_takes_over(cluster: MixedCluster, topic: str, coordinator: int) -> None:
    """The coordinator dies; nodes of the other kind (and, for Kafka, of its own) are left."""
    name = name_of(cluster, coordinator)
    with a_producer(cluster, name) as producer:
        expected = send(producer, topic, "before")
        producer.commit_transaction(WAIT_SECONDS)
        expected += send(producer, topic, "across")
        cluster.kill_and_expire(coordinator)
        try:
            if coordinator == KAFKA_A:
                # So that it is ours that reads what Kafka wrote.
                cluster.kill_and_expire(KAFKA_B)
                cluster.start(KAFKA_A)
            commit(producer)
        finally:
            cluster.mend()
            cluster.all_agree_on_brokers()
            cluster.all_agree_on_in_sync(topic)
            cluster.all_agree_on_in_sync(STATE_TOPIC)
        lost = send(producer, topic, "never")
        assert lost
        with a_producer(cluster, name) as successor:
            with pytest.raises(KafkaException):
                producer.commit_transaction(WAIT_SECONDS)
            expected += send(successor, topic, "after")
            successor.commit_transaction(WAIT_SECONDS)
    wait_until_read(cluster, topic, expected)


def commit(producer: Producer) -> None:
    """librdkafka says of a commit that takes long that it may be tried again."""
    deadline = time.monotonic() + 2 * WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            producer.commit_transaction(WAIT_SECONDS)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
    pytest.fail("the commit takes too long")


@pytest.mark.parametrize("coordinator", [OURS, KAFKA_A])
def test_the_tool_sees_them(cluster: MixedCluster, topic: str, coordinator: int) -> None:
    name = name_of(cluster, coordinator)
    with a_producer(cluster, name) as producer:
        send(producer, topic, "open")
        tool = "org.apache.kafka.tools.TransactionsCommand"
        connect = ("--bootstrap-server", cluster.nodes[KAFKA_B].bootstrap)
        described = kafka_tool(tool, *connect, "describe", "--transactional-id", name)
        row = dict(zip(*(line.split("\t") for line in described.splitlines()[:2]), strict=True))
        columns = {key.strip(): value.strip() for key, value in row.items()}
        assert columns["CoordinatorId"] == str(coordinator)
        assert columns["TransactionState"] == "Ongoing"
        assert sorted(columns["TopicPartitions"].split(",")) == [f"{topic}-{p}" for p in EACH_LEADS]
        assert name in kafka_tool(tool, *connect, "list")
        producer.abort_transaction(WAIT_SECONDS)


def copier(cluster: MixedCluster, source: str, target: str, name: str) -> subprocess.Popen[str]:
    """Kafka's own system test: consume, produce, offsets, all in one transaction; some abort."""
    options = {
        "--broker-list": cluster.bootstrap,
        "--input-topic": source,
        "--input-partition": "0",
        "--output-topic": target,
        "--consumer-group": name,
        "--transactional-id": name,
        "--transaction-size": "20",
        "--transaction-timeout": "20000",
    }
    arguments = [word for option in options.items() for word in option]
    main = "org.apache.kafka.tools.TransactionalMessageCopier"
    command = java_command(main, *arguments, "--enable-random-aborts", "--use-group-metadata")
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_copier_of_java_that_is_killed(cluster: MixedCluster, topic: str) -> None:
    """Each record is in the copy once: the next copier fences the one before, and goes on."""
    source, name = unique("source"), unique("copier")
    cluster.create_topic(source, partitions=1, assignment={0: [OURS, KAFKA_A, KAFKA_B]})
    values = [b"%05d" % n for n in range(2_000)]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
    for value in values:
        producer.produce(source, value, partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    with copier(cluster, source, topic, name) as first:
        assert first.stdout is not None
        # It tells of each transaction.
        for line in first.stdout:
            if json.loads(line)["totalProcessed"] >= 200:
                break
        first.kill()
    assert len(read(cluster, topic)) < len(values)
    with copier(cluster, source, topic, name) as second:
        second.communicate(timeout=2 * WAIT_SECONDS)
        assert second.returncode == 0
    wait_until_read(cluster, topic, values)
