"""The disk of one broker, in memory: a page cache, and what of it has reached the platter.

Two ways to stop: a process that is killed leaves the page cache as it is; a power cut loses what
was written since a file's last sync, or a part of it: the end is cut off (a torn tail, which may
begin between two batches), or it reads as zeros, or the beginning does (a hole). Names, lengths and
truncations are taken as journaled in order, as on ext4. The same model as
`tests.support.faulty_files`, without a real file system under it.

A handle of a dead process writes no more: `revive` gives the next process its own `Files`.
"""

import errno
import os
from collections.abc import Callable
from typing import Any

from pybroker_kafka.protocol.primitives import Buffer
from pybroker_kafka.storage.files import DataFile, DirectoryLock, Files


class Inode:
    __slots__ = ("data", "dirty")

    def __init__(self) -> None:
        self.data = bytearray()
        # [start, end) of what was written since the last sync; None: all is on the platter.
        self.dirty: tuple[int, int] | None = None

    def note_write(self, start: int, end: int) -> None:
        dirty = self.dirty
        self.dirty = (start, end) if dirty is None else (min(dirty[0], start), max(dirty[1], end))


# Files that are sent, by their descriptors, which are negative: no process has too many of them.
_numbered: "list[MemoryFile]" = []


def file_of(number: int) -> "MemoryFile":
    return _numbered[-number - 2]


def forget_numbers() -> None:
    """At the end of a run."""
    _numbered.clear()


class MemoryFile(DataFile):
    __slots__ = ("_disk", "_inode", "_life", "_number")

    def __init__(self, path: str, inode: Inode, disk: "Disk") -> None:
        super().__init__(-1, path)
        self._inode = inode
        self._disk = disk
        self._life = disk.life
        self._number = 0

    def fileno(self) -> int:
        if not self._number:
            _numbered.append(self)
            self._number = -len(_numbered) - 1
        return self._number

    def write_at(self, data: Buffer, position: int) -> None:
        assert self._life == self._disk.life, f"a dead process writes to {self.path}"
        content = self._inode.data
        if position > len(content):
            content.extend(bytes(position - len(content)))
        end = position + len(data)
        content[position:end] = data
        self._inode.note_write(position, end)

    def read_at(self, size: int, position: int) -> bytes:
        return bytes(self._inode.data[position : position + size])

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        assert self._life == self._disk.life, f"a dead process cuts {self.path}"
        inode = self._inode
        # A new buffer: whoever has the old one mapped keeps it, as a stale mapping would.
        data = inode.data[:size]
        data.extend(bytes(size - len(data)))
        inode.data = data
        if inode.dirty is not None:
            start, end = inode.dirty[0], min(inode.dirty[1], size)
            inode.dirty = (start, end) if start < end else None

    def sync(self) -> None:
        self._disk.syncs += 1
        self._inode.dirty = None

    def map(self, size: int) -> Any:
        del size
        return memoryview(self._inode.data)


class Disk:
    """What outlives the process."""

    def __init__(self) -> None:
        self.inodes: dict[str, Inode] = {}
        self.directories: set[str] = {"/"}
        self.life = 0
        self.syncs = 0

    def revive(self) -> "MemoryFiles":
        """The files of the next process; the handles of the last one are dead."""
        self.life += 1
        return MemoryFiles(self)

    def lose_power(self, decide: Callable[[str, int], tuple[str, int]]) -> list[str]:
        """`decide(path, unsynced bytes)` says ("cut", "zero" or "hole", how many); the losers."""
        losers = []
        for path in sorted(self.inodes):
            inode = self.inodes[path]
            if inode.dirty is None:
                continue
            start, end = inode.dirty
            end = min(end, len(inode.data))
            inode.dirty = None
            if start >= end:
                continue
            how, lost = decide(path, end - start)
            lost = min(lost, end - start)
            if not lost:
                continue
            losers.append(path)
            data = bytearray(inode.data)
            if how == "cut" and end == len(data):
                del data[end - lost :]
            else:
                first = start if how == "hole" else end - lost
                data[first : first + lost] = bytes(lost)
            inode.data = data
        return losers


class _NoLock(DirectoryLock):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(-1)


class MemoryFiles(Files):
    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def open(self, path: str, *, create: bool = False) -> DataFile:
        inode = self.disk.inodes.get(path)
        if inode is None:
            if not create:
                raise self._missing(path)
            if os.path.dirname(path) not in self.disk.directories:
                raise self._missing(path)
            inode = self.disk.inodes[path] = Inode()
        return MemoryFile(path, inode, self.disk)

    @staticmethod
    def _missing(path: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def exists(self, path: str) -> bool:
        return path in self.disk.inodes or path in self.disk.directories

    def is_directory(self, path: str) -> bool:
        return path in self.disk.directories

    def list_directory(self, path: str) -> list[str]:
        if path not in self.disk.directories:
            raise self._missing(path)
        prefix = path.rstrip("/") + "/"
        names = {
            other[len(prefix) :].partition("/")[0]
            for group in (self.disk.inodes, self.disk.directories)
            for other in group
            if other.startswith(prefix) and other != prefix
        }
        return sorted(names)

    def make_directory(self, path: str) -> None:
        while path not in self.disk.directories:
            self.disk.directories.add(path)
            path = os.path.dirname(path)

    def read(self, path: str) -> bytes:
        inode = self.disk.inodes.get(path)
        if inode is None:
            raise self._missing(path)
        return bytes(inode.data)

    def size(self, path: str) -> int:
        inode = self.disk.inodes.get(path)
        if inode is None:
            raise self._missing(path)
        return len(inode.data)

    def disk_space(self, path: str) -> tuple[int, int]:
        del path
        return 1 << 40, 1 << 39

    def modified_ms(self, path: str) -> int:
        del path
        return 0

    def rename(self, source: str, target: str) -> None:
        disk = self.disk
        if source in disk.directories:
            prefix = source + "/"
            for path in [p for p in disk.inodes if p.startswith(prefix)]:
                disk.inodes[target + path[len(source) :]] = disk.inodes.pop(path)
            disk.directories.discard(source)
            disk.directories.add(target)
        elif source in disk.inodes:
            disk.inodes[target] = disk.inodes.pop(source)
        else:
            raise self._missing(source)

    def remove(self, path: str) -> None:
        self.disk.inodes.pop(path, None)

    def remove_tree(self, path: str) -> None:
        prefix = path + "/"
        for inode in [p for p in self.disk.inodes if p.startswith(prefix)]:
            del self.disk.inodes[inode]
        self.disk.directories = {
            d for d in self.disk.directories if d != path and not d.startswith(prefix)
        }

    def sync_directory(self, path: str) -> None:
        self.disk.syncs += 1

    def lock(self, path: str) -> DirectoryLock | None:
        self.disk.inodes.setdefault(path, Inode())
        return _NoLock()
