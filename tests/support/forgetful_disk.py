"""A disk in memory that keeps what was forced to it, and may forget everything else.

The contract of POSIX and no more: `fsync` of a file keeps its bytes and its length, not its name;
`fsync` of a directory keeps the names in it (what was created, renamed or removed), not what is in
the files. ext4 promises more than that, other file systems need not.

`lose_power` forgets: everything that was not forced (`strict`), or as the seed likes, of each file
some or all of what was written since, and of each directory what was done last.
"""

from __future__ import annotations

import errno
import os
import random
from typing import Any

from pybroker_kafka.protocol.primitives import Buffer
from pybroker_kafka.storage.files import DataFile, DirectoryLock, Files


class Inode:
    __slots__ = ("data", "kept")

    def __init__(self) -> None:
        self.data = bytearray()
        self.kept = b""  # what is on the disk for certain


class Directory:
    __slots__ = ("entries", "kept", "unforced")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Directory] = {}
        self.kept: dict[str, Inode | Directory] = {}
        # Since the last fsync, in order: the names that one step has changed.
        self.unforced: list[dict[str, Inode | Directory | None]] = []

    def step(self, names: dict[str, Inode | Directory | None]) -> None:
        self.unforced.append(names)
        _apply(self.entries, names)

    def force(self) -> None:
        self.kept = dict(self.entries)
        self.unforced.clear()


def _apply(
    entries: dict[str, Inode | Directory], names: dict[str, Inode | Directory | None]
) -> None:
    for name, target in names.items():
        if target is None:
            entries.pop(name, None)
        else:
            entries[name] = target


class ForgetfulFile(DataFile):
    __slots__ = ("_inode",)

    def __init__(self, path: str, inode: Inode) -> None:
        super().__init__(-1, path)
        self._inode = inode

    def write_at(self, data: Buffer, position: int) -> None:
        content = self._inode.data
        end = position + len(data)
        if end > len(content):
            content = content + bytes(end - len(content))  # a mapping keeps the old one
            self._inode.data = content
        content[position:end] = data

    def read_at(self, size: int, position: int) -> bytes:
        return bytes(self._inode.data[position : position + size])

    def size(self) -> int:
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        data = self._inode.data[:size]
        self._inode.data = data + bytes(size - len(data))

    def sync(self) -> None:
        self._inode.kept = bytes(self._inode.data)

    def map(self, size: int) -> Any:
        del size
        return memoryview(self._inode.data)


class _NoLock(DirectoryLock):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(-1)


class ForgetfulFiles(Files):
    def __init__(self) -> None:
        self.root = Directory()

    def _find(self, path: str) -> Inode | Directory | None:
        found: Inode | Directory | None = self.root
        for name in path.strip("/").split("/"):
            if not isinstance(found, Directory):
                return None
            found = found.entries.get(name)
        return found

    def _directory(self, path: str) -> Directory:
        found = self._find(path)
        if not isinstance(found, Directory):
            raise self._missing(path)
        return found

    def _inode(self, path: str) -> Inode:
        found = self._find(path)
        if not isinstance(found, Inode):
            raise self._missing(path)
        return found

    @staticmethod
    def _missing(path: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def open(self, path: str, *, create: bool = False) -> DataFile:
        if create and self._find(path) is None:
            parent, name = os.path.split(path)
            self._directory(parent).step({name: Inode()})
        return ForgetfulFile(path, self._inode(path))

    def open_to_read(self, path: str) -> DataFile:
        return self.open(path)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), Directory)

    def list_directory(self, path: str) -> list[str]:
        return sorted(self._directory(path).entries)

    def make_directory(self, path: str) -> None:
        if self._find(path) is None:
            parent, name = os.path.split(path)
            if parent != "/":
                self.make_directory(parent)
            above = self._directory(parent) if parent != "/" else self.root
            above.step({name: Directory()})

    def read(self, path: str) -> bytes:
        return bytes(self._inode(path).data)

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def disk_space(self, path: str) -> tuple[int, int]:
        del path
        return 1 << 40, 1 << 39

    def modified_ms(self, path: str) -> int:
        self._inode(path)
        return 0

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        del modified_ms
        self._inode(path)

    def rename(self, source: str, target: str) -> None:
        parent, name = os.path.split(source)
        other, new_name = os.path.split(target)
        assert parent == other, "nothing is moved between directories"
        moved = self._find(source)
        if moved is None:
            raise self._missing(source)
        self._directory(parent).step({name: None, new_name: moved})

    def remove(self, path: str) -> None:
        if isinstance(self._find(path), Inode):
            parent, name = os.path.split(path)
            self._directory(parent).step({name: None})

    def remove_tree(self, path: str) -> None:
        if isinstance(self._find(path), Directory):
            parent, name = os.path.split(path)
            self._directory(parent).step({name: None})

    def sync_directory(self, path: str) -> None:
        self._directory(path).force()

    def lock(self, path: str) -> DirectoryLock | None:
        self.open(path, create=True)
        return _NoLock()

    # The power cut

    def lose_power(self, choose: random.Random, *, strict: bool) -> None:
        """The next process finds what is left; handles of this one are to be used no more."""
        self.root = self._left_of(self.root, choose, strict)

    def _left_of(self, directory: Directory, choose: random.Random, strict: bool) -> Directory:
        entries = dict(directory.kept)
        done = 0 if strict else choose.randint(0, len(directory.unforced))
        for names in directory.unforced[:done]:
            _apply(entries, names)
        left = Directory()
        for name, target in entries.items():
            if isinstance(target, Directory):
                left.entries[name] = self._left_of(target, choose, strict)
            else:
                left.entries[name] = inode = Inode()
                inode.kept = target.kept if strict else _some_of(target, choose)
                inode.data = bytearray(inode.kept)
        left.force()
        return left


def _some_of(inode: Inode, choose: random.Random) -> bytes:
    """Of a file what was forced, with or without what was written since, or with a part of it."""
    written = bytes(inode.data)
    kind = choose.randrange(3)
    if kind < 2:
        return (inode.kept, written)[kind]
    end = choose.randint(0, len(written))
    kept = inode.kept
    return written[:end] + (kept[end:] if len(kept) > end else b"")
