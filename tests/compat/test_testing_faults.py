"""Faults on purpose, as real clients meet them: requests, disk, sessions, clocks, time travel.

One cluster of two brokers for most of the module.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer

from pybroker_kafka.testing import ClusterError, KafkaCluster, Network
from tests.support.patience import until
from tests.support.processes import zookeeper_process

CALL_SECONDS = 120.0
QUICK = {"zookeeper.session.timeout.ms": 2000}  # who is cut off is missed sooner


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(brokers=2) as kafka:
        yield kafka


@pytest.fixture
def kafka(cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    yield cluster
    cluster.heal()
    cluster.wait_for_brokers()


def produce(kafka: KafkaCluster, topic: str, *values: bytes, **settings: object) -> None:
    """By librdkafka, which tries again by itself; with a key if a value is like key=value."""
    config = {"bootstrap.servers": kafka.bootstrap, "client.id": "orders", **settings}
    producer = confluent_kafka.Producer(config)
    for value in values:
        key, equals, _ = value.partition(b"=")
        producer.produce(topic, value, key=key if equals else None)
    assert producer.flush(CALL_SECONDS) == 0


def values(kafka: KafkaCluster, topic: str) -> list[bytes | None]:
    return [record.value for record in kafka.records(topic)]


def test_an_error_for_the_second_request_of_a_client(kafka: KafkaCluster) -> None:
    topic = kafka.topic("orders")
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap, client_id="chosen", retries=0)
    producer.send(topic, b"1").get(CALL_SECONDS)
    with kafka.requests.fail(
        "Produce", "TOPIC_AUTHORIZATION_FAILED", client_id="chosen", nth=2
    ) as f:
        producer.send(topic, b"2").get(CALL_SECONDS)
        assert f.hits == 0
        with pytest.raises(Exception, match=r"(?i)authoriz"):
            producer.send(topic, b"3").get(CALL_SECONDS)
        assert f.hits == 1
        producer.send(topic, b"4").get(CALL_SECONDS)
        produce(kafka, topic, b"5")
    assert f.hits == 1
    producer.close()
    assert values(kafka, topic) == [b"1", b"2", b"4", b"5"]


def test_a_lost_answer_doubles_what_is_not_idempotent(kafka: KafkaCluster) -> None:
    topic = kafka.topic("orders")
    for is_idempotent, expected in ((True, 1), (False, 3)):
        with kafka.requests.lose_answer("Produce", client_id="orders") as fault:
            produce(kafka, topic, b"x", **{"enable.idempotence": is_idempotent})
        assert fault.hits == 1
        assert len(values(kafka, topic)) == expected


def test_requests_that_are_late_or_get_no_answer(kafka: KafkaCluster) -> None:
    topic = kafka.topic("orders")
    with kafka.requests.delay("Metadata", 0.3, client_id="orders", times=None):
        began = time.monotonic()
        produce(kafka, topic, b"late")
        assert time.monotonic() - began >= 0.3
    with kafka.requests.close("Produce", times=2), kafka.requests.drop("Produce", nth=3):
        produce(kafka, topic, b"again", **{"socket.timeout.ms": 1000})
    assert values(kafka, topic) == [b"late", b"again"]


def test_what_was_committed(kafka: KafkaCluster) -> None:
    topic = kafka.topic("orders")
    settings = {"bootstrap.servers": kafka.bootstrap, "transactional.id": "teller"}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(CALL_SECONDS)
    for value, end in (("1", producer.commit_transaction), ("2", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(CALL_SECONDS)
        end(CALL_SECONDS)
    assert values(kafka, topic) == [b"1", b"2"]
    assert [one.value for one in kafka.records(topic, committed=True)] == [b"1"]


def test_faults_of_a_broker_that_has_died_are_undone(kafka: KafkaCluster) -> None:
    kafka.set_clock(2, ahead=60)
    with kafka.requests.drop("Heartbeat", broker=2) as fault:
        kafka.kill(2)
    assert fault.hits == 0
    assert not kafka.is_whole
    kafka.heal()
    assert kafka.is_whole


@pytest.mark.nightly
def test_names_that_kafka_does_not_have(kafka: KafkaCluster) -> None:
    with pytest.raises(ClusterError, match="network=True"):
        kafka.network.cut(1, 2)
    with pytest.raises(ClusterError, match="no API"):
        kafka.requests.drop("Produces")
    with pytest.raises(ClusterError, match="no error"):
        kafka.requests.fail("Produce", "OOPS")


@pytest.mark.nightly
def test_a_session_that_expires_is_replaced(kafka: KafkaCluster) -> None:
    topic = kafka.topic("orders")
    kafka.expire_session(kafka.leader(topic))
    # What a leader takes just before it hears of its end is sent to the next one again.
    produce(kafka, topic, b"x", **{"enable.idempotence": True})
    kafka.wait_for_isr(topic, 2)
    assert values(kafka, topic) == [b"x"]


@pytest.mark.parametrize("fault", ["full", "failing"])
def test_a_broken_disk_ends_a_broker_until_it_is_mended(kafka: KafkaCluster, fault: str) -> None:
    topic = kafka.topic("orders")
    with kafka.break_disk(kafka.leader(topic), fault):
        produce(kafka, topic, b"x")
        kafka.wait_for_isr(topic, 1)
    kafka.wait_for_isr(topic, 2)
    assert values(kafka, topic) == [b"x"]


def test_a_leader_moves(kafka: KafkaCluster) -> None:
    topic = kafka.topic("orders", partitions=2)
    for broker in (1, 2, 1):
        kafka.move_leader(topic, 1, to=broker)
        assert kafka.leader(topic, 1) == broker
    with pytest.raises(ClusterError, match="cannot be led by broker 9"):
        kafka.move_leader(topic, to=9)


def test_a_group_rebalances(kafka: KafkaCluster) -> None:
    topic = kafka.topic("orders")
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap, group_id="g", heartbeat_interval_ms=100
    )
    rebalanced: list[object] = []

    class Listener:
        def on_partitions_revoked(self, revoked: object) -> None:
            pass

        def on_partitions_assigned(self, assigned: object) -> None:
            rebalanced.append(assigned)

    try:
        from kafka.consumer.subscription_state import ConsumerRebalanceListener

        kind = type("Noted", (Listener, ConsumerRebalanceListener), {})
        consumer.subscribe([topic], listener=kind())
        until(lambda: consumer.poll(50) is not None and len(rebalanced) == 1)
        kafka.rebalance("g")
        until(lambda: consumer.poll(50) is not None and len(rebalanced) == 2)
    finally:
        consumer.close()
    with pytest.raises(ClusterError, match="no group"):
        kafka.rebalance("nobody")


def test_clocks(kafka: KafkaCluster) -> None:
    topic = kafka.topic("orders", config={"message.timestamp.type": "LogAppendTime"})
    with kafka.set_clock(ahead=3600):
        produce(kafka, topic, b"x")
    produce(kafka, topic, b"y")
    ahead, now = (record.timestamp for record in kafka.records(topic))
    assert 3500 < (ahead - now) / 1000 < 3700


def test_a_week_passes() -> None:
    with KafkaCluster() as kafka:
        old = kafka.topic("old", config={"retention.ms": 86_400_000})
        kept = kafka.topic("kept", config={"retention.ms": -1})
        for topic in (old, kept):
            produce(kafka, topic, b"x")
        kafka.advance(days=7)
        until(lambda: not kafka.records(old))
        assert values(kafka, kept) == [b"x"]


def test_compaction_at_once() -> None:
    with KafkaCluster() as kafka:
        topic = kafka.topic("prices", config={"cleanup.policy": "compact"})
        produce(kafka, topic, b"a=1", b"b=1", b"a=2")
        kafka.compact(topic)
        assert values(kafka, topic) == [b"b=1", b"a=2"]
        produce(kafka, topic, b"b=2")
        kafka.compact(topic)
        assert values(kafka, topic) == [b"a=2", b"b=2"]


def test_cut_delayed_and_silent_networks() -> None:
    with KafkaCluster(brokers=3, config=QUICK, network=True) as kafka:
        topic = kafka.topic("orders", config={"min.insync.replicas": 2})
        kafka.wait_for_isr(topic, 3)
        leader = kafka.leader(topic)
        with kafka.network.delay("client", leader, 0.2):
            began = time.monotonic()
            produce(kafka, topic, b"late")
            assert time.monotonic() - began >= 0.4
        with kafka.network.isolate(leader):
            until(lambda: kafka.leader(topic) != leader)
        produce(kafka, topic, b"after")
        kafka.wait_for_isr(topic, 3)
        with contextlib.ExitStack() as cuts:  # from all: on a busy machine the leader may change
            for broker in kafka.brokers:
                cuts.enter_context(kafka.network.cut("client", broker))
            with pytest.raises(ClusterError):
                kafka.records(topic, timeout=0.5)
        kafka.balance_leaders()  # else the controller may do so when a link of its own is silent
        leader = kafka.leader(topic)
        first, second = (broker for broker in kafka.brokers if broker != leader)
        with kafka.network.silence(first, second):
            produce(kafka, topic, b"x")
        assert values(kafka, topic) == [b"late", b"after", b"x"]


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["secure", "ensemble"])
def test_networks_of_other_clusters(tmp_path: Path, kind: str) -> None:
    """Behind TLS and logins, and over somebody else's ZooKeeper, in a place of its own there."""
    with contextlib.ExitStack() as stack:
        more: dict[str, Any] = {"secure": True}
        if kind == "ensemble":
            more = {"zookeeper": stack.enter_context(zookeeper_process(tmp_path)) + "/here"}
        kafka = stack.enter_context(KafkaCluster(brokers=2, config=QUICK, network=True, **more))
        topic = kafka.topic("orders")
        settings = kafka.client_settings("confluent-kafka")
        fault = kafka.network.cut("client", kafka.leader(topic))
        producer = confluent_kafka.Producer({**settings, "message.timeout.ms": 60_000})
        producer.produce(topic, b"late")
        assert producer.flush(0.5) == 1
        fault.undo()
        assert producer.flush(60) == 0
        assert [one.value for one in kafka.records(topic, at_least=1)] == [b"late"]
        kafka.wait_for_isr(topic, 2)
        leader = kafka.leader(topic)
        with kafka.network.cut(leader, "zookeeper"):
            until(lambda: kafka.leader(topic) != leader)
        kafka.wait_for_isr(topic, 2)


def says(connection: socket.socket, seconds: float) -> bytes:
    """The answer to a byte: `late` after so many seconds, empty when the connection is closed."""
    connection.settimeout(seconds)
    try:
        connection.sendall(b"x")
        return connection.recv(1)
    except TimeoutError:
        return b"late"
    except OSError:
        return b""


@pytest.mark.nightly
def test_a_network_between_servers_that_are_no_cluster() -> None:
    """Whose connection it is says its process, or the port; the others are clients."""

    def echo(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(100):
                connection.sendall(data)

    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=echo, args=(server,), daemon=True).start()
        network = stack.enter_context(Network())
        own = network.front("echo", server.getsockname()[1], near="shop")
        for_all = network.front("echo", server.getsockname()[1])

        def connect(port: int) -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port)))

        shop, client = connect(own), connect(for_all)
        with network.cut("shop", "echo"):
            assert (says(shop, CALL_SECONDS), says(client, CALL_SECONDS)) == (b"", b"x")
            assert says(connect(own), CALL_SECONDS) == b""
        shop = connect(own)
        with network.silence("client", "echo"):
            assert (says(shop, CALL_SECONDS), says(client, 0.2)) == (b"x", b"late")
        assert client.recv(1) == b"x", "what was held back"
        network.belongs("till", os.getpid())
        till = connect(for_all)
        network.delay("till", "echo", 0.3)
        began = time.monotonic()
        assert says(till, CALL_SECONDS) == b"x"
        assert time.monotonic() - began >= 0.6
        network.heal()
        with pytest.raises(ClusterError, match="no link"):
            network.cut("till", "bank")


def test_a_local_port_of_several_connections() -> None:
    """Linux gives connections to different servers the same local port: the test's process has one
    of them, through a network, and another process has the others."""
    with contextlib.ExitStack() as stack:

        def server() -> socket.socket:
            return stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def connection(port: int, local_port: int = 0) -> socket.socket:
            one = stack.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", local_port))
            one.connect(("127.0.0.1", port))
            return one

        shop = server()
        network = stack.enter_context(Network())
        network.belongs("till", os.getpid())
        till = connection(network.front("shop", shop.getsockname()[1]))
        local_port = till.getsockname()[1]
        others = [connection(server().getsockname()[1], local_port) for _ in range(8)]
        numbers = [one.fileno() for one in others]
        held = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=numbers)
        stack.enter_context(held)
        for one in others:
            one.close()
        stack.enter_context(shop.accept()[0])
        with network.cut("till", "shop"):
            assert says(till, CALL_SECONDS) == b""
