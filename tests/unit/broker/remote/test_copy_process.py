"""Copies by another process: what they store, why they fail, and the end of that process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pybroker_kafka.broker.remote import copy_process
from pybroker_kafka.broker.remote.copy_process import MODULE, CopyProcess, with_copies_elsewhere
from pybroker_kafka.storage.remote.folders import LocalTieredStorage
from pybroker_kafka.storage.remote.loading import OBJECT_STORE, load
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError, RemoteStorageManager
from pybroker_kafka.testkit.tiered import Copied
from tests.support.patience import until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RemoteStorageManager]:
    configs = {"url": f"file://{tmp_path}/tier", "broker.id": "1"}
    manager = with_copies_elsewhere(load(OBJECT_STORE, configs), OBJECT_STORE, configs)
    assert isinstance(manager, CopyProcess)
    yield manager
    manager.close()
    assert not workers()


def workers(argument: str = MODULE) -> list[psutil.Process]:
    """The children of this process with that argument."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # or a zombie
            if argument in child.cmdline():
                found.append(child)
    return found


def test_a_copy_is_read_here_and_its_process_is_replaced(
    tmp_path: Path, store: RemoteStorageManager
) -> None:
    assert not workers()
    first = Copied(tmp_path / "first")
    first.copy_to(store)
    first.check_in(store)
    (worker,) = workers()
    assert worker.nice() == 19

    wrong = Copied(tmp_path / "wrong")
    Path(wrong.data.log_segment).write_bytes(b"shorter")
    with pytest.raises(RemoteStorageError, match="7 bytes instead of 3000"):
        wrong.copy_to(store)
    assert workers() == [worker]

    worker.kill()
    until(lambda: not workers(), "the process has ended")
    second = Copied(tmp_path / "second", aborted=False)
    until(lambda: is_copied(second, store), "another process copies")
    second.check_in(store)
    assert worker not in workers()


def is_copied(segment: Copied, store: RemoteStorageManager) -> bool:
    try:
        segment.copy_to(store)
    except RemoteStorageError:  # the end of the one before is not noticed yet
        return False
    return True


def test_a_copy_under_way_fails_with_its_process(
    tmp_path: Path, store: RemoteStorageManager
) -> None:
    Copied(tmp_path / "first").copy_to(store)
    (worker,) = workers()
    worker.suspend()
    with ThreadPoolExecutor(1) as pool:
        copy = pool.submit(Copied(tmp_path / "second").copy_to, store)
        with pytest.raises(TimeoutError):
            copy.result(0.1)
        worker.kill()
        with pytest.raises(RemoteStorageError, match="the process that copies has ended"):
            copy.result(60)


def test_a_process_that_writes_no_answer_ends(
    tmp_path: Path,
    store: RemoteStorageManager,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    code = "print('Hello', flush=True); input(); input(); input()"
    monkeypatch.setattr(copy_process, "command_of", lambda _: [sys.executable, "-c", code])
    with pytest.raises(RemoteStorageError, match=r"the process that copies|no process copies"):
        Copied(tmp_path / "one").copy_to(store)
    assert "wrote what is no answer" in caplog.text
    until(lambda: not workers(code))


def test_nothing_is_copied_behind_the_end(tmp_path: Path, store: RemoteStorageManager) -> None:
    store.close()
    with pytest.raises(RemoteStorageError, match="the broker stops"):
        Copied(tmp_path / "one").copy_to(store)
    assert not workers()


def test_other_stores_copy_here(tmp_path: Path) -> None:
    folders = LocalTieredStorage({"dir": str(tmp_path)})
    assert with_copies_elsewhere(folders, "python:theirs.Store", {}) is folders
    memory = load(OBJECT_STORE, {"url": "memory:///here"})
    assert with_copies_elsewhere(memory, OBJECT_STORE, {"url": "memory:///here"}) is memory
