"""Without a file descriptor: what has begun comes to its end, all else is refused and tried again;
no directory goes offline, nothing is lost."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.storage import log_manager
from pybroker_kafka.storage.descriptors import OutOfDescriptors, left_by_partitions
from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.kept_open import KeptOpen
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_manager import LogManager
from pybroker_kafka.storage.offset_index import OffsetIndex
from tests.support.appends import append_as_leader
from tests.support.descriptors import no_descriptors
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, manager_of

SPARE = 8
LEFT = 32


@pytest.fixture
def files() -> Files:
    files = Files()
    files.keep_spare_descriptors(SPARE)
    return files


def values(log: Log) -> list[int]:
    """The base offsets of all batches."""
    offsets: list[int] = []
    while (offset := offsets[-1] + 1 if offsets else 0) < log.log_end_offset:
        read = log.read(offset, 1, upper_bound_offset=log.log_end_offset)
        offsets.append(int.from_bytes(read.records.read()[:8], "big"))
    return offsets


def append(log: Log) -> None:
    append_as_leader(log, batch_of(b"x" * 50), leader_epoch=0, now_ms=0)


def append_many(log: Log, count: int) -> None:
    for _ in range(count):
        append(log)


def test_spare_descriptors_are_for_when_there_are_no_others(files: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"what it says")
    path = str(tmp_path / "file")
    with no_descriptors():
        for _ in range(2 * SPARE):  # each is closed again
            assert files.read(path) == b"what it says"
            assert files.list_directory(str(tmp_path)) == ["file"]
            files.sync_directory(str(tmp_path))
            assert files.has_spare_descriptors()
        held = [files.open(path) for _ in range(SPARE)]
        assert not files.has_spare_descriptors()
        with pytest.raises(OSError, match="Too many open files"):
            files.open(path)
        held.clear()
        assert files.has_spare_descriptors()


def test_a_roll_is_refused_before_anything_changes(files: Files, tmp_path: Path) -> None:
    manager = manager_of(tmp_path, files=files, config=config_of(segment_bytes=400))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    for _ in range(3):
        append(log)
    with no_descriptors():
        held = files.open(str(tmp_path / "t-0" / "partition.metadata"))
        with pytest.raises(OutOfDescriptors, match="beginning a segment of t-0") as refused:
            append(log)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert (len(log.segments), log.log_end_offset) == (1, 3)
        assert values(log) == [0, 1, 2]
        with pytest.raises(OutOfDescriptors):
            log.truncate_to(1)
        with pytest.raises(OutOfDescriptors):
            log.truncate_fully_and_start_at(7)
        assert log.log_end_offset == 3
    assert not manager.take_newly_offline()
    assert held.size()
    append(log)
    assert (len(log.segments), values(log)) == (2, [0, 1, 2, 3])
    manager.clean_shutdown()
    assert values(manager_of(tmp_path).logs()[0]) == [0, 1, 2, 3]


def test_a_partition_is_refused_and_leaves_nothing(files: Files, tmp_path: Path) -> None:
    manager = manager_of(tmp_path, files=files)
    with no_descriptors(left=2):
        for partition in range(3):  # the last with a spare one, so that the next is refused
            manager.get_or_create_log("t", partition, TOPIC_ID, None, 0)
        with pytest.raises(OutOfDescriptors, match="creating t-3"):
            manager.get_or_create_log("t", 3, TOPIC_ID, None, 0)
    assert sorted(path.name for path in tmp_path.glob("t-*")) == ["t-0", "t-1", "t-2"]
    assert not manager.take_newly_offline()
    manager.get_or_create_log("t", 3, TOPIC_ID, None, 0)
    manager.release()


def test_new_partitions_leave_some_for_others_and_segments_take_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_manager, "left_by_partitions", lambda _limit: LEFT)
    files = Files()
    with no_descriptors(left=LEFT + 4):
        files.keep_spare_descriptors(2, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        manager = manager_of(tmp_path, files=files, config=config_of(segment_bytes=200))
        logs: list[Log] = []
        with pytest.raises(OutOfDescriptors):
            logs.extend(manager.get_or_create_log("t", n, TOPIC_ID, None, 0) for n in range(9))
        held = [files.open_to_read(str(tmp_path / "meta.properties")) for _ in range(4)]
        log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
        append_many(log, 10 * LEFT)  # each rolls
        assert len(log.segments) == 10 * LEFT
        held += [files.open_to_read(str(tmp_path / "meta.properties")) for _ in range(LEFT - 6)]
        assert files.has_spare_descriptors()
        append_many(log, LEFT)
        assert values(log) == list(range(11 * LEFT))
    manager.release()


@pytest.mark.parametrize(
    ("limit", "left"), [(0, 0), (128, 32), (256, 64), (512, 64), (1024, 128), (20_000, 2500)]
)
def test_partitions_leave_a_share_for_clients(limit: int, left: int) -> None:
    assert left_by_partitions(limit) == left


def test_batches_are_appended_without_index_entries(files: Files, tmp_path: Path) -> None:
    manager = manager_of(tmp_path, files=files, config=config_of(index_interval_bytes=1))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    append(log)
    with no_descriptors():
        held = [files.open(str(tmp_path / "meta.properties")) for _ in range(SPARE)]
        for _ in range(3):
            append(log)
        assert log.segments.active.offset_index.entries == 0
    held.clear()
    append(log)
    assert log.segments.active.offset_index.entries == 1
    assert values(log) == [0, 1, 2, 3, 4]
    manager.release()


def test_a_look_up_keeps_no_descriptor_then(files: Files, tmp_path: Path) -> None:
    path = str(tmp_path / "00000000000000000000.index")
    index = OffsetIndex(files, path, 0, 800)
    index.open_for_append(800)
    for offset in range(1, 50):
        index.append(offset, 100 * offset)
    index.trim()
    with no_descriptors():
        for offset in range(1, 50):
            assert index.look_up(offset) == (offset, 100 * offset)
            assert files.has_spare_descriptors()


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
def test_a_directory_is_not_to_blame(
    files: Files, tmp_path: Path, error: int, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manager_of(tmp_path, files=files)
    manager.directories[0].health.fail(OSError(error, os.strerror(error)))
    assert manager.directories[0].is_online
    assert "no fault of log directory" in caplog.text
    manager.release()


def test_a_checkpoint_is_written_when_there_are_descriptors_again(
    files: Files, tmp_path: Path
) -> None:
    manager = manager_of(tmp_path, files=files)
    append(manager.get_or_create_log("t", 0, TOPIC_ID, None, 0))
    (job,) = manager.maintenance.checkpoint_jobs("log-start-offset-checkpoint")
    checkpoint = tmp_path / "log-start-offset-checkpoint"
    with no_descriptors():
        held = [files.open(str(tmp_path / "meta.properties")) for _ in range(SPARE)]
        with pytest.raises(OSError, match="Too many open files"):
            job.run()
        assert manager.directories[0].is_online
        assert not checkpoint.exists()
        held.clear()
        job.run()
    assert checkpoint.exists()
    manager.release()


def test_a_flush_forgets_nothing(files: Files, tmp_path: Path) -> None:
    manager = manager_of(tmp_path, files=files, config=config_of(segment_bytes=200))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    for _ in range(4):
        append(log)
    with no_descriptors():
        held = [files.open(str(tmp_path / "meta.properties")) for _ in range(SPARE)]
        with pytest.raises(OutOfDescriptors):
            log.flush()
        assert log.recovery_point == 0
    held.clear()
    log.flush()
    assert log.recovery_point == 4
    assert not log.flush_is_due(0)
    manager.release()


def test_a_broker_does_not_start_on_half_of_its_logs(tmp_path: Path) -> None:
    manager = manager_of(tmp_path)
    for partition in range(20):
        append(manager.get_or_create_log("t", partition, TOPIC_ID, None, 0))
    manager.clean_shutdown()
    with no_descriptors(left=10), pytest.raises(OSError, match="Too many open files"):
        manager_of(tmp_path, files=Files())
    again: LogManager = manager_of(tmp_path)
    assert len(again.logs()) == 20
    again.release()


def test_indexes_of_all_logs_share_some_descriptors(tmp_path: Path) -> None:
    """However many there are; what was let go of is opened again, for entries and for look-ups."""
    most = 10
    files = Files()
    files.keep_spare_descriptors(SPARE, 1 << 20)
    files._kept = KeptOpen(most)
    config = config_of(index_interval_bytes=1)
    manager = manager_of(tmp_path, files=files, config=config)
    logs = [manager.get_or_create_log("t", n, TOPIC_ID, None, 0) for n in range(3 * most)]
    for _ in range(5):
        for log in logs:
            append(log)
    indexes = [
        index
        for log in logs
        for index in (log.segments.active.offset_index, log.segments.active.time_index)
    ]
    assert sum(index._file is not None for index in indexes) == most < len(indexes)
    assert {log.segments.active.offset_index.entries for log in logs} == {4}
    for log in logs:
        assert values(log) == [0, 1, 2, 3, 4]
        entries = [log.segments.active.offset_index.look_up(offset)[0] for offset in range(5)]
        assert entries == [0, 1, 2, 3, 4]
    assert sum(index._file is not None or index._map is not None for index in indexes) == most
    manager.clean_shutdown()
    assert all(values(log) == [0, 1, 2, 3, 4] for log in manager_of(tmp_path).logs())


def test_indexes_are_let_go_of_before_spare_descriptors_are_taken(tmp_path: Path) -> None:
    files = Files()
    files.keep_spare_descriptors(SPARE, 1 << 20)
    manager = manager_of(tmp_path, files=files, config=config_of(index_interval_bytes=1))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    append_many(log, 3)
    active = log.segments.active
    assert active.offset_index._file is not None
    with no_descriptors():
        held = [files.open(str(tmp_path / "meta.properties"))]
        assert active.offset_index._file is None
        assert files.has_spare_descriptors()
        append(log)
        assert active.offset_index.entries == 3
        held.clear()
    manager.release()
