"""Bulk produce and consume with librdkafka: 1 KiB records in batches of 1 MB."""

from __future__ import annotations

import time
import uuid
from contextlib import closing

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

RECORD_BYTES = 1024
WAIT_SECONDS = 120.0


def gigabytes(records: int) -> float:
    return records * RECORD_BYTES / 1e9


def new_topic(bootstrap: str, partitions: int, replicas: int = 1) -> str:
    name = f"load-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, partitions, replicas)])[name].result(WAIT_SECONDS)
    return name


def delete_topic(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([name])[name].result(WAIT_SECONDS)


def produce(bootstrap: str, topic: str, records: int, acks: str) -> float:
    """Produce until all is acknowledged; returns the seconds it took."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "batch.size": 1 << 20,
            "batch.num.messages": 100_000,
            "linger.ms": 50,
            "queue.buffering.max.kbytes": 1 << 19,
            "queue.buffering.max.messages": 1_000_000,
            "message.max.bytes": 1_048_000,
            "acks": acks,
            "error_cb": failures.append,
        }
    )
    value = b"x" * RECORD_BYTES
    started = time.perf_counter()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(WAIT_SECONDS)
    if left:
        raise AssertionError(f"{left} records are not acknowledged: {failures[:3]}")
    return time.perf_counter() - started


def consume(bootstrap: str, topic: str, records: int) -> float:
    """Read one partition from its start; returns the seconds it took."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "bulk",
        "fetch.message.max.bytes": 1 << 20,
        "queued.max.messages.kbytes": 1 << 18,
    }
    started = time.perf_counter()
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen = 0
        while seen < records:
            seen += len(consumer.consume(100_000, 1.0))
        return time.perf_counter() - started
