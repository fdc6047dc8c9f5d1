"""What was acknowledged, and whether it is all there.

Our own client, since the commands are forked from this process and other clients start threads.
"""

from __future__ import annotations

import json
from pathlib import Path

import trio

from pybroker_kafka.client.cluster import Cluster
from pybroker_kafka.client.consumer.consumer import Consumer
from pybroker_kafka.client.errors import ClientError
from pybroker_kafka.client.producer import Producer
from pybroker_kafka.local.cluster_state import STATE_FILE
from tests.torture.commands import wait_until

TOPIC = "ledger"
WRITE_SECONDS = 3.0
READ_SECONDS = 15.0
POLL_SECONDS = 0.5


def bootstrap(data_dir: Path) -> str:
    state = json.loads((data_dir / STATE_FILE).read_text())
    return ",".join(
        f"{node['host']}:{node['port']}" for node in state["nodes"] if node["kind"] == "broker"
    )


class Ledger:
    """The numbers that were acknowledged, on one cluster."""

    def __init__(self, data_dir: Path, now_ms: int) -> None:
        self._data_dir = data_dir
        self._next = 0
        self._now_ms = now_ms
        self.acknowledged: set[int] = set()

    def write(self, count: int) -> int:
        """Try for a moment to have numbers acknowledged; returns how many were."""
        before = len(self.acknowledged)
        trio.run(self._write, count)
        return len(self.acknowledged) - before

    async def _write(self, count: int) -> None:
        with trio.move_on_after(WRITE_SECONDS):
            try:
                async with Producer(bootstrap(self._data_dir)) as producer:
                    for _ in range(count):
                        number = self._next
                        self._next += 1
                        at_ms = self._now_ms + number
                        await producer.send(TOPIC, b"%d" % number, timestamp_ms=at_ms)
                        self.acknowledged.add(number)
            except (ClientError, OSError, ExceptionGroup):
                return  # it was never said that these are there

    def check(self) -> None:
        """Everything that was acknowledged is there, once. Raises AssertionError."""
        if not self.acknowledged:
            return
        found: list[int] = []

        def is_all_there() -> bool:
            found[:] = trio.run(self._read)
            return self.acknowledged <= set(found)

        wait_until(is_all_there, READ_SECONDS, lambda: f"lost: {self._lost(found)}")
        doubled = sorted(number for number in set(found) if found.count(number) > 1)
        assert not doubled, f"written twice: {doubled[:10]}"

    def _lost(self, found: list[int]) -> str:
        lost = sorted(self.acknowledged - set(found))
        return f"{lost[:10]} ({len(lost)} of {len(self.acknowledged)} acknowledged)"

    async def _read(self) -> list[int]:
        found: list[int] = []
        with trio.move_on_after(READ_SECONDS):
            try:
                address = bootstrap(self._data_dir)
                async with Cluster(address) as cluster, Consumer(address) as consumer:
                    topic = await cluster.led_topic(TOPIC)
                    places = [(TOPIC, part.partition_index) for part in topic.partitions]
                    ends = await consumer.end_offsets(places)
                    await consumer.assign(places)
                    await consumer.seek_to_beginning()
                    while any((consumer.position(p) or 0) < end for p, end in ends.items()):
                        records = await consumer.poll(POLL_SECONDS)
                        found += [int(record.value or b"") for record in records]
            except (ClientError, OSError, ExceptionGroup):
                pass
        return found
