"""To close a file or a mapping lets other threads run: these find no closed one in a field."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

from pybroker_kafka.storage.files import DataFile, Files
from pybroker_kafka.storage.offset_index import OffsetIndex
from pybroker_kafka.storage.segment import Segment
from pybroker_kafka.storage.transaction_index import AbortedTransaction, TransactionIndex
from tests.unit.storage.helpers import config_of

MAX_BYTES = 4096


class Watcher:
    """Stands in for another thread: it runs whenever a file or a mapping is closed."""

    def __init__(self) -> None:
        self.look: Callable[[], object] | None = None
        self.looks = 0
        self.errors: list[Exception] = []

    def closed(self) -> None:
        look, self.look = self.look, None
        if look is None:
            return
        self.looks += 1
        try:
            look()
        except Exception as error:
            self.errors.append(error)
        self.look = look

    def saw_open_files(self) -> bool:
        self.look = None
        return self.looks > 0 and not self.errors


class WatchedFile(DataFile):
    __slots__ = ("watcher",)

    def __init__(self, fd: int, path: str, watcher: Watcher) -> None:
        super().__init__(fd, path)
        self.watcher = watcher

    def map(self, size: int) -> mmap.mmap:
        mapped = WatchedMap(self._fd, size, mmap.MAP_SHARED, mmap.PROT_READ)
        mapped.watcher = self.watcher
        return mapped

    def __del__(self) -> None:
        super().__del__()
        self.watcher.closed()


class WatchedMap(mmap.mmap):
    watcher: Watcher

    def __del__(self) -> None:
        self.close()
        self.watcher.closed()


class WatchedFiles(Files):
    def __init__(self) -> None:
        self.watcher = Watcher()

    def open(self, path: str, *, create: bool = False) -> DataFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return WatchedFile(os.open(path, flags, 0o644), path, self.watcher)


def test_a_data_file(tmp_path: Path) -> None:
    files = WatchedFiles()
    config = config_of(segment_index_bytes=MAX_BYTES)
    segment = Segment(files, str(tmp_path), 0, config, now_ms=0, create=True)
    segment.append(bytes(100), 0, 0, 0)
    files.watcher.look = lambda: os.fstat(segment.log_file.fileno())
    segment.become_inactive()
    segment.release_file()
    segment.become_active(config)
    segment.mark_deleted()
    assert files.watcher.saw_open_files()


def test_an_offset_index(tmp_path: Path) -> None:
    files = WatchedFiles()
    index = OffsetIndex(files, str(tmp_path / "0.index"), 0, MAX_BYTES)
    index.open_for_append(MAX_BYTES)
    index.append(3, 300)
    files.watcher.look = lambda: list(index.entries_below(5))
    assert list(index.entries_below(5)) == [(3, 300)]
    index.release_file()
    assert list(index.entries_below(5)) == [(3, 300)]
    index.trim()
    assert list(index.entries_below(5)) == [(3, 300)]
    index.open_for_append(2 * MAX_BYTES)
    assert files.watcher.saw_open_files()


def test_a_transaction_index(tmp_path: Path) -> None:
    files = WatchedFiles()
    index = TransactionIndex(files, str(tmp_path / "0.txnindex"))

    def append() -> None:
        last = index.entries[-1].last_offset if index.entries else 0
        index.append(AbortedTransaction(1, last, last + 1, last + 1))

    append()
    files.watcher.look = append
    index.release_file()
    append()
    index.release()
    assert files.watcher.saw_open_files()
