"""Records by the consumers of Python clients: `python -m benchmarks.python_consumers CLIENT ...`

One process a run, on one core, so that rates are those of one core each (librdkafka's thread
included). All read the same partition from its beginning, without a group, with checked CRCs where
that is the default, 1 MiB a partition and fetch; each looks at the value of every record. The time
is from when the first record has come to the last one. `pybroker` and the others without more words
hand over one record after the other, but `confluent-kafka` lists of 500, its fastest way;
`confluent-kafka-poll` takes them one by one. `pybroker-records` iterates over batches, and over the
records of each; `pybroker-batches` takes columns instead of records, and adds up their lengths;
`pybroker-arrow` makes Arrow's columns of them. Prints JSON: records, bytes of values, seconds,
CPU seconds.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from benchmarks.python_producers import Watch

if TYPE_CHECKING:
    from pybroker_kafka.client.consumer.received import ReceivedBatch

FETCH_BYTES = 1024 * 1024


def pybroker(bootstrap: str, topic: str, records: int, watch: Watch) -> None:
    import trio

    from pybroker_kafka import Consumer

    async def run() -> None:
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([(topic, 0)])
            count = size = 0
            async for record in consumer:
                size += len(record.value or b"")
                count += 1
                if count == 1:
                    watch.start()
                elif count == records:
                    break
            watch.report(count, value_bytes=size)

    trio.run(run)


def _by_batches(
    bootstrap: str, topic: str, records: int, watch: Watch, bytes_of: Callable[[ReceivedBatch], int]
) -> None:
    import trio

    from pybroker_kafka import Consumer

    async def run() -> None:
        async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
            await consumer.assign([(topic, 0)])
            count = size = 0
            async for batch in consumer.batches():
                size += bytes_of(batch)
                if not count:
                    watch.start()
                count += len(batch)
                if count >= records:
                    break
            watch.report(count, value_bytes=size)

    trio.run(run)


def pybroker_records(bootstrap: str, topic: str, records: int, watch: Watch) -> None:
    def bytes_of(batch: ReceivedBatch) -> int:
        size = 0
        for record in batch:
            size += len(record.value or b"")
        return size

    _by_batches(bootstrap, topic, records, watch, bytes_of)


def pybroker_batches(bootstrap: str, topic: str, records: int, watch: Watch) -> None:
    def bytes_of(batch: ReceivedBatch) -> int:
        return sum(batch.columns.value_lengths[batch.first : batch.end])

    _by_batches(bootstrap, topic, records, watch, bytes_of)


def pybroker_arrow(bootstrap: str, topic: str, records: int, watch: Watch) -> None:
    import pyarrow.compute as pc

    def bytes_of(batch: ReceivedBatch) -> int:
        lengths = pc.binary_length(batch.to_arrow().column("value"))
        return int(pc.sum(lengths).as_py())

    _by_batches(bootstrap, topic, records, watch, bytes_of)


def aiokafka(bootstrap: str, topic: str, records: int, watch: Watch) -> None:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def run() -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=FETCH_BYTES,
        )
        await consumer.start()
        consumer.assign([TopicPartition(topic, 0)])
        count = size = 0
        async for record in consumer:
            size += len(record.value)
            count += 1
            if count == 1:
                watch.start()
            elif count == records:
                break
        watch.report(count, value_bytes=size)
        await consumer.stop()

    asyncio.run(run())


def kafka_python(bootstrap: str, topic: str, records: int, watch: Watch) -> None:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=FETCH_BYTES,
    )
    consumer.assign([TopicPartition(topic, 0)])
    count = size = 0
    for record in consumer:
        size += len(record.value)
        count += 1
        if count == 1:
            watch.start()
        elif count == records:
            break
    watch.report(count, value_bytes=size)
    consumer.close()


def _confluent_consumer(bootstrap: str, topic: str) -> Any:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "max.partition.fetch.bytes": FETCH_BYTES,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def confluent_kafka(bootstrap: str, topic: str, records: int, watch: Watch) -> None:
    consumer = _confluent_consumer(bootstrap, topic)
    count = size = 0
    while count < records:
        for message in consumer.consume(500, 1.0):
            size += len(message.value() or b"")
            if not count:
                watch.start()
            count += 1
    watch.report(count, value_bytes=size)
    consumer.close()


def confluent_kafka_poll(bootstrap: str, topic: str, records: int, watch: Watch) -> None:
    consumer = _confluent_consumer(bootstrap, topic)
    count = size = 0
    while count < records:
        message = consumer.poll(1.0)
        if message is None:
            continue
        size += len(message.value() or b"")
        if not count:
            watch.start()
        count += 1
    watch.report(count, value_bytes=size)
    consumer.close()


CLIENTS: dict[str, Callable[[str, str, int, Watch], None]] = {
    "pybroker": pybroker,
    "pybroker-records": pybroker_records,
    "pybroker-batches": pybroker_batches,
    "pybroker-arrow": pybroker_arrow,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
    "confluent-kafka": confluent_kafka,
    "confluent-kafka-poll": confluent_kafka_poll,
}


def main(name: str, bootstrap: str, topic: str, records: str) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    CLIENTS[name](bootstrap, topic, int(records), Watch())


if __name__ == "__main__":
    main(*sys.argv[1:])
