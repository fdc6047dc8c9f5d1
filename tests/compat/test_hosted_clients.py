"""The clients for asyncio and for threads keep the promises of the client for trio."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
import trio

from pybroker_kafka import (
    AsyncioAdmin,
    AsyncioConsumer,
    AsyncioProducer,
    BlockingAdmin,
    BlockingConsumer,
    BlockingProducer,
    ClientError,
    Cluster,
    Consumer,
    Producer,
    RetryPolicy,
    SimpleRecord,
)
from pybroker_kafka.client.admin.topics import NewTopic
from pybroker_kafka.client.errors import ProducerClosed, SettingsError
from pybroker_kafka.client.hosted.trio_thread import TrioThread
from pybroker_kafka.testing import KafkaCluster
from tests.support.patience import Limit

RECORDS = 5_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster() as running:
        yield running


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    yield
    assert TrioThread._shared is None


def values_of(cluster: KafkaCluster, topic: str, **options: object) -> list[bytes | None]:
    """All values of a topic with one partition."""
    found: list[bytes | None] = []
    # Markers, too, which are written after a commit is answered: the end of those who see all.
    with BlockingConsumer(cluster.bootstrap) as uncommitted:
        (end,) = uncommitted.end_offsets([(topic, 0)]).values()
    with BlockingConsumer(cluster.bootstrap, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign([(topic, 0)])
        while (consumer.position((topic, 0)) or 0) < end:
            found += [record.value for record in consumer.poll(1.0)]
    return found


# Producers


def test_records_keep_the_order_of_the_calls(cluster: KafkaCluster) -> None:
    asynchronous, blocking = cluster.topic("asyncio"), cluster.topic("threads")
    expected = [b"%d" % number for number in range(RECORDS)]

    async def produce() -> None:
        async with AsyncioProducer(cluster.bootstrap) as producer:
            places = await asyncio.gather(
                *(producer.send(asynchronous, value) for value in expected[:1000])
            )
            assert [place.offset for place in places] == list(range(1000))
            deliveries = [await producer.enqueue(asynchronous, v) for v in expected[1000:]]
            assert (await deliveries[-1]).offset == RECORDS - 1
            assert all(delivery.is_done for delivery in deliveries)
            assert (await producer.metrics()).records == RECORDS

    asyncio.run(produce())
    with BlockingProducer(cluster.bootstrap) as producer:
        assert producer.send(blocking, expected[0]).offset == 0
        deliveries = [producer.enqueue(blocking, value) for value in expected[1:-1]]
        producer.flush()
        assert [delivery.result().offset for delivery in deliveries] == list(range(1, RECORDS - 1))
        (last,) = producer.send_all(blocking, [SimpleRecord(0, None, expected[-1])])
        assert last.offset == RECORDS - 1
    assert values_of(cluster, asynchronous) == values_of(cluster, blocking) == expected


def test_the_end_of_a_block_flushes(cluster: KafkaCluster) -> None:
    topic = cluster.topic("flushed")

    async def produce() -> None:
        async with AsyncioProducer(cluster.bootstrap, linger_ms=60_000) as producer:
            for number in range(10):
                await producer.enqueue(topic, b"%d" % number)

    asyncio.run(produce())
    with BlockingProducer(cluster.bootstrap, linger_ms=60_000) as producer:
        for number in range(10, 20):
            producer.enqueue(topic, b"%d" % number)
    assert values_of(cluster, topic) == [b"%d" % number for number in range(20)]


def test_large_records_and_many_bytes_wait_for_room(cluster: KafkaCluster) -> None:
    topic = cluster.topic("large")
    with BlockingProducer(cluster.bootstrap, buffer_memory=300_000) as producer:
        deliveries = [producer.enqueue(topic, bytes(100_000)) for _ in range(20)]
        assert [delivery.wait().offset for delivery in deliveries] == list(range(20))
        with pytest.raises(ClientError, match="larger than max_request_size"):
            producer.send(topic, bytes(2_000_000))


def test_what_is_wrong_is_told_at_once(cluster: KafkaCluster) -> None:
    async def produce() -> None:
        async with AsyncioProducer(cluster.bootstrap) as producer:
            with pytest.raises(TypeError, match="value is bytes or None, not str"):
                await producer.enqueue("some", "text")  # type: ignore[arg-type]
            with pytest.raises(ClientError, match="transactional_id"):
                await producer.begin_transaction()
        with pytest.raises(ClientError):
            await producer.send("some", b"")

    asyncio.run(produce())
    with pytest.raises(SettingsError, match="no such setting"):
        BlockingProducer(cluster.bootstrap, linger=3)
    producer = BlockingProducer("127.0.0.1:1", max_block_ms=100)
    with pytest.raises(ClientError, match="inside its `with`"):
        producer.flush()
    with producer, pytest.raises(ClientError, match=r"127\.0\.0\.1:1"):
        producer.send("some", b"")


@pytest.mark.parametrize("name", ["Producer", "Consumer"])
def test_a_client_for_trio_elsewhere_names_the_right_one(name: str) -> None:
    client = {"Producer": Producer, "Consumer": Consumer}[name]("127.0.0.1:1")

    async def enter() -> None:
        async with client:
            pass

    with pytest.raises(ClientError, match=f"use Asyncio{name} under asyncio"):
        asyncio.run(enter())
    with pytest.raises(ClientError, match=f"Blocking{name} in a thread without a loop"), client:
        pass


def test_transactions(cluster: KafkaCluster) -> None:
    topic = cluster.topic("transactions")

    async def fail_in_transaction(producer: AsyncioProducer) -> None:
        async with producer.transaction():
            await producer.enqueue(topic, b"aborted")
            raise ZeroDivisionError

    async def produce() -> None:
        async with AsyncioProducer(cluster.bootstrap, transactional_id="asyncio") as producer:
            async with producer.transaction():
                await producer.enqueue(topic, b"committed")
            with pytest.raises(ZeroDivisionError):
                await fail_in_transaction(producer)
            with pytest.raises(ClientError, match="outside a transaction"):
                await (await producer.enqueue(topic, b"outside"))

    asyncio.run(produce())
    with BlockingProducer(cluster.bootstrap, transactional_id="threads") as producer:
        with producer.transaction():
            producer.enqueue(topic, b"committed, too")
        producer.begin_transaction()
        producer.enqueue(topic, b"aborted, too")
        producer.abort_transaction()
        with pytest.raises(ClientError, match="outside a transaction"):
            producer.send(topic, b"outside")
    read = values_of(cluster, topic, isolation_level="read_committed")
    assert read == [b"committed", b"committed, too"]


def test_a_cancelled_block_does_not_wait(cluster: KafkaCluster) -> None:
    topic = cluster.topic("cancelled")
    deliveries = []

    async def produce(enqueued: asyncio.Event) -> None:
        async with AsyncioProducer(cluster.bootstrap, linger_ms=60_000) as producer:
            deliveries.append(await producer.enqueue(topic, b"not sent"))
            enqueued.set()
            await asyncio.sleep(60)

    async def main() -> None:
        enqueued = asyncio.Event()
        task = asyncio.create_task(produce(enqueued))
        await enqueued.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    limit = Limit(30)
    asyncio.run(main())
    assert not limit.is_over
    with pytest.raises(ProducerClosed):
        deliveries[0].result()


def test_many_threads_use_one_producer(cluster: KafkaCluster) -> None:
    topic = cluster.topic("shared")
    with BlockingProducer(cluster.bootstrap) as producer, ThreadPoolExecutor(8) as pool:
        places = list(pool.map(lambda n: producer.send(topic, b"%d" % n), range(200)))
    assert sorted(place.offset for place in places) == list(range(200))


def test_calls_from_other_threads_do_not_keep_it_from_closing(cluster: KafkaCluster) -> None:
    topic = cluster.topic("closing")
    limit = Limit(60)
    for _ in range(20):
        with ThreadPoolExecutor(4) as pool, BlockingProducer(cluster.bootstrap) as producer:
            delivery = producer.enqueue(topic, b"x")
            waits = [pool.submit(delivery.wait, 30.0) for _ in range(4)]
            assert len({wait.result().offset for wait in waits}) == 1

            def flush_on(producer: BlockingProducer = producer) -> None:
                with suppress(ClientError):
                    while not limit.is_over:
                        producer.flush()

            flushing = [pool.submit(flush_on) for _ in range(4)]
        assert all(each.done() for each in flushing)
    assert not limit.is_over


def test_the_child_of_a_fork_opens_its_own(cluster: KafkaCluster) -> None:
    topic = cluster.topic("forked")
    with BlockingProducer(cluster.bootstrap) as producer:
        producer.send(topic, b"of the parent")
        child = os.fork()
        if not child:
            try:
                with BlockingProducer(cluster.bootstrap) as own:
                    own.send(topic, b"of the child")
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        producer.send(topic, b"of the parent again")
    assert len(values_of(cluster, topic)) == 3


# Consumers


def test_records_are_read_once_and_committed(cluster: KafkaCluster) -> None:
    topic = cluster.topic("read")
    with BlockingProducer(cluster.bootstrap) as producer:
        producer.send_all(topic, [SimpleRecord(0, None, b"%d" % n) for n in range(100)])
    group = {"group_id": topic, "auto_offset_reset": "earliest"}
    seen = []
    with BlockingConsumer(cluster.bootstrap, **group) as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            seen.append(record.value)
            if len(seen) == 40:
                break
        for record in consumer:  # begun again, it goes on
            seen.append(record.value)
            if len(seen) == 60:
                break
        assert consumer.position((topic, 0)) == 60
        consumer.commit()

    async def read() -> None:
        async with AsyncioConsumer(cluster.bootstrap, **group) as second:
            await second.subscribe([topic])
            async for record in second:
                seen.append(record.value)
                if len(seen) == 100:
                    break
            assert await second.assignment() == {(topic, 0)}
            assert await second.lag((topic, 0)) == 0
            await second.seek((topic, 0), 10)
            assert [r.value for r in await second.poll(5.0, 3)] == [b"10", b"11", b"12"]
            await second.seek((topic, 0), 100)

    asyncio.run(read())
    assert seen == [b"%d" % n for n in range(100)]
    with BlockingConsumer(cluster.bootstrap, **group) as consumer:
        assert consumer.committed([(topic, 0)])[topic, 0].offset == 100


def test_commits_in_the_background_end_before_the_consumer_leaves(cluster: KafkaCluster) -> None:
    """Each has its outcome: none meets a group that the consumer has left."""
    topic = cluster.topic("commit-soon")
    cluster.produce(topic, *(f"{n}" for n in range(30)), partition=0)
    told: list[ClientError | None] = []

    def blocking() -> None:
        options = {"group_id": f"{topic}-threads", "auto_offset_reset": "earliest"}
        with BlockingConsumer(cluster.bootstrap, auto_commit=False, **options) as consumer:
            consumer.subscribe([topic])
            for count, _ in enumerate(consumer, 1):
                consumer.commit_soon(on_done=told.append)
                if count == 10:
                    break
            consumer.commit()
            assert told == [None] * 10
            consumer.commit_soon({(topic, 0): 7})

    async def in_a_loop() -> None:
        options = {"group_id": f"{topic}-asyncio", "auto_offset_reset": "earliest"}
        async with AsyncioConsumer(cluster.bootstrap, auto_commit=False, **options) as consumer:
            await consumer.subscribe([topic])
            async for _ in consumer:
                await consumer.commit_soon(on_done=told.append)
                break
            await consumer.commit_soon({(topic, 0): 9}, told.append)
        await asyncio.sleep(0)

    blocking()
    asyncio.run(in_a_loop())
    assert told == [None] * 12

    async def committed(group: str) -> int:
        async with Consumer(cluster.bootstrap, group_id=group) as consumer:
            return (await consumer.committed([(topic, 0)]))[topic, 0].offset

    assert trio.run(committed, f"{topic}-threads") == 7
    assert trio.run(committed, f"{topic}-asyncio") == 9


def test_a_cancelled_poll_loses_no_records(cluster: KafkaCluster) -> None:
    topic = cluster.topic("polled")
    seen: list[bytes | None] = []

    async def read() -> None:
        async with (
            AsyncioProducer(cluster.bootstrap) as producer,
            AsyncioConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer,
        ):
            await consumer.assign([(topic, 0)])
            sent = 0
            for number in range(100):
                task = asyncio.create_task(consumer.poll(1.0))
                await producer.send(topic, b"%d" % number)
                sent += 1
                await asyncio.sleep(0.0005 * (number % 5))
                task.cancel()
                with suppress(asyncio.CancelledError):
                    seen.extend(record.value for record in await task)
            limit = Limit(30)
            while len(seen) < sent:
                assert not limit.is_over, seen
                seen.extend(record.value for record in await consumer.poll(1.0))

    asyncio.run(read())
    assert seen == [b"%d" % number for number in range(100)]


def test_callbacks_run_where_the_application_is(cluster: KafkaCluster) -> None:
    topic = cluster.topic("callbacks")
    told: list[tuple[str, object, threading.Thread]] = []

    def note(what: str) -> object:
        return lambda partitions: told.append((what, partitions, threading.current_thread()))

    with BlockingConsumer(cluster.bootstrap, group_id=topic) as consumer:

        def revoked(partitions: object) -> None:
            consumer.commit()  # a call in a callback
            told.append(("revoked", partitions, threading.current_thread()))

        consumer.subscribe([topic], on_assigned=note("assigned"), on_revoked=revoked)  # type: ignore[arg-type]
        while not told:
            consumer.poll(0.1)
    here = threading.current_thread()
    assert told == [("assigned", [(topic, 0)], here), ("revoked", [(topic, 0)], here)]
    told.clear()

    async def read() -> None:
        async def assigned(partitions: object) -> None:
            await asyncio.sleep(0)
            told.append(("assigned", partitions, threading.current_thread()))

        async with AsyncioConsumer(cluster.bootstrap, group_id=topic) as second:
            await second.subscribe([topic], on_assigned=assigned)
            while not told:
                await second.poll(0.1)

    asyncio.run(read())
    assert told == [("assigned", [(topic, 0)], here)]


@pytest.mark.nightly
def test_a_consumer_is_for_one_thread_at_a_time(cluster: KafkaCluster) -> None:
    topic = cluster.topic("one-thread")
    with BlockingConsumer(cluster.bootstrap) as consumer, ThreadPoolExecutor(1) as pool:
        consumer.assign([(topic, 0)])
        waiting = pool.submit(consumer.poll, 3.0)
        refused = []
        while not waiting.done():
            try:
                consumer.poll()
            except ClientError as error:
                refused.append(str(error))
        assert waiting.result() == []
        assert refused[0] == "a BlockingConsumer is for one thread at a time"


def test_what_a_failed_block_did_not_finish_comes_again(cluster: KafkaCluster) -> None:
    topic = cluster.topic("failed")
    with BlockingProducer(cluster.bootstrap) as producer:
        producer.send_all(topic, [SimpleRecord(0, None, b"%d" % n) for n in range(3)])
    group = {"group_id": topic, "auto_offset_reset": "earliest"}

    def read() -> None:
        with BlockingConsumer(cluster.bootstrap, **group) as consumer:
            consumer.subscribe([topic])
            for record in consumer:
                if record.value == b"1":
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read()
    with BlockingConsumer(cluster.bootstrap, **group) as consumer:
        assert consumer.committed([(topic, 0)])[topic, 0].offset == 1


def test_a_notebook_opens_in_one_cell_and_closes_in_another(cluster: KafkaCluster) -> None:
    topic = cluster.topic("notebook")
    producer = BlockingProducer(cluster.bootstrap, linger_ms=60_000).open()
    producer.enqueue(topic, b"x")
    producer.close()
    consumer = BlockingConsumer(cluster.bootstrap, auto_offset_reset="earliest").open()
    consumer.assign([(topic, 0)])
    assert [record.value for record in consumer.poll(30.0)] == [b"x"]
    consumer.close()


def test_beside_a_loop_of_trio(cluster: KafkaCluster) -> None:
    """A program on trio may call a library that uses the clients for threads."""
    topic = cluster.topic("beside-trio")

    def produce() -> int:
        with BlockingProducer(cluster.bootstrap) as producer:
            return producer.send(topic, b"x").offset

    async def main() -> int:
        return await trio.to_thread.run_sync(produce)

    assert trio.run(main) == 0


# Ack mode


def test_records_are_acknowledged_one_by_one(cluster: KafkaCluster) -> None:
    topic = cluster.topic("acknowledged")
    cluster.produce(topic, *(f"{n}" for n in range(10)), partition=0)
    options = {"auto_offset_reset": "earliest", "auto_commit": False}
    attempts: dict[int, list[int]] = {}

    def note(offset: int, attempt: int) -> None:
        attempts.setdefault(offset, []).append(attempt)

    def blocking() -> None:
        with BlockingConsumer(cluster.bootstrap, group_id=f"{topic}-1", **options) as consumer:
            consumer.subscribe([topic])
            with ThreadPoolExecutor(2) as pool:
                for count, delivery in enumerate(consumer.deliveries(), 1):
                    offset = delivery.record.offset
                    note(offset, delivery.attempts)
                    if offset == 3 and delivery.attempts == 1:
                        assert pool.submit(delivery.fail).result()
                    elif offset != 7:
                        pool.submit(delivery.ack).result()
                    if count == 11:
                        break
            consumer.commit()
            assert consumer.committed([(topic, 0)])[topic, 0].offset == 7

    async def in_a_loop() -> None:
        async with AsyncioConsumer(cluster.bootstrap, group_id=f"{topic}-2", **options) as consumer:
            await consumer.subscribe([topic])
            count = 0
            async for delivery in consumer.deliveries(retry=RetryPolicy(max_retries=0)):
                count += 1
                if delivery.record.offset == 3:
                    assert not await delivery.fail()
                    assert delivery.is_finished
                elif delivery.record.offset != 8:
                    delivery.ack()
                if count == 10:
                    break
            await consumer.commit()
            assert (await consumer.committed([(topic, 0)]))[topic, 0].offset == 8

    blocking()
    assert attempts == {offset: [1, 2] if offset == 3 else [1] for offset in range(10)}
    asyncio.run(in_a_loop())


def test_a_cancelled_wait_for_a_delivery_loses_none(cluster: KafkaCluster) -> None:
    topic = cluster.topic("acks-cancelled")
    seen: list[bytes | None] = []

    async def take(consumer: AsyncioConsumer) -> None:
        async for delivery in consumer.deliveries():
            seen.append(delivery.record.value)
            delivery.ack()

    async def read() -> None:
        async with (
            AsyncioProducer(cluster.bootstrap, linger_ms=0) as producer,
            AsyncioConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer,
        ):
            await consumer.assign([(topic, 0)])
            for number in range(50):
                task = asyncio.create_task(take(consumer))
                await producer.send(topic, b"%d" % number)
                await asyncio.sleep(0.0005 * (number % 5))
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            limit = Limit(30)
            task = asyncio.create_task(take(consumer))
            while len(seen) < 50:
                assert not limit.is_over, seen
                await asyncio.sleep(0.01)
            task.cancel()

    asyncio.run(read())
    assert seen == [b"%d" % number for number in range(50)]


def test_a_revoked_delivery_is_not_handed_out(cluster: KafkaCluster) -> None:
    topic = cluster.topic("acks-revoked")
    cluster.produce(topic, *(f"{n}" for n in range(10)), partition=0)
    with BlockingConsumer(cluster.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        deliveries = consumer.deliveries()
        first = next(deliveries)
        assert first.record.offset == 0
        consumer.seek((topic, 0), 5)
        first.ack()  # no effect
        assert next(deliveries).record.offset == 5
        assert not first.is_finished


# Administration


def test_administration(cluster: KafkaCluster) -> None:
    with BlockingAdmin(cluster.bootstrap) as admin:
        admin.topics.create([NewTopic("of-threads", partitions=2)])
        assert "of-threads" in {topic.name for topic in admin.topics.list()}
        with pytest.raises(AttributeError):
            admin.no_such_subject.list()
        with pytest.raises(AttributeError):
            admin.topics.no_such_method()
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: admin.cluster.describe(), range(20)))
        assert len({each.cluster_id for each in found}) == 1
    with pytest.raises(ClientError, match="has ended"):
        admin.topics.list()

    async def administer() -> None:
        async with AsyncioAdmin(cluster.bootstrap) as admin:
            names = {topic.name for topic in await admin.topics.list()}
            assert "of-threads" in names
            results = await admin.topics.delete(["of-threads"])
            assert not results.errors

    asyncio.run(administer())
    with pytest.raises(ClientError, match="inside its `with`"):
        BlockingAdmin("127.0.0.1:1").topics.list()


def test_a_cluster_elsewhere_names_the_clients_for_administration() -> None:
    async def enter() -> None:
        async with Cluster("127.0.0.1:1"):
            pass

    with pytest.raises(ClientError, match="AsyncioAdmin or BlockingAdmin"):
        asyncio.run(enter())
