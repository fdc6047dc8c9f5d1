"""A topic with very many remote segments, which are described and not written: `python -m
benchmarks.described_tier`.

Each segment has 1 GB, and the metadata of a finished copy; a thousand of them are a terabyte of
history. A broker that has lost the topic's disk begins behind them, so that it reads all metadata
first. The figures, by the number of segments:

- seconds from the command to the answer that says where the topic ends,
- memory (PSS) of the broker then,
- milliseconds of ListOffsets by time, at a random segment: the median and the longest,
- the number of times that the broker's loop was held for 10 ms or more, until then and in ten more
  seconds, in which the expiry task looks at all segments ten times,
- microseconds of the look-up in memory alone, in this process.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from struct import Struct
from types import SimpleNamespace
from typing import Any, cast

from benchmarks.brokers import PyBroker, free_ports
from benchmarks.machine import memory
from benchmarks.scrape import scrape, stalls
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.protocol.topics import REMOTE_LOG_METADATA_TOPIC
from pybroker_kafka.replication.remote import reading
from pybroker_kafka.storage.producer_snapshot import encode_snapshot
from pybroker_kafka.storage.remote.metadata_cache import RemoteLogMetadataCache
from pybroker_kafka.storage.remote.metadata_records import record_value
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from pybroker_kafka.storage.remote.storage_manager import (
    IndexType,
    LogSegmentData,
    RemoteResourceNotFoundError,
)
from tests.support.patience import until
from tests.support.processes import ROOT
from tests.support.wire import Topic, WireClient
from tests.wire.test_offsets import LATEST, list_offsets

STORE = "python:benchmarks.described_tier.DescribedStore"
SEGMENT_BYTES = 1_000_000_000
SEGMENT_RECORDS = 1_000_000
SEGMENT_MS = 60_000
FIRST_MS = 1_700_000_000_000
LOOK_UPS = 300
LOOKING_SECONDS = 10.0
BATCH_RECORDS = 500
START_SECONDS = 300.0
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
Records = list[RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate]


def newest_ms(number: int) -> int:
    """The timestamp of the first record of a segment, the newest one there."""
    return FIRST_MS + SEGMENT_MS * number


class DescribedStore:
    """A storage manager: each segment begins with a batch of one record; there is no more."""

    def __init__(self, _configs: Mapping[str, str]) -> None:
        pass

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        return None

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        record = SimpleRecord(metadata.max_timestamp_ms, None, b"x" * 100)
        batch = bytes(build_batch([record], base_offset=metadata.start_offset))
        return batch[start:end].ljust(end - start, b"\0")

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        match index_type:
            case IndexType.OFFSET:
                return _OFFSET_ENTRY.pack(0, 0)
            case IndexType.TIMESTAMP:
                return _TIME_ENTRY.pack(metadata.max_timestamp_ms, 0)
            case IndexType.PRODUCER_SNAPSHOT:
                return encode_snapshot([])
            case IndexType.LEADER_EPOCH:
                return b"0\n1\n0 0\n"
        raise RemoteResourceNotFoundError(index_type.value)

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        pass

    def close(self) -> None:
        pass


def described(partition: TopicIdPartition, count: int) -> Records:
    """The records of `count` finished copies, one behind the other."""
    records: Records = []
    for number in range(count):
        first = number * SEGMENT_RECORDS
        segment_id = RemoteLogSegmentId(partition, number.to_bytes(16, "big"))
        last = first + SEGMENT_RECORDS - 1
        records.append(
            RemoteLogSegmentMetadata(
                segment_id, first, last, newest_ms(number), 1, 0, SEGMENT_BYTES, ((0, first),)
            )
        )
        state = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
        records.append(RemoteLogSegmentMetadataUpdate(segment_id, 0, None, state, 1))
    return records


class Measured(PyBroker):
    """One broker with the store of described segments."""

    environment = {"PYTHONPATH": str(ROOT)}

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._metrics_port = free_ports(1)
        self.options = ("--metrics-port", str(self._metrics_port))
        self.extra = {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": STORE,
            "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "remote.log.manager.task.interval.ms": "1000",
        }

    def stalls(self) -> float:
        return stalls(scrape(self._metrics_port))


def describe(cluster: Measured, count: int) -> Topic:
    """A tiered topic whose metadata has so many segments."""
    with WireClient(cluster.bootstrap) as kafka:
        configs = {"remote.storage.enable": "true", "retention.ms": "-1"}
        topic: Topic = kafka.configured_topic(configs)
        until(lambda: list_offsets(kafka, 9, REMOTE_LOG_METADATA_TOPIC, LATEST).error_code == 0)
        records = described(TopicIdPartition(topic.id, topic.name, 0), count)
        for start in range(0, len(records), BATCH_RECORDS):
            some = records[start : start + BATCH_RECORDS]
            values = [SimpleRecord(FIRST_MS, None, record_value(one)) for one in some]
            kafka.produce(REMOTE_LOG_METADATA_TOPIC, bytes(build_batch(values)))
    return topic


def in_memory_us(count: int) -> float:
    """The median of look-ups by time among so many segments."""
    partition = TopicIdPartition(bytes(16), "t", 0)
    cache = RemoteLogMetadataCache()
    for record in described(partition, count):
        assert cache.apply(record) is None
    epochs = SimpleNamespace(entries=[(0, 0)], epoch_for_offset=lambda _: 0)
    log: Any = SimpleNamespace(leader_epochs=epochs, log_end_offset=count * SEGMENT_RECORDS + 1)
    known: Any = SimpleNamespace(segments=lambda _, epoch: cache.segments_of_epoch(epoch))
    took = []
    for _ in range(LOOK_UPS):
        timestamp = newest_ms(random.randrange(count))
        began = time.perf_counter()
        found = reading.segment_by_time(log, partition, known, timestamp, 0)
        took.append(time.perf_counter() - began)
        assert found is not None
        assert found.max_timestamp_ms == timestamp
    return 1e6 * statistics.median(took)


def measure(directory: Path, count: int) -> str:
    cluster = Measured(directory)
    cluster.start()
    try:
        topic = describe(cluster, count)
        (data,) = cluster.data_directories
        cluster.stop()
        shutil.rmtree(data / f"{topic.name}-0")
        began = time.monotonic()
        cluster.start()
        with WireClient(cluster.bootstrap) as kafka:
            end = count * SEGMENT_RECORDS
            until(
                lambda: list_offsets(kafka, 9, topic.name, LATEST).offset == end,
                lambda: list_offsets(kafka, 9, topic.name, LATEST),
                seconds=START_SECONDS,
            )
            seconds = time.monotonic() - began
            megabytes = memory(cluster.broker_pids).pss_mb
            at_start = cluster.stalls()
            took_ms = []
            for _ in range(LOOK_UPS if count else 0):
                number = random.randrange(count)
                begun = time.perf_counter()
                answer = list_offsets(kafka, 9, topic.name, newest_ms(number))
                took_ms.append(1000 * (time.perf_counter() - begun))
                assert answer.offset == number * SEGMENT_RECORDS, answer
            time.sleep(LOOKING_SECONDS)
            later = cluster.stalls() - at_start
    finally:
        cluster.discard()
    line = f"{count:8} segments: {seconds:6.1f} s to start, {megabytes:6.0f} MB"
    if took_ms:
        line += f", ListOffsets by time {statistics.median(took_ms):.1f} ms"
        line += f" (at most {max(took_ms):.1f}), in memory {in_memory_us(count):.0f} us"
    return f"{line}, {at_start:.0f} stalls at the start and {later:.0f} later"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("counts", type=int, nargs="*", default=[0, 1000, 10_000])
    for count in cast(list[int], parser.parse_args().counts):
        with tempfile.TemporaryDirectory() as directory:
            print(measure(Path(directory), count), flush=True)


if __name__ == "__main__":
    main()
