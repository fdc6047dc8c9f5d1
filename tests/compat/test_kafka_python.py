"""The official kafka-python client against a real broker process."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic
from kafka.structs import OffsetAndMetadata

from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker

WAIT_SECONDS = 120.0


def new_topic(broker: BrokerProcess, partitions: int = 1) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])
    return name


def read_all(broker: BrokerProcess, topic: str, count: int, **options: object) -> list[Any]:
    """`count` records from the beginning, without a group."""
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=broker.bootstrap,
        auto_offset_reset="earliest",
        group_id=None,
        consumer_timeout_ms=int(WAIT_SECONDS * 1000),
        **options,
    )
    with closing(consumer):
        records: list[Any] = []
        for record in consumer:
            records.append(record)
            if len(records) == count:
                break
    return records


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_produce_and_consume_with_every_codec(
    shared_broker: BrokerProcess, codec: str | None
) -> None:
    topic = new_topic(shared_broker)
    producer = KafkaProducer(
        bootstrap_servers=shared_broker.bootstrap, compression_type=codec, linger_ms=50
    )
    values = [f"value {number} ".encode() * 20 for number in range(500)]
    with closing(producer):
        futures = [
            producer.send(topic, value, key=str(index).encode(), headers=[("n", b"%d" % index)])
            for index, value in enumerate(values)
        ]
        offsets = [future.get(WAIT_SECONDS).offset for future in futures]
    assert offsets == list(range(500))
    records = read_all(shared_broker, topic, 500)
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == offsets
    assert records[7].headers == [("n", b"7")]
    assert records[7].key == b"7"


@pytest.mark.parametrize(
    ("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)]
)
def test_every_acks(shared_broker: BrokerProcess, acks: int | str, idempotent: bool) -> None:
    topic = new_topic(shared_broker)
    producer = KafkaProducer(
        bootstrap_servers=shared_broker.bootstrap, acks=acks, enable_idempotence=idempotent
    )
    with closing(producer):
        for number in range(100):
            producer.send(topic, b"%d" % number)
        producer.flush(WAIT_SECONDS)
    assert [record.value for record in read_all(shared_broker, topic, 100)] == [
        b"%d" % number for number in range(100)
    ]


def test_a_missing_topic_is_created_by_producing(shared_broker: BrokerProcess) -> None:
    topic = f"auto-{uuid.uuid4().hex[:8]}"
    with closing(KafkaProducer(bootstrap_servers=shared_broker.bootstrap)) as producer:
        metadata = producer.send(topic, b"first").get(WAIT_SECONDS)
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)


def test_seek_and_offsets(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    base_ms = int(time.time() * 1000) - 3_600_000
    with closing(KafkaProducer(bootstrap_servers=shared_broker.bootstrap)) as producer:
        for number in range(50):
            producer.send(topic, b"%d" % number, timestamp_ms=base_ms + number * 1000)
        producer.flush(WAIT_SECONDS)
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=shared_broker.bootstrap, consumer_timeout_ms=int(WAIT_SECONDS * 1000)
    )
    with closing(consumer):
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 50}
        found = consumer.offsets_for_times({partition: base_ms + 20_500})
        assert found[partition].offset == 21
        assert found[partition].timestamp == base_ms + 21_000
        assert consumer.offsets_for_times({partition: base_ms + 99_000_000}) == {partition: None}
        consumer.seek(partition, 45)
        assert next(consumer).value == b"45"
        consumer.seek_to_beginning(partition)
        assert next(consumer).value == b"0"


def test_commit_and_resume(shared_broker: BrokerProcess) -> None:
    topic, group = new_topic(shared_broker), f"group-{uuid.uuid4().hex[:8]}"
    with closing(KafkaProducer(bootstrap_servers=shared_broker.bootstrap)) as producer:
        for number in range(20):
            producer.send(topic, b"%d" % number)
        producer.flush(WAIT_SECONDS)
    partition = TopicPartition(topic, 0)
    for expected_first in (0, 10):
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=shared_broker.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=int(WAIT_SECONDS * 1000),
        )
        with closing(consumer):
            first = next(consumer)
            assert first.offset == expected_first
            consumer.commit({partition: OffsetAndMetadata(10, "half way", -1)})
            assert consumer.committed(partition) == 10


class Member(threading.Thread):
    """A group member in a thread of its own, which notes what it reads until it is told to end."""

    def __init__(self, broker: BrokerProcess, topic: str, group: str) -> None:
        super().__init__(daemon=True)
        self.consumer = KafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=10_000,
            heartbeat_interval_ms=200,
        )
        self.seen: list[tuple[int, int]] = []
        self.assignment: frozenset[int] = frozenset()
        self.ending = threading.Event()

    def run(self) -> None:
        with closing(self.consumer):
            while not self.ending.is_set():
                # Long: this client can lose a rebalance that ends after the poll where it began.
                for records in self.consumer.poll(timeout_ms=1000).values():
                    self.seen += [(record.partition, record.offset) for record in records]
                self.assignment = frozenset(p.partition for p in self.consumer.assignment())


def test_group_rebalances_from_one_member_to_four_and_back(shared_broker: BrokerProcess) -> None:
    topic, group = new_topic(shared_broker, partitions=4), f"group-{uuid.uuid4().hex[:8]}"
    members: list[Member] = []

    def is_shared_out() -> bool:
        owned = [partition for member in members for partition in member.assignment]
        return sorted(owned) == [0, 1, 2, 3] and all(member.assignment for member in members)

    with ExitStack() as stack:
        producer = stack.enter_context(
            closing(KafkaProducer(bootstrap_servers=shared_broker.bootstrap))
        )
        for size in (1, 2, 3, 4):
            member = Member(shared_broker, topic, group)
            stack.callback(member.ending.set)
            members.append(member)
            member.start()
            until(is_shared_out, f"{size} members: {[m.assignment for m in members]}")
            for partition in range(4):
                producer.send(topic, b"x", partition=partition).get(WAIT_SECONDS)
        leaving = members.pop(0)
        leaving.ending.set()
        leaving.join(WAIT_SECONDS)
        until(is_shared_out, f"after a leave: {[m.assignment for m in members]}")
        everyone = [leaving, *members]
        until(
            lambda: (
                {s for member in everyone for s in member.seen}
                == {(partition, offset) for partition in range(4) for offset in range(4)}
            ),
            "all records read",
        )
        for member in members:
            member.ending.set()
        for member in members:
            member.join(WAIT_SECONDS)


def test_admin_topics_and_groups(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    with closing(KafkaAdminClient(bootstrap_servers=shared_broker.bootstrap)) as admin:
        assert topic in admin.list_topics()
        admin.create_partitions({topic: NewPartitions(3)})
        described = admin.describe_topics([topic])
        assert len(described[0]["partitions"]) == 3
        admin.delete_topics([topic])
        until(lambda: topic not in admin.list_topics(), "topic deleted")


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path) as broker:
        yield broker


def test_clients_live_through_a_broker_restart(own_broker: BrokerProcess) -> None:
    topic = new_topic(own_broker)
    producer = KafkaProducer(bootstrap_servers=own_broker.bootstrap, acks="all", retries=1000)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=own_broker.bootstrap,
        group_id="survivors",
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(WAIT_SECONDS * 1000),
    )
    with closing(producer), closing(consumer):
        for number in range(100):
            producer.send(topic, b"%d" % number)
        producer.flush(WAIT_SECONDS)
        assert [next(consumer).value for _ in range(100)] == [b"%d" % n for n in range(100)]
        assert own_broker.stop() == 0
        futures = [producer.send(topic, b"%d" % number) for number in range(100, 200)]
        own_broker.start()
        for future in futures:
            future.get(WAIT_SECONDS)
        assert [next(consumer).value for _ in range(100)] == [b"%d" % n for n in range(100, 200)]
