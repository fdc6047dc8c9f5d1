"""Random topics through our source, beside a dumb reader: the same rows.

A history of random steps: records in all codecs, transactions committed and aborted, records
deleted, partitions added, topics deleted and made again, while a stream reads, and a batch at its
end. What Spark calls is called here without Spark, so that a history takes a second. The twin is
kafka-python, which reads all there is from the start; it knows nothing of ranges and offsets.
At its end our own consumer reads as well: it fetches many partitions without an end, in a session,
and the source one range; both skip what is aborted, each in its own way, and give the same rows.
`make test` plays a few histories, `make spark` more; a failure names its seed.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import pytest
import trio
from confluent_kafka import Producer
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewPartitions, NewTopic

from pybroker_kafka.client.consumer.consumer import Consumer
from pybroker_kafka.spark_jobs.source.data_source import KafkaDataSource
from pybroker_kafka.spark_jobs.source.range_reader import DataLossError
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker

WAIT_SECONDS = 120.0
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
STEPS = 14
MAX_TOPICS, MAX_PARTITIONS = 3, 3
KEYS = (None, b"", *(b"key %d" % number for number in range(9)))
COMPACTED = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.0",
    "segment_bytes": "5000",
}

pytestmark = pytest.mark.timeout(240)

Offsets = dict[str, dict[str, int]]


class Seen(NamedTuple):
    """A row, without what neither reader can get wrong."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Writers:
    """Producers by codec, and one of transactions."""

    def __init__(self, servers: str) -> None:
        self._plain = {
            codec: Producer({"bootstrap.servers": servers, "compression.type": codec})
            for codec in CODECS
        }
        self._transactional = Producer(
            {"bootstrap.servers": servers, "transactional.id": uuid.uuid4().hex}
        )
        self._transactional.init_transactions(WAIT_SECONDS)

    def write(
        self, source: random.Random, topic: str, partition: int, keys: Sequence[bytes | None] = KEYS
    ) -> None:
        send(self._plain[source.choice(CODECS)], source, topic, partition, keys)

    def transact(self, source: random.Random, topic: str, partition: int) -> None:
        self._transactional.begin_transaction()
        send(self._transactional, source, topic, partition, KEYS)
        if source.random() < 0.5:
            self._transactional.abort_transaction(WAIT_SECONDS)
        else:
            self._transactional.commit_transaction(WAIT_SECONDS)


def send(
    producer: Any,
    source: random.Random,
    topic: str,
    partition: int,
    keys: Sequence[bytes | None],
) -> None:
    until(
        lambda: len(producer.list_topics(topic, WAIT_SECONDS).topics[topic].partitions) > partition
    )
    for _ in range(source.randint(1, 30)):
        producer.produce(
            topic,
            source.choice([None, b"", source.randbytes(source.randint(1, 300))]),
            source.choice(keys),
            partition,
            headers=source.choice([None, [("a", b"1"), ("b", None), ("a", b"")]]),
            timestamp=int(time.time() * 1000) - source.randint(0, 60_000),
        )
    assert producer.flush(WAIT_SECONDS) == 0


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One that compacts as soon as it can."""
    config = {"log.cleaner.backoff.ms": "50"}
    with running_broker(tmp_path_factory.mktemp("broker"), config=config) as broker:
        yield broker


@pytest.fixture(scope="module")
def writers(shared_broker: BrokerProcess) -> Writers:
    return Writers(shared_broker.bootstrap)


@pytest.fixture(scope="module")
def admin(shared_broker: BrokerProcess) -> Iterator[KafkaAdminClient]:
    with closing(KafkaAdminClient(bootstrap_servers=shared_broker.bootstrap)) as found:
        yield found


class History:
    """Topics that change, and a stream of ours that reads them all."""

    def __init__(self, seed: int, servers: str, writers: Writers, admin: KafkaAdminClient) -> None:
        self.source = random.Random(seed)
        self._servers, self._writers, self._admin = servers, writers, admin
        self._prefix = f"random-{uuid.uuid4().hex[:8]}"
        self.isolation = self.source.choice(["read_committed", "read_uncommitted"])
        self.partitions: dict[str, int] = {}
        self._reader: Any = None
        self._position: Offsets = {}
        self._is_lossy = False  # records are gone that the stream has not read

    def close(self) -> None:
        self._admin.delete_topics(list(self.partitions))

    def options(self, **more: str) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self._servers,
            "kafka.isolation.level": self.isolation,
            "kafka.max.partition.fetch.bytes": str(self.source.choice([300, 5000, 1 << 22])),
            "startingOffsets": "earliest",
            "includeHeaders": "true",
            **more,
        }

    # Steps

    def step(self) -> None:
        if not self.partitions:
            self.add_topic()
        topic = self.source.choice(list(self.partitions))
        place = topic, self.source.randrange(self.partitions[topic])
        match self.source.randrange(20):
            case 0 | 1 if len(self.partitions) < MAX_TOPICS:
                self.add_topic()
            case 2 | 3 if self.partitions[topic] < MAX_PARTITIONS:
                self.partitions[topic] += 1
                self._admin.create_partitions({topic: NewPartitions(self.partitions[topic])})
            case 4 | 5:
                self.delete_records(*place)
            case 6:
                self.remake(topic)
            case 7 | 8 | 9 | 10:
                self._writers.transact(self.source, *place)
            case 11 | 12 | 13:
                self.check_stream()
            case _:
                self._writers.write(self.source, *place)

    def add_topic(self, **configs: str) -> None:
        name = f"{self._prefix}-{len(self.partitions)}"
        self.partitions[name] = 1 if configs else self.source.randint(1, MAX_PARTITIONS)
        given = {key.replace("_", "."): value for key, value in configs.items()}
        self._admin.create_topics([NewTopic(name, self.partitions[name], 1, topic_configs=given)])

    def delete_records(self, topic: str, partition: int) -> None:
        where = TopicPartition(topic, partition)
        with closing(self._consumer()) as consumer:
            end = consumer.end_offsets([where])[where]
        before = self.source.randint(0, end)
        self._admin.delete_records({where: before})
        if self._reader is not None:
            self._is_lossy |= self._position.get(topic, {}).get(str(partition), 0) < before

    def remake(self, topic: str) -> None:
        """Delete it, and make it again with as many partitions."""
        self._admin.delete_topics([topic])
        self._admin.create_topics([NewTopic(topic, self.partitions[topic], 1)])
        self._is_lossy |= self._reader is not None

    # What is read

    def _consumer(self) -> Any:
        """A new one, which knows all partitions: an old one may take topics for what they were."""
        consumer: Any = KafkaConsumer(
            bootstrap_servers=self._servers,
            isolation_level=self.isolation,
            enable_auto_commit=False,
        )
        deadline = time.monotonic() + WAIT_SECONDS
        for topic, count in self.partitions.items():
            while len(consumer.partitions_for_topic(topic) or ()) < count:
                assert time.monotonic() < deadline
        return consumer

    def dumb_rows(self) -> list[Seen]:
        """All there is."""
        places = [
            TopicPartition(topic, partition)
            for topic, count in self.partitions.items()
            for partition in range(count)
        ]
        found: list[Any] = []
        deadline = time.monotonic() + WAIT_SECONDS
        with closing(self._consumer()) as consumer:
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            ends = consumer.end_offsets(places)
            while any(consumer.position(place) < ends[place] for place in places):
                assert time.monotonic() < deadline
                for records in consumer.poll(timeout_ms=100).values():
                    found += records
        rows = [
            Seen(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
            for r in found
        ]
        return sorted(rows, key=lambda row: row[:3])

    def check_stream(self) -> None:
        """One batch of the stream holds what lies between its offsets."""
        if self._reader is None:
            options = self.options(subscribePattern=f"{self._prefix}-.*")
            self._reader = reader_of(options | {"failOnDataLoss": "false"}, streaming=True)
            self._position = kept(self._reader.initialOffset())
        end = kept(self._reader.latestOffset())
        rows = rows_of(self._reader, self._reader.partitions(self._position, end))
        assert rows == [row for row in self.dumb_rows() if between(row, self._position, end)]
        self._check_loss(end)
        self._reader.commit(end)
        self._position, self._is_lossy = end, False

    def _check_loss(self, end: Offsets) -> None:
        """Records that are gone are an error, if they are to be one, and nothing else is."""
        if self._is_lossy:
            return
        options = self.options(subscribePattern=f"{self._prefix}-.*")
        reader = reader_of(options, streaming=True)
        rows_of(reader, reader.partitions(self._position, end))

    def check_batch(self) -> None:
        more = {"minPartitions": str(self.source.randint(1, 9))}
        reader = reader_of(
            self.options(subscribe=",".join(self.partitions), **more), streaming=False
        )
        rows = rows_of(reader, reader.partitions())
        assert rows == self.dumb_rows()
        assert rows == trio.run(self.own_rows)

    async def own_rows(self) -> list[Seen]:
        """All there is, by our own consumer."""
        places = [
            (topic, partition)
            for topic, count in self.partitions.items()
            for partition in range(count)
        ]
        found: list[Seen] = []
        with trio.fail_after(WAIT_SECONDS):
            async with Consumer(
                self._servers,
                isolation_level=self.isolation,
                max_partition_fetch_bytes=self.source.choice([300, 5000, 1 << 22]),
            ) as consumer:
                await consumer.assign(places)
                await consumer.seek_to_beginning()
                ends = await consumer.end_offsets(places)
                while any((consumer.position(place) or 0) < ends[place] for place in places):
                    come = await consumer.poll(0.1)
                    found += [Seen(*each[:6], headers=tuple(each.headers)) for each in come]
        return sorted(found, key=lambda row: row[:3])


def reader_of(options: dict[str, str], *, streaming: bool) -> Any:
    source = KafkaDataSource(options)
    return source.streamReader(source.schema()) if streaming else source.reader(source.schema())


def kept(offsets: Any) -> Offsets:
    """As it comes back from a checkpoint."""
    found: Offsets = json.loads(json.dumps(offsets))
    return found


def rows_of(reader: Any, partitions: Sequence[Any]) -> list[Seen]:
    found = [
        Seen(
            row["topic"],
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for partition in partitions
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]
    return sorted(found, key=lambda row: row[:3])


def between(row: Seen, start: Offsets, end: Offsets) -> bool:
    place = str(row.partition)
    first = start.get(row.topic, {}).get(place, 0)
    return first <= row.offset < end.get(row.topic, {}).get(place, 0)


def play(seed: int, shared_broker: BrokerProcess, writers: Writers, admin: Any) -> None:
    history = History(seed, shared_broker.bootstrap, writers, admin)
    with closing(history):
        for _ in range(STEPS):
            history.step()
        history.check_stream()
        history.check_batch()


@pytest.mark.parametrize("seed", range(2))
def test_histories(seed: int, shared_broker: BrokerProcess, writers: Writers, admin: Any) -> None:
    play(seed, shared_broker, writers, admin)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(2, 40))
def test_more_histories(
    seed: int, shared_broker: BrokerProcess, writers: Writers, admin: Any
) -> None:
    play(seed, shared_broker, writers, admin)


def test_lost_records_are_an_error(
    shared_broker: BrokerProcess, writers: Writers, admin: Any
) -> None:
    history = History(0, shared_broker.bootstrap, writers, admin)
    with closing(history):
        history.add_topic()
        (topic,) = history.partitions
        for _ in range(2):
            writers.write(history.source, topic, 0)
        reader = reader_of(history.options(subscribe=topic), streaming=True)
        start, end = kept(reader.initialOffset()), kept(reader.latestOffset())
        admin.delete_records({TopicPartition(topic, 0): 1})
        with pytest.raises(DataLossError):
            rows_of(reader, reader.partitions(start, end))


@pytest.mark.nightly
def test_a_compacted_log(shared_broker: BrokerProcess, writers: Writers, admin: Any) -> None:
    """Offsets that hold no record any more; the cleaner works on while both read."""
    history = History(1, shared_broker.bootstrap, writers, admin)
    with closing(history):
        history.add_topic(**COMPACTED)
        (topic,) = history.partitions
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            assert time.monotonic() < deadline
            writers.write(history.source, topic, 0, KEYS[1:])  # a compacted topic takes no null
            rows = history.dumb_rows()
            gaps = rows[-1].offset - rows[0].offset + 1 - len(rows) if rows else 0
            reader = reader_of(history.options(subscribe=topic), streaming=False)
            found = rows_of(reader, reader.partitions())
            if gaps and rows == history.dumb_rows():
                assert found == rows
                break
