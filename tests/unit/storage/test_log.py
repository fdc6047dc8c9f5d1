"""Rolling, indexing, reading, flushing and truncating one log."""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import SimpleRecord, iter_batch_headers
from pybroker_kafka.storage.append_info import UnexpectedAppendOffset
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager
from pybroker_kafka.storage.retention import delete_segments_below_start
from tests.support.appends import append_as_leader
from tests.support.conversions import build_message_set
from tests.support.faulty_files import FaultyFiles
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, log_of

_INT64 = Struct(">q")
_INT32 = Struct(">i")
SIZE = len(batch_of(b"x" * 20))


def append(log: Log, count: int = 1, *, timestamp: int = 1000, now_ms: int = 0) -> None:
    for _ in range(count):
        append_as_leader(
            log, batch_of(b"x" * 20, timestamp=timestamp), leader_epoch=0, now_ms=now_ms
        )


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def follower_batch(offset: int, epoch: int, *values: bytes, timestamp: int = 1000) -> bytearray:
    batch = batch_of(*values, timestamp=timestamp)
    _INT64.pack_into(batch, 0, offset)
    _INT32.pack_into(batch, 12, epoch)
    return batch


# Rolling


def test_rolls_when_the_next_batch_does_not_fit(tmp_path: Path) -> None:
    log = log_of(tmp_path, segment_bytes=3 * SIZE)
    append(log, 7)
    assert bases(log) == [0, 3, 6]
    assert {p.name for p in (tmp_path / "t-0").glob("*.snapshot")} == {
        f"{3:020d}.snapshot",
        f"{6:020d}.snapshot",
    }


def test_rolls_by_the_timestamps_of_messages(tmp_path: Path) -> None:
    log = log_of(tmp_path, segment_ms=1000)
    append(log, timestamp=5000)
    append(log, timestamp=6000, now_ms=10**9)  # the clock does not matter
    append(log, timestamp=6001)
    assert bases(log) == [0, 2]


def test_rolls_by_the_clock_without_timestamps(tmp_path: Path) -> None:
    log = log_of(tmp_path, segment_ms=1000)
    append(log, timestamp=-1, now_ms=500)
    append(log, timestamp=-1, now_ms=1000)
    append(log, timestamp=-1, now_ms=1001)
    assert bases(log) == [0, 2]


def test_jitter_shortens_segment_ms(tmp_path: Path) -> None:
    asked: list[int] = []

    def jitter(bound: int) -> int:
        asked.append(bound)
        return 400

    manager = LogManager(
        [str(tmp_path)],
        Files(),
        config_of(segment_ms=1000, segment_jitter_ms=500),
        broker_id=1,
        cluster_id="c",
        random_below=jitter,
    )
    manager.load(0)
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    log.roll(0)  # an empty segment is replaced
    append(log, timestamp=0)
    append(log, timestamp=600)
    append(log, timestamp=601)
    assert bases(log) == [0, 2]
    assert asked == [500, 500]


def test_compacted_logs_roll_for_max_compaction_lag(tmp_path: Path) -> None:
    log = log_of(tmp_path, cleanup_policy="compact", max_compaction_lag_ms=50)
    append(log, timestamp=0)
    append(log, timestamp=51)
    assert bases(log) == [0, 1]


def test_rolls_when_an_index_is_full(tmp_path: Path) -> None:
    log = log_of(tmp_path, index_interval_bytes=1, segment_index_bytes=36)
    append(log, 10)  # 4 offset entries fit; the first batch of a segment has none
    assert bases(log) == [0, 5]
    log = log_of(tmp_path / "times", index_interval_bytes=1, segment_index_bytes=36)
    for number in range(8):  # 3 time entries, one of them kept for closing
        append(log, timestamp=1000 + number)
    assert bases(log) == [0, 3, 6]


def test_rolls_when_a_relative_offset_overflows(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.append_as_follower(follower_batch(0, 0, b"a"), now_ms=0)
    log.append_as_follower(follower_batch(2**31 - 1, 0, b"a"), now_ms=0)
    assert bases(log) == [0]
    log.append_as_follower(follower_batch(2**31, 0, b"a"), now_ms=0)
    assert bases(log) == [0, 2**31]


def test_a_rolled_segment_is_trimmed_and_its_time_index_closed(tmp_path: Path) -> None:
    log = log_of(tmp_path, preallocate="true", segment_bytes=100_000)
    partition = tmp_path / "t-0"
    first = partition / f"{0:020d}.log"
    assert first.stat().st_size == 100_000
    append(log, 3, timestamp=7)
    log.roll(0)
    assert first.stat().st_size == 3 * SIZE
    assert first.with_suffix(".index").stat().st_size == 0
    assert first.with_suffix(".timeindex").read_bytes() == bytes.fromhex("000000000000000700000000")
    assert first.with_suffix(".index").exists()


def test_stale_files_of_a_new_segment_are_dropped(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    append(log, 2)
    for suffix in ("log", "index", "timeindex", "txnindex"):
        (tmp_path / "t-0" / f"{2:020d}.{suffix}").write_bytes(b"stale" * 24)
    log.roll(0)
    append(log)
    active = log.segments.active
    assert (active.size, active.offset_index.entries, active.time_index.entries) == (SIZE, 0, 0)
    assert active.transaction_index.entries == []


# The offset index


def test_index_entries_lie_an_interval_apart(tmp_path: Path) -> None:
    log = log_of(tmp_path, index_interval_bytes=2 * SIZE)
    append(log, 10)
    index = log.segments.active.offset_index
    entries = [index.entry(number) for number in range(index.entries)]
    assert entries == [(3, 3 * SIZE), (6, 6 * SIZE), (9, 9 * SIZE)]


def test_a_followers_batches_are_indexed_one_by_one(tmp_path: Path) -> None:
    log = log_of(tmp_path, index_interval_bytes=2 * SIZE)
    data = b"".join(follower_batch(offset, 0, b"x" * 20) for offset in range(10))
    log.append_as_follower(data, now_ms=0)
    assert log.segments.active.offset_index.entries == 3


# Reading


def test_reading_stops_at_the_upper_bound_and_the_segments_end(tmp_path: Path) -> None:
    log = log_of(tmp_path, segment_bytes=3 * SIZE)
    append(log, 7)

    def read(offset: int, max_bytes: int, upper: int, *, min_one: bool = True) -> int:
        found = log.read(offset, max_bytes, upper_bound_offset=upper, min_one_batch=min_one)
        return len(found.records)

    assert read(0, 10**6, 7) == 3 * SIZE
    assert read(2, 10**6, 7) == SIZE
    assert read(3, 10**6, 5) == 2 * SIZE
    assert read(6, 10**6, 6) == 0
    assert read(7, 10**6, 7) == 0
    assert read(0, 1, 7) == SIZE
    assert read(0, 1, 7, min_one=False) == 1
    assert read(0, 0, 7, min_one=False) == 0
    assert read(0, SIZE + 5, 7) == SIZE + 5  # a partial batch at the end


def test_a_cut_first_batch_is_told(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    append(log, 2)
    cut = log.read(0, SIZE - 1, upper_bound_offset=2, min_one_batch=False)
    assert cut.first_batch_incomplete
    whole = log.read(0, SIZE, upper_bound_offset=2, min_one_batch=False)
    assert not whole.first_batch_incomplete


@pytest.mark.parametrize("offset", [-1, 0, 1, 5])
def test_out_of_range(tmp_path: Path, offset: int) -> None:
    log = log_of(tmp_path)
    append(log, 4)
    log.update_high_watermark(4)
    log.maybe_increment_log_start_offset(2)
    with pytest.raises(KafkaError) as caught:
        log.read(offset, 100, upper_bound_offset=4)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_slice_outlives_its_segment(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    append(log, 3)
    records = log.read(0, 10**6, upper_bound_offset=3).records
    log.truncate_fully_and_start_at(100)
    for path in log.local.take_deleted_files():
        os.unlink(path)
    log.release()
    assert len(list(iter_batch_headers(records.read()))) == 3
    assert os.fstat(records.fileno()).st_size == 3 * SIZE


def test_reading_the_end_costs_no_system_call(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = log_of(tmp_path, files=files)
    append(log, 200)
    files.fail("read", times=10**6)
    assert not log.read(200, 10**6, upper_bound_offset=200).records
    assert len(log.read(199, 10**6, upper_bound_offset=200).records) == SIZE
    assert len(log.read(150, 10**6, upper_bound_offset=190).records) == 40 * SIZE


# Time


def test_look_up_by_time_with_messages_out_of_order(tmp_path: Path) -> None:
    log = log_of(tmp_path, segment_bytes=3 * SIZE, index_interval_bytes=1)
    for timestamp in (10, 50, 30, 20, 60, 40, 60):
        append(log, timestamp=timestamp)

    def at(timestamp: int) -> tuple[int, int] | None:
        found = log.offset_for_timestamp(timestamp)
        return None if found is None else found[:2]

    assert at(0) == (10, 0)
    assert at(11) == (50, 1)
    assert at(51) == (60, 4)
    assert at(61) is None
    found = log.offset_of_max_timestamp()
    assert found == (60, 4, 0)


def test_look_up_by_time_inside_of_a_batch(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    append_as_leader(
        log, batch_of(b"a", b"b", b"c", timestamps=[5, 9, 7]), leader_epoch=3, now_ms=0
    )
    assert log.offset_for_timestamp(6) == (9, 1, 3)
    assert log.offset_of_max_timestamp() == (9, 1, 3)


def test_an_empty_log_has_no_times(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_max_timestamp() is None


def test_legacy_offsets(tmp_path: Path) -> None:
    log = log_of(tmp_path, segment_bytes=3 * SIZE)
    append(log, 7)
    for segment, seconds in zip(log.segments, (10, 20, 30), strict=True):
        os.utime(segment.log_file.path, (seconds, seconds))
    assert log.legacy_segment_offsets_before(-1, 10, 40_000) == [7, 6, 3, 0]
    assert log.legacy_segment_offsets_before(-1, 2, 40_000) == [7, 6]
    assert log.legacy_segment_offsets_before(-2, 10, 40_000) == [0]
    assert log.legacy_segment_offsets_before(20_000, 10, 40_000) == [3, 0]
    assert log.legacy_segment_offsets_before(9_999, 10, 40_000) == []


# Flushing


def test_flush_messages_and_flush_ms(tmp_path: Path) -> None:
    log = log_of(tmp_path, flush_messages=3)
    batch = batch_of(b"a", b"b")
    assert not append_as_leader(log, batch, leader_epoch=0, now_ms=0).flush_needed
    assert append_as_leader(log, batch_of(b"a"), leader_epoch=0, now_ms=0).flush_needed
    log.flush()
    assert log.recovery_point == 3
    assert not append_as_leader(log, batch_of(b"a"), leader_epoch=0, now_ms=0).flush_needed
    log = log_of(tmp_path / "ms", flush_ms=100)
    assert not append_as_leader(log, batch_of(b"a"), leader_epoch=0, now_ms=50).flush_needed
    assert not log.flush_is_due(149)
    assert log.flush_is_due(150)
    log.flush()
    assert not log.flush_is_due(10**6)


def test_flush_up_to_an_offset(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = log_of(tmp_path, files=files, segment_bytes=3 * SIZE)
    append(log, 7)
    first, second, third = (segment.log_file.path for segment in log.segments)
    assert log.flush_is_due(0)  # what was rolled waits for its flush
    log.flush(log.local.flush_due_offset)
    assert log.recovery_point == 6
    assert [files.unsynced_bytes(p) for p in (first, second, third)] == [0, 0, SIZE]
    assert not log.flush_is_due(0)
    log.flush()
    assert files.unsynced_bytes(third) == 0


# Followers


def test_a_follower_takes_offsets_and_epochs_as_given(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    data = follower_batch(5, 2, b"a", b"b") + follower_batch(9, 3, b"c", timestamp=77)
    info = log.append_as_follower(data, now_ms=0)
    assert (info.first_offset, info.last_offset, info.shallow_count) == (5, 9, 2)
    assert (info.max_timestamp, info.offset_of_max_timestamp) == (1000, 6)
    assert log.leader_epochs.entries == [(2, 5), (3, 9)]
    assert log.end_offset_for_epoch(2) == (2, 9)
    assert log.end_offset_for_epoch(3) == (3, 10)
    assert (
        bytes(log.read(9, 1000, upper_bound_offset=10).records.read())
        == data[-len(data) // 2 :][-len(follower_batch(9, 3, b"c")) :]
    )


def test_a_follower_splits_what_does_not_fit_in_a_segment(tmp_path: Path) -> None:
    """The leader's segments may be larger: segment.bytes was lowered since."""
    log = log_of(tmp_path, segment_bytes=3 * SIZE)
    data = b"".join(follower_batch(offset, 0, b"x" * 20) for offset in range(8))
    data += follower_batch(8, 0, b"y" * 500) + follower_batch(9, 0, b"x" * 20)
    info = log.append_as_follower(data, now_ms=0)
    assert (info.first_offset, info.last_offset, info.size_bytes) == (0, 9, len(data))
    assert info.rolled
    assert bases(log) == [0, 3, 6, 8, 9]
    found = b""
    while (offset := len(list(iter_batch_headers(found)))) < 10:
        found += log.read(offset, 10**6, upper_bound_offset=10).records.read()
    assert found == data


def test_a_follower_refuses_what_is_below_its_end(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.append_as_follower(follower_batch(0, 0, b"a", b"b"), now_ms=0)
    with pytest.raises(UnexpectedAppendOffset) as caught:
        log.append_as_follower(follower_batch(1, 0, b"a", b"b", b"c"), now_ms=0)
    assert (caught.value.first_offset, caught.value.last_offset) == (1, 3)
    damaged = follower_batch(2, 0, b"a")
    damaged[-3] ^= 1
    with pytest.raises(KafkaError) as corrupt:
        log.append_as_follower(damaged, now_ms=0)
    assert corrupt.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 2


def test_old_formats_clear_a_followers_epochs(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.append_as_follower(follower_batch(0, 4, b"a"), now_ms=0)
    message_set = bytearray(build_message_set([SimpleRecord(5, b"k", b"v")], magic=1))
    _INT64.pack_into(message_set, 0, 1)
    log.append_as_follower(message_set, now_ms=0)
    assert (log.leader_epochs.entries, log.log_end_offset) == ([], 2)


# Truncating


def test_truncate_to_an_offset_inside_of_a_batch(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    append_as_leader(log, batch_of(b"a", b"b"), leader_epoch=0, now_ms=0)
    append_as_leader(log, batch_of(b"c", b"d"), leader_epoch=1, now_ms=0)
    log.update_high_watermark(4)
    assert log.truncate_to(3)
    assert (log.log_end_offset, log.high_watermark) == (2, 2)
    assert (
        len(list(iter_batch_headers(log.read(0, 1000, upper_bound_offset=2).records.read()))) == 1
    )
    assert log.leader_epochs.entries == [(0, 0)]
    assert not log.truncate_to(3)


def test_truncate_below_the_first_segment_starts_anew(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    log.truncate_fully_and_start_at(10)
    append(log, 2)
    assert log.truncate_to(5)
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([5], 5, 5)


def test_truncated_files_wait_for_their_deletion(tmp_path: Path) -> None:
    log = log_of(tmp_path, segment_bytes=3 * SIZE)
    append(log, 7)
    log.truncate_to(2)
    deleted = log.local.take_deleted_files()
    assert {os.path.basename(path) for path in deleted} == {
        f"{base:020d}{suffix}.deleted"
        for base in (3, 6)
        for suffix in (".log", ".index", ".timeindex")
    }
    assert all(os.path.exists(path) for path in deleted)
    append(log, 2)
    assert log.log_end_offset == 4


def test_delete_records(tmp_path: Path) -> None:
    log = log_of(tmp_path, segment_bytes=3 * SIZE)
    append(log, 7)
    log.update_high_watermark(5)
    with pytest.raises(KafkaError) as caught:
        log.maybe_increment_log_start_offset(6)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.maybe_increment_log_start_offset(4)
    assert not log.maybe_increment_log_start_offset(3)
    assert log.leader_epochs.entries == [(0, 4)]
    assert delete_segments_below_start(log, 0) == 1
    assert bases(log) == [3, 6]
    assert log.last_stable_offset == 5


def test_a_flush_of_what_was_truncated_before_it_began_says_nothing(tmp_path: Path) -> None:
    log = log_of(tmp_path)
    for _ in range(3):
        append_as_leader(log, batch_of(b"v"), leader_epoch=0, now_ms=0)
    log.truncate_to(1)
    log.flush(3)
    assert log.recovery_point == 1
