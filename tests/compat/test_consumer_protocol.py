"""Consumers of the consumer protocol (KIP-848) on a broker with group.version finalized.

librdkafka's, and the Java consumer of Kafka 4.3.1: they share a topic, take over from members that
leave or are killed, and follow a regular expression to a topic that is made later. Beside them in
one group are consumers of the classic protocol, of librdkafka and kafka-python: a group rolls from
one protocol to the other and back.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker_kafka.protocol.apis.list_groups import ListGroupsRequest
from pybroker_kafka.protocol.features import Feature
from tests.support.commands import Commands
from tests.support.maven import compiled, maven_jars
from tests.support.nightly import nightly
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.short_lived_java import JVM_OPTIONS
from tests.support.wire import Topic, WireClient, unique
from tests.wire.feature_steps import finalize

confluent_kafka = pytest.importorskip("confluent_kafka")
kafka_python = pytest.importorskip("kafka")

PARTITIONS = 4
SOURCE = Path(__file__).resolve().parents[1] / "support" / "java" / "ConsumerProtocol.java"
JARS = {"org.apache.kafka:kafka-clients": "4.3.1"}
CONFIG = {
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
}


class Librdkafka:
    """A consumer of librdkafka that a thread polls."""

    def __init__(
        self, bootstrap: str, group: str, subscription: str, protocol: str = "consumer"
    ) -> None:
        of_classic = {
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 500,
        }
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                **(of_classic if protocol == "classic" else {}),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        self._consumer.subscribe([subscription])
        self.read: list[tuple[str, int, int]] = []
        self.owned: set[tuple[str, int]] = set()
        self.errors: list[Any] = []
        self._is_done = False
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._is_done:
            message = self._consumer.poll(0.1)
            self.owned = {(one.topic, one.partition) for one in self._consumer.assignment()}
            if message is None:
                continue
            if message.error():
                self.errors.append(message.error())
                continue
            self.read.append((message.topic(), message.partition(), message.offset()))
            try:
                self._consumer.commit(message, asynchronous=False)
            except confluent_kafka.KafkaException as error:
                # A classic member commits, and the group is about to rebalance.
                self.errors.append(error)
        self._consumer.close()

    def leave(self) -> None:
        self._is_done = True
        self._thread.join()


class KafkaPython:
    """A consumer of kafka-python, of the classic protocol, that a thread polls."""

    def __init__(self, bootstrap: str, group: str, subscription: str) -> None:
        self._consumer = kafka_python.KafkaConsumer(
            subscription,
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=True,
            auto_commit_interval_ms=100,
            auto_offset_reset="earliest",
            session_timeout_ms=10_000,
            heartbeat_interval_ms=500,
        )
        # A leader without metadata of the topic assigns nothing, and joins again once it has them.
        # A poll that ends between that join's assignment and its end stops kafka-python 3.0 for
        # good: it then believes that there is nothing to join, and sends no heartbeats.
        until(lambda: self._consumer.partitions_for_topic(subscription))
        self.read: list[tuple[str, int, int]] = []
        self.owned: set[tuple[str, int]] = set()
        self._is_done = False
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._is_done:
            found = self._consumer.poll(timeout_ms=100)
            self.owned = {(one.topic, one.partition) for one in self._consumer.assignment()}
            for records in found.values():
                self.read += [(one.topic, one.partition, one.offset) for one in records]
        self._consumer.close()

    def leave(self) -> None:
        self._is_done = True
        self._thread.join()


class Java:
    """The Java consumer in a process of its own, whose output a thread reads."""

    def __init__(self, bootstrap: str, group: str, subscription: str, instance: str = "-") -> None:
        classes = compiled(SOURCE, maven_jars("kafka-clients-4.3.1", JARS))
        self._process = subprocess.Popen(
            [
                "java", *JVM_OPTIONS, "-cp", classes, "ConsumerProtocol",
                bootstrap, group, subscription, instance,
            ],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.read: list[tuple[str, int, int]] = []
        self.owned: set[tuple[str, int]] = set()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, *rest = line.split()
            if word == "owns":
                self.owned = {_partition(name) for name in rest}
            elif word == "read":
                self.read.append((*_partition(rest[0]), int(rest[1])))

    def leave(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.wait()
        self._thread.join()

    def kill(self) -> None:
        self._process.kill()
        self.leave()


def _partition(name: str) -> tuple[str, int]:
    topic, _, index = name.rpartition("-")
    return topic, int(index)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("consumer-protocol"), CONFIG) as broker:
        with WireClient(broker.bootstrap) as client:
            finalize(client, {Feature.GROUP: 1})
        yield broker


@pytest.fixture
def kafka(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap) as client:
        yield client


Member = Callable[[str], Any]


@pytest.fixture(params=["librdkafka", nightly("java")])
def member(request: pytest.FixtureRequest, broker: BrokerProcess) -> Iterator[Member]:
    group = unique("group")
    started: list[Any] = []

    def start(subscription: str, **options: str) -> Any:
        kind: Any = Librdkafka if request.param == "librdkafka" else Java
        started.append(kind(broker.bootstrap, group, subscription, **options))
        return started[-1]

    start.group = group  # type: ignore[attr-defined]
    yield start
    for one in started:
        one.leave()


def all_of(topic: Topic) -> set[tuple[str, int]]:
    return {(topic.name, partition) for partition in range(PARTITIONS)}


def fill(kafka: WireClient, topic: Topic, count: int = 5) -> None:
    for partition in range(PARTITIONS):
        for n in range(count):
            kafka.append(topic.name, b"%d" % n, partition=partition)


def shared(members: list[Any], topic: Topic) -> bool:
    owned = [one.owned for one in members]
    return (
        set().union(*owned) == all_of(topic)
        and sum(map(len, owned)) == PARTITIONS
        and all(len(mine) == PARTITIONS // len(members) for mine in owned)
    )


def test_members_come_and_go(kafka: WireClient, member: Member) -> None:
    topic = kafka.create_topic(PARTITIONS)
    fill(kafka, topic)
    first = member(topic.name)
    until(lambda: first.owned == all_of(topic) and len(first.read) == 5 * PARTITIONS)
    second = member(topic.name)
    until(lambda: shared([first, second], topic))
    fill(kafka, topic)
    until(lambda: len(first.read) + len(second.read) == 10 * PARTITIONS)
    assert len({*first.read, *second.read}) == 10 * PARTITIONS
    asked = ConsumerGroupDescribeRequest(group_ids=[member.group])  # type: ignore[attr-defined]
    until(lambda: kafka.call(asked, 0).groups[0].group_state == "Stable")
    first.leave()
    until(lambda: second.owned == all_of(topic))
    fill(kafka, topic)
    until(lambda: len({*first.read, *second.read}) == 15 * PARTITIONS)


def test_a_pattern_finds_new_topics(kafka: WireClient, member: Member) -> None:
    pytest.importorskip("re2")
    prefix = unique("pattern")
    first = kafka.create_topic(PARTITIONS, f"{prefix}-a")
    one = member(f"^{prefix}-.*")
    until(lambda: one.owned == all_of(first))
    second = kafka.create_topic(PARTITIONS, f"{prefix}-b")
    until(lambda: one.owned == all_of(first) | all_of(second))


def test_a_killed_member_is_replaced(kafka: WireClient, broker: BrokerProcess) -> None:
    topic = kafka.create_topic(PARTITIONS)
    group = unique("group")
    java, other = Java(broker.bootstrap, group, topic.name), None
    try:
        until(lambda: java.owned == all_of(topic))
        other = Librdkafka(broker.bootstrap, group, topic.name)
        until(lambda: shared([java, other], topic))
        started = time.monotonic()
        java.kill()
        until(lambda: other is not None and other.owned == all_of(topic))
        assert time.monotonic() - started > 1
        assert other.errors == []
    finally:
        java.kill()
        if other is not None:
            other.leave()


def total(members: list[Any]) -> int:
    return sum(len(one.read) for one in members)


def test_a_group_rolls_from_protocol_to_protocol(broker: BrokerProcess, kafka: WireClient) -> None:
    """Librdkafka and kafka-python with the classic one, then the Java consumer with the new one,
    then classic ones again. While the group is stable each record is read once, and no offset is
    lost on the way."""
    topic, group = kafka.create_topic(PARTITIONS), unique("rolling")
    everybody: list[Any] = []

    def start(kind: Any, *more: str) -> Any:
        everybody.append(kind(broker.bootstrap, group, topic.name, *more))
        return everybody[-1]

    def fill_and_read(*members: Any) -> None:
        until(lambda: shared(list(members), topic))
        time.sleep(1)  # a rebalance that is still on its way
        until(lambda: shared(list(members), topic))
        before = len({place for one in everybody for place in one.read})
        fill(kafka, topic)
        wanted = before + 5 * PARTITIONS
        until(lambda: len({place for one in everybody for place in one.read}) == wanted)

    def group_type() -> str:
        listed = kafka.call(ListGroupsRequest(), 5).groups
        return str(next(one.group_type for one in listed if one.group_id == group))

    kafka.coordinator(group)
    try:
        old = start(KafkaPython)
        fill_and_read(old)
        new = start(Java)
        fill_and_read(old, new)
        assert group_type() == "consumer"
        old.leave()
        fill_and_read(new)
        again = start(Librdkafka, "classic")
        fill_and_read(new, again)
        assert group_type() == "consumer"
        new.leave()
        fill_and_read(again)
        assert group_type() == "classic"
        read_twice = total(everybody) - len({place for one in everybody for place in one.read})
        assert read_twice <= PARTITIONS
    finally:
        for one in everybody:
            one.leave()


@pytest.mark.nightly
def test_commands_for_such_a_group(broker: BrokerProcess, kafka: WireClient) -> None:
    run = Commands(broker.bootstrap)
    topic, group = kafka.create_topic(2), unique("commands")
    kafka.coordinator(group)
    joined = kafka.call(
        ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=[topic.name],
            topic_partitions=[],
        ),
        1,
    )
    assert joined.error_code == 0
    listed = {one["group"]: one for one in run.json("groups", "list", "--type", "consumer")}
    assert (listed[group]["type"], listed[group]["state"]) == ("consumer", "Stable")
    classic = run.json("groups", "list", "--type", "classic")
    assert group not in [one["group"] for one in classic]
    (member,) = run.json("groups", "describe", group, "--members")
    places = [f"{topic.name}-0", f"{topic.name}-1"]
    assert (member["partitions"], member["epoch"]) == (places, joined.member_epoch)
    assert (member["to come"], member["to go"]) == ([], [])
    assert f"Stable in epoch {joined.member_epoch}" in run.text("groups", "describe", group)
    rows = run.json("groups", "describe", group)
    assert [row["partition"] for row in rows] == places
    run.json("groups", "configs", group, "--set", "consumer.session.timeout.ms=9000")
    until(lambda: [one["value"] for one in run.json("groups", "configs")] == ["9000"])
    (own,) = run.json("groups", "configs", group)
    assert (own["key"], own["value"]) == ("consumer.session.timeout.ms", "9000")
    run.json("groups", "configs", group, "--delete", "consumer.session.timeout.ms")
    until(lambda: run.json("groups", "configs") == [])
    assert len(run.json("groups", "configs", group, "--all")) == 17
    assert "name the groups" in run.refused("groups", "configs", "--delete", "x")
