"""A log directory that Apache Kafka 3.9.1 wrote, byte for byte.

`tests/golden/kafka_log_dir` was written by a broker in ZooKeeper mode to which librdkafka had
produced: every codec, idempotent and transactional producers, commits and aborts, with
segment.bytes=6000 and index.interval.bytes=500; then the broker was stopped.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pybroker_kafka.protocol.records.batch import Compression, iter_batch_headers, read_records
from pybroker_kafka.protocol.uuids import uuid_to_text
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager
from pybroker_kafka.storage.producer_entry import ProducerEntry
from pybroker_kafka.storage.producer_snapshot import decode_snapshot
from tests.unit.storage.helpers import config_of

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka_log_dir"
PARTITION = "golden-0"
END = 278
CONFIG = config_of(segment_bytes=6000, index_interval_bytes=500)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    target = tmp_path / "logs"
    shutil.copytree(GOLDEN, target)
    return target


def opened(directory: Path) -> tuple[LogManager, Log]:
    # Before the records' producers would expire.
    manager = LogManager(
        [str(directory)], Files(), CONFIG, broker_id=1, cluster_id="lQyGzQ8kT7C1vMhCLNBbYw"
    )
    manager.load(0)
    log = manager.get_log("golden", 0)
    assert log is not None
    return manager, log


def contents(directory: Path, *suffixes: str) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted((directory / PARTITION).iterdir())
        if not suffixes or path.suffix in suffixes
    }


def whole(log: Log) -> bytes:
    return b"".join((segment.log_file.read_at(segment.size, 0)) for segment in log.segments)


def test_it_opens_as_it_was_closed(directory: Path) -> None:
    manager, log = opened(directory)
    assert manager.directories[0].cleanly_stopped
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (0, END, END)
    assert log.segments.base_offsets == [0, 144, 180]
    assert log.recovery_point == END
    assert log.last_stable_offset == END
    assert log.topic_id is not None
    assert uuid_to_text(log.topic_id) in (directory / PARTITION / "partition.metadata").read_text()
    assert log.leader_epochs.entries == [(0, 0)]
    values = [record.value for record in read_records(whole(log))]
    assert [value.split(b"-")[1] for value in values if value] == [
        b"%d" % number for number in range(270)
    ]
    codecs = {header.compression for _, header in iter_batch_headers(whole(log))}
    assert codecs == set(Compression)


def test_opened_and_closed_it_is_the_same(directory: Path) -> None:
    before = contents(directory)
    manager, _ = opened(directory)
    manager.clean_shutdown()
    assert contents(directory) == before
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert f"golden 0 {END}\n" in (directory / name).read_text()
    assert (directory / ".kafka_cleanshutdown").read_bytes() == (
        GOLDEN / ".kafka_cleanshutdown"
    ).read_bytes()


def test_indexes_and_snapshots_are_rebuilt_as_kafka_wrote_them(directory: Path) -> None:
    """From the log files alone."""
    for path in (directory / PARTITION).iterdir():
        if path.suffix != ".log" and path.name != "partition.metadata":
            path.unlink()
    for path in directory.glob("*"):
        if path.is_file() and path.name != "meta.properties":
            path.unlink()
    manager, log = opened(directory)
    assert log.log_end_offset == END
    assert log.leader_epochs.entries == [(0, 0)]
    manager.clean_shutdown()
    suffixes = (".index", ".timeindex", ".txnindex", ".log")
    assert contents(directory, *suffixes) == contents(GOLDEN, *suffixes)
    name = f"{END:020d}.snapshot"
    rebuilt = decode_snapshot((directory / PARTITION / name).read_bytes())
    golden = decode_snapshot((GOLDEN / PARTITION / name).read_bytes())

    def fields(entries: list[ProducerEntry]) -> set[tuple[object, ...]]:
        return {
            (
                e.producer_id,
                e.epoch,
                e.last_sequence,
                e.last_data_offset,
                e.last_offset_delta,
                e.last_timestamp,
                e.coordinator_epoch,
                e.current_txn_first_offset,
            )
            for e in entries
        }

    assert fields(list(rebuilt)) == fields(list(golden))


def test_aborted_transactions_are_known(directory: Path) -> None:
    _, log = opened(directory)
    found: set[int] = set()
    offset = 0
    while offset < END:
        read = log.read(offset, 1 << 20, upper_bound_offset=END, include_aborted=True)
        assert read.aborted_transactions is not None
        found |= {entry.last_offset for entry in read.aborted_transactions}
        offset = [header for _, header in iter_batch_headers(read.records.read())][-1].next_offset
    assert len(found) == 5
    headers = [header for _, header in iter_batch_headers(whole(log))]
    markers = {header.base_offset for header in headers if header.is_control}
    assert found < markers
    assert len(markers) == 8


def test_the_same_batches_make_the_same_files(tmp_path: Path) -> None:
    """Appended one by one, they are rolled and indexed where Kafka did."""
    golden = b"".join(contents(GOLDEN, ".log").values())
    manager = LogManager([str(tmp_path)], Files(), CONFIG, broker_id=1, cluster_id="c")
    manager.load(0)
    log = manager.get_or_create_log("golden", 0, None, None, 0)
    for position, header in iter_batch_headers(golden):
        log.append_as_follower(golden[position : position + header.size_in_bytes], now_ms=0)
    manager.clean_shutdown()
    suffixes = (".index", ".timeindex", ".txnindex", ".log")
    assert contents(tmp_path, *suffixes) == contents(GOLDEN, *suffixes)
