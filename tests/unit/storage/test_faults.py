"""Disks that fail: short writes, ENOSPC, EIO, lost bytes. The log stays consistent, its directory
goes offline, the others live on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.files import DataFile
from pybroker_kafka.storage.leader_epochs import LeaderEpochCache
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_directory import StartupError
from pybroker_kafka.storage.log_manager import LogManager
from pybroker_kafka.storage.offset_index import OffsetIndex
from pybroker_kafka.storage.producer_state import ProducerState
from tests.support.appends import append_as_leader
from tests.support.faulty_files import FaultyFiles
from tests.support.sources import needs_sources
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, manager_of

SIZE = len(batch_of(b"x" * 20))


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


def two_directories(tmp_path: Path, files: FaultyFiles, **overrides: object) -> LogManager:
    manager = manager_of(tmp_path / "a", tmp_path / "b", files=files, config=config_of(**overrides))
    for partition in range(2):
        log = manager.get_or_create_log("t", partition, TOPIC_ID, None, 0, is_new=True)
        append(log)
    return manager


def append(log: Log) -> None:
    append_as_leader(log, batch_of(b"x" * 20), leader_epoch=0, now_ms=0, origin=AppendOrigin.CLIENT)


def storage_error(call: object) -> None:
    assert callable(call)
    with pytest.raises(KafkaError) as caught:
        call()
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("keep", [0, 1, 60, SIZE - 1])
def test_a_full_disk_leaves_no_torn_batch(tmp_path: Path, files: FaultyFiles, keep: int) -> None:
    manager = two_directories(tmp_path, files)
    log = manager.get_log("t", 0)
    assert log is not None
    files.short_write(keep)
    storage_error(lambda: append(log))
    assert log.log_end_offset == 1
    assert os.path.getsize(tmp_path / "a" / "t-0" / f"{0:020d}.log") == SIZE
    storage_error(lambda: append(log))  # offline until a restart
    storage_error(lambda: log.read(0, 100, upper_bound_offset=1))
    assert manager.get_log("t", 0) is None
    assert manager.is_offline("t", 0)
    other = manager.get_log("t", 1)
    assert other is not None
    append(other)
    assert manager.take_newly_offline() == [(str(tmp_path / "a"), [("t", 0)])]
    assert manager.take_newly_offline() == []
    described = {d.path: (d.error, list(d.logs)) for d in manager.describe()}
    assert described[str(tmp_path / "a")] == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert described[str(tmp_path / "b")][1] == [("t", 1, 2 * SIZE, False)]
    manager.clean_shutdown()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "b" / ".kafka_cleanshutdown").exists()
    manager = manager_of(tmp_path / "a", tmp_path / "b")
    again = manager.get_log("t", 0)
    assert again is not None
    assert again.log_end_offset == 1
    append(again)


def test_cutting_off_may_fail_too(tmp_path: Path, files: FaultyFiles) -> None:
    manager = two_directories(tmp_path, files)
    log = manager.get_log("t", 0)
    assert log is not None
    files.short_write(30)
    files.fail("truncate", path_part=".log")
    with pytest.raises(KafkaError) as caught:
        append(log)
    assert caught.value.__cause__ is not None
    assert "cutting off" in caught.value.__cause__.__notes__[0]
    manager.release()
    again = manager_of(tmp_path / "a", tmp_path / "b").get_log("t", 0)
    assert again is not None  # recovery cuts what stayed behind
    assert again.log_end_offset == 1


@pytest.mark.parametrize(
    ("operation", "path_part"),
    [
        ("write", ".log"),
        ("write", ".index"),
        ("write", ".timeindex"),
        ("open", f"{6:020d}.timeindex"),
        ("write", ".snapshot"),
    ],
)
def test_any_failing_step_of_an_append(
    tmp_path: Path, files: FaultyFiles, operation: str, path_part: str
) -> None:
    """Whatever fails, a restart finds the acknowledged batches and appends go on."""
    manager = manager_of(
        tmp_path,
        files=files,
        config=config_of(segment_bytes=3 * SIZE, index_interval_bytes=1),
    )
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    files.fail(operation, errno.EIO, path_part=path_part, after=operation != "open")
    acknowledged = 0
    for epoch in range(12):
        try:
            append_as_leader(log, batch_of(b"x" * 20), leader_epoch=epoch, now_ms=0)
        except KafkaError as error:
            assert error.code is ErrorCode.KAFKA_STORAGE_ERROR  # noqa: PT017
            break
        acknowledged += 1
    assert acknowledged < 12
    manager.release()
    files.heal()
    log = manager_of(tmp_path, files=files).get_or_create_log("t", 0, TOPIC_ID, None, 0)
    assert log.log_end_offset in (acknowledged, acknowledged + 1)
    end = log.log_end_offset
    append(log)
    assert log.log_end_offset == end + 1


# In an append, once it has begun: what, of which class, and whether the batch is in the file.
STEPS = [
    (DataFile, "write_at", False),
    *(
        pytest.param(*step, marks=needs_sources)
        for step in (
            (LeaderEpochCache, "assign", False),
            (OffsetIndex, "append", True),
            (ProducerState, "apply", True),
        )
    ),
]


@pytest.mark.parametrize(("of", "name", "is_written"), STEPS, ids=lambda value: str(value))
@pytest.mark.parametrize("follows", [False, True])
def test_an_error_that_nobody_expected_is_never_built_upon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of: type, name: str, is_written: bool,
    follows: bool,
) -> None:  # fmt: skip
    def put(epoch: int) -> None:
        end = log.log_end_offset
        batch = batch_of(b"x" * 20, producer_id=7, epoch=0, sequence=end)
        if follows:
            batch[:8], batch[12:16] = end.to_bytes(8, "big"), epoch.to_bytes(4, "big")
            log.append_as_follower(batch, now_ms=0)
        else:
            append_as_leader(log, batch, leader_epoch=epoch, now_ms=0)

    def fails(*_: object, **__: object) -> None:
        raise TypeError("on purpose")

    config = config_of(index_interval_bytes=1)
    manager = manager_of(tmp_path, config=config)
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    for _ in range(3):
        put(0)
    with monkeypatch.context() as patched:
        patched.setattr(of, name, fails)
        storage_error(lambda: put(1))
    storage_error(lambda: put(1))  # offline until a restart
    assert manager.online_directories() == []
    manager.release()
    log = manager_of(tmp_path, config=config).get_or_create_log("t", 0, TOPIC_ID, None, 0)
    assert log.log_end_offset == 3 + is_written
    put(1)
    assert log.log_end_offset == 4 + is_written
    data = (tmp_path / "t-0" / f"{0:020d}.log").read_bytes()
    offsets = [header.base_offset for _, header in iter_batch_headers(data)]
    assert offsets == list(range(4 + is_written))


@pytest.mark.parametrize("operation", ["read", "sync"])
def test_reads_and_flushes_that_fail(tmp_path: Path, files: FaultyFiles, operation: str) -> None:
    manager = manager_of(tmp_path, files=files)
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    for _ in range(200):
        append(log)
    files.fail(operation)
    if operation == "read":
        storage_error(lambda: log.read(3, 100, upper_bound_offset=200))
    else:
        storage_error(log.flush)
        assert log.recovery_point == 0
    assert manager.online_directories() == []


@pytest.mark.parametrize(
    ("operation", "path_part"),
    [
        ("list", "a"),
        ("read", "meta.properties"),
        ("read", "replication-offset-checkpoint"),
        ("list", "t-0"),
        ("open", ".log"),
        ("read", "partition.metadata"),
        ("read", "leader-epoch-checkpoint"),
    ],
)
def test_a_directory_that_cannot_be_loaded_goes_offline(
    tmp_path: Path, files: FaultyFiles, operation: str, path_part: str
) -> None:
    two_directories(tmp_path, files).clean_shutdown()
    bad = str(tmp_path / "a")
    files.fail(operation, path_part=path_part, times=1)
    manager = manager_of(bad, tmp_path / "b", files=files)
    assert [d.path for d in manager.online_directories()] == [str(tmp_path / "b")]
    assert manager.get_log("t", 0) is None
    assert manager.get_log("t", 1) is not None
    files.heal()
    # It may hold this partition: a replica that is not new must not be made elsewhere.
    storage_error(lambda: manager.get_or_create_log("t", 0, TOPIC_ID, None, 0))
    storage_error(lambda: manager.get_or_create_log("u", 0, TOPIC_ID, None, 0))
    manager.get_or_create_log("u", 0, TOPIC_ID, None, 0, is_new=True)


def test_no_directory_left(tmp_path: Path, files: FaultyFiles) -> None:
    files.fail("mkdir", errno.EROFS, times=2)
    with pytest.raises(StartupError, match="none of the specified log dirs"):
        manager_of(tmp_path / "a", tmp_path / "b", files=files)


def test_what_was_flushed_survives_a_power_cut(tmp_path: Path, files: FaultyFiles) -> None:
    manager = manager_of(tmp_path, files=files, config=config_of(segment_bytes=4 * SIZE))
    log = manager.get_or_create_log("t", 0, TOPIC_ID, None, 0)
    for number in range(10):
        append(log)
        if number == 5:
            log.flush()
    manager.release()
    files.crash(str(tmp_path), lambda path, lost: ("cut", lost))
    again = manager_of(tmp_path, files=files).get_log("t", 0)
    assert again is not None
    assert again.log_end_offset == 6
