"""Our share consumer on a broker of ours with share groups, and on Apache Kafka 4.3."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
import trio

from pybroker_kafka import Admin, ClientError, Cluster, Producer, ShareConsumer, SharedRecord
from pybroker_kafka.protocol.features import Feature
from tests.support.apache_kafka_4 import ApacheKafka4Process, running_kafka_4
from tests.support.commands import Commands
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient
from tests.wire.feature_steps import finalize
from tests.wire.test_group_configs import alter

WAIT_SECONDS = 120.0
RECORDS = 60
LOCK_MS = 3000
CONFIG = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.share.heartbeat.interval.ms": "300",
    "group.share.min.heartbeat.interval.ms": "300",
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
}
SET = 0


Kafka = BrokerProcess | ApacheKafka4Process


@pytest.fixture(
    scope="module", params=["ours", pytest.param("apache-4", marks=pytest.mark.at_kafka)]
)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kafka]:
    if request.param == "apache-4":
        with running_kafka_4(tmp_path_factory.mktemp("queues"), CONFIG) as started:
            yield started
        return
    with running_broker(tmp_path_factory.mktemp("queues"), CONFIG) as broker:
        with WireClient(broker.bootstrap) as client:
            finalize(client, {Feature.GROUP: 1, Feature.SHARE: 1})
        yield broker


@pytest.fixture
async def topic(kafka: Kafka) -> str:
    """Of two partitions, with numbers as values."""
    name = f"queue-{uuid.uuid4().hex[:8]}"
    with WireClient(kafka.bootstrap) as client:
        client.create_topic(2, name)
    async with Producer(kafka.bootstrap) as producer:
        for number in range(RECORDS):
            await producer.send(name, b"%d" % number, partition=number % 2)
    return name


@pytest.fixture
def group(kafka: Kafka) -> str:
    name = f"group-{uuid.uuid4().hex[:8]}"
    with WireClient(kafka.bootstrap) as client:
        until(
            lambda: not alter(client, name, ("share.auto.offset.reset", SET, "earliest")).error_code
        )
    return name


def numbers(records: list[SharedRecord]) -> list[int]:
    return sorted(int(record.value or b"") for record in records)


async def take(queue: ShareConsumer, count: int) -> list[SharedRecord]:
    found: list[SharedRecord] = []
    with trio.fail_after(WAIT_SECONDS):
        async for record in queue:
            found.append(record)
            if len(found) == count:
                break
    return found


async def test_records_are_accepted_as_the_next_are_requested(
    kafka: Kafka, topic: str, group: str
) -> None:
    async with ShareConsumer(kafka.bootstrap, group_id=group, max_poll_records=7) as queue:
        await queue.subscribe(topic)
        found = await take(queue, 40)
    assert {record.delivery_count for record in found} == {1}
    async with ShareConsumer(kafka.bootstrap, group_id=group) as queue:
        await queue.subscribe(topic)
        found += await take(queue, RECORDS - 40)
        await queue.commit()
        assert await queue.poll(0.5) == []
    assert numbers(found) == list(range(RECORDS))


async def test_members_share_partitions(kafka: Kafka, topic: str, group: str) -> None:
    found: list[SharedRecord] = []
    with trio.fail_after(WAIT_SECONDS):
        async with trio.open_nursery() as nursery:

            async def work() -> None:
                async with ShareConsumer(
                    kafka.bootstrap, group_id=group, max_poll_records=2
                ) as queue:
                    await queue.subscribe(topic)
                    while len(found) < RECORDS:
                        found.extend(await queue.poll(0.2))
                        await queue.commit()

            for _ in range(3):
                nursery.start_soon(work)
    assert numbers(found) == list(range(RECORDS))


async def test_the_record_in_hand_at_an_error_comes_again(
    kafka: Kafka, topic: str, group: str
) -> None:
    found: list[SharedRecord] = []

    async def fail() -> None:
        async with ShareConsumer(kafka.bootstrap, group_id=group) as queue:
            await queue.subscribe(topic)
            found.extend(await take(queue, 5))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    async with ShareConsumer(kafka.bootstrap, group_id=group) as queue:
        await queue.subscribe(topic)
        rest = await take(queue, RECORDS - 4)
    again = [record for record in rest if record.value == found[-1].value]
    assert [record.delivery_count for record in again] == [2]
    assert numbers(found[:-1] + rest) == list(range(RECORDS))


async def test_explicit_results(kafka: Kafka, topic: str, group: str) -> None:
    """Released records come again, accepted and rejected ones do not; a renewed lock holds."""
    counts: dict[int, list[int]] = {}
    async with ShareConsumer(kafka.bootstrap, group_id=group, acknowledgement="explicit") as queue:
        await queue.subscribe(topic)
        kept: list[SharedRecord] = []
        for record in await take(queue, RECORDS):
            number = int(record.value or b"")
            counts.setdefault(number, []).append(record.delivery_count)
            if number == 11:
                kept.append(record)
            elif number % 10 == 3:
                queue.release(record)
            elif number % 10 == 4:
                queue.reject(record)
            else:
                queue.accept(record)
        await queue.commit()
        (held,) = kept
        for record in await take(queue, RECORDS // 10):
            counts[int(record.value or b"")].append(record.delivery_count)
            queue.accept(record)
        for _ in range(3):
            await trio.sleep(LOCK_MS / 2000)
            await queue.renew(held)
        queue.accept(held)
        await queue.commit()
        with pytest.raises(ClientError, match="not held"):
            queue.accept(held)
        assert await queue.poll(0.5) == []
    again = [number for number, found in counts.items() if found == [1, 2]]
    assert sorted(again) == [number for number in range(RECORDS) if number % 10 == 3]
    assert len(counts) == RECORDS


async def test_cancelled_requests_lose_nothing(kafka: Kafka, topic: str, group: str) -> None:
    found: list[SharedRecord] = []
    async with ShareConsumer(kafka.bootstrap, group_id=group, max_poll_records=3) as queue:
        await queue.subscribe(topic)
        with trio.fail_after(WAIT_SECONDS):
            while len(found) < RECORDS:
                with trio.move_on_after(0.01):
                    found += await queue.poll(1)
    assert numbers(found) == list(range(RECORDS))


async def test_a_lock_that_expires_gives_the_record_to_others(
    kafka: Kafka, topic: str, group: str
) -> None:
    async with (
        ShareConsumer(kafka.bootstrap, group_id=group, acknowledgement="explicit") as slow,
        ShareConsumer(kafka.bootstrap, group_id=group) as other,
    ):
        await slow.subscribe(topic)
        held = await take(slow, RECORDS)
        await other.subscribe(topic)
        found = await take(other, RECORDS // 2)  # each member has one of the two partitions
        assert set(numbers(found)) <= set(numbers(held))
        assert {record.delivery_count for record in found} == {2}
        slow.accept(next(record for record in held if record.value == found[0].value))
        with pytest.raises(ClientError, match="INVALID_RECORD_STATE"):
            await slow.commit()


def check_commands(bootstrap: str, topic: str, group: str) -> None:
    """`pybroker groups` on a queue that one consumer has read to its end."""
    run = Commands(bootstrap)
    (listed,) = [r for r in run.json("groups", "list", "--type", "share") if r["group"] == group]
    assert listed["state"] == "Stable"
    (member,) = run.json("groups", "describe", group, "--members")
    assert member["partitions"] == [f"{topic}-0", f"{topic}-1"]
    assert member["epoch"] > 0
    rows = run.json("groups", "describe", group)
    assert [(one["partition"], one["lag"]) for one in rows] == [
        (f"{topic}-0", 0),
        (f"{topic}-1", 0),
    ]
    assert f"{group}: Stable in epoch {member['epoch']}\n" in run.text("groups", "describe", group)


async def test_administration(kafka: Kafka, topic: str, group: str) -> None:
    places = [(topic, 0), (topic, 1)]
    async with Cluster(kafka.bootstrap) as cluster:
        groups = Admin(cluster).share_groups
        async with ShareConsumer(cluster, group_id=group) as queue:
            await queue.subscribe(topic)
            await take(queue, RECORDS)
            await queue.commit()
            (described,) = (await groups.describe([group])).all().values()
            assert (described.state, described.protocol_type) == ("Stable", "share")
            assert [member.assignment for member in described.members] == [tuple(places)]
            of_any_kind = (await Admin(cluster).groups.describe([group])).all()[group]
            assert of_any_kind == described
            assert of_any_kind.is_share_group
            await trio.to_thread.run_sync(check_commands, kafka.bootstrap, topic, group)
        offsets = await groups.offsets(group)
        assert [offsets[place].lag for place in places] == [0, 0]
        (await groups.alter_offsets(group, dict.fromkeys(places, RECORDS // 2 - 1))).all()
        async with ShareConsumer(cluster, group_id=group) as queue:
            await queue.subscribe(topic)
            assert numbers(await take(queue, 2)) == [RECORDS - 2, RECORDS - 1]
        (await groups.delete_offsets(group, [topic])).all()
        assert not (await groups.offsets(group)).all()
