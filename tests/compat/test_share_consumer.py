"""The share consumer of Kafka 4.3.1 (KIP-932) on brokers with share groups."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.share_group_describe import ShareGroupDescribeRequest
from pybroker_kafka.protocol.features import Feature
from tests.support.maven import compiled, maven_jars
from tests.support.patience import until
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.short_lived_java import JVM_OPTIONS
from tests.support.wire import WireClient, batch, produce_request, unique
from tests.wire.feature_steps import finalize
from tests.wire.test_group_configs import alter

pytestmark = pytest.mark.nightly

SOURCE = Path(__file__).resolve().parents[1] / "support" / "java" / "ShareMember.java"
JARS = {"org.apache.kafka:kafka-clients": "4.3.1"}
LOCK_MS = 2000
DELIVERIES = 5
LEAVE_SECONDS = 40
CONFIG = {
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "zookeeper.session.timeout.ms": "4000",
}
SET = 0


class Got(NamedTuple):
    partition: int
    offset: int
    deliveries: int
    value: str


class Member:
    """A Java process, whose output a thread reads."""

    def __init__(self, bootstrap: str, group: str, topic: str, mode: str = "explicit") -> None:
        classes = compiled(SOURCE, maven_jars("kafka-clients-4.3.1", JARS))
        self._process = subprocess.Popen(
            ["java", *JVM_OPTIONS, "-cp", classes, "ShareMember", bootstrap, group, topic, mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self.got: list[Got] = []
        self.stored: list[int] = []
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, *rest = line.rstrip("\n").split(" ", 4)
            if word == "got":
                self.got.append(Got(int(rest[0]), int(rest[1]), int(rest[2]), rest[3]))
            elif word == "stored":
                self.stored.append(int(rest[0]))
            elif word == "failed":
                self.failures.append(rest[0])

    def counts(self, value: str) -> list[int]:
        return [got.deliveries for got in self.got if got.value == value]

    def leave(self) -> None:
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._thread.join()

    def kill(self) -> None:
        self._process.kill()
        self.leave()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerProcess]]:
    directory = tmp_path_factory.mktemp("share")
    with zookeeper_process(directory) as connect:
        found = [
            BrokerProcess(
                directory / f"broker{index}",
                connect,
                {**CONFIG, "offsets.topic.replication.factor": "3"},
                index,
            )
            for index in (1, 2, 3)
        ]
        try:
            for broker in found:
                broker.start()
            with WireClient(found[0].bootstrap) as client:
                finalize(client, {Feature.GROUP: 1, Feature.SHARE: 1})
            yield found
        finally:
            for broker in found:
                broker.kill()


@pytest.fixture
def kafka(brokers: list[BrokerProcess]) -> Iterator[WireClient]:
    with WireClient(brokers[0].bootstrap) as client:
        yield client


@pytest.fixture
def group(kafka: WireClient) -> str:
    name = unique("share")
    assert alter(kafka, name, ("share.auto.offset.reset", SET, "earliest")).error_code == 0
    return name


def new_topic(kafka: WireClient, replicas: int = 1) -> str:
    """`kafka` is a connection to the controller."""
    name = unique("queue")
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=replicas)
    answer = kafka.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    assert answer.topics[0].error_code == 0, answer
    until(lambda: leader_of(kafka, name) >= 0)
    return name


def leader_of(kafka: WireClient, topic: str) -> int:
    answer = kafka.call(
        MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False),
        9,
    )
    (found,) = answer.topics
    return found.partitions[0].leader_id if found.partitions else -1


def produce(brokers: list[BrokerProcess], topic: str, *values: str) -> None:
    """To the leader, as soon as it is known."""
    records = bytes(batch(*[value.encode() for value in values]))

    def is_done() -> bool:
        for broker in brokers:
            try:
                with WireClient(broker.bootstrap) as client:
                    answer = client.call(produce_request(topic, records), 9)
            except OSError:
                continue
            if answer.responses[0].partition_responses[0].error_code == 0:
                return True
        return False

    until(is_done)


def assigned(brokers: list[BrokerProcess], group: str) -> int:
    """The members of the group that have partitions, by its coordinator."""
    for broker in brokers:
        with WireClient(broker.bootstrap) as client:
            answer = client.call(ShareGroupDescribeRequest(group_ids=[group]), 1)
        (found,) = answer.groups
        if found.error_code == 0:
            return sum(bool(member.assignment.topic_partitions) for member in found.members)
    return 0


def bootstrap(brokers: list[BrokerProcess]) -> str:
    return ",".join(broker.bootstrap for broker in brokers)


def test_explicit_acknowledgement(
    brokers: list[BrokerProcess], kafka: WireClient, group: str
) -> None:
    topic = new_topic(kafka)
    member = Member(bootstrap(brokers), group, topic)
    try:
        produce(brokers, topic, "accept", "release", "reject", "release always", "last")
        until(lambda: len(member.counts("release always")) == DELIVERIES)
        until(lambda: {0, 1, 2, 3, 4} <= set(member.stored))
        produce(brokers, topic, "later")
        until(lambda: member.counts("later") == [1])
        assert member.counts("accept") == member.counts("reject") == member.counts("last") == [1]
        assert member.counts("release") == [1, 2]
        assert member.counts("release always") == list(range(1, DELIVERIES + 1))
        assert member.failures == []
    finally:
        member.leave()


def test_implicit_acknowledgement_by_two_members(
    brokers: list[BrokerProcess], kafka: WireClient, group: str
) -> None:
    topic = new_topic(kafka)
    members = [Member(bootstrap(brokers), group, topic, "implicit") for _ in range(2)]
    try:
        expected = set()
        for index in range(30):
            values = [f"{index}-{number}" for number in range(20)]
            produce(brokers, topic, *values)
            expected.update(values)
        until(lambda: {got.value for member in members for got in member.got} >= expected)
        got = [got.value for member in members for got in member.got]
        assert len(got) == len(expected), "a record was delivered twice"
        until(lambda: sum(len(member.stored) for member in members) == len(expected))
    finally:
        for member in members:
            member.leave()


def test_a_lock_that_ends(brokers: list[BrokerProcess], kafka: WireClient, group: str) -> None:
    topic = new_topic(kafka)
    members = [Member(bootstrap(brokers), group, topic) for _ in range(2)]
    try:
        # A member that comes later than the lock ends would leave the record to the slow one.
        until(lambda: assigned(brokers, group) == 2)
        value = f"slow {4 * LOCK_MS}"
        produce(brokers, topic, value)
        until(
            lambda: all(member.counts(value) for member in members),
            lambda: [member.got for member in members],
        )
        other, slow = sorted(members, key=lambda member: 1 in member.counts(value))
        until(lambda: other.stored == [0])
        # Too late, and of no effect: the group is past this record. The slow member's client may
        # have fetched it once more meanwhile, and then has lost it again.
        until(lambda: set(slow.stored) == {0})
        assert len(other.counts(value)) == 1
        assert slow.counts(value) in ([1], [1, 2])
    finally:
        for member in members:
            member.leave()


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "leaves"])
def test_a_member_that_goes(
    brokers: list[BrokerProcess], kafka: WireClient, group: str, is_killed: bool
) -> None:
    topic = new_topic(kafka)
    value = f"slow {100 * LOCK_MS if is_killed else LOCK_MS // 4}"
    produce(brokers, topic, value, "next")
    first = Member(bootstrap(brokers), group, topic)
    until(lambda: first.counts(value) == [1])
    if is_killed:
        first.kill()
    else:
        first.leave()
    second = Member(bootstrap(brokers), group, topic)
    try:
        produce(brokers, topic, "later")
        until(lambda: second.counts("later") == [1])
        if is_killed:
            until(lambda: second.counts(value) == [2])
        else:
            assert second.counts(value) == []
    finally:
        second.leave()


def test_a_leader_that_is_killed(
    brokers: list[BrokerProcess], kafka: WireClient, group: str
) -> None:
    topic = new_topic(kafka, 3)
    member = Member(bootstrap(brokers), group, topic)
    try:
        expected = [str(number) for number in range(30)]
        for value in expected[:15]:
            produce(brokers, topic, value)
        until(lambda: len(set(member.stored)) >= 10)
        stored = set(member.stored)
        with WireClient(brokers[1].bootstrap) as client:
            leader = leader_of(client, topic)
        killed = brokers[leader - 1]
        before = len(member.got)
        killed.kill()
        for value in expected[15:]:
            produce([broker for broker in brokers if broker is not killed], topic, value)
        until(lambda: {got.value for got in member.got} >= set(expected))
        assert not stored & {got.offset for got in member.got[before:]}
        until(lambda: set(member.stored) == set(range(30)))
        killed.start()
    finally:
        member.leave()
