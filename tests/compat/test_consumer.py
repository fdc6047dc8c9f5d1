"""Our consumer against a real broker: alone, in groups, mixed with other clients' members."""

from __future__ import annotations

import functools
import random
import re
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
import trio
from confluent_kafka import Consumer as ConfluentConsumer
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from pybroker_kafka import Cluster, Consumer, Producer, Received
from pybroker_kafka.client.consumer.deliveries import Delivery
from pybroker_kafka.client.consumer.offset_requests import Committed
from pybroker_kafka.protocol.features import Feature
from tests.support.apache_kafka import ApacheKafkaProcess, java_command
from tests.support.apache_kafka_4 import ApacheKafka4Process, running_kafka_4
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient
from tests.wire.feature_steps import finalize

WAIT_SECONDS = 120.0
CONFIG = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
CONSUMER_PROTOCOL = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}


class FinalizedBroker(BrokerProcess):
    """Ours with the consumer protocol, which members take unless they name an assignor."""


Kafka = BrokerProcess | ApacheKafka4Process


@pytest.fixture(
    scope="module",
    params=[
        "ours",
        "finalized",
        pytest.param("apache", marks=pytest.mark.at_kafka),
        pytest.param("apache-4", marks=pytest.mark.at_kafka),
    ],
)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kafka]:
    """One broker: ours, with features of Kafka 4 finalized or without, or Apache Kafka 3.9, or 4.3,
    which has the consumer protocol."""
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "apache-4":
        with running_kafka_4(directory, CONFIG | CONSUMER_PROTOCOL) as started:
            yield started
        return
    with zookeeper_process(directory) as connect:
        make = {"ours": BrokerProcess, "finalized": FinalizedBroker, "apache": ApacheKafkaProcess}
        own = CONSUMER_PROTOCOL if request.param == "finalized" else {}
        broker = make[request.param](directory, connect, CONFIG | own)
        broker.start()
        try:
            if own:
                with WireClient(broker.bootstrap) as client:
                    finalize(client, {Feature.GROUP: 1})
            yield broker
        finally:
            broker.kill()


@pytest.fixture
def topic(kafka: Kafka) -> str:
    """Of four partitions, with 400 records: numbers as values, the partition as key."""
    name = f"consumed-{uuid.uuid4().hex[:8]}"
    with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
        admin.create_topics([NewTopic(name, 4, 1)])
    with closing(KafkaProducer(bootstrap_servers=kafka.bootstrap, linger_ms=5)) as producer:
        for number in range(400):
            producer.send(name, b"%d" % number, b"%d" % (number % 4), partition=number % 4)
    return name


def consumer_of(broker: Kafka, group: str | None, **options: Any) -> Consumer:
    has_protocol = isinstance(broker, (FinalizedBroker, ApacheKafka4Process))
    if not has_protocol or "assignors" in options:
        options.setdefault("heartbeat_interval_seconds", 0.2)
    options.setdefault("auto_offset_reset", "earliest")
    return Consumer(broker.bootstrap, group_id=group, **options)


async def read(consumer: Consumer, count: int) -> list[Received]:
    records: list[Received] = []
    with trio.fail_after(WAIT_SECONDS):
        async for record in consumer:
            records.append(record)
            if len(records) == count:
                break
    return records


async def test_assigned_partitions_are_read_in_order(kafka: Kafka, topic: str) -> None:
    async with consumer_of(kafka, None) as consumer:
        await consumer.assign([(topic, 1), (topic, 3)])
        records = await read(consumer, 200)
    for partition in (1, 3):
        mine = [record for record in records if record.partition == partition]
        assert [record.offset for record in mine] == list(range(100))
        assert [record.value for record in mine] == [b"%d" % n for n in range(partition, 400, 4)]
        assert {(record.topic, record.key) for record in mine} == {(topic, b"%d" % partition)}


async def test_a_group_goes_on_where_it_was_left(kafka: Kafka, topic: str) -> None:
    group = uuid.uuid4().hex
    async with consumer_of(kafka, group) as consumer:
        await consumer.subscribe([topic])
        first = await read(consumer, 150)
    async with consumer_of(kafka, group) as consumer:
        await consumer.subscribe([topic])
        second = await read(consumer, 250)
    values = [int(record.value or b"") for record in first + second]
    assert sorted(values) == list(range(400))


async def test_what_was_in_hand_at_an_error_is_read_again(kafka: Kafka, topic: str) -> None:
    group = uuid.uuid4().hex
    done = []

    async def fail() -> None:
        async with consumer_of(kafka, group) as consumer:
            await consumer.subscribe([topic])
            done.extend(await read(consumer, 120))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with consumer_of(kafka, group) as consumer:
        await consumer.subscribe([topic])
        rest = await read(consumer, 281)
    assert done[-1] in rest
    assert len(set(done[:-1]) | set(rest)) == 400


@pytest.mark.parametrize("kafka", ["ours", "finalized"], indirect=True)
@pytest.mark.parametrize("is_well", [True, False])
async def test_a_last_commit_of_the_application_takes_what_it_was_given(
    kafka: Kafka, topic: str, is_well: bool
) -> None:
    """In `on_revoked`, as the block is left in the midst of a batch; after an error not even what
    was in hand."""
    group = uuid.uuid4().hex
    done: list[Received] = []

    async def leave() -> None:
        async with consumer_of(kafka, group, auto_commit=False) as consumer:
            await consumer.subscribe([topic], on_revoked=lambda _: consumer.commit())
            done.extend(await read(consumer, 10))
            if not is_well:
                raise ZeroDivisionError

    with suppress(ZeroDivisionError):
        await leave()
    async with consumer_of(kafka, group) as consumer:
        await consumer.subscribe([topic])
        rest = await read(consumer, 390 if is_well else 391)
    assert len({*done, *rest}) == 400
    assert (done[-1] in rest) is not is_well


async def test_members_divide_partitions(kafka: Kafka, topic: str) -> None:
    group = uuid.uuid4().hex
    seen: dict[int, set[tuple[str, int]]] = {}
    async with consumer_of(kafka, group) as one, consumer_of(kafka, group) as two:

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
async def test_a_member_that_leaves_is_replaced(kafka: Kafka, topic: str, assignor: str) -> None:
    """Cooperative members keep what they have meanwhile: it is not revoked."""
    group = uuid.uuid4().hex
    revoked: list[tuple[str, int]] = []
    everything = {(topic, number) for number in range(4)}

    async def on_revoked(partitions: list[tuple[str, int]]) -> None:
        revoked.extend(partitions)

    async with consumer_of(kafka, group, assignors=[assignor]) as stays:
        await stays.subscribe([topic], on_revoked=on_revoked)
        with trio.fail_after(WAIT_SECONDS):
            async with consumer_of(kafka, group, assignors=[assignor]) as leaves:
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
    kafka: Kafka, topic: str
) -> None:
    """Finished by several workers in any order; one record stays unfinished, and comes again."""
    group = uuid.uuid4().hex
    finished: list[int] = []
    failed: set[int] = set()
    stuck: list[Received] = []
    all_finished = trio.Event()

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
                finished.append(number)
                if len(finished) == 399:
                    all_finished.set()

    async def feed(consumer: Consumer, give: trio.MemorySendChannel[Delivery]) -> None:
        async for delivery in consumer.deliveries(max_unacknowledged=50):
            await give.send(delivery)

    async with consumer_of(kafka, group) as consumer:
        await consumer.subscribe([topic])
        give, take = trio.open_memory_channel[Delivery](20)
        with trio.fail_after(WAIT_SECONDS):
            async with trio.open_nursery() as nursery:
                for seed in range(5):
                    nursery.start_soon(work, take, seed)
                nursery.start_soon(feed, consumer, give)
                await all_finished.wait()
                nursery.cancel_scope.cancel()
    assert sorted(finished) == [number for number in range(400) if number != 201]
    async with consumer_of(kafka, group) as consumer:
        found = await consumer.committed([(topic, number) for number in range(4)])
        assert {tp[1]: each.offset for tp, each in found.items()} == {0: 100, 1: 50, 2: 100, 3: 100}
        await consumer.subscribe([topic])
        assert (await read(consumer, 50))[0] == stuck[0]


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_groups_with_members_of_other_clients(
    kafka: Kafka, topic: str, assignor: str
) -> None:
    """librdkafka's member may lead, or ours: each reads what it is given, nothing is missing."""
    group = uuid.uuid4().hex
    settings = {
        "bootstrap.servers": kafka.bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "heartbeat.interval.ms": 200,
        "partition.assignment.strategy": assignor,
    }
    theirs: set[int] = set()
    ours: set[int] = set()
    with closing(ConfluentConsumer(settings)) as other:
        other.subscribe([topic])

        def poll_other() -> int:
            for message in other.consume(50, 0.05):
                assert not message.error()
                theirs.add(int(message.value() or b""))
            return len(other.assignment())

        async with consumer_of(kafka, group, assignors=[assignor]) as consumer:
            await consumer.subscribe([topic])
            count = 0
            with trio.fail_after(WAIT_SECONDS):
                while not (count == len(consumer.assignment) == 2):
                    count = await trio.to_thread.run_sync(poll_other)
                    ours |= {int(record.value or b"") for record in await consumer.poll(0.05)}
                while len(ours | theirs) < 400:
                    await trio.to_thread.run_sync(poll_other)
                    ours |= {int(record.value or b"") for record in await consumer.poll(0.05)}
    assert ours | theirs == set(range(400))


@pytest.mark.parametrize("kafka", ["ours", "finalized"], indirect=True)
@pytest.mark.parametrize("strategy", ["Range", "CooperativeSticky"])
async def test_groups_with_java_members(kafka: Kafka, topic: str, strategy: str) -> None:
    """Java's console consumer has all of it, then half, then ours has all."""
    group = uuid.uuid4().hex
    assignor = {"Range": "range", "CooperativeSticky": "cooperative-sticky"}[strategy]
    name = f"org.apache.kafka.clients.consumer.{strategy}Assignor"
    command = java_command(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", kafka.bootstrap, "--topic", topic, "--group", group),
        "--from-beginning",
        *("--consumer-property", f"partition.assignment.strategy={name}"),
        *("--consumer-property", "heartbeat.interval.ms=200"),
    )
    everything = {(topic, number) for number in range(4)}
    sizes = []
    with trio.fail_after(WAIT_SECONDS):
        async with trio.open_nursery() as nursery:
            run = functools.partial(
                trio.run_process, command, capture_stdout=True, capture_stderr=True, check=False
            )
            java = await nursery.start(run)
            async with consumer_of(kafka, group, assignors=[assignor]) as consumer:
                await consumer.subscribe([topic])
                while len(consumer.assignment) != 2:
                    await consumer.poll(0.05)
                    sizes.append(len(consumer.assignment))
                java.terminate()
                while consumer.assignment != everything:
                    await consumer.poll(0.05)
    assert 2 in sizes


async def test_positions_seeks_pauses_and_lags(kafka: Kafka, topic: str) -> None:
    one, two = (topic, 0), (topic, 1)
    async with consumer_of(kafka, uuid.uuid4().hex) as consumer:
        await consumer.assign([one, two])
        consumer.seek(one, 90)
        consumer.pause(two)
        assert {record.offset for record in await read(consumer, 10)} == set(range(90, 100))
        assert (consumer.position(one), consumer.lag(one)) == (100, 0)
        assert consumer.paused == {two}
        assert await consumer.poll(0.2) == []
        consumer.resume(two)
        assert [record.offset for record in await read(consumer, 100)] == list(range(100))
        await consumer.seek_to_beginning([one])
        assert (await read(consumer, 1))[0].offset == 0
        metrics = consumer.metrics()
        assert (metrics.records, metrics.max_lag, metrics.rebalances) == (210, 99, 0)
        assert consumer.group_metadata().generation_id == -1
        ends = await consumer.end_offsets([one, two])
        assert ends == {one: 100, two: 100}
        assert await consumer.beginning_offsets([one]) == {one: 0}
        times = await consumer.offsets_at({one: 0, two: 2**62})
        assert (times[one].offset, times[two].offset) == (0, -1)
        await consumer.seek_to_end()
        assert await consumer.poll(0.3) == []
        assert consumer.position(two) == 100
        await consumer.commit({one: Committed(7, "a note"), two: 8})
        found = await consumer.committed([one, two, (topic, 2)])
        assert [(found[tp].offset, found[tp].metadata) for tp in (one, two)] == [
            (7, "a note"),
            (8, ""),
        ]
        assert (topic, 2) not in found


async def test_a_pattern_takes_topics_that_come_later(kafka: Kafka) -> None:
    prefix = f"pattern-{uuid.uuid4().hex[:6]}"
    options = {"metadata_max_age_seconds": 0.2}
    async with consumer_of(kafka, uuid.uuid4().hex, **options) as consumer:
        await consumer.subscribe(re.compile(f"{prefix}-[ab]"))
        with closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin:
            for letter in "acb":
                admin.create_topics([NewTopic(f"{prefix}-{letter}", 1, 1)])
                if letter == "a":
                    with trio.fail_after(WAIT_SECONDS):
                        while not consumer.assignment:
                            await consumer.poll(0.05)
        with trio.fail_after(WAIT_SECONDS):
            while consumer.assignment != {(f"{prefix}-a", 0), (f"{prefix}-b", 0)}:
                await consumer.poll(0.05)


async def test_static_members_come_back_to_what_they_had(kafka: Kafka, topic: str) -> None:
    """Without a rebalance: nothing is revoked from the other member (KIP-345)."""
    group = uuid.uuid4().hex
    revoked = []

    async def on_revoked(partitions: list[tuple[str, int]]) -> None:
        revoked.append(partitions)

    async with consumer_of(kafka, group, group_instance_id="one") as one:
        await one.subscribe([topic], on_revoked=on_revoked)
        mine: frozenset[tuple[str, int]] = frozenset()
        with trio.fail_after(WAIT_SECONDS):
            async with consumer_of(kafka, group, group_instance_id="two") as two:
                await two.subscribe([topic])
                while not (len(one.assignment) == len(two.assignment) == 2):
                    await one.poll(0.05)
                    await two.poll(0.05)
                mine = two.assignment
            revoked.clear()
            async with consumer_of(kafka, group, group_instance_id="two") as two:
                await two.subscribe([topic])
                while two.assignment != mine:
                    await one.poll(0.05)
                    await two.poll(0.05)
                assert revoked == []


async def test_read_committed_leaves_out_what_was_aborted(kafka: Kafka, topic: str) -> None:
    with closing(
        KafkaProducer(bootstrap_servers=kafka.bootstrap, transactional_id=uuid.uuid4().hex)
    ) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=2)
            producer.flush()
            producer.commit_transaction() if number % 2 else producer.abort_transaction()
    async with consumer_of(kafka, None, isolation_level="read_committed") as consumer:
        await consumer.assign([(topic, 2)])
        values = [record.value for record in await read(consumer, 103)]
        assert values[100:] == [b"1", b"3", b"5"]
        assert await consumer.poll(0.2) == []
        assert consumer.lag((topic, 2)) == 0
    async with consumer_of(kafka, None) as consumer:
        await consumer.assign([(topic, 2)])
        values = [record.value for record in await read(consumer, 106)]
        assert values[100:] == [b"%d" % number for number in range(6)]


@pytest.mark.parametrize("kafka", ["ours", "finalized"], indirect=True)
async def test_cancelled_reads_lose_nothing(kafka: Kafka, topic: str) -> None:
    """Cancelled wherever it waits: each record is handed out once, in order."""
    rng = random.Random(7)
    seen: list[Received] = []
    async with consumer_of(kafka, uuid.uuid4().hex, max_poll_records=7) as consumer:
        await consumer.subscribe([topic])
        with trio.fail_after(WAIT_SECONDS):
            while len(seen) < 400:
                with trio.move_on_after(rng.random() / 200):
                    if rng.random() < 0.5:
                        seen += await consumer.poll(1)
                    else:
                        async for record in consumer:
                            seen.append(record)
                            if rng.random() < 0.02:
                                await trio.sleep(0.001)
        assert consumer.position((topic, 0)) == 100
    for partition in range(4):
        assert [r.offset for r in seen if r.partition == partition] == list(range(100))


@pytest.mark.parametrize("kafka", ["ours", "finalized"], indirect=True)
async def test_a_slow_application_loses_its_partitions_and_gets_them_back(
    kafka: Kafka, topic: str
) -> None:
    group = uuid.uuid4().hex
    lost: list[tuple[str, int]] = []

    async def on_lost(partitions: list[tuple[str, int]]) -> None:
        lost.extend(partitions)

    everything = {(topic, number) for number in range(4)}
    with trio.fail_after(WAIT_SECONDS):
        async with consumer_of(kafka, group, max_poll_interval_seconds=0.5) as slow:
            await slow.subscribe([topic], on_lost=on_lost)
            while slow.assignment != everything:
                await slow.poll(0.05)
            async with consumer_of(kafka, group) as other:
                await other.subscribe([topic])
                while other.assignment != everything:  # the slow one is given up
                    await other.poll(0.05)
                while not (len(slow.assignment) == len(other.assignment) == 2):
                    await slow.poll(0.05)
                    await other.poll(0.05)
    assert set(lost) == everything


async def test_a_cluster_is_shared(kafka: Kafka, topic: str) -> None:
    """By members of a group, whose joins wait for each other, and a producer."""
    group = f"shared-{topic}"
    options: Any = {"auto_offset_reset": "earliest", "heartbeat_interval_seconds": 0.2}
    found: set[bytes | None] = set()

    async def read_all(consumer: Consumer) -> None:
        async for record in consumer:
            found.add(record.value)
            if len(found) == 401:
                nursery.cancel_scope.cancel()

    with trio.fail_after(WAIT_SECONDS):
        async with (
            Cluster(kafka.bootstrap) as cluster,
            Consumer(cluster, group_id=group, **options) as first,
            Consumer(cluster, group_id=group, **options) as second,
            Producer(cluster) as producer,
        ):
            async with trio.open_nursery() as nursery:
                for consumer in (first, second):
                    await consumer.subscribe([topic])
                    nursery.start_soon(read_all, consumer)
                while not (first.assignment and second.assignment):  # noqa: ASYNC110
                    await trio.sleep(0.01)
                await producer.send(topic, b"the last")
            assert len(first.assignment) == len(second.assignment) == 2
            await first.unsubscribe()
            await cluster.metadata([topic])
    assert len(found) == 401
