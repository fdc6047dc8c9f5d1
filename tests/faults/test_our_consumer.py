"""Our consumer while brokers die and members come and go: every record, and the right positions.

About 15 seconds on two quiet cores.
"""

from __future__ import annotations

import functools
from collections import Counter

import pytest
import trio
from confluent_kafka import Producer

from pybroker_kafka import Consumer, Received
from pybroker_kafka.testing import KafkaCluster
from tests.support.nightly import chosen

WAIT_SECONDS = 120.0
PARTITIONS = 6
ROUND_RECORDS = 600
CONFIG = {
    "min.insync.replicas": 2,
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}


class Group:
    """Members that read until they are told to leave; each commits as it goes."""

    def __init__(self, bootstrap: str, topic: str, assignor: str) -> None:
        self._make = functools.partial(
            Consumer,
            bootstrap,
            group_id="readers",
            auto_offset_reset="earliest",
            assignors=[assignor],
            auto_commit_interval_seconds=0.2,
            heartbeat_interval_seconds=0.3,
            session_timeout_seconds=6.0,
        )
        self._topic = topic
        self.seen: Counter[int] = Counter()
        self.disorder: list[tuple[Received, int]] = []
        self.grew = trio.Event()

    async def member(self, leave: trio.Event) -> None:
        last: dict[int, int] = {}

        async def on_assigned(partitions: list[tuple[str, int]]) -> None:
            for _, number in partitions:
                last.pop(number, None)

        async with self._make() as consumer:
            await consumer.subscribe([self._topic], on_assigned=on_assigned)
            while not leave.is_set():
                for record in await consumer.poll(0.2):
                    self.seen[int(record.value or b"")] += 1
                    before = last.get(record.partition, -1)
                    if record.offset <= before:
                        self.disorder.append((record, before))
                    last[record.partition] = record.offset
                self.grew.set()
                self.grew = trio.Event()

    async def until_seen(self, count: int) -> None:
        with trio.fail_after(WAIT_SECONDS):
            while len(self.seen) < count:
                await self.grew.wait()


def write(bootstrap: str, topic: str, first: int) -> None:
    """ROUND_RECORDS numbers, all acknowledged."""
    failures = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 2})
    for number in range(first, first + ROUND_RECORDS):
        producer.produce(
            topic, b"%d" % number, partition=number % PARTITIONS,
            on_delivery=lambda error, _message: failures.append(error) if error else None,
        )  # fmt: skip
    assert producer.flush(WAIT_SECONDS) == 0
    assert failures == []


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "assignor", chosen(["range", "cooperative-sticky"], ["cooperative-sticky"])
)
async def test_brokers_die_and_members_come_and_go(assignor: str) -> None:
    with KafkaCluster(brokers=3, config=CONFIG) as kafka:
        topic = kafka.topic("numbers", partitions=PARTITIONS)
        group = Group(kafka.bootstrap, topic, assignor)
        written = 0
        async with trio.open_nursery() as nursery:
            leaves = [trio.Event(), trio.Event()]
            for leave in leaves:
                nursery.start_soon(group.member, leave)
            # The topic of the offsets is made by the first member: that takes all brokers.
            await trio.to_thread.run_sync(write, kafka.bootstrap, topic, written)
            written += ROUND_RECORDS
            await group.until_seen(written)
            for node in kafka.brokers:
                fault = await trio.to_thread.run_sync(kafka.kill, node)
                await trio.to_thread.run_sync(write, kafka.bootstrap, topic, written)
                written += ROUND_RECORDS
                leaves.append(trio.Event())
                nursery.start_soon(group.member, leaves[-1])
                leaves.pop(0).set()
                await group.until_seen(written)
                await trio.to_thread.run_sync(fault.undo)
                await trio.to_thread.run_sync(kafka.wait_for_isr, topic)
            for leave in leaves:
                leave.set()
        assert set(group.seen) == set(range(written))
        assert group.disorder == []
        async with Consumer(kafka.bootstrap, group_id="readers") as consumer:
            places = [(topic, number) for number in range(PARTITIONS)]
            committed = await consumer.committed(places)
            ends = await consumer.end_offsets(places)
        assert {tp: each.offset for tp, each in committed.items()} == ends
