"""librdkafka, through confluent-kafka, against a real broker process."""

from __future__ import annotations

import time
import uuid
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.support.consumed import collect_errors, value_of
from tests.support.processes import BrokerProcess

WAIT_SECONDS = 120.0


def new_topic(broker: BrokerProcess, partitions: int = 1) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(WAIT_SECONDS)
    return name


def read_all(broker: BrokerProcess, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": uuid.uuid4().hex})
    with closing(consumer):
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[bytes] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(values) < count:
            assert time.monotonic() < deadline, f"{len(values)} of {count}"
            for message in consumer.consume(1000, 0.5):
                assert message.error() is None, message.error()
                values.append(value_of(message))
    return values


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(
    "settings", [{"acks": "0"}, {"acks": "1"}, {"acks": "all"}, {"enable.idempotence": True}]
)
def test_produce_and_consume(
    shared_broker: BrokerProcess, codec: str, settings: dict[str, object]
) -> None:
    topic = new_topic(shared_broker)
    errors: list[KafkaError] = []
    producer = Producer(
        {
            "bootstrap.servers": shared_broker.bootstrap,
            "compression.type": codec,
            "linger.ms": 5,
            **settings,
        }
    )
    values = [b"value %d " % number * 30 for number in range(2000)]
    for value in values:
        producer.produce(topic, value, on_delivery=collect_errors(errors))
    assert producer.flush(WAIT_SECONDS) == 0
    assert errors == []
    assert read_all(shared_broker, topic, len(values)) == values


def test_by_timestamp_and_watermarks(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    base_ms = 1_700_000_000_000
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap})
    for number in range(50):
        producer.produce(topic, b"%d" % number, timestamp=base_ms + number * 1000)
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = Consumer({"bootstrap.servers": shared_broker.bootstrap, "group.id": "times"})
    with closing(consumer):
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), WAIT_SECONDS) == (0, 50)
        asked = TopicPartition(topic, 0, base_ms + 20_500)
        assert consumer.offsets_for_times([asked], WAIT_SECONDS)[0].offset == 21


def test_group_of_two_then_one(shared_broker: BrokerProcess) -> None:
    topic, group = new_topic(shared_broker, partitions=4), uuid.uuid4().hex
    settings = {
        "bootstrap.servers": shared_broker.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 10_000,
        "heartbeat.interval.ms": 300,
    }

    def poll_until_shared(consumers: list[Consumer]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            for consumer in consumers:
                consumer.poll(0.05)
            owned = sorted(p.partition for c in consumers for p in c.assignment())
            if owned == [0, 1, 2, 3] and all(c.assignment() for c in consumers):
                return
            assert time.monotonic() < deadline, owned

    with ExitStack() as stack:
        first = stack.enter_context(closing(Consumer(settings)))
        first.subscribe([topic])
        poll_until_shared([first])
        second = Consumer(settings)
        second.subscribe([topic])
        poll_until_shared([first, second])
        second.close()
        poll_until_shared([first])
        first.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
        assert first.committed([TopicPartition(topic, 0)], WAIT_SECONDS)[0].offset == 0


def test_admin_configs(shared_broker: BrokerProcess) -> None:
    topic = new_topic(shared_broker)
    admin = AdminClient({"bootstrap.servers": shared_broker.bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    change = ConfigResource(
        ResourceType.TOPIC,
        topic,
        incremental_configs=[
            ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin.incremental_alter_configs([change])[change].result(WAIT_SECONDS)
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        configs = admin.describe_configs([resource])[resource].result(WAIT_SECONDS)
        if configs["retention.ms"].value == "123456":
            break
        assert time.monotonic() < deadline
    assert configs["segment.bytes"].value == str(2**30)


def test_produce_to_an_impossible_topic_is_refused(shared_broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": shared_broker.bootstrap, "message.timeout.ms": 5000})
    outcome: list[KafkaError] = []
    producer.produce("no/such topic", b"x", on_delivery=collect_errors(outcome))
    producer.flush(WAIT_SECONDS)
    assert [error.code() for error in outcome] == [KafkaError.TOPIC_EXCEPTION]
