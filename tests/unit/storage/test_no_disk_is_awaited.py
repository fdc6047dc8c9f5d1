"""The loop never waits for a disk: whatever a request or a role does to a log, no file and no
directory is forced to disk by it. A flush in a worker thread does that.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker_kafka.storage.local_log import CutNotNoted, EpochsNotOnDisk
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager
from pybroker_kafka.storage.producer_snapshot import encode_snapshot
from pybroker_kafka.storage.retention import delete_segments_below_start
from tests.support.appends import append_as_leader
from tests.support.faulty_files import FaultyFiles
from tests.support.log_checkpoints import checkpoint_log_start_offsets, checkpoint_recovery_points
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, manager_of
from tests.unit.storage.tiered import tiered_config

EPOCHS_IN_TIER = [(0, 0), (2, 30)]
CONFIG = config_of(segment_bytes=300, cleanup_policy="compact")


def flushed(root: Path, files: FaultyFiles, topic_id: bytes | None = TOPIC_ID) -> LogManager:
    """A log of seven records in several segments, on disk and in the checkpoints."""
    manager = manager_of(root, files=files, config=CONFIG)
    log = manager.get_or_create_log("t", 0, topic_id, None, 0)
    for epoch in range(7):
        append(log, epoch)
    log.update_high_watermark(7)
    log.flush()
    checkpoint_recovery_points(manager)
    return manager


def append(log: Log, epoch: int) -> None:
    append_as_leader(log, batch_of(b"x" * 30), leader_epoch=epoch, now_ms=0)


def elect(_: LogManager, log: Log) -> None:
    log.assign_epoch_start(9, log.log_end_offset)


def append_and_roll(_: LogManager, log: Log) -> None:
    before = len(log.segments)
    while len(log.segments) < before + 2:
        append(log, 9)


def delete_records(manager: LogManager, log: Log) -> None:
    log.maybe_increment_log_start_offset(5)
    delete_segments_below_start(log, 0)


def cut(_: LogManager, log: Log) -> None:
    with pytest.raises(CutNotNoted):
        log.truncate_to(2)
    with pytest.raises(CutNotNoted):
        log.truncate_fully_and_start_at(3)
    assert log.log_end_offset == 7


def make_anew(manager: LogManager, _: Log) -> None:
    manager.delete_log("t", 0, 0)
    manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)


def move(manager: LogManager, log: Log) -> None:
    path = next(d.path for d in manager.directories if d.path != log.health.path)
    manager.create_future_log("t", 0, path, CONFIG, 0)


def restart_behind_tier(_: LogManager, log: Log) -> None:
    log.restart_behind_tier(60, 60, EPOCHS_IN_TIER, encode_snapshot([]), 0)
    assert log.needs_flush_of_epochs
    assert (log.log_end_offset, log.leader_epochs.entries) == (60, [(2, 60)])


@pytest.mark.parametrize(
    "change",
    [elect, append_and_roll, delete_records, cut, make_anew, move, restart_behind_tier],
    ids=lambda c: c.__name__,
)
def test_a_change_forces_nothing(tmp_path: Path, change: Callable[[LogManager, Log], None]) -> None:
    files = FaultyFiles()
    manager = flushed(tmp_path / "a", files)
    if change is move:
        manager.clean_shutdown()
        manager = manager_of(tmp_path / "a", tmp_path / "b", files=files, config=CONFIG)
    (log,) = manager.logs()
    before = files.syncs
    change(manager, log)
    assert files.syncs == before
    manager.release()


def test_a_cut_waits_for_its_note(tmp_path: Path) -> None:
    files = FaultyFiles()
    manager = flushed(tmp_path, files)
    (log,) = manager.logs()
    cut(manager, log)
    assert manager.due_flushes(0) == [log]
    log.flush()
    before = files.syncs
    assert log.truncate_to(2)
    assert files.syncs == before
    append(log, 9)
    manager.release()
    (log,) = manager_of(tmp_path, files=files, config=CONFIG).logs()
    assert log.recovery_point == 2
    assert log.leader_epochs.entries == [(0, 0), (1, 1), (9, 2)]


def test_a_note_that_the_checkpoint_has_outrun_does_not_count(tmp_path: Path) -> None:
    files = FaultyFiles()
    manager = flushed(tmp_path, files)
    (log,) = manager.logs()
    cut(manager, log)
    log.flush()
    append(log, 7)
    log.flush()
    checkpoint_recovery_points(manager)
    with pytest.raises(CutNotNoted):
        log.truncate_to(2)
    log.flush()
    assert log.truncate_to(2)


def test_an_epoch_is_on_disk_before_the_recovery_point_is(tmp_path: Path) -> None:
    """A kill in between finds the epoch in the batches."""
    files = FaultyFiles()
    manager = flushed(tmp_path, files)
    (log,) = manager.logs()
    file = tmp_path / "t-0" / "leader-epoch-checkpoint"
    before = file.read_text()
    append(log, 9)
    assert file.read_text() == before
    assert manager.due_flushes(0) == [log]
    manager.release()
    manager = manager_of(tmp_path, files=files, config=CONFIG)
    (log,) = manager.logs()
    assert log.leader_epochs.entries[-1] == (9, 7)
    elect_10 = log.log_end_offset
    log.assign_epoch_start(10, elect_10)
    assert manager.due_flushes(0) == [log]
    log.flush()
    assert file.read_text().endswith(f"9 7\n10 {elect_10}\n")
    assert manager.due_flushes(0) == []


def test_a_log_start_is_in_the_checkpoint_once_the_epochs_confirm_it(tmp_path: Path) -> None:
    manager = flushed(tmp_path, FaultyFiles())
    (log,) = manager.logs()
    log.maybe_increment_log_start_offset(3)
    checkpoint_log_start_offsets(manager)
    file = tmp_path / "log-start-offset-checkpoint"
    assert file.read_text() == "0\n0\n"
    log.flush()
    checkpoint_log_start_offsets(manager)
    assert file.read_text() == "0\n1\nt 0 3\n"


def test_a_late_topic_id_is_written_by_the_next_flush(tmp_path: Path) -> None:
    files = FaultyFiles()
    manager = flushed(tmp_path, files, topic_id=None)
    (log,) = manager.logs()
    before = files.syncs
    log.assign_topic_id(TOPIC_ID)
    assert files.syncs == before
    assert not (tmp_path / "t-0" / "partition.metadata").exists()
    assert manager.due_flushes(0) == [log]
    log.flush()
    assert manager.due_flushes(0) == []
    manager.release()
    (log,) = manager_of(tmp_path, files=files, config=CONFIG).logs()
    assert log.topic_id == TOPIC_ID


def test_a_log_without_records_restarts_behind_the_tier_once_its_epochs_are_on_disk(
    tmp_path: Path,
) -> None:
    """A crash at any moment leaves either nothing, or the log with its epochs."""
    files = FaultyFiles()
    for restarts in range(3):
        manager = manager_of(tmp_path, files=files, config=tiered_config())
        log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
        assert (log.log_end_offset, log.leader_epochs.entries) == (0, [])
        before = files.syncs
        with pytest.raises(EpochsNotOnDisk):
            log.restart_behind_tier(60, 5, EPOCHS_IN_TIER, encode_snapshot([]), 0)
        assert (log.log_end_offset, log.leader_epochs.entries) == (0, [])
        assert files.syncs == before
        if restarts:
            assert manager.due_flushes(0) == [log]
            log.flush()
        if restarts < 2:
            manager.release()
    before = files.syncs
    log.restart_behind_tier(60, 5, EPOCHS_IN_TIER, encode_snapshot([]), 0)
    assert files.syncs == before
    assert not log.needs_flush_of_epochs
    assert (log.log_start_offset, log.log_end_offset) == (5, 60)
    manager.release()
    (log,) = manager_of(tmp_path, files=files, config=tiered_config()).logs()
    assert (log.log_end_offset, log.leader_epochs.entries) == (60, [(0, 5), (2, 30)])


def test_epochs_of_a_restart_that_never_came_are_replaced(tmp_path: Path) -> None:
    files = FaultyFiles()
    manager = manager_of(tmp_path, files=files, config=tiered_config())
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    with pytest.raises(EpochsNotOnDisk):
        log.restart_behind_tier(60, 0, EPOCHS_IN_TIER, encode_snapshot([]), 0)
    log.flush()
    append(log, 3)
    log.flush()
    manager.release()
    (log,) = manager_of(tmp_path, files=files, config=tiered_config()).logs()
    assert (log.log_end_offset, log.leader_epochs.entries) == (1, [(3, 0)])
