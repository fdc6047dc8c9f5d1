"""A log directory written by one broker, opened by the other, after clean and unclean stops.

Apache Kafka and pybroker take turns on the same directory, ZooKeeper and port numbers apart; each
must find all records of the other, add its own, and leave files that Kafka's own tools accept.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from tests.support.apache_kafka import ApacheKafkaProcess, kafka_tool
from tests.support.processes import BrokerProcess, zookeeper_process

WAIT_SECONDS = 60.0
TOPIC = "shared"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CONFIG = {"log.segment.bytes": "60000", "log.index.interval.bytes": "500"}

pytestmark = pytest.mark.timeout(400)

Broker = BrokerProcess | ApacheKafkaProcess


def create_topic(broker: Broker) -> None:
    """A new client, once there is a controller: an old one would look for it rarely."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        if admin.list_topics(timeout=WAIT_SECONDS).controller_id >= 0:
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(WAIT_SECONDS)
            return
        assert time.monotonic() < deadline, "no controller"
        time.sleep(0.2)


def wait_until_unregistered(connect: str) -> None:
    """Apache Kafka does not start before ZooKeeper has expired a killed broker's session."""
    zookeeper = KazooClient(connect)
    zookeeper.start(timeout=WAIT_SECONDS)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while zookeeper.exists("/brokers/ids/1") is not None:
            assert time.monotonic() < deadline, "the session does not expire"
            time.sleep(0.1)
    finally:
        zookeeper.stop()
        zookeeper.close()


def produce(broker: Broker, numbers: range) -> None:
    """A share of the numbers with each codec, idempotently."""
    errors: list[object] = []
    for index, codec in enumerate(CODECS):
        producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 2,
                "batch.num.messages": 50,
            }
        )
        for number in numbers:
            if number % len(CODECS) == index:
                producer.produce(
                    TOPIC,
                    b"value %d " % number * 20,
                    key=b"%d" % number,
                    on_delivery=lambda error, _: error and errors.append(error),
                )
        assert producer.flush(WAIT_SECONDS) == 0
    assert errors == []


def read_keys(broker: Broker) -> list[int]:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "reader"}
    with closing(Consumer(settings)) as consumer:
        partition = TopicPartition(TOPIC, 0, 0)
        end = end_offset(consumer, partition)
        consumer.assign([partition])
        keys: list[int] = []
        deadline = time.monotonic() + WAIT_SECONDS
        while len(keys) < end:
            # librdkafka tells of errors in the place of messages, also of those that it retries.
            found = consumer.consume(end - len(keys), 1.0)
            messages = [message for message in found if message.error() is None]
            assert messages or time.monotonic() < deadline, f"{len(keys)} of {end}"
            assert [message.offset() for message in messages] == list(
                range(len(keys), len(keys) + len(messages))
            )
            keys += [int(message.key()) for message in messages]
    return keys


def end_offset(consumer: Consumer, partition: TopicPartition) -> int:
    """The high watermark, once the broker that was just started knows its partition."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            end: int = consumer.get_watermark_offsets(partition, WAIT_SECONDS)[1]
            return end
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def end_cleanly(broker: Broker) -> None:
    broker.stop()


def end_by_kill(broker: Broker) -> None:
    broker.kill()


@pytest.mark.parametrize("end", [end_cleanly, end_by_kill])
@pytest.mark.parametrize("first", [ApacheKafkaProcess, BrokerProcess])
def test_brokers_take_turns_on_one_directory(
    tmp_path: Path, first: type[Broker], end: Callable[[Broker], None]
) -> None:
    second = BrokerProcess if first is ApacheKafkaProcess else ApacheKafkaProcess
    written = 0
    with zookeeper_process(tmp_path) as connect:
        for turn, kind in enumerate((first, second, first)):
            broker = kind(tmp_path / "broker", connect, CONFIG)
            broker.start()
            try:
                if turn == 0:
                    create_topic(broker)
                assert sorted(read_keys(broker)) == list(range(written)), f"{kind} in turn {turn}"
                produce(broker, range(written, written + 1500))
                written += 1500
                assert sorted(read_keys(broker)) == list(range(written))
            finally:
                end(broker)
                broker.kill()
            wait_until_unregistered(connect)
    check_with_kafkas_tool(broker.log_dir / f"{TOPIC}-0", written, clean=end is end_cleanly)


def check_with_kafkas_tool(directory: Path, records: int, *, clean: bool) -> None:
    """DumpLogSegments reads every file, checks the indexes, and finds all offsets."""
    logs = sorted(directory.glob("*.log"))
    assert len(logs) >= 3
    files = list(logs)
    if clean:
        files += [*directory.glob("*.index"), *directory.glob("*.timeindex")]
        files += directory.glob("*.snapshot")
    output = kafka_tool(
        "kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--files",
        ",".join(map(str, files)),
    )
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
    assert sorted(offsets) == list(range(records))
    for complaint in (
        "Mismatches in",
        "Found timestamp mismatch",
        "out of order",
        "isvalid: false",
    ):
        assert complaint not in output, output[-3000:]
