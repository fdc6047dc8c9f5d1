"""The same directories compacted by Apache Kafka's cleaner and by ours.

The logs hold all that the rules are about: tombstones, committed, aborted transactions,
idempotent producers that are active or expired, every codec, old formats. Some were compacted
before, with delete horizons that have passed or not. What stays must be the same, batch by batch:
byte for byte where nothing was compressed, else in every field and record.
"""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from pybroker_kafka.protocol.records.batch import (
    BatchHeader,
    Compression,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    iter_batch_headers,
    iter_records,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.protocol.uuids import uuid_to_text
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
)
from pybroker_kafka.storage.cleaner.manager import CleanerManager
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_config import PRODUCER_ID_EXPIRATION_MS, LogConfig
from pybroker_kafka.storage.log_manager import LogManager
from pybroker_kafka.storage.producer_table import KEPT_AFTER_START_MS
from tests.support.apache_kafka import ApacheKafkaProcess
from tests.support.appends import append_as_leader
from tests.support.cleaning import clean
from tests.support.conversions import build_message_set
from tests.support.kafka_tools import kafka_tool
from tests.support.patience import until
from tests.support.processes import zookeeper_process

WAIT_SECONDS = 120.0
DAY_MS = 86_400_000
TOPICS = ("fresh", "expired", "protected")
CONFIG = {
    "log.cleanup.policy": "compact",
    "log.segment.bytes": "9000",
    "log.index.interval.bytes": "300",
    "log.cleaner.min.cleanable.ratio": "0.0",
    "log.cleaner.delete.retention.ms": str(DAY_MS),
    "log.retention.ms": "-1",
}

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
CODECS = (*Compression, *[Compression.NONE] * 6)
COMPLAINTS = ("Mismatches in", "Found timestamp mismatch", "out of order", "isvalid: false")

pytestmark = pytest.mark.timeout(400)


@contextmanager
def opened(directory: Path, now_ms: int) -> Iterator[LogManager]:
    config = LogConfig.from_overrides({}, CONFIG)
    manager = LogManager([str(directory)], Files(), config, broker_id=1, cluster_id="cluster")
    manager.load(now_ms)
    yield manager
    manager.clean_shutdown()


class Writer:
    """Random appends to one log, as leader and as follower of an older leader."""

    def __init__(self, log: Log, chance: random.Random, now_ms: int) -> None:
        self.log = log
        self.chance = chance
        self.now_ms = now_ms
        self.sequences: dict[int, int] = {}
        self.open: set[int] = set()

    def _records(self, timestamp: int, count: int) -> list[SimpleRecord]:
        chance = self.chance
        return [
            SimpleRecord(
                timestamp + chance.randrange(50),
                b"key-%d" % chance.randrange(40),
                None if chance.random() < 0.2 else chance.randbytes(chance.randrange(40)),
                (("header", b"h"), ("none", None)) if chance.random() < 0.2 else (),
            )
            for _ in range(count)
        ]

    def old_formats(self, count: int) -> None:
        for _ in range(count):
            magic = self.chance.randrange(2)
            codec = self.chance.choice(list(Compression)[:4])
            data = build_message_set(
                self._records(self.now_ms - DAY_MS, self.chance.randrange(1, 8)),
                magic=magic,
                base_offset=self.log.log_end_offset,
                compression=codec,
            )
            self.log.append_as_follower(data, now_ms=self.now_ms)

    def batches(self, count: int) -> None:
        chance = self.chance
        for _ in range(count):
            producer = chance.choice([-1, -1, 1, 2, 3, 4, 5])
            if producer in self.open and chance.random() < 0.4:
                self.end(producer)
                continue
            # Producers 4 and 5 were last heard of two days ago: they are not active any more.
            timestamp = self.now_ms - (2 * DAY_MS if producer in (4, 5) else 0)
            records = self._records(timestamp, chance.randrange(1, 8))
            transactional = producer in (2, 3, 5)
            sequence = self.sequences.get(producer, 0)
            batch = build_batch(
                records,
                compression=chance.choice(CODECS),
                producer_id=producer,
                producer_epoch=-1 if producer < 0 else 0,
                base_sequence=-1 if producer < 0 else sequence,
                is_transactional=transactional,
            )
            append_as_leader(self.log, batch, leader_epoch=0, now_ms=self.now_ms)
            if producer > 0:
                self.sequences[producer] = sequence + len(records)
            if transactional:
                self.open.add(producer)

    def end(self, producer: int) -> None:
        kind = self.chance.choice([ControlRecordType.COMMIT, ControlRecordType.ABORT])
        marker = build_end_txn_marker(
            EndTxnMarker(kind, 0),
            timestamp=self.now_ms - (2 * DAY_MS if producer == 5 else 0),
            producer_id=producer,
            producer_epoch=0,
        )
        append_as_leader(
            self.log, marker, leader_epoch=0, now_ms=self.now_ms, origin=AppendOrigin.COORDINATOR
        )
        self.open.discard(producer)

    def finish(self) -> None:
        for producer in sorted(self.open):
            self.end(producer)
        self.log.update_high_watermark(self.log.log_end_offset)


def topic_id(topic: str) -> bytes:
    return topic.encode().ljust(16, b".")


def write_logs(directory: Path, chance: random.Random, now_ms: int) -> None:
    with opened(directory, now_ms) as manager:
        for topic in TOPICS:
            log = manager.get_or_create_log(topic, 0, topic_id(topic), None, now_ms)
            writer = Writer(log, chance, now_ms)
            writer.old_formats(25)
            writer.batches(150)
            writer.finish()
            if topic != "fresh":
                # Twice: a marker gets its horizon once its transaction is empty.
                cleaned_ms = now_ms - (3 * DAY_MS if topic == "expired" else 0)
                cleaners = CleanerManager(manager, now_ms)
                cleaners.uncleanable[str(directory)] = {(other, 0) for other in TOPICS} - {
                    (topic, 0)
                }
                for _ in range(2):
                    log.roll(now_ms)
                    assert clean(manager, cleaned_ms, cleaners=cleaners) is not None
                    writer.batches(20)
                    writer.finish()
            writer.batches(80)
            writer.finish()


def contents(directory: Path, topic: str) -> dict[str, list[tuple[object, ...]]]:
    """Per segment its batches: bytes if they are not compressed, else fields and records."""
    found: dict[str, list[tuple[object, ...]]] = {}
    for path in sorted((directory / f"{topic}-0").glob("*.log")):
        data = path.read_bytes()
        found[path.name] = [
            describe(header, data[position : position + header.size_in_bytes])
            for position, header in iter_batch_headers(data, allow_partial_tail=False)
        ]
        index = path.with_suffix(".txnindex")
        found[index.name] = [(index.read_bytes() if index.exists() else b"",)]
    return found


def describe(header: BatchHeader, batch: bytes) -> tuple[object, ...]:
    now_ms = time.time_ns() // 1_000_000
    horizon_ms = header.delete_horizon_ms
    is_new = horizon_ms is not None and abs(horizon_ms - now_ms - DAY_MS) < DAY_MS // 2
    if is_new:
        header = header._replace(base_timestamp=0)
    if not header.is_compressed and not is_new:
        return (batch,)
    return (*header._replace(crc=0, batch_length=0), *iter_records(batch))


def register_topics(connect: str) -> None:
    """The controller makes the broker their leader, whose logs then have a high watermark."""
    zookeeper = KazooClient(connect)
    zookeeper.start(timeout=WAIT_SECONDS)
    try:
        for topic in TOPICS:
            value = {
                "version": 3,
                "topic_id": uuid_to_text(topic_id(topic)),
                "partitions": {"0": [1]},
                "adding_replicas": {},
                "removing_replicas": {},
            }
            zookeeper.create(f"/brokers/topics/{topic}", json.dumps(value).encode(), makepath=True)
    finally:
        zookeeper.stop()
        zookeeper.close()


def compact_with_kafka(directory: Path, place: Path, expected: dict[tuple[str, int], int]) -> None:
    (directory / META_PROPERTIES_FILE).unlink()
    with zookeeper_process(place) as connect:
        config = CONFIG | {"log.dirs": str(directory), "log.cleaner.backoff.ms": "100"}
        broker = ApacheKafkaProcess(place, connect, config)
        register_topics(connect)
        broker.start()
        try:
            until(
                lambda: (
                    read_offsets(Files(), str(directory / "cleaner-offset-checkpoint")) == expected
                ),
                lambda: broker.log_text[-2000:],
            )
            broker.stop()
        finally:
            broker.kill()


@pytest.mark.parametrize("seed", [1])
def test_both_keep_the_same(tmp_path: Path, seed: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    write_logs(ours, random.Random(seed), now_ms)
    shutil.copytree(ours, theirs)
    before = {topic: contents(ours, topic) for topic in TOPICS}
    with opened(ours, now_ms) as manager:
        forget_old_producers(manager, now_ms)
        while clean(manager, now_ms) is not None:
            pass
        expected = {(log.topic, 0): log.first_dirty_offset or 0 for log in manager.logs()}
    compact_with_kafka(theirs, tmp_path / "kafka", expected)
    for topic in TOPICS:
        after = contents(ours, topic)
        assert after != before[topic]
        assert after == contents(theirs, topic), topic
        check_with_kafkas_tool(ours / f"{topic}-0")
    recover_here(theirs, now_ms)
    for topic in TOPICS:
        assert batches(theirs, topic) == batches(ours, topic), topic


def forget_old_producers(manager: LogManager, now_ms: int) -> None:
    """As Apache Kafka does when it loads a log: ours keeps them a while longer after a start."""
    for log in manager.logs():
        for passed_ms in (0, KEPT_AFTER_START_MS):
            producers = log.producers.known
            sum(producers.expire(now_ms + passed_ms, now_ms, PRODUCER_ID_EXPIRATION_MS))


def batches(directory: Path, topic: str) -> dict[str, list[tuple[object, ...]]]:
    """Without the aborted transactions, of which no data is left to find them again."""
    found = contents(directory, topic)
    return {name: values for name, values in found.items() if name.endswith(".log")}


def recover_here(directory: Path, now_ms: int) -> None:
    """What Apache Kafka has compacted, as after a crash: every segment is read again."""
    for name in (META_PROPERTIES_FILE, CLEAN_SHUTDOWN_FILE, RECOVERY_POINT_FILE):
        (directory / name).unlink()
    with opened(directory, now_ms) as manager:
        assert clean(manager, now_ms) is None


def check_with_kafkas_tool(directory: Path) -> None:
    files = [str(path) for path in directory.iterdir() if path.suffix in SUFFIXES]
    output = kafka_tool(
        "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files)
    )
    assert output.count("| offset: ") > 20
    for complaint in COMPLAINTS:
        assert complaint not in output, output[-3000:]
