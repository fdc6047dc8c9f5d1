"""Our producer at our broker and at Apache Kafka 3.9 and 4.3, read back by librdkafka.

Each of them is one broker, shared by the tests, which starts again where a test kills it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import confluent_kafka
import pytest
import trio

from pybroker_kafka import ClientError, Cluster, Consumer, Producer, SimpleRecord
from pybroker_kafka.client.connection import Connection
from pybroker_kafka.client.errors import (
    ProducerClosed,
    ProducerFenced,
    TransactionAborted,
    Unsupported,
)
from pybroker_kafka.client.producer import Delivery, OutgoingRecord, RecordMetadata
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.features import Feature
from tests.support.apache_kafka import ApacheKafkaProcess, kafka_jars
from tests.support.apache_kafka_4 import ApacheKafka4Process, running_kafka_4
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import TRANSACTION, WireClient
from tests.wire.feature_steps import SAFE_DOWNGRADE, UPGRADE, finalize
from tests.wire.transaction_steps import describe

CONFIG = {
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "3",
}
READ_SECONDS = 120
_names = itertools.count()


Kafka = BrokerProcess | ApacheKafka4Process


@pytest.fixture(
    scope="module",
    params=[
        "ours",
        pytest.param("apache", marks=pytest.mark.at_kafka),
        pytest.param("apache-4", marks=pytest.mark.at_kafka),
    ],
)
def kafka(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Kafka]:
    directory = tmp_path_factory.mktemp(str(request.param))
    if request.param == "apache-4":
        with running_kafka_4(directory, CONFIG) as started:
            trio.run(wait_for_brokers, started)
            with WireClient(started.bootstrap) as wire:
                finalize(wire, {Feature.TRANSACTION: 0}, SAFE_DOWNGRADE)
            yield started
        return
    kind = BrokerProcess
    if request.param == "apache":
        kafka_jars()
        kind = ApacheKafkaProcess
    with zookeeper_process(directory) as connect:
        broker = kind(directory / "broker", connect, CONFIG)
        try:
            broker.start()
            trio.run(wait_for_brokers, broker)
            yield broker
        finally:
            broker.kill()


async def wait_for_brokers(broker: Kafka) -> None:
    """It answers before it knows of itself, and then makes no topics."""
    with trio.fail_after(READ_SECONDS):
        async with Cluster(broker.bootstrap) as cluster:
            while not (await cluster.metadata([])).brokers:  # noqa: ASYNC110
                await trio.sleep(0.05)


class Read(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[Any]


def new_topic() -> str:
    return f"topic-{next(_names)}"


def read_all(broker: Kafka, topic: str, *, committed: bool = False) -> list[Read]:
    """All that is there, up to the end of each partition.

    With `committed` it also waits for the markers of transactions: a commit is answered before they
    are written, and a reader of committed records takes an open transaction for the end."""
    config = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": f"reader-{next(_names)}",
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    level = "read_committed" if committed else "read_uncommitted"
    uncommitted = confluent_kafka.Consumer({**config, "isolation.level": "read_uncommitted"})
    consumer = confluent_kafka.Consumer({**config, "isolation.level": level})
    found: list[Read] = []
    try:
        partitions = consumer.list_topics(topic, READ_SECONDS).topics[topic].partitions
        ends = {
            number: uncommitted.get_watermark_offsets(
                confluent_kafka.TopicPartition(topic, number), READ_SECONDS
            )[1]
            for number in partitions
        }
        consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in partitions])
        at_end = set[int]()
        while len(at_end) < len(partitions):
            message = consumer.poll(READ_SECONDS)
            assert message is not None, f"{len(found)} records, then silence"
            error = message.error()
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                if offset is not None and offset >= ends[partition]:
                    at_end.add(partition)
                continue
            assert offset is not None
            found.append(
                Read(
                    partition,
                    offset,
                    message.key(),
                    message.value(),
                    message.timestamp()[1],
                    list(message.headers() or []),
                )
            )
    finally:
        consumer.close()
        uncommitted.close()
    return found


async def in_thread(broker: Kafka, topic: str, *, committed: bool = False) -> list[Read]:
    return await trio.to_thread.run_sync(lambda: read_all(broker, topic, committed=committed))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_arrive_as_they_are(kafka: Kafka, codec: str) -> None:
    topic = new_topic()
    headers = [("trace", b"\x00\xff"), ("nothing", None), ("trace", b"again")]
    async with Producer(kafka.bootstrap, compression=codec) as producer:
        told = [
            await producer.send(topic, b"v" * 2000, key=b"k", headers=headers, timestamp_ms=1234),
            await producer.send(topic, None, key=b"", partition=2, timestamp_ms=1235),
            await producer.send(topic, b"", partition=2, timestamp_ms=1236),
        ]
    read = {(one.partition, one.offset): one for one in await in_thread(kafka, topic)}
    assert len(read) == 3
    first, tombstone, empty = (read[one.partition, one.offset] for one in told)
    assert [one.timestamp_ms for one in told] == [1234, 1235, 1236]
    assert first[2:] == (b"k", b"v" * 2000, 1234, headers)
    assert (tombstone.partition, tombstone[2:]) == (2, (b"", None, 1235, []))
    assert (empty.partition, empty[2:]) == (2, (None, b"", 1236, []))


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_acks_in_order(kafka: Kafka, acks: str | int) -> None:
    topic = new_topic()
    async with Producer(kafka.bootstrap, acks=acks, idempotence=acks == "all") as producer:
        deliveries = [
            await producer.enqueue(topic, b"%d" % number, partition=1) for number in range(5_000)
        ]
        await producer.flush()
        offsets = [delivery.result().offset for delivery in deliveries]
    if acks == 0:
        assert set(offsets) == {-1}
        async with Producer(kafka.bootstrap) as producer:  # it comes behind them
            await producer.send(topic, b"5000", partition=1)
    else:
        assert offsets == list(range(5_000))
    read = await in_thread(kafka, topic)
    assert [int(one.value or b"") for one in read][:5_000] == list(range(5_000))


async def test_keyless_records_stick_and_keyed_ones_stay(kafka: Kafka) -> None:
    topic = new_topic()
    async with Producer(kafka.bootstrap, batch_size=2_000, linger_ms=0) as producer:
        sticky = [await producer.enqueue(topic, b"x" * 90) for _ in range(3_000)]
        keyed = [await producer.enqueue(topic, b"", key=b"21") for _ in range(5)]
    places = [(await delivery).partition for delivery in sticky]
    assert set(places) == {0, 1, 2}
    changes = sum(one != other for one, other in itertools.pairwise(places))
    assert changes < 200
    # Java's murmur2 of "21" is -973932308.
    assert {(await delivery).partition for delivery in keyed} == {(-973932308 & 0x7FFFFFFF) % 3}


async def test_a_batch_that_is_too_large_is_split(kafka: Kafka) -> None:
    """Compressed it is thought to fit; a record that does not fit alone fails alone."""
    topic = new_topic()
    size = 200_000
    async with Producer(
        kafka.bootstrap, batch_size=4_000_000, max_request_size=4_000_000, linger_ms=100
    ) as producer:
        await producer.prepare(topic)
        small = [await producer.enqueue(topic, b"%d" % n * size, partition=0) for n in range(9)]
        large = await producer.enqueue(topic, b"x" * 1_500_000, partition=0)
        more = await producer.enqueue(topic, b"more", partition=0)
        with pytest.raises(ClientError, match="MESSAGE_TOO_LARGE"):
            await large
        assert [(await delivery).offset for delivery in [*small, more]] == list(range(10))
        with pytest.raises(ClientError, match="larger than max_request_size"):
            await producer.send(topic, b"x" * 4_000_000)
    values = [one.value or b"" for one in await in_thread(kafka, topic)]
    assert values == [*(b"%d" % n * size for n in range(9)), b"more"]


class ShortLived(trio.abc.Stream):
    """TCP that ends with what is sent for the n-th time: that arrives, and has no answer."""

    def __init__(self, stream: trio.SocketStream, sends: int) -> None:
        self._stream = stream
        self._left = sends

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._left -= 1
        await self._stream.send_all(data)
        if not self._left:
            await self._stream.send_eof()
            self._stream.socket.close()

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        data = await self._stream.receive_some(max_bytes)
        return data if self._left > 0 else b""  # an answer that was quicker than the end

    async def aclose(self) -> None:
        await self._stream.aclose()


class ShortLivedNetwork:
    def __init__(self, sends: int) -> None:
        self._sends = sends
        self.opened = 0

    async def reach(self, host: str, port: int) -> trio.abc.Stream:
        self.opened += 1
        # Not all alike, so that each request has its turn.
        return ShortLived(await trio.open_tcp_stream(host, port), self._sends + self.opened % 3)


async def test_once_each_whatever_is_cut_or_killed(kafka: Kafka) -> None:
    """Connections end every few batches, the broker is killed and comes back: nothing is lost,
    nothing is there twice, and each partition has its records in their order."""
    topic = new_topic()
    network = ShortLivedNetwork(8)
    count = 30_000
    deliveries: list[Delivery] = []
    async with Producer(
        kafka.bootstrap, network=network.reach, batch_size=4_000, linger_ms=1
    ) as producer:
        for number in range(count):
            deliveries.append(await producer.enqueue(topic, b"%d" % number))
            if number % 100 == 0:  # 300 requests at least, however fast they are filled
                await producer.flush()
            if number == count // 2:
                kafka.kill()
                await trio.to_thread.run_sync(kafka.start)
        await producer.flush()
        assert network.opened > 4
        assert producer.metrics.retries > 4
        assert producer.metrics.records == count
    read = await in_thread(kafka, topic)
    by_partition = [
        [int(one.value or b"") for one in read if one.partition == partition]
        for partition in range(3)
    ]
    assert sorted(itertools.chain(*by_partition)) == list(range(count))
    assert all(numbers == sorted(numbers) for numbers in by_partition)
    places = {(one.partition, one.offset): one.value for one in read}
    for number, delivery in enumerate(deliveries):
        told = delivery.result()
        assert told.offset < 0 or places[told.partition, told.offset] == b"%d" % number


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"value": "text"}, "value"),
        ({"value": 7}, "value"),
        ({"value": b"", "key": "text"}, "key"),
        ({"value": b"", "partition": 0.5}, "partition"),
        ({"value": b"", "timestamp_ms": 1.5}, "timestamp"),
        ({"value": b"", "headers": [("name", "text")]}, "header"),
        ({"value": b"", "headers": [(b"name", b"")]}, "name"),
    ],
)
async def test_what_is_no_record_is_refused_alone(
    kafka: Kafka, given: dict[str, Any], told: str
) -> None:
    """Those that are in the batch already are written."""
    topic = new_topic()
    async with Producer(kafka.bootstrap, linger_ms=50) as producer:
        before = await producer.enqueue(topic, b"before", partition=0)
        with pytest.raises(TypeError) as refused:
            await producer.enqueue(topic, **given)
        # Compiled, an argument of another type is refused before it comes to that.
        assert told in str(refused.value) or "object expected" in str(refused.value)
        await producer.enqueue(topic, bytearray(b"copied"), partition=0, key=memoryview(b"k"))
        assert (await before).offset == 0
    assert [one.value for one in await in_thread(kafka, topic)] == [b"before", b"copied"]


async def test_what_is_cancelled(kafka: Kafka) -> None:
    """A cancelled `send` leaves its record where it is; a cancelled block forgets the rest."""
    topic = new_topic()
    async with Producer(kafka.bootstrap, linger_ms=50) as producer:
        await producer.prepare(topic)
        with trio.move_on_after(0.001):
            await producer.send(topic, b"one", partition=0)
        await producer.send(topic, b"two", partition=0)
    assert [one.value for one in await in_thread(kafka, topic)] == [b"one", b"two"]
    with trio.CancelScope() as scope:
        async with Producer(kafka.bootstrap, linger_ms=60_000) as producer:
            forgotten = await producer.enqueue(topic, b"three", partition=0)
            scope.cancel()
            await trio.sleep_forever()
    with pytest.raises(ProducerClosed):
        await forgotten
    with pytest.raises(ProducerClosed):
        await producer.send(topic, b"four")
    assert [one.value for one in await in_thread(kafka, topic)] == [b"one", b"two"]


@pytest.fixture(params=[0, 2])
def version(request: pytest.FixtureRequest, kafka: Kafka) -> Iterator[int]:
    """The transaction.version of the cluster."""
    level: int = request.param
    if level:
        needs_features(kafka)
    with WireClient(kafka.bootstrap) as wire:
        finalize(wire, {Feature.TRANSACTION: level} if level else {})
    yield level
    with WireClient(kafka.bootstrap) as wire:
        finalize(wire, {Feature.TRANSACTION: 0} if level else {}, SAFE_DOWNGRADE)


def needs_features(kafka: Kafka) -> None:
    if isinstance(kafka, ApacheKafkaProcess):
        pytest.skip("Kafka 3.9 has no features in ZooKeeper mode")


def epoch_of(kafka: Kafka, name: str) -> int:
    with WireClient(kafka.bootstrap) as wire:
        wire.coordinator(name, TRANSACTION)
        epoch: int = describe(wire, name).producer_epoch
        return epoch


async def test_transactions(kafka: Kafka, version: int) -> None:
    one, other = new_topic(), new_topic()
    async with Producer(kafka.bootstrap, transactional_id=f"id-{one}") as producer:
        with pytest.raises(ClientError, match="outside a transaction"):
            await producer.send(one, b"outside")
        for turn in range(3):
            async with producer.transaction():
                for number in range(10):
                    await producer.enqueue(one, b"%d-%d" % (turn, number), partition=number % 3)
                await producer.send(other, b"%d" % turn)
                await producer.send_offsets({(one, 0): turn + 1}, "group")
            with suppress(KeyError):
                async with producer.transaction():
                    written = await producer.enqueue(one, b"aborted, written", partition=0)
                    await written
                    waiting = await producer.enqueue(one, b"aborted, perhaps", partition=1)
                    raise KeyError
            assert written.result().offset >= 0
            with pytest.raises(TransactionAborted):
                await waiting
    values = {read.value for read in await in_thread(kafka, one, committed=True)}
    assert values == {b"%d-%d" % (turn, number) for turn in range(3) for number in range(10)}
    assert len(await in_thread(kafka, one)) > 30
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "group"})
    (committed,) = await trio.to_thread.run_sync(
        lambda: consumer.committed([confluent_kafka.TopicPartition(one, 0)], READ_SECONDS)
    )
    consumer.close()
    assert committed.offset == 3
    # Since version 2 each end raises the epoch; before, so does what an abort has lost.
    assert (epoch_of(kafka, f"id-{one}") >= 6) is (version == 2)


async def test_a_producer_lives_through_the_change(kafka: Kafka) -> None:
    """It learns the features with a new connection, and changes between two transactions."""
    needs_features(kafka)
    if isinstance(kafka, ApacheKafka4Process):
        pytest.skip("it refuses version 2 at once, on connections that know of it as well")
    topic = new_topic()
    name = f"id-{topic}"
    epochs = []
    async with Producer(kafka.bootstrap, transactional_id=name) as producer:
        for turn, (level, kind) in enumerate(
            ((0, UPGRADE), (2, UPGRADE), (0, SAFE_DOWNGRADE), (2, UPGRADE))
        ):
            with WireClient(kafka.bootstrap) as wire:
                finalize(wire, {Feature.TRANSACTION: level} if turn else {}, kind)
            for number in range(4):
                async with producer.transaction():
                    await producer.send(topic, b"%d-%d" % (turn, number), partition=0)
                if number == 1:
                    kafka.kill()
                    await trio.to_thread.run_sync(kafka.start)
            epochs.append(epoch_of(kafka, name))
    with WireClient(kafka.bootstrap) as wire:
        finalize(wire, {Feature.TRANSACTION: 0}, SAFE_DOWNGRADE)
    read = [one.value for one in await in_thread(kafka, topic, committed=True)]
    assert read == [b"%d-%d" % (turn, number) for turn in range(4) for number in range(4)]
    assert epochs[0] < epochs[1] <= epochs[2] < epochs[3]


async def test_transactions_whatever_is_cut_or_killed(kafka: Kafka, version: int) -> None:
    topic = new_topic()
    network = ShortLivedNetwork(6)
    committed = 0
    async with Producer(
        kafka.bootstrap, network=network.reach, transactional_id=f"id-{topic}", linger_ms=0
    ) as producer:
        for turn in range(12):
            async with producer.transaction():
                for number in range(20):
                    await producer.enqueue(topic, b"%d-%d" % (turn, number))
                if turn == 6:
                    kafka.kill()
                    await trio.to_thread.run_sync(kafka.start)
            committed += 1
        assert network.opened > 4
    values = sorted(read.value or b"" for read in await in_thread(kafka, topic, committed=True))
    assert values == sorted(b"%d-%d" % (t, n) for t in range(committed) for n in range(20))


async def test_from_topic_to_topic_exactly_once(kafka: Kafka, version: int) -> None:
    """Read, write and commit in transactions, some of which are aborted."""
    source, target, group = new_topic(), new_topic(), f"group-{next(_names)}"
    count = 600
    async with Producer(kafka.bootstrap) as producer:
        await producer.send_all(source, [SimpleRecord(1, None, b"%d" % n) for n in range(count)])
    turns = itertools.count()
    seen = 0
    async with (
        Consumer(
            kafka.bootstrap, group_id=group, auto_offset_reset="earliest", auto_commit=False,
            max_poll_records=50,
        ) as consumer,
        Producer(kafka.bootstrap, transactional_id=f"id-{target}") as producer,
    ):  # fmt: skip
        await consumer.subscribe(source)
        with trio.fail_after(READ_SECONDS):
            while seen < count:
                records = await consumer.poll(1)
                if not records:
                    continue
                # All of one partition.
                first, last = records[0], records[-1]
                place = (first.topic, first.partition)
                try:
                    async with producer.transaction():
                        for record in records:
                            await producer.enqueue(target, record.value)
                        group_metadata = consumer.group_metadata()
                        await producer.send_offsets({place: last.offset + 1}, group_metadata)
                        if next(turns) % 3 == 1:
                            await producer.flush()  # or the abort comes before they have left
                            raise KeyError
                except KeyError:
                    consumer.seek(place, first.offset)
                else:
                    seen += len(records)
    read = await in_thread(kafka, target, committed=True)
    assert sorted(int(one.value or b"") for one in read) == list(range(count))
    assert len(await in_thread(kafka, target)) > count


async def test_a_second_producer_fences_the_first(kafka: Kafka, version: int) -> None:
    topic = new_topic()
    async with Producer(kafka.bootstrap, transactional_id=f"id-{topic}") as first:
        first.begin_transaction()
        await first.send(topic, b"of the first")
        async with Producer(kafka.bootstrap, transactional_id=f"id-{topic}") as second:
            async with second.transaction():
                await second.send(topic, b"of the second")
            with pytest.raises((ProducerFenced, TransactionAborted)):
                await first.send(topic, b"too late")
            with pytest.raises(ClientError):
                await first.commit_transaction()
            with pytest.raises(ProducerFenced):
                await first.abort_transaction()
    read = await in_thread(kafka, topic, committed=True)
    assert [one.value for one in read] == [b"of the second"]


class Stamp:
    """An interceptor that marks records and counts what became of them."""

    def __init__(self) -> None:
        self.done: list[RecordMetadata | None] = []

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        return record._replace(headers=[*record.headers, ("stamp", b"1")])

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        self.done.append(metadata)


async def test_interceptors_and_a_partitioner_of_ones_own(kafka: Kafka) -> None:
    topic, stamp = new_topic(), Stamp()
    async with Producer(
        kafka.bootstrap,
        interceptors=[stamp],
        partitioner=lambda _topic, _key, value, count, _available: len(value or b"") % count,
    ) as producer:
        records = [SimpleRecord(1, None, b"x" * number) for number in range(6)]
        told = await producer.send_all(topic, records)
    assert [one.partition for one in told] == [0, 1, 2, 0, 1, 2]
    assert sorted(one for one in stamp.done if one) == sorted(told)
    assert all(one.headers == [("stamp", b"1")] for one in await in_thread(kafka, topic))


async def test_memory_has_a_limit(kafka: Kafka) -> None:
    """While the broker does not answer, `enqueue` waits, and then says so."""
    topic = new_topic()
    async with Producer(kafka.bootstrap, buffer_memory=20_000, linger_ms=0) as producer:
        await producer.send(topic, b"first")
        kafka.pause()
        try:
            for _ in range(19):
                await producer.enqueue(topic, b"x" * 1_000)
            with trio.move_on_after(0.1) as limit:
                await producer.enqueue(topic, b"x" * 1_000)
            assert limit.cancelled_caught
            sender = producer._sender
            sender._settings = replace(sender._settings, max_block_ms=100)
            with pytest.raises(ClientError, match="buffer_memory"):
                await producer.enqueue(topic, b"x" * 1_000)
            assert 18_000 < producer.metrics.held_bytes <= 20_000
        finally:
            kafka.resume()
        await producer.flush()
        assert producer.metrics.held_bytes == 0
    assert len(await in_thread(kafka, topic)) == 20


async def test_a_broker_of_0_10(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """What such a broker serves, and nothing newer: message sets, no headers, no numbers."""
    newest = {
        ApiKey.PRODUCE: 2, ApiKey.METADATA: 1, ApiKey.API_VERSIONS: 0, ApiKey.FIND_COORDINATOR: 0,
    }  # fmt: skip

    async def agree(connection: Connection) -> None:
        connection._versions = {key: (0, version) for key, version in newest.items()}

    monkeypatch.setattr(Connection, "agree_on_versions", agree)
    if isinstance(kafka, (ApacheKafkaProcess, ApacheKafka4Process)):
        pytest.skip("the versions of ours reach as far back")
    topic = new_topic()
    with pytest.raises(ClientError, match="InitProducerId"):
        async with Producer(kafka.bootstrap, idempotence=True) as producer:
            await producer.send(topic, b"numbered")
    with pytest.raises(Unsupported, match="headers"):
        async with Producer(kafka.bootstrap) as producer:
            await producer.send(topic, b"headed", headers=[("h", b"")])
    for codec in ("none", "lz4"):
        async with Producer(kafka.bootstrap, compression=codec) as producer:
            records = [SimpleRecord(1_000 + n, b"k", b"%d" % n, []) for n in range(9)]
            told = await producer.send_all(topic, records)
            assert [one.offset - told[0].offset for one in told] == list(range(9))
    values = [(one.key, one.value, one.headers) for one in await in_thread(kafka, topic)]
    assert values == [(b"k", b"%d" % n, []) for n in [*range(9), *range(9)]]


def test_settings_that_contradict_each_other() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"acks": 1}, "idempotence=False"),
        ({"acks": "some"}, "neither 'all' nor 0 or 1"),
        ({"max_in_flight": 6}, "max_in_flight=6"),
        ({"compression": "brotli"}, "none, gzip, snappy, lz4, zstd"),
        ({"batchsize": 1}, "no such setting"),
        ({"transactional_id": "x", "idempotence": False}, "transactional_id needs"),
    ]
    for settings, line in wrong:
        with pytest.raises(ClientError, match=line):
            Producer("localhost:1", **settings)
