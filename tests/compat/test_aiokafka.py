"""aiokafka against a real broker process; its event loop runs inside each test."""

from __future__ import annotations

import asyncio
import uuid

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.processes import BrokerProcess

WAIT_SECONDS = 120.0


async def new_topic(broker: BrokerProcess, partitions: int = 1) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, partitions, 1)])
    finally:
        await admin.close()
    return name


async def round_trip(broker: BrokerProcess, codec: str | None, idempotent: bool) -> None:
    topic = await new_topic(broker)
    producer = AIOKafkaProducer(
        bootstrap_servers=broker.bootstrap,
        compression_type=codec,
        enable_idempotence=idempotent,
        acks="all",
        linger_ms=20,
    )
    await producer.start()
    try:
        sent = [await producer.send(topic, b"value %d" % number) for number in range(300)]
        offsets = [(await future).offset for future in sent]
    finally:
        await producer.stop()
    assert offsets == list(range(300))
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        values = [(await consumer.getone()).value for _ in range(300)]
        assert values == [b"value %d" % number for number in range(300)]
        consumer.seek(partition, 290)
        assert (await consumer.getone()).offset == 290
        assert await consumer.end_offsets([partition]) == {partition: 300}
    finally:
        await consumer.stop()


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("idempotent", [False, True])
def test_produce_and_consume(
    shared_broker: BrokerProcess, codec: str | None, idempotent: bool
) -> None:
    asyncio.run(asyncio.wait_for(round_trip(shared_broker, codec, idempotent), WAIT_SECONDS))


async def group_commits(broker: BrokerProcess) -> None:
    topic, group = await new_topic(broker, partitions=2), uuid.uuid4().hex
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
    await producer.start()
    try:
        for number in range(10):
            await producer.send_and_wait(topic, b"%d" % number, partition=number % 2)
    finally:
        await producer.stop()
    for _ in range(2):
        consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        await consumer.start()
        try:
            seen = [await consumer.getone() for _ in range(5)]
            await consumer.commit()
        finally:
            await consumer.stop()
    assert len(seen) == 5
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=broker.bootstrap, group_id=group, enable_auto_commit=False
    )
    await consumer.start()
    try:
        committed = [await consumer.committed(TopicPartition(topic, n)) for n in (0, 1)]
    finally:
        await consumer.stop()
    assert committed == [5, 5]


def test_group_commits_and_resumes(shared_broker: BrokerProcess) -> None:
    asyncio.run(asyncio.wait_for(group_commits(shared_broker), WAIT_SECONDS))
