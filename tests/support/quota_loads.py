"""What real clients get through in a while: as much as they can, which is what their quota lets.

Each load is a function of (bootstrap servers, topic, client id, seconds) that returns bytes of
values a second, from the first one on. What a request has beside values is a few per cent at most.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

VALUE = bytes(4_000)
BATCH_BYTES = 32_000
FETCH_BYTES = 32_000

Load = Callable[[str, str, str, float], float]


def confluent_produces(bootstrap: str, topic: str, client_id: str, seconds: float) -> float:
    delivered = 0

    def count(error: object, message: Any) -> None:
        nonlocal delivered
        assert error is None, error
        delivered += len(message.value())

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "batch.size": BATCH_BYTES,
            "queue.buffering.max.messages": 100,
            "max.in.flight.requests.per.connection": 2,
            "message.timeout.ms": 600_000,
        }
    )
    producer.list_topics(topic)
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        try:
            producer.produce(topic, VALUE, partition=0, on_delivery=count)
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    took = time.monotonic() - began
    rate = delivered / took
    producer.purge()
    return rate


def kafka_python_produces(bootstrap: str, topic: str, client_id: str, seconds: float) -> float:
    delivered = 0

    def count(_: object) -> None:
        nonlocal delivered
        delivered += len(VALUE)
        room.release()

    room = threading.Semaphore(4 * BATCH_BYTES // len(VALUE))
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        batch_size=BATCH_BYTES,
        max_in_flight_requests_per_connection=2,
        request_timeout_ms=60_000,
        max_block_ms=60_000,
        linger_ms=5,
    )
    producer.partitions_for(topic)
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        if room.acquire(timeout=0.05):
            producer.send(topic, VALUE, partition=0).add_callback(count)
    rate = delivered / (time.monotonic() - began)
    producer.close(timeout=30)
    return rate


def confluent_consumes(bootstrap: str, topic: str, client_id: str, seconds: float) -> float:
    from confluent_kafka import TopicPartition as Place

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "client.id": client_id,
            "group.id": client_id,
            "fetch.message.max.bytes": FETCH_BYTES,
            "queued.max.messages.kbytes": 10_000,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([Place(topic, 0, 0)])
    read = 0
    began: float | None = None
    while began is None or time.monotonic() < began + seconds:
        for message in consumer.consume(50, timeout=0.05):
            assert message.error() is None, message.error()
            began = began or time.monotonic()
            read += len(message.value() or b"")
    rate = read / (time.monotonic() - began)
    consumer.close()
    return rate


def kafka_python_consumes(bootstrap: str, topic: str, client_id: str, seconds: float) -> float:
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        client_id=client_id,
        max_partition_fetch_bytes=FETCH_BYTES,
        fetch_max_bytes=FETCH_BYTES,
        enable_auto_commit=False,
    )
    place = TopicPartition(topic, 0)
    consumer.assign([place])
    consumer.seek(place, 0)
    read = 0
    began: float | None = None
    while began is None or time.monotonic() < began + seconds:
        for records in consumer.poll(timeout_ms=50).values():
            began = began or time.monotonic()
            read += sum(len(record.value) for record in records)
    rate = read / (time.monotonic() - began)
    consumer.close()
    return rate


LOADS: Mapping[str, Load] = {
    "librdkafka produces": confluent_produces,
    "librdkafka consumes": confluent_consumes,
    "kafka-python produces": kafka_python_produces,
    "kafka-python consumes": kafka_python_consumes,
}
