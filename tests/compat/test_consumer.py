"""Our consumer against a real broker: alone, in groups, mixed with other clients' members."""

from __future__ import annotations

import random
import uuid
from contextlib import closing
from typing import Any

import pytest
import trio
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker import Consumer, Received
from pybroker.client.consumer.deliveries import Delivery
from tests.support.processes import BrokerProcess

WAIT_SECONDS = 30.0


@pytest.fixture
def topic(shared_broker: BrokerProcess) -> str:
    """Of four partitions, with 400 records: numbers as values, the partition as key."""
    name = f"consumed-{uuid.uuid4().hex[:8]}"
    with closing(KafkaAdminClient(bootstrap_servers=shared_broker.bootstrap)) as admin:
        admin.create_topics([NewTopic(name, 4, 1)])
    with closing(KafkaProducer(bootstrap_servers=shared_broker.bootstrap, linger_ms=5)) as producer:
        for number in range(400):
            producer.send(name, b"%d" % number, b"%d" % (number % 4), partition=number % 4)
    return name


def consumer_of(broker: BrokerProcess, group: str | None, **options: Any) -> Consumer:
    return Consumer(
        broker.bootstrap,
        group_id=group,
        **{"auto_offset_reset": "earliest", "heartbeat_interval_seconds": 0.2, **options},
    )


async def read(consumer: Consumer, count: int) -> list[Received]:
    records: list[Received] = []
    with trio.fail_after(WAIT_SECONDS):
        async for record in consumer:
            records.append(record)
            if len(records) == count:
                break
    return records


async def test_assigned_partitions_are_read_in_order(
    shared_broker: BrokerProcess, topic: str
) -> None:
    async with consumer_of(shared_broker, None) as consumer:
        await consumer.assign([(topic, 1), (topic, 3)])
        records = await read(consumer, 200)
    for partition in (1, 3):
        mine = [record for record in records if record.partition == partition]
        assert [record.offset for record in mine] == list(range(100))
        assert [record.value for record in mine] == [b"%d" % n for n in range(partition, 400, 4)]
        assert {(record.topic, record.key) for record in mine} == {(topic, b"%d" % partition)}


async def test_a_group_goes_on_where_it_was_left(shared_broker: BrokerProcess, topic: str) -> None:
    group = uuid.uuid4().hex
    async with consumer_of(shared_broker, group) as consumer:
        await consumer.subscribe([topic])
        first = await read(consumer, 150)
    async with consumer_of(shared_broker, group) as consumer:
        await consumer.subscribe([topic])
        second = await read(consumer, 250)
    values = [int(record.value or b"") for record in first + second]
    assert sorted(values) == list(range(400))


async def test_what_was_in_hand_at_an_error_is_read_again(
    shared_broker: BrokerProcess, topic: str
) -> None:
    group = uuid.uuid4().hex
    done = []

    async def fail() -> None:
        async with consumer_of(shared_broker, group) as consumer:
            await consumer.subscribe([topic])
            done.extend(await read(consumer, 120))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with consumer_of(shared_broker, group) as consumer:
        await consumer.subscribe([topic])
        rest = await read(consumer, 281)
    assert done[-1] in rest
    assert len(set(done[:-1]) | set(rest)) == 400


async def test_members_divide_partitions(shared_broker: BrokerProcess, topic: str) -> None:
    group = uuid.uuid4().hex
    seen: dict[int, set[tuple[str, int]]] = {}
    async with consumer_of(shared_broker, group) as one, consumer_of(shared_broker, group) as two:

        async def drive(index: int, consumer: Consumer, all_done: trio.CancelScope) -> None:
            await consumer.subscribe([topic])
            while [len(mine) for mine in seen.values()] != [2, 2]:
                await consumer.poll(0.05)
                seen[index] = set(consumer.assignment)
            all_done.cancel()

        with trio.fail_after(WAIT_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drive, 1, one, nursery.cancel_scope)
                nursery.start_soon(drive, 2, two, nursery.cancel_scope)
    assert seen[1] | seen[2] == {(topic, number) for number in range(4)}


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
async def test_a_member_that_leaves_is_replaced(
    shared_broker: BrokerProcess, topic: str, assignor: str
) -> None:
    """Cooperative members keep what they have meanwhile: it is not revoked."""
    group = uuid.uuid4().hex
    revoked: list[tuple[str, int]] = []
    everything = {(topic, number) for number in range(4)}

    async def on_revoked(partitions: list[tuple[str, int]]) -> None:
        revoked.extend(partitions)

    async with consumer_of(shared_broker, group, assignors=[assignor]) as stays:
        await stays.subscribe([topic], on_revoked=on_revoked)
        with trio.fail_after(WAIT_SECONDS):
            async with consumer_of(shared_broker, group, assignors=[assignor]) as leaves:
                await leaves.subscribe([topic])
                while not (len(stays.assignment) == len(leaves.assignment) == 2):
                    await stays.poll(0.05)
                    await leaves.poll(0.05)
            kept = set(stays.assignment)
            revoked.clear()
            while stays.assignment != everything:
                await stays.poll(0.05)
    if assignor == "cooperative-sticky":
        assert set(revoked) == everything, "only when it left itself"
        assert kept <= everything
    else:
        assert set(revoked[:2]) == kept


async def test_ack_mode_replays_what_failed_and_commits_the_prefix(
    shared_broker: BrokerProcess, topic: str
) -> None:
    """Settled by several workers in any order; one record stays unsettled, and comes again."""
    group = uuid.uuid4().hex
    settled: list[int] = []
    failed: set[int] = set()
    stuck: list[Received] = []
    all_settled = trio.Event()

    async def work(deliveries: trio.MemoryReceiveChannel[Delivery], seed: int) -> None:
        rng = random.Random(seed)
        async for delivery in deliveries:
            await trio.sleep(rng.random() / 1000)
            number = int(delivery.record.value or b"")
            if number == 201:  # of partition 1, at offset 50
                stuck.append(delivery.record)
            elif number % 10 == 3 and number not in failed:
                failed.add(number)
                assert delivery.fail()
            else:
                delivery.ack()
                settled.append(number)
                if len(settled) == 399:
                    all_settled.set()

    async def feed(consumer: Consumer, give: trio.MemorySendChannel[Delivery]) -> None:
        async for delivery in consumer.deliveries(max_unsettled=50):
            await give.send(delivery)

    async with consumer_of(shared_broker, group) as consumer:
        await consumer.subscribe([topic])
        give, take = trio.open_memory_channel[Delivery](20)
        with trio.fail_after(WAIT_SECONDS):
            async with trio.open_nursery() as nursery:
                for seed in range(5):
                    nursery.start_soon(work, take, seed)
                nursery.start_soon(feed, consumer, give)
                await all_settled.wait()
                nursery.cancel_scope.cancel()
    assert sorted(settled) == [number for number in range(400) if number != 201]
    async with consumer_of(shared_broker, group) as consumer:
        found = await consumer.committed([(topic, number) for number in range(4)])
        assert {tp[1]: each.offset for tp, each in found.items()} == {0: 100, 1: 50, 2: 100, 3: 100}
        await consumer.subscribe([topic])
        assert (await read(consumer, 50))[0] == stuck[0]
