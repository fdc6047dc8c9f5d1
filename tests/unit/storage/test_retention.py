"""Retention: by size, time and log start offset, bounded by the high watermark; files go later."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_maintenance import SEGMENTS_PER_STEP
from pybroker_kafka.storage.log_manager import LogManager, LogManagerConfig
from pybroker_kafka.storage.retention import (
    date_text,
    delete_old_segments,
    delete_segments_below_start,
)
from tests.support.appends import append_as_leader
from tests.support.faulty_files import FaultyFiles
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, log_of, manager_of

SIZE = len(batch_of(b"x" * 20))
MINUTE_MS = 60_000


def fill(log: Log, count: int, *, timestamp: int = 1000, high_watermark: int | None = None) -> Log:
    for number in range(count):
        append_as_leader(
            log, batch_of(b"x" * 20, timestamp=timestamp + number), leader_epoch=0, now_ms=0
        )
    log.update_high_watermark(log.log_end_offset if high_watermark is None else high_watermark)
    return log


def bases(log: Log) -> list[int]:
    return log.segments.base_offsets


def test_time(tmp_path: Path) -> None:
    """Segments [0, 2), [2, 4), [4, 6) with timestamps 1000 + offset."""
    log = fill(log_of(tmp_path, segment_bytes=2 * SIZE, retention_ms=100), 6)
    assert delete_old_segments(log, 1101) == 0  # of exactly this age it stays
    assert delete_old_segments(log, 1102) == 1
    assert (bases(log), log.log_start_offset) == ([2, 4], 2)
    assert delete_old_segments(log, 1104) == 1
    assert bases(log) == [4]


def test_a_deletion_by_time_says_how_old_and_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    day_ms = 1440 * MINUTE_MS
    log = log_of(tmp_path, segment_bytes=2 * SIZE, retention_ms=7 * day_ms)
    fill(log, 5, timestamp=1_700_000_000_000)
    with caplog.at_level("INFO", "pybroker.storage.retention"):
        assert delete_old_segments(log, 1_700_000_000_000 + 1000 * day_ms, limit=2) == 2
        assert delete_old_segments(log, 1_700_000_000_000) == 0
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == (
        f"{log.name}: deleted 2 old segments, up to offset 4: their newest record is of "
        "2023-11-14 22:13:20 UTC (1700000000003), 999 days old; retention.ms is 604800000 (7 days)"
    )


@pytest.mark.parametrize(
    ("timestamp_ms", "text"),
    [(-1, "1969-12-31 23:59:59 UTC"), (0, "1970-01-01 00:00:00 UTC"), (2**63 - 1, "no date")],
)
def test_any_timestamp_can_be_told(timestamp_ms: int, text: str) -> None:
    assert date_text(timestamp_ms) == text


def test_the_active_segment_is_rolled_when_all_is_old(tmp_path: Path) -> None:
    log = fill(log_of(tmp_path, segment_bytes=2 * SIZE, retention_ms=100), 5)
    assert delete_old_segments(log, 10_000) == 3
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([5], 5, 5)
    # The new active segment is empty and stays, however old.
    assert delete_old_segments(log, 10**12) == 0
    fill(log, 1)
    data = log.read(5, 1 << 20, upper_bound_offset=6).records.read()
    assert [header.base_offset for _, header in iter_batch_headers(data)] == [5]


def test_messages_without_timestamps_go_by_the_file(tmp_path: Path) -> None:
    log = fill(log_of(tmp_path, segment_bytes=SIZE, retention_ms=MINUTE_MS), 2, timestamp=-2)
    assert log.segments.first.max_timestamp == -1
    written_ms = log.segments.first.modified_ms
    assert delete_old_segments(log, written_ms + MINUTE_MS) == 0
    os.utime(tmp_path / "t-0" / f"{0:020d}.log", (written_ms / 1000 - 1, written_ms / 1000 - 1))
    assert delete_old_segments(log, written_ms + MINUTE_MS) == 1


def test_size(tmp_path: Path) -> None:
    log = fill(log_of(tmp_path, segment_bytes=2 * SIZE, retention_bytes=3 * SIZE), 7)
    # 7 batches; without the first segment 5, without the second 3: as many as may stay.
    assert delete_old_segments(log, 0) == 2
    assert (bases(log), log.size_bytes) == ([4, 6], 3 * SIZE)
    log.set_config(config_of(retention_bytes=0))
    assert delete_old_segments(log, 0) == 2
    assert (bases(log), log.size_bytes) == ([7], 0)


def test_unlimited(tmp_path: Path) -> None:
    log = fill(log_of(tmp_path, segment_bytes=SIZE, retention_ms=-1, retention_bytes=-1), 5)
    assert delete_old_segments(log, 10**15) == 0


@pytest.mark.parametrize(
    ("high_watermark", "left"), [(0, [0, 2, 4]), (3, [2, 4]), (4, [4]), (5, [4]), (6, [6])]
)
def test_nothing_above_the_high_watermark(
    tmp_path: Path, high_watermark: int, left: list[int]
) -> None:
    log = log_of(tmp_path, segment_bytes=2 * SIZE, retention_ms=0, retention_bytes=0)
    fill(log, 6, high_watermark=high_watermark)
    delete_old_segments(log, 10**12)
    assert bases(log) == left


def test_compacted_logs_lose_only_what_is_below_their_start(tmp_path: Path) -> None:
    log = log_of(tmp_path, segment_bytes=2 * SIZE, retention_ms=0, cleanup_policy="compact")
    fill(log, 6)
    log.maybe_increment_log_start_offset(3)
    assert delete_old_segments(log, 10**12) == 1
    assert bases(log) == [2, 4]
    log.set_config(config_of(cleanup_policy="compact,delete", retention_ms=0))
    assert delete_old_segments(log, 10**12) == 2
    assert bases(log) == [6]


def test_the_active_segment_is_not_below_the_start(tmp_path: Path) -> None:
    log = fill(log_of(tmp_path, segment_bytes=2 * SIZE), 6)
    log.maybe_increment_log_start_offset(6)
    assert delete_segments_below_start(log, 0) == 2
    assert bases(log) == [4]


def test_one_call_deletes_so_many(tmp_path: Path) -> None:
    log = fill(log_of(tmp_path, segment_bytes=SIZE, retention_ms=0), 5)
    assert delete_old_segments(log, 10**9, limit=2) == 2
    assert bases(log) == [2, 3, 4]
    assert delete_old_segments(log, 10**9, limit=9) == 3
    assert bases(log) == [5]


def test_an_old_producer_state_goes_too(tmp_path: Path) -> None:
    log = fill(log_of(tmp_path, segment_bytes=SIZE, retention_ms=0), 4)
    assert log.producers.snapshots.offsets == [1, 2, 3]
    delete_old_segments(log, 1003)
    assert bases(log) == [3]
    assert log.producers.snapshots.offsets == [3]


def test_a_disk_that_fails_takes_its_directory_offline(tmp_path: Path) -> None:
    files = FaultyFiles()
    log = fill(log_of(tmp_path, files=files, segment_bytes=SIZE, retention_ms=0), 3)
    files.fail("rename", path_part="t-0")
    with pytest.raises(KafkaError) as caught:
        delete_old_segments(log, 10**9)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.health.error is not None


# Through the log manager


def tick(manager: LogManager, now_ms: int) -> None:
    for _ in manager.retain(now_ms):
        pass
    for job in manager.tick(now_ms):
        job.run()


def test_files_are_renamed_then_removed(tmp_path: Path) -> None:
    settings = LogManagerConfig(initial_task_delay_ms=0, retention_check_interval_ms=1000)
    config = config_of(
        segment_bytes=SIZE, retention_ms=500, file_delete_delay_ms=60_000, flush_messages=1
    )
    manager = manager_of(tmp_path, config=config, settings=settings)
    log = fill(manager.get_or_create_log("t", 0, TOPIC_ID, None, 0), 3)
    directory = tmp_path / "t-0"
    tick(manager, 10_000)
    assert bases(log) == [3]
    deleted = sorted(path.name for path in directory.glob("*.log.deleted"))
    assert deleted == [f"{offset:020d}.log.deleted" for offset in range(3)]
    tick(manager, 69_999)
    assert len(list(directory.glob("*.deleted"))) >= 3
    tick(manager, 70_000)
    assert list(directory.glob("*.deleted")) == []


def test_the_interval_and_the_policy(tmp_path: Path) -> None:
    settings = LogManagerConfig(initial_task_delay_ms=0, retention_check_interval_ms=1000)
    manager = manager_of(tmp_path, config=config_of(retention_ms=0), settings=settings)
    deleting = manager.get_or_create_log("d", 0, TOPIC_ID, None, 0)
    both = config_of(cleanup_policy="compact,delete", retention_ms=0)
    compacting = manager.get_or_create_log("c", 0, TOPIC_ID, both, 0)
    fill(deleting, 1)
    fill(compacting, 1)
    tick(manager, 5000)
    assert bases(deleting) == [1]
    assert bases(compacting) == [0]  # the cleaner does it
    fill(deleting, 1)
    tick(manager, 5999)
    assert bases(deleting) == [1]
    tick(manager, 6000)
    assert bases(deleting) == [2]


def test_one_bad_directory_does_not_stop_the_others(tmp_path: Path) -> None:
    files = FaultyFiles()
    settings = LogManagerConfig(initial_task_delay_ms=0)
    manager = manager_of(
        tmp_path / "a",
        tmp_path / "b",
        files=files,
        config=config_of(retention_ms=0),
        settings=settings,
    )
    logs = [fill(manager.get_or_create_log("t", p, TOPIC_ID, None, 0), 1) for p in range(2)]
    files.fail("rename", path_part="/a/t-0")
    tick(manager, 5000)
    assert [d.path for d in manager.online_directories()] == [str(tmp_path / "b")]
    assert bases(logs[1]) == [1]


def test_many_segments_go_in_steps(tmp_path: Path) -> None:
    settings = LogManagerConfig(initial_task_delay_ms=0)
    config = config_of(segment_bytes=SIZE, retention_ms=0)
    manager = manager_of(tmp_path, config=config, settings=settings)
    log = fill(manager.get_or_create_log("t", 0, TOPIC_ID, None, 0), 40)
    counts = [len(bases(log)) for _ in manager.retain(10**9)]
    assert counts[:3] == [40, 40 - SEGMENTS_PER_STEP, 40 - 2 * SEGMENTS_PER_STEP]
    assert bases(log) == [40]


# The wall clock jumps

DAY_MS = 24 * 60 * MINUTE_MS
START_MS = 1_700_000_000_000
INTERVAL_MS = 5 * MINUTE_MS


def jump(wall: WallClock, now_ms: int, step_ms: int) -> None:
    wall.note(now_ms, wall.at_ms(now_ms) + step_ms)


def week_of_segments(tmp_path: Path, wall: WallClock) -> tuple[LogManager, Log]:
    """Four segments of now, which stay for a week."""
    settings = LogManagerConfig(initial_task_delay_ms=0, retention_check_interval_ms=INTERVAL_MS)
    config = config_of(segment_bytes=SIZE, retention_ms=7 * DAY_MS, file_delete_delay_ms=MINUTE_MS)
    manager = manager_of(tmp_path, config=config, settings=settings, now_ms=START_MS, wall=wall)
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, START_MS)
    return manager, fill(log, 4, timestamp=START_MS)


@pytest.mark.parametrize("days", [10, 3650])
def test_a_clock_that_jumps_and_comes_back_deletes_nothing(tmp_path: Path, days: int) -> None:
    wall = WallClock()
    manager, log = week_of_segments(tmp_path, wall)
    tick(manager, START_MS)
    jump(wall, START_MS + INTERVAL_MS - 1000, days * DAY_MS)
    tick(manager, START_MS + INTERVAL_MS)
    jump(wall, START_MS + INTERVAL_MS + 1000, -days * DAY_MS)
    for number in range(2, 6):
        tick(manager, START_MS + number * INTERVAL_MS)
    assert bases(log) == [0, 1, 2, 3]


def test_an_interval_after_a_jump_the_new_time_counts(tmp_path: Path) -> None:
    wall = WallClock()
    manager, log = week_of_segments(tmp_path, wall)
    tick(manager, START_MS)
    jump(wall, START_MS + 1000, 10 * DAY_MS)
    tick(manager, START_MS + INTERVAL_MS)
    assert bases(log) == [0, 1, 2, 3]
    tick(manager, START_MS + 2 * INTERVAL_MS)
    assert bases(log) == [4]


def test_sizes_count_after_a_jump_too(tmp_path: Path) -> None:
    wall = WallClock()
    manager, log = week_of_segments(tmp_path, wall)
    log.set_config(config_of(segment_bytes=SIZE, retention_bytes=SIZE))
    jump(wall, START_MS, 10 * DAY_MS)
    tick(manager, START_MS)
    assert bases(log) == [3]


@pytest.mark.parametrize("days", [-3650, -10, 10, 3650])
def test_schedules_and_delays_do_not_notice_a_jump(tmp_path: Path, days: int) -> None:
    wall = WallClock()
    manager, log = week_of_segments(tmp_path, wall)
    log.set_config(config_of(segment_bytes=SIZE, retention_bytes=0, file_delete_delay_ms=MINUTE_MS))
    tick(manager, START_MS)
    jump(wall, START_MS + 1, days * DAY_MS)
    fill(log, 1)
    tick(manager, START_MS + MINUTE_MS - 1)
    assert len(list((tmp_path / "t-0").glob("*.log.deleted"))) == 4
    assert bases(log) == [4]
    tick(manager, START_MS + MINUTE_MS)
    assert list((tmp_path / "t-0").glob("*.log.deleted")) == []
    tick(manager, START_MS + INTERVAL_MS)
    assert bases(log) == [5]


@pytest.mark.parametrize("days", [-3650, 10])
def test_append_times_of_a_jump_do_not_make_records_old(tmp_path: Path, days: int) -> None:
    """Back: they get the time as it was before. Ahead: they stay for longer."""
    wall = WallClock()
    manager, log = week_of_segments(tmp_path, wall)
    log.set_config(
        config_of(
            segment_bytes=SIZE, retention_ms=7 * DAY_MS, message_timestamp_type="LogAppendTime"
        )
    )
    jump(wall, START_MS, days * DAY_MS)
    fill_at(log, 2, START_MS)
    jump(wall, START_MS + 2000, -days * DAY_MS)
    for number in range(1, 6):
        tick(manager, START_MS + number * INTERVAL_MS)
    assert bases(log) == [0, 1, 2, 3, 4, 5]
    assert log.segments.active.largest_timestamp == START_MS + max(days, 0) * DAY_MS


def fill_at(log: Log, count: int, now_ms: int) -> None:
    for _ in range(count):
        append_as_leader(log, batch_of(b"x" * 20), leader_epoch=0, now_ms=now_ms)
    log.update_high_watermark(log.log_end_offset)


@pytest.mark.parametrize("days", [-3650, 10])
def test_a_start_in_the_middle_of_a_jump_deletes_nothing(tmp_path: Path, days: int) -> None:
    manager, log = week_of_segments(tmp_path, WallClock())
    tick(manager, START_MS)
    manager.release()
    for number in range(2):  # killed and started again, both times while the clock is wrong
        start_ms = START_MS + 1000 * number
        wall = WallClock(days * DAY_MS)
        settings = LogManagerConfig(
            initial_task_delay_ms=0, retention_check_interval_ms=INTERVAL_MS
        )
        config = config_of(segment_bytes=SIZE, retention_ms=7 * DAY_MS)
        manager = manager_of(tmp_path, config=config, settings=settings, now_ms=start_ms, wall=wall)
        (log,) = manager.logs()
        log.update_high_watermark(log.log_end_offset)
        tick(manager, start_ms)
        manager.release()
        assert bases(log) == [0, 1, 2, 3]


def test_a_start_after_a_jump_right_after_the_first_start_deletes_nothing(tmp_path: Path) -> None:
    wall = WallClock()
    manager, _ = week_of_segments(tmp_path, wall)
    jump(wall, START_MS + 500, 10 * DAY_MS)
    tick(manager, START_MS + 1000)
    manager.release()
    wall = WallClock(10 * DAY_MS)
    manager_of(tmp_path, now_ms=START_MS + 2000, wall=wall)
    assert wall.rests(START_MS + 2000, INTERVAL_MS)


def test_a_damaged_note_of_the_wall_clock_makes_a_start_careful(tmp_path: Path) -> None:
    manager, _ = week_of_segments(tmp_path, WallClock())
    tick(manager, START_MS)
    manager.release()
    assert (tmp_path / ".wall-clock").read_text() == f"{START_MS}\n"
    (tmp_path / ".wall-clock").write_bytes(b"\0\0")
    wall = WallClock()
    manager_of(tmp_path, now_ms=START_MS + 1, wall=wall)
    assert wall.rests(START_MS + 1, INTERVAL_MS)
