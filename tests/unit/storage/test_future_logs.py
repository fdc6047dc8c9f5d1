"""Future replicas on disk: how they are named and loaded, and what a crash in the swap leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.log_directory import REPLACED_MARK, parse_future_name
from pybroker_kafka.storage.log_manager import LogManager
from tests.support.appends import append_as_leader
from tests.support.faulty_files import FaultyFiles
from tests.unit.storage.helpers import TOPIC_ID, batch_of, config_of, manager_of

KEY = ("t", 0)


def filled(manager: LogManager, count: int = 3) -> Log:
    log = manager.get_or_create_log(*KEY, TOPIC_ID, None, 0)
    for _ in range(count):
        append_as_leader(log, batch_of(b"x" * 20), leader_epoch=0, now_ms=0)
    log.update_high_watermark(log.log_end_offset)
    return log


def copied(manager: LogManager, log: Log) -> Log:
    """A complete future replica of `log` in the other directory."""
    (target,) = (d.path for d in manager.directories if d.path != log.health.path)
    future = manager.create_future_log(*KEY, target, config_of(), 0)
    data = log.read(0, 1 << 20, upper_bound_offset=log.log_end_offset).records.read()
    future.append_as_follower(data, now_ms=0)
    return future


def two(tmp_path: Path, files: FaultyFiles | None = None) -> LogManager:
    return manager_of(tmp_path / "a", tmp_path / "b", files=files)


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir())


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("t-0.0123456789abcdef0123456789abcdef-future", ("t", 0)),
        ("a.b-c-12.0123456789abcdef0123456789abcdef-future", ("a.b-c", 12)),
        ("t-0-future", None),
        ("t.x-future", None),
        ("t-0", None),
        ("t-0.0123456789abcdef0123456789abcdef-delete", None),
    ],
)
def test_names(name: str, parsed: tuple[str, int] | None) -> None:
    assert parse_future_name(name) == parsed


def test_it_is_loaded_as_what_it_is(tmp_path: Path) -> None:
    manager = two(tmp_path)
    log = filled(manager)
    future = copied(manager, log)
    future.update_high_watermark(2)
    manager.clean_shutdown()
    again = two(tmp_path)
    loaded = again.future_log(*KEY)
    assert loaded is not None
    assert (loaded.log_end_offset, loaded.high_watermark, loaded.topic_id) == (3, 2, TOPIC_ID)
    assert again.get_log(*KEY) is not None
    assert len(again.logs()) == 1
    sizes = {size.is_future: size.size_bytes for d in again.describe() for size in d.logs}
    assert sizes[True] == sizes[False]
    again.release()


def test_the_checkpoints_follow_the_swap(tmp_path: Path) -> None:
    manager = two(tmp_path)
    log = filled(manager)
    future = copied(manager, log)
    manager.preparation(*KEY)()
    moved = manager.replace_with_future(*KEY, 0)
    assert moved.recovery_point == 0  # as of the old one, until its name is on disk, too
    moved.flush()
    for job in manager.tick(0):
        job.run()
    old, new = (Path(one.health.path) for one in (log, future))
    assert (old / "replication-offset-checkpoint").read_text() == "0\n0\n"
    assert (new / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    assert (new / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    manager.release()
    again = two(tmp_path)
    found = again.get_log(*KEY)
    assert found is not None
    assert (found.health.path, found.log_end_offset) == (str(new), 3)
    again.release()


@pytest.mark.parametrize("where", ["first rename", "second rename"])
def test_a_crash_in_the_swap(tmp_path: Path, where: str) -> None:
    files = FaultyFiles()
    manager = two(tmp_path, files)
    log = filled(manager)
    future = copied(manager, log)
    old, new = (Path(one.health.path) for one in (log, future))
    manager.preparation(*KEY)()
    assert (old / "t-0" / REPLACED_MARK).exists()
    if where == "second rename":
        files.rename(future.directory, str(new / "t-0"))
    manager.release()  # the process is gone
    again = two(tmp_path)
    assert (again.future_log(*KEY) is None) == (where == "second rename")
    found = again.get_log(*KEY)
    assert found is not None
    assert found.log_end_offset == 3
    if where == "second rename":
        assert found.health.path == str(new)
        (deleted,) = names(old)
        assert deleted.endswith("-delete")
        for job in again.tick(0):
            job.run()
        assert names(old) == []
    else:
        assert found.health.path == str(old)
        assert not (old / "t-0" / REPLACED_MARK).exists()
    again.release()
    two(tmp_path).release()


def test_without_a_mark_nobody_knows_which_one_is_old(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name / "t-0").mkdir(parents=True)
    manager = two(tmp_path)
    assert manager.get_log(*KEY) is None
    assert manager.is_offline(*KEY)
    assert [path.name for path in sorted(tmp_path.glob("*/t-0"))] == ["t-0", "t-0"]
    manager.release()


def test_a_replaced_log_on_a_disk_that_fails_is_left_there(tmp_path: Path) -> None:
    files = FaultyFiles()
    manager = two(tmp_path, files)
    log = filled(manager)
    future = copied(manager, log)
    files.fail("rename", path_part=f"{log.health.path}/t-0")
    assert manager.replace_with_future(*KEY, 0) is future
    assert manager.get_log(*KEY) is future
    assert manager.take_newly_offline() == [(log.health.path, [])]
    manager.release()


def test_a_directory_that_fails_takes_its_future_replicas_along(tmp_path: Path) -> None:
    manager = two(tmp_path)
    log = filled(manager)
    future = copied(manager, log)
    future.health.fail(OSError("broken"))
    assert manager.future_log(*KEY) is None
    assert manager.take_newly_offline() == [(future.health.path, [])]
    assert manager.future_directory_of(*KEY) is None
    assert manager.get_log(*KEY) is log
    manager.release()


def test_none_is_made_while_a_directory_is_offline(tmp_path: Path) -> None:
    manager = manager_of(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    log = filled(manager)
    others = [d for d in manager.directories if d.path != log.health.path]
    others[0].fail(OSError("broken"))
    with pytest.raises(KafkaError) as caught:
        manager.create_future_log(*KEY, others[1].path, config_of(), 0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    manager.release()


def test_what_kraft_put_aside_is_left_alone(tmp_path: Path) -> None:
    stray = tmp_path / "a" / "t-0.0123456789abcdef0123456789abcdef-stray"
    stray.mkdir(parents=True)
    manager = two(tmp_path)
    assert manager.logs() == []
    for job in manager.tick(10**9):
        job.run()
    assert stray.exists()
    manager.release()
