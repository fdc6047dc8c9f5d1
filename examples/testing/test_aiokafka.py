"""aiokafka in asyncio, without a plugin for it: the cluster lives as long as the block."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from pybroker_kafka.testing import KafkaCluster


async def there_and_back() -> bytes:
    async with KafkaCluster(config={"auto.create.topics.enable": False}) as kafka:
        # What asks the cluster blocks its caller: in a loop it goes into a thread.
        topic = await asyncio.to_thread(kafka.topic, "orders")
        async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
            await producer.send_and_wait(topic, b"x")
        settings = {"bootstrap_servers": kafka.bootstrap, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, **settings) as consumer:
            value: bytes = (await consumer.getone()).value
            return value


def test_there_and_back() -> None:
    assert asyncio.run(there_and_back()) == b"x"
