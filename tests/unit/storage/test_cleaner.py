"""Compaction rule by rule, on real files: what stays of which batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.records.batch import (
    Compression,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
)
from pybroker_kafka.protocol.records.builder import build_batch, build_end_txn_marker
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.cleaner.manager import CleanerSettings, consider
from tests.support.appends import append_as_leader
from tests.support.cleaning import (
    batches_of,
    clean,
)
from tests.unit.storage.compacted import Compacted, crc_of_all
from tests.unit.storage.helpers import config_of


@pytest.fixture
def compacted(tmp_path: Path) -> Compacted:
    return Compacted(tmp_path)


def test_the_last_record_of_each_key_stays_at_its_offset(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("b", "2"), ("a", "3")])
    compacted.put([("c", "4"), ("b", "5")])
    compacted.roll()
    compacted.put([("a", "6")])  # the active segment: neither cleaned nor asked
    assert compacted.clean()
    assert compacted.pairs == [(2, "a", "3"), (3, "c", "4"), (4, "b", "5"), (5, "a", "6")]
    assert compacted.log.first_dirty_offset == 5
    compacted.roll()
    assert compacted.clean()
    assert [offset for offset, _, _ in compacted.pairs] == [3, 4, 5]


@pytest.mark.parametrize("codec", list(Compression))
def test_batches_keep_codec_offsets_timestamps_and_headers(
    compacted: Compacted, codec: Compression
) -> None:
    compacted.put([("a", "old"), ("b", "x" * 300), ("a", "y" * 200), ("c", "z")], codec=codec)
    compacted.roll()
    before = {record.offset: record for _, batch in batches_of(compacted.log) for record in batch}
    assert compacted.clean()
    ((header, records),) = batches_of(compacted.log)
    assert header.compression is codec
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 3, 3)
    assert [before[record.offset] for record in records] == records
    assert [record.offset for record in records] == [1, 2, 3]
    assert header.base_timestamp == 1001
    assert header.max_timestamp == 1003


def test_a_batch_that_stays_whole_is_copied(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("b", "2")], codec=Compression.GZIP)
    segment = compacted.log.segments.active
    before = segment.log_file.read_at(segment.size, 0)
    compacted.put([("c", "1"), ("c", "2")])
    compacted.roll()
    compacted.clean()
    assert compacted.log.segments.first.log_file.read_at(len(before), 0) == before


def test_log_append_time_stays(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, message_timestamp_type="LogAppendTime")
    append_as_leader(
        compacted.log,
        build_batch([SimpleRecord(1, b"a", b"1"), SimpleRecord(2, b"a", b"2")]),
        leader_epoch=0,
        now_ms=777,
    )
    compacted.settle()
    compacted.roll()
    compacted.clean()
    ((header, records),) = batches_of(compacted.log)
    assert header.attributes & 8
    assert (header.base_timestamp, header.max_timestamp) == (777, 777)
    assert [(record.offset, record.timestamp) for record in records] == [(1, 777)]


def test_small_segments_become_one(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, segment_bytes=1000)
    for number in range(12):
        compacted.put([("k", "v" * 50)], timestamp=1000 + number)
        compacted.roll()
    assert len(compacted.log.segments) == 13
    assert compacted.clean()
    # 12 segments of about 125 bytes, 8 fit into 1000 bytes.
    assert len(compacted.log.segments) == 3
    assert [offset for offset, _, _ in compacted.pairs] == [11]
    assert compacted.log.segments.base_offsets == [0, 8, 12]
    assert compacted.log.segments.first.size == 0
    compacted.reopen()
    assert [offset for offset, _, _ in compacted.pairs] == [11]


def test_records_without_a_key_go(compacted: Compacted) -> None:
    """They are from before the topic was compacted."""
    compacted.log.set_config(config_of(cleanup_policy="delete"))
    compacted.put([(None, "1"), ("a", "2")])
    compacted.log.set_config(compacted.config)
    compacted.roll()
    stats = clean(compacted.manager)
    assert stats is not None
    assert stats.invalid_messages == 1
    assert compacted.pairs == [(1, "a", "2")]


def test_a_tombstone_gets_a_horizon_and_then_goes(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, delete_retention_ms=500)
    compacted.put([("a", "1"), ("b", "2")])
    compacted.put([("a", None), ("c", "3")])
    compacted.roll()
    assert compacted.clean(now_ms=2000)
    assert compacted.pairs == [(1, "b", "2"), (2, "a", None), (3, "c", "3")]
    (plain, _), (header, records) = batches_of(compacted.log)
    assert not plain.has_delete_horizon
    assert header.delete_horizon_ms == 2500
    assert header.base_timestamp == 2500
    assert [record.timestamp for record in records] == [1000, 1001]
    assert header.max_timestamp == 1001

    def clean_again(now_ms: int) -> list[int]:
        compacted.put([("z", "-")])
        compacted.roll()
        assert compacted.clean(now_ms)
        return [offset for offset, key, _ in compacted.pairs if key != "z"]

    assert clean_again(2499) == [1, 2, 3]
    assert batches_of(compacted.log)[1][0].delete_horizon_ms == 2500  # set once
    assert clean_again(2500) == [1, 3]
    header = batches_of(compacted.log)[1][0]
    assert header.delete_horizon_ms == 2500
    assert crc_of_all(compacted.log)


def test_aborted_data_goes_at_once_and_its_marker_later(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, delete_retention_ms=500)
    compacted.put([("a", "kept")])
    compacted.put([("a", "aborted"), ("b", "aborted")], producer=(7, 0, 0), transactional=True)
    compacted.marker(7, ControlRecordType.ABORT)
    compacted.put([("c", "1")], producer=(7, 0, 2), transactional=True)
    compacted.marker(7, ControlRecordType.COMMIT)
    compacted.roll()
    assert compacted.log.segments.first.transaction_index.entries
    assert compacted.clean(2000)
    assert compacted.pairs == [(0, "a", "kept"), (4, "c", "1")]
    # The aborted batch was met in this pass, so its marker and its index entry stay.
    assert compacted.offsets == [0, 3, 4, 5]
    assert len(compacted.log.segments.first.transaction_index.entries) == 1
    compacted.put([("z", "1")])
    compacted.roll()
    assert compacted.clean(3000)
    # No batch is left: the marker may go some day, which is noted now.
    assert compacted.offsets == [0, 3, 4, 5, 6]
    assert batches_of(compacted.log)[1][0].delete_horizon_ms == 3500
    assert not compacted.log.segments.first.transaction_index.entries
    compacted.put([("z", "2")])
    compacted.roll()
    assert compacted.clean(3500)
    assert compacted.offsets == [0, 4, 5, 7]


def test_the_last_batch_of_a_producer_stays_empty(compacted: Compacted) -> None:
    compacted.put([("a", "1")], producer=(7, 0, 0))
    compacted.put([("a", "2"), ("b", "2")], producer=(7, 0, 1))
    compacted.put([("a", "3"), ("b", "3")])
    compacted.roll()
    assert compacted.clean()
    headers = [header for header, _ in batches_of(compacted.log)]
    assert [(h.base_offset, h.last_offset, h.record_count) for h in headers] == [
        (1, 2, 0),
        (3, 4, 2),
    ]
    empty = headers[0]
    assert (empty.producer_id, empty.base_sequence, empty.last_sequence) == (7, 1, 2)
    assert empty.base_timestamp == -1
    # Also after the snapshots are lost the producer goes on, and its retry is known.
    compacted.manager.release()
    for path in (compacted.directory / "t-0").glob("*.snapshot"):
        path.unlink()
    compacted.open()
    assert compacted.put([("a", "2"), ("b", "2")], producer=(7, 0, 1)) == 1
    assert compacted.put([("q", "4")], producer=(7, 0, 3)) == 5


def test_the_last_marker_of_a_producer_stays_empty(tmp_path: Path) -> None:
    """It carries the epoch, which fences older producers."""
    compacted = Compacted(tmp_path, delete_retention_ms=0)
    compacted.put([("a", "1")], producer=(7, 0, 0), transactional=True)
    batch = build_end_txn_marker(
        EndTxnMarker(ControlRecordType.ABORT, 0), timestamp=1, producer_id=7, producer_epoch=1
    )
    compacted.append(batch, AppendOrigin.COORDINATOR)
    for number in range(4):
        compacted.put([("z", str(number))])
        compacted.roll()
        assert compacted.clean(2000 + number)
    first = batches_of(compacted.log)[0][0]
    assert (first.base_offset, first.is_control, first.record_count) == (1, True, 0)
    assert (first.producer_id, first.producer_epoch) == (7, 1)


def test_an_abort_marked_in_the_active_segment_is_known(compacted: Compacted) -> None:
    compacted.put([("a", "kept")])
    compacted.put([("a", "aborted")], producer=(7, 0, 0), transactional=True)
    compacted.roll()
    compacted.marker(7, ControlRecordType.ABORT)
    assert compacted.clean()
    assert compacted.pairs == [(0, "a", "kept")]


def test_an_open_transaction_and_the_high_watermark_bound_it(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    compacted.put([("b", "1")], producer=(7, 0, 0), transactional=True)
    compacted.roll()
    compacted.put([("a", "3")])
    compacted.roll()
    assert compacted.clean()
    assert compacted.pairs == [(1, "a", "2"), (2, "b", "1"), (3, "a", "3")]
    assert not compacted.clean()
    compacted.log.high_watermark = 2
    compacted.marker(7, ControlRecordType.COMMIT)
    compacted.log.high_watermark = 3
    candidate = consider(compacted.log, 0)
    assert candidate is not None
    assert candidate.end_offset == 3


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY])
def test_old_formats(compacted: Compacted, magic: int, codec: Compression) -> None:
    compacted.append_old([("a", "1"), ("b", "2"), ("a", "3")], magic, codec, 0)
    compacted.append_old([("c", None), ("b", "4")], magic, codec, 3)
    compacted.append_old([("c", "5")], magic, codec, 5)
    compacted.roll()
    compacted.append_old([("d", None)], magic, codec, 6)
    compacted.roll()
    assert compacted.clean()
    assert compacted.pairs == [(2, "a", "3"), (4, "b", "4"), (5, "c", "5"), (6, "d", None)]
    magics = {header.magic for header, _ in batches_of(compacted.log)}
    assert magics == {magic}
    assert crc_of_all(compacted.log)


def test_old_tombstones_go_by_the_age_of_their_segment(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, delete_retention_ms=1000, segment_bytes=60)
    compacted.append_old([("a", None)], 1, Compression.NONE, 0)
    compacted.roll()
    compacted.append_old([("b", None)], 1, Compression.NONE, 1)
    compacted.roll()
    first, second = list(compacted.log.segments)[:2]
    files = compacted.manager.files
    files.set_modified_ms(first.log_file.path, 5_000)
    files.set_modified_ms(second.log_file.path, 9_000)
    assert compacted.clean()
    assert [offset for offset, _, _ in compacted.pairs] == [0, 1]
    compacted.append_old([("c", "1")], 1, Compression.NONE, 2)
    compacted.roll()
    assert compacted.clean()
    assert [offset for offset, _, _ in compacted.pairs] == [1, 2]


def test_a_full_map_ends_the_pass(compacted: Compacted) -> None:
    """The rest is for the next pass."""
    small = CleanerSettings(buffer_bytes=24 * 10, load_factor=0.9, io_buffer_bytes=100)
    for number in range(20):
        compacted.put([(str(number), "1"), (str(number), "2")])
        if number % 7 == 6:
            compacted.roll()
    compacted.roll()
    assert compacted.clean(settings=small)
    # Full with the first record of the ninth key, and then it takes not even that key again.
    assert compacted.log.first_dirty_offset == 17
    assert compacted.offsets == [*range(1, 17, 2), *range(16, 40)]
    assert compacted.clean(settings=small)
    assert compacted.log.first_dirty_offset == 33
    assert compacted.clean(settings=small)
    assert compacted.log.first_dirty_offset == 40
    assert compacted.offsets == list(range(1, 40, 2))
