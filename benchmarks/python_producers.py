"""Records by the producers of Python clients: `python -m benchmarks.python_producers CLIENT ...`

One process a run, on one core, so that rates are those of one core each (librdkafka's thread
included). All have the same settings: acks=all, idempotence where it is the default, batches of
64 KiB, 5 ms of lingering, no compression. The time is from the first record to the last
acknowledgement; before it, a tenth as many warm up. Prints JSON: records, seconds, CPU seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable

BATCH_BYTES = 65536
LINGER_MS = 5


class Watch:
    """Wall and CPU time of this process since `start`."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def report(self, records: int, **more: int) -> None:
        figures = {
            "records": records,
            "seconds": time.perf_counter() - self._wall,
            "cpu": time.process_time() - self._cpu,
        }
        print(json.dumps(figures | more))


def pybroker(bootstrap: str, topic: str, records: int, value: bytes, watch: Watch) -> None:
    import trio

    from pybroker_kafka import Producer

    async def run() -> None:
        async with Producer(bootstrap, batch_size=BATCH_BYTES, linger_ms=LINGER_MS) as producer:
            for count in (records // 10, records):
                watch.start()
                for _ in range(count):
                    await producer.enqueue(topic, value)
                await producer.flush()
            watch.report(records)

    trio.run(run)


def aiokafka(bootstrap: str, topic: str, records: int, value: bytes, watch: Watch) -> None:
    from aiokafka import AIOKafkaProducer

    async def run() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            max_batch_size=BATCH_BYTES,
            linger_ms=LINGER_MS,
        )
        await producer.start()
        for count in (records // 10, records):
            watch.start()
            for _ in range(count):
                await producer.send(topic, value)
            await producer.flush()
        watch.report(records)
        await producer.stop()

    asyncio.run(run())


def kafka_python(bootstrap: str, topic: str, records: int, value: bytes, watch: Watch) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=bootstrap, acks="all", batch_size=BATCH_BYTES, linger_ms=LINGER_MS
    )
    for count in (records // 10, records):
        watch.start()
        for _ in range(count):
            producer.send(topic, value)
        producer.flush()
    watch.report(records)
    producer.close()


def confluent_kafka(bootstrap: str, topic: str, records: int, value: bytes, watch: Watch) -> None:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "batch.size": BATCH_BYTES,
            "linger.ms": LINGER_MS,
            "queue.buffering.max.messages": 100_000,
        }
    )
    for count in (records // 10, records):
        watch.start()
        for _ in range(count):
            while True:
                try:
                    producer.produce(topic, value)
                    break
                except BufferError:
                    producer.poll(0.01)
            producer.poll(0)
        producer.flush()
    watch.report(records)


CLIENTS: dict[str, Callable[[str, str, int, bytes, Watch], None]] = {
    "pybroker": pybroker,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
    "confluent-kafka": confluent_kafka,
}


def main(name: str, bootstrap: str, topic: str, records: str, value_bytes: str) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    CLIENTS[name](bootstrap, topic, int(records), b"x" * int(value_bytes), Watch())


if __name__ == "__main__":
    main(*sys.argv[1:])
