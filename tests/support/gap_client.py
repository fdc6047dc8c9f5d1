"""A producer whose acknowledgements are timed, in a process of its own; for tests.faults.failover.

    python -m tests.support.gap_client CLIENT BOOTSTRAP TOPIC PARTITIONS

CLIENT is librdkafka, kafka-python, aiokafka or pybroker, our own.

It sends a numbered record to each partition every SEND_SECONDS, at the client's default settings
(with acks=all), and writes a line for each acknowledgement:

    NANOSECONDS PARTITION NUMBER OFFSET

with the time of CLOCK_MONOTONIC, which all processes share. `x WHY` is a record that was given up.
It ends, after its last answers, when its standard input ends. Further settings of the client come
as arguments KEY=VALUE, in the client's own names.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

SEND_SECONDS = 0.01
FLUSH_SECONDS = 60
CLIENTS = ("librdkafka", "kafka-python", "aiokafka", "pybroker", "java")


class Journal:
    def __init__(self) -> None:
        self.ended = threading.Event()
        threading.Thread(target=self._watch_input, daemon=True).start()

    def _watch_input(self) -> None:
        sys.stdin.buffer.read()
        self.ended.set()

    def acknowledged(self, partition: int, number: int, offset: int) -> None:
        os.write(1, b"%d %d %d %d\n" % (time.monotonic_ns(), partition, number, offset))

    def failed(self, why: object) -> None:
        os.write(1, f"x {why!r}".replace("\n", " ").encode() + b"\n")


def value_of(number: int) -> bytes:
    return b"%d" % number


def librdkafka(
    bootstrap: str, topic: str, partitions: int, settings: Mapping[str, Any], journal: Journal
) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", **settings})
    number = 0

    def send(partition: int, number: int) -> None:
        def delivered(error: object, message: Any) -> None:
            if error is not None:
                journal.failed(error)
            else:
                offset = message.offset()  # None: the broker knew it only as a duplicate
                journal.acknowledged(partition, number, -1 if offset is None else offset)

        producer.produce(topic, value_of(number), partition=partition, on_delivery=delivered)

    while not journal.ended.is_set():
        for partition in range(partitions):
            send(partition, number)
        number += 1
        until = time.monotonic() + SEND_SECONDS
        while (left := until - time.monotonic()) > 0:
            producer.poll(left)
    producer.flush(FLUSH_SECONDS)


def kafka_python(
    bootstrap: str, topic: str, partitions: int, settings: Mapping[str, Any], journal: Journal
) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=bootstrap.split(","), acks="all", **settings)
    number = 0
    while not journal.ended.wait(SEND_SECONDS):
        for partition in range(partitions):
            future = producer.send(topic, value_of(number), partition=partition)
            future.add_callback(
                lambda found, number: journal.acknowledged(found.partition, number, found.offset),
                number=number,
            )
            future.add_errback(journal.failed)
        number += 1
    producer.flush(FLUSH_SECONDS)
    producer.close()


def aiokafka(
    bootstrap: str, topic: str, partitions: int, settings: Mapping[str, Any], journal: Journal
) -> None:
    from aiokafka import AIOKafkaProducer

    async def send(producer: AIOKafkaProducer, partition: int, number: int) -> None:
        try:
            future = await producer.send(topic, value_of(number), partition=partition)
            found = await future
        except Exception as error:
            journal.failed(error)
        else:
            journal.acknowledged(partition, number, found.offset)

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", **settings)
        await producer.start()
        number = 0
        tasks: set[asyncio.Task[None]] = set()
        while not journal.ended.is_set():
            for partition in range(partitions):
                task = asyncio.create_task(send(producer, partition, number))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            number += 1
            await asyncio.sleep(SEND_SECONDS)
        await asyncio.wait(tasks, timeout=FLUSH_SECONDS)
        await producer.stop()

    asyncio.run(run())


def pybroker(
    bootstrap: str, topic: str, partitions: int, settings: Mapping[str, Any], journal: Journal
) -> None:
    import trio

    from pybroker_kafka import ClientError, Producer
    from pybroker_kafka.client.producer import Delivery

    async def report(number: int, delivery: Delivery) -> None:
        try:
            found = await delivery
        except ClientError as error:
            journal.failed(error)
        else:
            journal.acknowledged(found.partition, number, found.offset)

    async def run() -> None:
        async with Producer(bootstrap, **settings) as producer, trio.open_nursery() as nursery:
            number = 0
            while not journal.ended.is_set():
                for partition in range(partitions):
                    value = value_of(number)
                    delivery = await producer.enqueue(topic, value, partition=partition)
                    nursery.start_soon(report, number, delivery)
                number += 1
                await trio.sleep(SEND_SECONDS)

    trio.run(run)


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def main() -> None:
    kind, bootstrap, topic, partitions, *more = sys.argv[1:]
    settings = {key: parsed(text) for key, _, text in (one.partition("=") for one in more)}
    clients = {
        "librdkafka": librdkafka,
        "kafka-python": kafka_python,
        "aiokafka": aiokafka,
        "pybroker": pybroker,
    }
    clients[kind](bootstrap, topic, int(partitions), settings, Journal())


if __name__ == "__main__":
    main()
