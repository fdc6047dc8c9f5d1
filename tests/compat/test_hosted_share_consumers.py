"""The share consumers for asyncio and for threads keep the promises of the one for trio."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import Iterator

import pytest

from pybroker_kafka import (
    AsyncioShareConsumer,
    BlockingAdmin,
    BlockingProducer,
    BlockingShareConsumer,
    ClientError,
    SharedRecord,
)
from pybroker_kafka.client.admin.config_types import (
    Alteration,
    ConfigOperation,
    ConfigResource,
    ResourceKind,
)
from pybroker_kafka.client.admin.topics import NewTopic
from pybroker_kafka.client.hosted.trio_thread import TrioThread
from pybroker_kafka.protocol.features import NEWEST_RELEASE
from pybroker_kafka.testing import KafkaCluster
from tests.support.patience import Limit, until

RECORDS = 60
WAIT_SECONDS = 120.0
EARLIEST = Alteration("share.auto.offset.reset", ConfigOperation.SET, "earliest")


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """With queues, also where all other clusters have the features of 3.9."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setenv("PYBROKER_FEATURES", NEWEST_RELEASE)
        running = KafkaCluster(brokers=1)
    with running:
        yield running


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    assert TrioThread._shared is None


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """With numbers as values."""
    name = f"queue-{uuid.uuid4().hex[:8]}"
    with BlockingAdmin(cluster.bootstrap) as admin:
        admin.topics.create([NewTopic(name, partitions=2)]).all()
    with BlockingProducer(cluster.bootstrap) as producer:
        for number in range(RECORDS):
            producer.enqueue(name, b"%d" % number, partition=number % 2)
    return name


@pytest.fixture
def group(cluster: KafkaCluster) -> str:
    name = f"group-{uuid.uuid4().hex[:8]}"
    with BlockingAdmin(cluster.bootstrap) as admin:
        resource = ConfigResource(ResourceKind.GROUP, name)
        admin.configs.alter({resource: [EARLIEST]}).all()

        def is_set() -> bool:
            (found,) = admin.configs.describe([resource]).all().values()
            return any(one.name == EARLIEST.name and one.value == "earliest" for one in found)

        until(is_set)
    return name


def numbers(records: list[SharedRecord]) -> list[int]:
    return sorted(int(record.value or b"") for record in records)


def take(queue: BlockingShareConsumer, count: int) -> list[SharedRecord]:
    found: list[SharedRecord] = []
    for record in queue:
        found.append(record)
        if len(found) == count:
            break
    return found


def rest_of(cluster: KafkaCluster, topic: str, group: str, count: int) -> list[SharedRecord]:
    with BlockingShareConsumer(cluster.bootstrap, group_id=group) as queue:
        queue.subscribe(topic)
        found = take(queue, count)
        queue.commit()
        assert queue.poll(0.3) == []
    return found


# Threads


def test_a_thread_accepts_records_as_it_requests_the_next(
    cluster: KafkaCluster, topic: str, group: str
) -> None:
    with BlockingShareConsumer(cluster.bootstrap, group_id=group, max_poll_records=7) as queue:
        queue.subscribe([topic])
        found = take(queue, 20)
        found += queue.poll(10)
    rest = rest_of(cluster, topic, group, RECORDS - len(found))
    assert {record.delivery_count for record in found} == {1}
    assert numbers(found + rest) == list(range(RECORDS))


def test_a_notebook_opens_and_closes(cluster: KafkaCluster, topic: str, group: str) -> None:
    queue = BlockingShareConsumer(cluster.bootstrap, group_id=group).open()
    queue.subscribe(topic)
    found = take(queue, RECORDS)
    queue.close()
    assert numbers(found) == list(range(RECORDS))
    with pytest.raises(ClientError):
        queue.poll()


def test_the_record_in_hand_of_a_thread_that_fails_comes_again(
    cluster: KafkaCluster, topic: str, group: str
) -> None:
    def fail() -> None:
        with BlockingShareConsumer(cluster.bootstrap, group_id=group) as queue:
            queue.subscribe(topic)
            found.extend(take(queue, 5))
            raise ZeroDivisionError

    found: list[SharedRecord] = []
    with pytest.raises(ZeroDivisionError):
        fail()
    rest = rest_of(cluster, topic, group, RECORDS - 4)
    again = [record for record in rest if record.value == found[-1].value]
    assert [record.delivery_count for record in again] == [2]
    assert numbers(found[:-1] + rest) == list(range(RECORDS))


def test_threads_decide(cluster: KafkaCluster, topic: str, group: str) -> None:
    """One asks for records, others say what became of them."""
    with BlockingShareConsumer(
        cluster.bootstrap, group_id=group, acknowledgement="explicit"
    ) as queue:
        queue.subscribe(topic)
        found = queue.poll(WAIT_SECONDS)
        while len(found) < RECORDS:
            found += queue.poll(WAIT_SECONDS)

        def decide(records: list[SharedRecord]) -> None:
            for record in records:
                number = int(record.value or b"")
                if number % 10 == 3:
                    queue.release(record)
                elif number % 10 == 4:
                    queue.reject(record)
                else:
                    queue.accept(record)

        queue.renew(found[0])
        workers = [threading.Thread(target=decide, args=(found[n::3],)) for n in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        queue.commit()
        again = take(queue, RECORDS // 10)
        for record in again:
            queue.accept(record)
        queue.commit()
        with pytest.raises(ClientError, match="not held"):
            queue.accept(found[0])
        assert queue.poll(0.3) == []
    assert {record.delivery_count for record in again} == {2}
    assert numbers(again) == [number for number in range(RECORDS) if number % 10 == 3]


# asyncio


async def rest_in_asyncio(queue: AsyncioShareConsumer, count: int) -> list[SharedRecord]:
    found: list[SharedRecord] = []
    async for record in queue:
        found.append(record)
        if len(found) == count:
            break
    await queue.commit()
    assert await queue.poll(0.3) == []
    return found


def test_asyncio_accepts_records_as_it_requests_the_next(
    cluster: KafkaCluster, topic: str, group: str
) -> None:
    async def work() -> list[SharedRecord]:
        async with AsyncioShareConsumer(cluster.bootstrap, group_id=group) as queue:
            await queue.subscribe(topic)
            return await rest_in_asyncio(queue, RECORDS)

    found = asyncio.run(asyncio.wait_for(work(), WAIT_SECONDS))
    assert {record.delivery_count for record in found} == {1}
    assert numbers(found) == list(range(RECORDS))


def test_explicit_results_in_asyncio(cluster: KafkaCluster, topic: str, group: str) -> None:
    async def work() -> list[SharedRecord]:
        found: list[SharedRecord] = []
        async with AsyncioShareConsumer(
            cluster.bootstrap, group_id=group, acknowledgement="explicit"
        ) as queue:
            await queue.subscribe([topic])
            while len(found) < RECORDS + 1:
                for record in await queue.poll(1.0):
                    found.append(record)
                    if record.value == b"7" and record.delivery_count == 1:
                        await queue.renew(record)
                        await queue.release(record)
                    elif record.value == b"8":
                        await queue.reject(record)
                    else:
                        await queue.accept(record)
            await queue.commit()
            assert await queue.poll(0.3) == []
        return found

    found = asyncio.run(asyncio.wait_for(work(), WAIT_SECONDS))
    assert numbers(found) == sorted([*range(RECORDS), 7])


def test_cancelled_requests_in_asyncio_lose_nothing(
    cluster: KafkaCluster, topic: str, group: str
) -> None:
    async def work() -> list[SharedRecord]:
        found: list[SharedRecord] = []
        loop = asyncio.get_running_loop()
        async with AsyncioShareConsumer(
            cluster.bootstrap, group_id=group, max_poll_records=3
        ) as queue:
            await queue.subscribe(topic)
            for number in range(200):
                asking = asyncio.ensure_future(queue.poll(1.0))
                loop.call_later(0.0005 * (number % 20), asking.cancel)
                with contextlib.suppress(asyncio.CancelledError):
                    found += await asking
            if len(found) < RECORDS:
                found += await rest_in_asyncio(queue, RECORDS - len(found))
        return found

    found = asyncio.run(asyncio.wait_for(work(), WAIT_SECONDS))
    assert numbers(found) == list(range(RECORDS))


def test_the_first_record_of_a_queue_comes_at_once(
    cluster: KafkaCluster, topic: str, group: str
) -> None:
    """Much sooner than after the interval of heartbeats, 5 s."""
    with BlockingShareConsumer(cluster.bootstrap, group_id=group) as queue:
        limit = Limit(4.0)
        queue.subscribe(topic)
        take(queue, 1)
        assert not limit.is_over
