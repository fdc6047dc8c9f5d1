"""Segments in the folders of LocalTieredStorage."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pybroker_kafka.storage.remote import folders
from pybroker_kafka.storage.remote.folders import LocalTieredStorage
from pybroker_kafka.storage.remote.segments import RemoteLogSegmentId, TopicIdPartition
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError
from pybroker_kafka.testkit.tiered import Copied, RemoteStorageManagerTests
from tests.support.faulty_files import FaultyFiles


class TestFolders(RemoteStorageManagerTests):
    def make_manager(self, directory: Path) -> LocalTieredStorage:
        return LocalTieredStorage({"dir": str(directory), "broker.id": "1"})


class TestFoldersWithoutCopiesInTheKernel(TestFolders):
    @pytest.fixture(autouse=True)
    def refuse(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def copy_file_range(*_arguments: int) -> int:
            raise OSError(errno.EXDEV, "other file systems")

        monkeypatch.setattr(os, "copy_file_range", copy_file_range, raising=False)


def all_files(directory: Path) -> list[str]:
    return sorted(
        str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()
    )


def test_names_are_those_of_kafka(tmp_path: Path) -> None:
    manager = LocalTieredStorage({"dir": str(tmp_path / "store")})
    segment = Copied(tmp_path / "one")
    partition = TopicIdPartition(bytes(range(16)), "a.topic_of-mine", 12)
    object.__setattr__(segment.metadata, "segment_id", RemoteLogSegmentId(partition, b"\xff" * 16))
    segment.copy_to(manager)
    folder = "kafka-tiered-storage/a.topic_of-mine-12-AAECAwQFBgcICQoLDA0ODw"
    assert all_files(tmp_path / "store") == [
        f"{folder}/00000000000000001000-_____________________w.{suffix}"
        for suffix in (
            "index", "leader_epoch_checkpoint", "log", "snapshot", "timeindex", "txnindex"
        )
    ]  # fmt: skip


@pytest.mark.parametrize("operation", ["open", "sync", "rename"])
def test_a_failed_copy_leaves_whole_files_and_no_segment(tmp_path: Path, operation: str) -> None:
    files = FaultyFiles()
    manager = LocalTieredStorage({"dir": str(tmp_path / "store")}, files)
    segment = Copied(tmp_path / "one")
    files.fail(operation, errno.ENOSPC, path_part=".log")
    with pytest.raises(RemoteStorageError, match="No space left"):
        segment.copy_to(manager)
    names = [os.path.basename(name) for name in all_files(Path(manager.root))]
    assert len(names) == 5
    assert not any(name.endswith(".log") for name in names)
    manager.delete_log_segment_data(segment.metadata)
    assert all_files(tmp_path / "store") == []


def test_a_segment_of_another_size_is_refused(tmp_path: Path) -> None:
    manager = LocalTieredStorage({"dir": str(tmp_path / "store")})
    segment = Copied(tmp_path / "one")
    object.__setattr__(segment.metadata, "segment_size_bytes", 2999)
    with pytest.raises(RemoteStorageError, match="3000 bytes instead of 2999"):
        segment.copy_to(manager)


def test_a_truncated_segment_is_an_error_of_the_store(tmp_path: Path) -> None:
    manager = LocalTieredStorage({"dir": str(tmp_path / "store")})
    segment = Copied(tmp_path / "one")
    segment.copy_to(manager)
    (log,) = Path(manager.root).rglob("*.log")
    os.truncate(log, 1000)
    assert len(manager.fetch_log_segment(segment.metadata, 0, 1000)) == 1000
    with pytest.raises(RemoteStorageError, match="ends at 1000, not at 3000"):
        manager.fetch_log_segment(segment.metadata, 500, 1500)


def test_deletion_can_be_switched_off(tmp_path: Path) -> None:
    manager = LocalTieredStorage({"dir": str(tmp_path / "store"), "delete.enable": "FALSE"})
    segment = Copied(tmp_path / "one")
    segment.copy_to(manager)
    manager.delete_log_segment_data(segment.metadata)
    segment.check_in(manager)


def test_everything_goes_at_the_end_if_wanted(tmp_path: Path) -> None:
    manager = LocalTieredStorage({"dir": str(tmp_path / "store"), "delete.on.close": "true"})
    Copied(tmp_path / "one").copy_to(manager)
    manager.close()
    assert list((tmp_path / "store").iterdir()) == []


def test_configs_are_checked() -> None:
    with pytest.raises(ValueError, match="`dir` is missing"):
        LocalTieredStorage({})
    with pytest.raises(ValueError, match=r"`transferer\.class`"):
        LocalTieredStorage({"dir": "/nowhere", "transferer.class": "a.b.C"})


def test_all_suffixes_are_known() -> None:
    assert len(set(folders.ALL_SUFFIXES)) == 6
