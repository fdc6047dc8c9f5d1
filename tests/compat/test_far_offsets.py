"""Real clients in logs that would take hours to fill: a segment of 2 GB, offsets around 2^31 and
2^40. The log directory of the broker is prepared while that is down; see `tests.support.far_logs`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata

from pybroker_kafka import Cluster, Consumer
from pybroker_kafka.storage.checkpoints import read_meta_properties
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager
from tests.support.consumed import value_of
from tests.support.far_logs import (
    BEGIN_MS,
    LARGEST_SEGMENT,
    MB,
    SparseFiles,
    append,
    append_at,
    fill_segment,
    small_batch,
)
from tests.support.processes import BrokerProcess, zookeeper_process
from tests.support.wire import WireClient
from tests.unit.storage.helpers import config_of

WAIT_SECONDS = 30.0
LARGE = "large"
RECORDS = 20
# Where a log begins; its records lie on both sides of the number.
BEGINS = {"at-2-31": 2**31 - 10, "at-2-32": 2**32 - 10, "at-2-40": 2**40 - 10}
GAPS = {"gaps": [0, 1, 2**31 - 1, 2**31, 2**33, 2**40 + 1, 2**40 + 2]}
OFFSETS = {**{name: [*range(at, at + RECORDS)] for name, at in BEGINS.items()}, **GAPS}
TOPIC_CONFIGS = {
    "segment.bytes": str(LARGEST_SEGMENT),
    "max.message.bytes": str(2 * MB),
    "segment.ms": str(2**62),
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("far")
    with zookeeper_process(directory) as connect:
        config = {"offsets.topic.num.partitions": "1"}
        broker = BrokerProcess(directory / "broker", connect, config)
        broker.start()
        with WireClient(broker.bootstrap) as client:
            client.configured_topic(TOPIC_CONFIGS, name=LARGE)
            for name in BEGINS:
                client.configured_topic({}, name=name)
            client.configured_topic({"cleanup.policy": "compact"}, name="gaps")
        assert broker.stop() == 0
        prepare(broker.log_dir)
        broker.start()
        try:
            yield broker
        finally:
            broker.kill()


def prepare(directory: Path) -> None:
    meta = read_meta_properties(Files(), str(directory))
    assert meta is not None
    assert meta.cluster_id is not None
    manager = LogManager(
        [str(directory)], SparseFiles(), config_of(), broker_id=1, cluster_id=meta.cluster_id
    )
    large = config_of(**{key.replace(".", "_"): value for key, value in TOPIC_CONFIGS.items()})
    compacted = config_of(cleanup_policy="compact")
    manager.load(BEGIN_MS, {LARGE: large, "gaps": compacted})
    last = fill_segment(log_of(manager, LARGE))
    append(log_of(manager, LARGE), small_batch(last + 1, b"the next segment"))
    for name, begin in BEGINS.items():
        log = log_of(manager, name)
        log.truncate_fully_and_start_at(begin)
        for number in range(RECORDS):
            append(log, small_batch(number, b"%d" % (begin + number)))
    for number, offset in enumerate(GAPS["gaps"]):
        append_at(log_of(manager, "gaps"), small_batch(number, b"%d" % offset), offset)
    manager.clean_shutdown()


def log_of(manager: LogManager, name: str) -> Log:
    log = manager.get_log(name, 0)
    assert log is not None
    return log


@pytest.mark.parametrize("topic", OFFSETS)
def test_kafka_python(broker: BrokerProcess, topic: str) -> None:
    offsets = OFFSETS[topic]
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id=f"kafka-python-{topic}",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(WAIT_SECONDS * 1000),
    )
    with closing(consumer):
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: offsets[0]}
        assert consumer.end_offsets([partition]) == {partition: offsets[-1] + 1}
        found = [next(consumer) for _ in offsets]
        assert [int(record.value) for record in found] == offsets
        assert [record.offset for record in found] == offsets
        consumer.seek(partition, offsets[-3])
        assert next(consumer).offset == offsets[-3]
        asked = consumer.offsets_for_times({partition: BEGIN_MS + 1000 * (len(offsets) - 2)})
        assert asked[partition].offset == offsets[-2]
        consumer.commit({partition: OffsetAndMetadata(offsets[-2], "far", -1)})
        assert consumer.committed(partition) == offsets[-2]
    again = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id=f"kafka-python-{topic}",
        consumer_timeout_ms=int(WAIT_SECONDS * 1000),
    )
    with closing(again):
        again.assign([partition])
        assert next(again).offset == offsets[-2]


@pytest.mark.parametrize("topic", OFFSETS)
def test_confluent_kafka(broker: BrokerProcess, topic: str) -> None:
    offsets = OFFSETS[topic]
    consumer = ConfluentConsumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": f"confluent-{topic}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partition = ConfluentPartition(topic, 0)
        watermarks = consumer.get_watermark_offsets(partition, timeout=WAIT_SECONDS)
        assert watermarks == (offsets[0], offsets[-1] + 1)
        consumer.assign([ConfluentPartition(topic, 0, offsets[0])])
        assert [int(value_of(take(consumer))) for _ in offsets] == offsets
        consumer.seek(ConfluentPartition(topic, 0, offsets[-3]))
        assert take(consumer).offset() == offsets[-3]
        at = ConfluentPartition(topic, 0, BEGIN_MS + 1000 * (len(offsets) - 2))
        (found,) = consumer.offsets_for_times([at], timeout=WAIT_SECONDS)
        assert found.offset == offsets[-2]
        consumer.commit(offsets=[ConfluentPartition(topic, 0, offsets[-2])], asynchronous=False)
        (committed,) = consumer.committed([partition], timeout=WAIT_SECONDS)
        assert committed.offset == offsets[-2]
    finally:
        consumer.close()


def take(consumer: ConfluentConsumer):  # type: ignore[no-untyped-def]
    message = consumer.poll(WAIT_SECONDS)
    assert message is not None
    assert message.error() is None, message.error()
    return message


@pytest.mark.parametrize("topic", OFFSETS)
def test_our_consumer(broker: BrokerProcess, topic: str) -> None:
    offsets = OFFSETS[topic]
    partition = (topic, 0)

    async def read() -> None:
        with trio.fail_after(WAIT_SECONDS):
            async with (
                Cluster(broker.bootstrap) as cluster,
                Consumer(
                    cluster, group_id=f"ours-{topic}", auto_offset_reset="earliest"
                ) as consumer,
            ):
                assert await consumer.beginning_offsets([partition]) == {partition: offsets[0]}
                assert await consumer.end_offsets([partition]) == {partition: offsets[-1] + 1}
                await consumer.assign([partition])
                assert await take_ours(consumer, len(offsets)) == offsets
                consumer.seek(partition, offsets[-3])
                assert (await take_ours(consumer, 1))[0] == offsets[-3]
                await consumer.seek_to_timestamp(BEGIN_MS + 1000 * (len(offsets) - 2))
                assert (await take_ours(consumer, 1))[0] == offsets[-2]
                await consumer.commit({partition: offsets[-2]})
                committed = await consumer.committed([partition])
                assert committed[partition].offset == offsets[-2]

    trio.run(read)


async def take_ours(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        found += [r.offset for r in await consumer.poll(1.0, count - len(found))]
    return found


def test_a_segment_of_two_gigabytes(broker: BrokerProcess) -> None:
    """Read at its end, by offset and by time, and on into the next one; more is appended there."""
    files = sorted(path.name for path in broker.log_dir.glob(f"{LARGE}-0/*.log"))
    last = int(files[1].partition(".")[0]) - 1
    size = (broker.log_dir / f"{LARGE}-0" / files[0]).stat().st_size
    assert LARGEST_SEGMENT - 100 < size <= LARGEST_SEGMENT
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        sent = producer.send(LARGE, b"more", partition=0).get(WAIT_SECONDS)
        assert sent.offset >= last + 2
    partition = TopicPartition(LARGE, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, consumer_timeout_ms=int(WAIT_SECONDS * 1000)
    )
    with closing(consumer):
        consumer.assign([partition])
        for begin in (last - 2, last // 2):
            consumer.seek(partition, begin)
            found = [next(consumer) for _ in range(5)]
            assert [record.offset for record in found] == [*range(begin, begin + 5)]
        for number in (last // 2, last - 1, last, last + 1):
            asked = consumer.offsets_for_times({partition: BEGIN_MS + 1000 * number})
            assert asked[partition].offset == number

    async def read() -> None:
        with trio.fail_after(WAIT_SECONDS):
            async with (
                Cluster(broker.bootstrap) as cluster,
                Consumer(cluster, auto_offset_reset="earliest") as ours,
            ):
                await ours.assign([(LARGE, 0)])
                ours.seek((LARGE, 0), last - 2)
                assert await take_ours(ours, 5) == [*range(last - 2, last + 3)]
                await ours.seek_to_timestamp(BEGIN_MS + 1000 * last)
                assert (await take_ours(ours, 2)) == [last, last + 1]

    trio.run(read)
