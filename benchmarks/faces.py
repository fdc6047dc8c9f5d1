"""The client under asyncio and in threads beside the client for trio: `python -m benchmarks.faces`.

    python -m benchmarks.faces                     all, 5 rounds, about 2 minutes
    python -m benchmarks.faces --rounds 2 --records 100000

CPU microseconds a record, each client in a process of its own on one core, in turn, with the same
settings; the figures are medians. A client for asyncio or threads may take at most MOST times the
CPU of the client for trio; the exit status is 1 if one takes more.

- enqueue: one task hands over records of 100 bytes, then flushes.
- send: TASKS tasks, each of which waits for the acknowledgement of a record before its next one.
- consume: record by record, without a group, with a look at each value.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable
from json import loads
from typing import Any, NamedTuple

import trio

from benchmarks.frames import create_topic
from benchmarks.python_producers import BATCH_BYTES, LINGER_MS, Watch
from pybroker_kafka import (
    AsyncioConsumer,
    AsyncioProducer,
    BlockingConsumer,
    BlockingProducer,
    Consumer,
    Producer,
)
from pybroker_kafka.compiled import described
from pybroker_kafka.testing import KafkaCluster

MOST = 1.3
TASKS = 500
VALUE = b"x" * 100
TOPIC, READ_TOPIC = "faces", "faces-read"
SETTINGS: dict[str, Any] = {"batch_size": BATCH_BYTES, "linger_ms": LINGER_MS}
FROM_THE_BEGINNING: dict[str, Any] = {"auto_offset_reset": "earliest"}
LIMIT_SECONDS = 300


class Work(NamedTuple):
    bootstrap: str
    records: int
    watch: Watch


async def enqueue_all(producer: Producer | AsyncioProducer, work: Work) -> None:
    for count in (work.records // 10, work.records):
        work.watch.start()
        for _ in range(count):
            await producer.enqueue(TOPIC, VALUE)
        await producer.flush()
    work.watch.report(work.records)


async def enqueue_in_trio(work: Work) -> None:
    async with Producer(work.bootstrap, **SETTINGS) as producer:
        await enqueue_all(producer, work)


async def enqueue_in_asyncio(work: Work) -> None:
    async with AsyncioProducer(work.bootstrap, **SETTINGS) as producer:
        await enqueue_all(producer, work)


def enqueue_in_threads(work: Work) -> None:
    with BlockingProducer(work.bootstrap, **SETTINGS) as producer:
        for count in (work.records // 10, work.records):
            work.watch.start()
            for _ in range(count):
                producer.enqueue(TOPIC, VALUE)
            producer.flush()
        work.watch.report(work.records)


async def send_in_trio(work: Work) -> None:
    async with Producer(work.bootstrap, **SETTINGS) as producer:

        async def send(count: int) -> None:
            for _ in range(count):
                await producer.send(TOPIC, VALUE)

        for count in (work.records // 10, work.records):
            work.watch.start()
            async with trio.open_nursery() as nursery:
                for _ in range(TASKS):
                    nursery.start_soon(send, count // TASKS)
        work.watch.report(work.records)


async def send_in_asyncio(work: Work) -> None:
    async with AsyncioProducer(work.bootstrap, **SETTINGS) as producer:

        async def send(count: int) -> None:
            for _ in range(count):
                await producer.send(TOPIC, VALUE)

        for count in (work.records // 10, work.records):
            work.watch.start()
            async with asyncio.TaskGroup() as group:
                for _ in range(TASKS):
                    group.create_task(send(count // TASKS))
        work.watch.report(work.records)


async def consume_all(consumer: Consumer | AsyncioConsumer, work: Work) -> None:
    await consumer.assign([(READ_TOPIC, 0)])
    count = size = 0
    async for record in consumer:
        size += len(record.value or b"")
        count += 1
        if count == 1:
            work.watch.start()
        elif count == work.records:
            break
    work.watch.report(work.records)


async def consume_in_trio(work: Work) -> None:
    async with Consumer(work.bootstrap, **FROM_THE_BEGINNING) as consumer:
        await consume_all(consumer, work)


async def consume_in_asyncio(work: Work) -> None:
    async with AsyncioConsumer(work.bootstrap, **FROM_THE_BEGINNING) as consumer:
        await consume_all(consumer, work)


def consume_in_threads(work: Work) -> None:
    with BlockingConsumer(work.bootstrap, **FROM_THE_BEGINNING) as consumer:
        consumer.assign([(READ_TOPIC, 0)])
        size = 0
        for count, record in enumerate(consumer, 1):
            size += len(record.value or b"")
            if count == 1:
                work.watch.start()
            elif count == work.records:
                break
        work.watch.report(work.records)


def under_trio(do: Callable[[Work], Awaitable[None]]) -> Callable[[Work], None]:
    return lambda work: trio.run(do, work)


def under_asyncio(do: Callable[[Work], Awaitable[None]]) -> Callable[[Work], None]:
    async def run(work: Work) -> None:
        await do(work)

    return lambda work: asyncio.run(run(work))


# By the kind of work, each with the client for trio first.
FACES: dict[str, dict[str, Callable[[Work], None]]] = {
    "enqueue": {
        "trio": under_trio(enqueue_in_trio),
        "asyncio": under_asyncio(enqueue_in_asyncio),
        "threads": enqueue_in_threads,
    },
    "send": {"trio": under_trio(send_in_trio), "asyncio": under_asyncio(send_in_asyncio)},
    "consume": {
        "trio": under_trio(consume_in_trio),
        "asyncio": under_asyncio(consume_in_asyncio),
        "threads": consume_in_threads,
    },
}


def microseconds(kind: str, face: str, bootstrap: str, records: int) -> float:
    """CPU time a record of one client, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.faces", "--one", kind, face, bootstrap]
    done = subprocess.run(
        [*command, "--records", str(records)],
        stdout=subprocess.PIPE,
        text=True,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    told = loads(done.stdout)
    return float(1e6 * told["cpu"] / told["records"])


def fill(bootstrap: str, records: int) -> None:
    with BlockingProducer(bootstrap, **SETTINGS) as producer:
        for _ in range(records):
            producer.enqueue(READ_TOPIC, VALUE)


def compare(rounds: int, records: int) -> bool:
    """Print a table; returns whether all are within the limit."""
    found: dict[tuple[str, str], list[float]] = {}
    with KafkaCluster() as kafka:
        for topic in (TOPIC, READ_TOPIC):
            create_topic(kafka.bootstrap, topic, 1)
        fill(kafka.bootstrap, records)
        for _ in range(rounds):
            for kind, faces in FACES.items():
                for face in faces:
                    took = microseconds(kind, face, kafka.bootstrap, records)
                    found.setdefault((kind, face), []).append(took)
    print("| CPU us a record | trio | asyncio | | threads | |")
    print("|---|---|---|---|---|---|")
    are_kept = True
    for kind, faces in FACES.items():
        medians = {face: statistics.median(found[kind, face]) for face in faces}
        cells = [f"{medians['trio']:.2f}"]
        for face in ("asyncio", "threads"):
            if face in medians:
                ratio = medians[face] / medians["trio"]
                are_kept &= ratio <= MOST
                cells += [f"{medians[face]:.2f}", f"{ratio:.2f}"]
            else:
                cells += ["", ""]
        print(f"| {kind} | {' | '.join(cells)} |")
    how = described()
    print(f"\nMedians of {rounds} rounds of {records:,} records, in turn; {how}. At most {MOST}.")
    return are_kept


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=400_000)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is None:
        return 0 if compare(given.rounds, given.records) else 1
    kind, face, bootstrap = given.one
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    FACES[kind][face](Work(bootstrap, given.records, Watch()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
