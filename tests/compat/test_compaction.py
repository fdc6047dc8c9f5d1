"""A broker process that compacts: what clients produce, and what it keeps for itself."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.structs import OffsetAndMetadata

from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker

WAIT_SECONDS = 120.0
ROUNDS, KEYS = 40, 50  # about 170 kB
SMALL = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "100",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    config = {
        "log.cleaner.backoff.ms": "100",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": "10000",
        "log.cleaner.min.cleanable.ratio": "0.01",
    }
    with running_broker(tmp_path_factory.mktemp("compaction"), config) as broker:
        yield broker


def create(broker: BrokerProcess, topic: str, **configs: str) -> None:
    settings = SMALL | {name.replace("_", "."): value for name, value in configs.items()}
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics([NewTopic(topic, 1, 1, topic_configs=settings)])


def produce(
    broker: BrokerProcess, topic: str, rounds: int, keys: int, codec: str | None = None
) -> dict[bytes, bytes]:
    """Several values for each key; returns the last ones."""
    last: dict[bytes, bytes] = {}
    producer = KafkaProducer(
        bootstrap_servers=broker.bootstrap, compression_type=codec, batch_size=2000, linger_ms=5
    )
    with closing(producer):
        for number in range(rounds):
            for key in range(keys):
                # Random, so that a codec does not squeeze all into the active segment.
                name, value = b"key-%d" % key, b"%d-" % number + os.urandom(60)
                producer.send(topic, value, key=name)
                last[name] = value
        producer.flush(WAIT_SECONDS)
    return last


def read_to_end(broker: BrokerProcess, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id=None, auto_offset_reset="earliest"
    )
    partition = TopicPartition(topic, 0)
    found = []
    with closing(consumer):
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        consumer.seek_to_beginning(partition)
        while consumer.position(partition) < end:
            for records in consumer.poll(timeout_ms=500).values():
                found += [(record.offset, record.key, record.value) for record in records]
    return found


def size_of(broker: BrokerProcess, name: str) -> int:
    """Of the segments; one that the cleaner swaps away meanwhile counts nothing."""
    size = 0
    for path in (broker.log_dir / name).glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def wait_until_compacted(broker: BrokerProcess, topic: str) -> None:
    """Until about one active segment and one compacted one are left."""
    until(lambda: size_of(broker, f"{topic}-0") < 50_000, f"{topic} is compacted")


def workers_of(broker: BrokerProcess) -> list[int]:
    """The cleaner processes of this broker."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = (entry / "status").read_text()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if (
            f"PPid:\t{broker.pid}\n" in status
            and b"pybroker_kafka.broker.cleaner.worker" in command
        ):
            found.append(int(entry.name))
    return found


@pytest.mark.parametrize("codec", [None, "gzip", "zstd"])
def test_a_consumer_sees_the_last_value_of_each_key(
    broker: BrokerProcess, codec: str | None
) -> None:
    topic = f"state-{codec}"
    create(broker, topic)
    last = produce(broker, topic, ROUNDS, KEYS, codec)
    wait_until_compacted(broker, topic)
    found = read_to_end(broker, topic)
    assert len(found) < ROUNDS * KEYS / 2
    assert {key: value for _, key, value in found} == last
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(offsets)


def test_the_offsets_topic_shrinks_and_survives_a_crash(broker: BrokerProcess) -> None:
    consumer = KafkaConsumer(
        bootstrap_servers=broker.bootstrap, group_id="group", enable_auto_commit=False
    )
    create(broker, "committed")
    partition = TopicPartition("committed", 0)
    with closing(consumer):
        consumer.assign([partition])
        for offset in range(400):
            consumer.commit({partition: OffsetAndMetadata(offset, "m" * 50, -1)})
    until(lambda: size_of(broker, "__consumer_offsets-0") < 25_000, "shrunk")
    broker.kill()
    broker.start()
    with closing(KafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="group")) as again:
        committed = again.committed(partition)
    assert committed == 399


def test_a_deleted_topic_and_a_killed_worker_stop_nothing(broker: BrokerProcess) -> None:
    create(broker, "doomed")
    produce(broker, "doomed", 20, 50)
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.delete_topics(["doomed"])
    create(broker, "next")
    for worker in workers_of(broker):
        os.kill(worker, signal.SIGKILL)
    last = produce(broker, "next", ROUNDS, KEYS)
    wait_until_compacted(broker, "next")
    assert {key: value for _, key, value in read_to_end(broker, "next")} == last
    assert broker.is_running


def test_no_worker_outlives_its_broker(broker: BrokerProcess) -> None:
    create(broker, "last")
    produce(broker, "last", ROUNDS, KEYS)
    wait_until_compacted(broker, "last")
    # Its segments are swapped before the cleaning has ended; a stop between makes it begin anew.
    checkpoint = broker.log_dir / "cleaner-offset-checkpoint"
    until(lambda: "last 0 " in checkpoint.read_text(), "the end of the cleaning is written")
    workers = workers_of(broker)
    assert workers
    assert broker.stop() == 0
    until(lambda: not any(Path(f"/proc/{w}").exists() for w in workers), "gone")
    assert "last 0 " in checkpoint.read_text()
    broker.start()
    broker.kill()
    broker.start()
    assert read_to_end(broker, "last")
