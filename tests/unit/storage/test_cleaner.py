"""Compaction rule by rule, on real files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from protocol.errors import KafkaError
from protocol.records.batch import (
    Compression,
    ControlRecordType,
    EndTxnMarker,
    SimpleRecord,
    crc_is_valid,
    iter_batch_headers,
)
from protocol.records.builder import build_batch, build_end_txn_marker
from storage.append_info import AppendOrigin
from storage.checkpoints import CLEANER_FILE
from storage.cleaner.cleaner import CleaningAborted
from storage.cleaner.manager import CleanerManager, CleanerSettings, consider
from storage.log import Log
from storage.log_manager import LogManager
from tests.support.cleaning import (
    SETTINGS,
    batches_of,
    clean,
    no_pace,
    run_cleaning,
    surviving,
)
from tests.support.conversions import build_message_set
from tests.unit.storage.helpers import TOPIC_ID, config_of, manager_of

Pairs = Sequence[tuple[str | None, str | None]]


class Compacted:
    """One compacted log."""

    def __init__(self, directory: Path, **overrides: object) -> None:
        values = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.0"} | overrides
        self.directory = directory
        self.config = config_of(**values)
        self.epoch = 0
        self.open()

    def open(self, now_ms: int = 0) -> None:
        self.manager: LogManager = manager_of(self.directory, config=self.config, now_ms=now_ms)
        self.log: Log = self.manager.get_or_create_log("t", 0, TOPIC_ID, None, now_ms)

    def reopen(self, *, cleanly: bool = True, now_ms: int = 0) -> None:
        if cleanly:
            self.manager.clean_shutdown()
        else:
            self.manager.release()
        self.open(now_ms)
        self.settle()

    def put(
        self,
        pairs: Pairs,
        *,
        timestamp: int = 1000,
        codec: Compression = Compression.NONE,
        producer: tuple[int, int, int] = (-1, -1, -1),
        transactional: bool = False,
    ) -> int:
        """One batch; returns its first offset."""
        records = [
            SimpleRecord(
                timestamp + i,
                None if key is None else key.encode(),
                None if value is None else value.encode(),
                (("header", b"h"),) if i % 2 else (),
            )
            for i, (key, value) in enumerate(pairs)
        ]
        batch = build_batch(
            records,
            compression=codec,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=producer[2],
            is_transactional=transactional,
        )
        return self.append(batch)

    def append(self, batch: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> int:
        info = self.log.append_as_leader(batch, leader_epoch=self.epoch, now_ms=0, origin=origin)
        self.settle()
        return info.first_offset

    def marker(self, producer_id: int, kind: ControlRecordType, timestamp: int = 1000) -> int:
        batch = build_end_txn_marker(
            EndTxnMarker(kind, 0), timestamp=timestamp, producer_id=producer_id, producer_epoch=0
        )
        return self.append(batch, AppendOrigin.COORDINATOR)

    def append_old(self, pairs: Pairs, magic: int, codec: Compression, base: int) -> None:
        """As a replica of an old leader."""
        data = build_message_set(
            [SimpleRecord(1000, (k or "").encode(), v and v.encode()) for k, v in pairs],
            magic=magic,
            base_offset=base,
            compression=codec,
        )
        self.log.append_as_follower(data, now_ms=0)
        self.settle()

    def settle(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)

    def roll(self) -> None:
        self.log.roll(0)

    def clean(self, now_ms: int = 2000, settings: CleanerSettings = SETTINGS) -> bool:
        return clean(self.manager, now_ms, settings) is not None

    @property
    def pairs(self) -> list[tuple[int, str | None, str | None]]:
        return [
            (r.offset, r.key and r.key.decode(), r.value if r.value is None else r.value.decode())
            for r in surviving(self.log)
            if not r.attributes & 0x20
        ]

    @property
    def offsets(self) -> list[int]:
        return [record.offset for record in surviving(self.log)]


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
    compacted.log.append_as_leader(
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


def crc_of_all(log: Log) -> bool:
    for segment in log.segments:
        data = segment.log_file.read_at(segment.size, 0)
        for position, header in iter_batch_headers(data):
            if not crc_is_valid(data, position, header):
                return False
    return True


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


def test_the_dirtiest_log_is_first_and_a_clean_one_waits(tmp_path: Path) -> None:
    manager = manager_of(tmp_path, config=config_of(cleanup_policy="compact"))
    for partition, dirty in ((0, 1), (1, 3)):
        log = manager.get_or_create_log("t", partition, TOPIC_ID, None, 0)
        for count in (2, dirty):
            for _ in range(count):
                log.append_as_leader(
                    build_batch([SimpleRecord(1, b"%d" % log.log_end_offset, b"v")]),
                    leader_epoch=0,
                    now_ms=0,
                )
            log.roll(0)
        log.update_high_watermark(log.log_end_offset)
        log.first_dirty_offset = 2
    cleaners = CleanerManager(manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None
    assert cleaning.key == ("t", 1)
    assert cleaners.max_dirty_ratio == pytest.approx(0.6)
    # One third of the other is dirty; the default is a half. One is cleaned only once at a time.
    assert cleaners.choose(0, SETTINGS) is None
    run_cleaning(manager, cleaners, cleaning, 0)
    assert cleaning.log.first_dirty_offset == 5
    assert cleaners.choose(0, SETTINGS) is None
    manager.release()


def test_compaction_lags(tmp_path: Path) -> None:
    compacted = Compacted(
        tmp_path,
        min_compaction_lag_ms=100,
        max_compaction_lag_ms=1000,
        min_cleanable_dirty_ratio="1.0",
    )
    for timestamp in (1000, 1200, 1400):
        compacted.put([("a", "1")], timestamp=timestamp)
        compacted.roll()
    candidate = consider(compacted.log, 1300)
    assert candidate is not None
    assert (candidate.end_offset, candidate.delay_ms, candidate.is_due) == (2, 0, False)
    assert consider(compacted.log, 1050) is None
    candidate = consider(compacted.log, 2001)
    assert candidate is not None
    assert (candidate.end_offset, candidate.delay_ms, candidate.is_due) == (3, 1, True)
    assert compacted.clean(2001)
    assert compacted.offsets == [2]
    assert not compacted.clean(9000)


def test_a_topic_that_is_not_compacted_is_left_alone(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, cleanup_policy="delete")
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    assert not compacted.clean()


def test_compact_and_delete(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, cleanup_policy="compact,delete", retention_ms=1000)
    for timestamp in (1000, 2000):
        compacted.put([(f"k{timestamp}", "1")], timestamp=timestamp)
        compacted.roll()
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(2500, SETTINGS)
    assert cleaning is not None
    list(cleaners.retain(2500))
    assert compacted.log.log_start_offset == 0  # not while it is being cleaned
    cleaners.ended(cleaning)
    list(cleaners.retain(2500))
    assert compacted.log.log_start_offset == 1
    assert compacted.clean(2500)
    assert compacted.offsets == [1]


def test_the_checkpoint_lives_on(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path)
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    compacted.clean()
    compacted.reopen()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    assert compacted.log.first_dirty_offset == 2
    assert not compacted.clean()
    compacted.log.truncate_to(1, 0)
    assert compacted.log.first_dirty_offset == 1
    for job in compacted.manager.tick(0):
        job.run()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 1\n"
    # One that is behind the end of the log, as after a loss of data.
    compacted.log.first_dirty_offset = 99
    consider(compacted.log, 0)
    assert compacted.log.first_dirty_offset == 0


def test_gaps_are_no_loss_once_the_topic_is_compacted_no_more(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, segment_bytes=300)
    for number in range(6):
        compacted.put([("k", "v" * 100)], timestamp=1000 + number)
        compacted.put([(str(number), "v" * 100)], timestamp=1000 + number)
        compacted.put([("k", "v" * 100)], timestamp=1000 + number)
    compacted.roll()
    compacted.clean()
    for job in compacted.manager.upkeep.checkpoint_jobs(CLEANER_FILE):
        job.run()
    before = surviving(compacted.log)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n0\n")
    compacted.config = config_of(cleanup_policy="delete", segment_bytes=300)
    compacted.reopen(cleanly=False)
    assert surviving(compacted.log) == before


def test_a_damaged_batch_makes_the_partition_uncleanable(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    path = compacted.log.segments.first.log_file.path
    with open(path, "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"?")
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None
    with pytest.raises(KafkaError, match="wrong CRC"):
        run_cleaning(compacted.manager, cleaners, cleaning, 0)
    cleaners.failed(cleaning, "wrong CRC")
    home = str(compacted.directory)
    assert cleaners.uncleanable_count(home) == 1
    assert cleaners.uncleanable_bytes(home, 0) == compacted.log.segments.first.size
    assert cleaners.choose(0, SETTINGS) is None
    compacted.manager.delete_log("t", 0, 0)
    assert cleaners.choose(0, SETTINGS) is None
    assert cleaners.uncleanable_count(home) == 0


def test_appends_go_on_meanwhile(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None

    def append_and_roll(_: int) -> None:
        compacted.put([("a", "later")])
        compacted.roll()

    run_cleaning(compacted.manager, cleaners, cleaning, 0, pace=append_and_roll)
    assert compacted.log.log_end_offset > 4
    assert compacted.offsets == list(range(1, compacted.log.log_end_offset))


@pytest.mark.parametrize("what", ["truncate", "truncate and refill", "delete", "restart at"])
def test_a_truncated_or_deleted_log_is_not_touched(compacted: Compacted, what: str) -> None:
    compacted.put([("a", "1")])
    compacted.put([("a", "2")])
    compacted.roll()
    compacted.put([("a", "3")])
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None
    assert not cleaners.is_void(cleaning)
    log = compacted.log
    if what == "delete":
        compacted.manager.delete_log("t", 0, 0)
    elif what == "restart at":
        log.truncate_fully_and_start_at(50)
    else:
        log.truncate_to(1, 0)
        if what == "truncate and refill":
            compacted.put([("b", "2")])
            compacted.roll()
            compacted.put([("b", "3")])
    assert cleaners.is_void(cleaning)
    bases = log.segments.base_offsets
    if what != "delete":
        with pytest.raises((CleaningAborted, FileNotFoundError)):
            run_cleaning(compacted.manager, cleaners, cleaning, 0)
        assert log.segments.base_offsets == bases
    cleaners.ended(cleaning)
    assert not log.being_cleaned


def test_a_truncation_behind_the_cleaned_part_does_not_matter(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    compacted.put([("a", "3")])
    cleaners = CleanerManager(compacted.manager, 0)
    cleaning = cleaners.choose(0, SETTINGS)
    assert cleaning is not None
    compacted.log.truncate_to(2, 0)
    run_cleaning(compacted.manager, cleaners, cleaning, 0, no_pace)
    assert compacted.offsets == [1]


def test_readers_of_the_old_segment_read_on(compacted: Compacted) -> None:
    compacted.put([("a", "1"), ("a", "2")])
    compacted.roll()
    compacted.put([("b", "1")])
    held = compacted.log.read(0, 1 << 20, upper_bound_offset=2).records
    before = held.read()
    compacted.clean()
    for job in compacted.manager.tick(10_000_000):
        job.run()
    assert held.read() == before
    found = compacted.log.read(0, 1 << 20, upper_bound_offset=3)
    assert found.records.read() != before
    found = compacted.log.read(2, 1 << 20, upper_bound_offset=3)
    assert found.records.size


def test_look_ups_in_a_cleaned_segment(tmp_path: Path) -> None:
    compacted = Compacted(tmp_path, index_interval_bytes=50)
    for number in range(40):
        compacted.put([(f"k{number % 25}", f"v{number}")], timestamp=1000 + 10 * number)
    compacted.roll()
    compacted.clean()
    segment = compacted.log.segments.first
    assert segment.index_problem() is None
    assert segment.offset_index.entries > 10
    assert compacted.offsets == list(range(15, 40))
    for offset in range(15, 40):
        found = compacted.log.read(offset, 1, upper_bound_offset=40).records
        ((_, header),) = iter_batch_headers(found.read())
        assert header.base_offset == offset
    from storage.log_lookup import offset_for_timestamp

    found_time = offset_for_timestamp(compacted.log, 1205)
    assert found_time is not None
    assert (found_time.offset, found_time.timestamp) == (21, 1210)
    compacted.reopen()
    assert segment.index_problem() is None
