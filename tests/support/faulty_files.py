"""A filesystem with injectable faults, over real files.

- `fail(operation, error, path_part=..., after=n, times=m)`: the n-th matching call raises.
- `short_write(n)`: the next write stops after n bytes and then raises ENOSPC.
- `crash(...)`: what a power cut leaves. Bytes written since a file's last sync are lost: cut off,
  zeroed, or kept up to a chosen point (a torn tail). Names are taken as journaled in order,
  as on ext4: renames and creations survive.

Every handle that is open at the crash is dead afterwards, as its process is.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass

from pybroker_kafka.protocol.primitives import Buffer
from pybroker_kafka.storage.files import DataFile, Files


@dataclass(slots=True)
class Fault:
    """One planned failure: which calls it hits, how many it lets pass, how many it hits."""

    operation: str
    error: int
    path_part: str
    after: int
    times: int


class FaultyDataFile(DataFile):
    __slots__ = ("_owner",)

    def __init__(self, fd: int, path: str, owner: FaultyFiles) -> None:
        super().__init__(fd, path)
        self._owner = owner

    def write_at(self, data: Buffer, position: int) -> None:
        owner = self._owner
        inode = self.fileno()
        keep = owner.take_short_write(self.path)
        if keep is not None:
            owner.note_write(self.fileno(), position, min(keep, len(data)))
            super().write_at(memoryview(data)[:keep], position)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        owner.check("write", self.path)
        owner.note_write(inode, position, len(data))
        super().write_at(data, position)

    def read_at(self, size: int, position: int) -> bytes:
        self._owner.check("read", self.path)
        return super().read_at(size, position)

    def truncate(self, size: int) -> None:
        self._owner.check("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._owner.check("sync", self.path)
        self._owner.note_sync(self.fileno())
        self._owner.syncs += 1


class FaultyFiles(Files):
    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.syncs = 0
        self._short_writes: list[tuple[int, str]] = []
        # Bytes written since the last sync, by inode: (position, size) in order.
        self._unsynced: dict[int, list[tuple[int, int]]] = {}
        self._inode_paths: dict[int, str] = {}

    # Planning

    def fail(
        self,
        operation: str,
        error: int = errno.EIO,
        *,
        path_part: str = "",
        after: int = 0,
        times: int = 1,
    ) -> None:
        self.faults.append(Fault(operation, error, path_part, after, times))

    def short_write(self, keep: int, path_part: str = ".log") -> None:
        self._short_writes.append((keep, path_part))

    def heal(self) -> None:
        self.faults.clear()
        self._short_writes.clear()

    # Called by the files

    def check(self, operation: str, path: str) -> None:
        for fault in self.faults:
            if fault.operation != operation or fault.path_part not in path or not fault.times:
                continue
            if fault.after:
                fault.after -= 1
                continue
            fault.times -= 1
            raise OSError(fault.error, os.strerror(fault.error), path)

    def take_short_write(self, path: str) -> int | None:
        if self._short_writes and self._short_writes[0][1] in path:
            return self._short_writes.pop(0)[0]
        return None

    def note_write(self, fd: int, position: int, size: int) -> None:
        self._unsynced.setdefault(os.fstat(fd).st_ino, []).append((position, size))

    def note_sync(self, fd: int) -> None:
        self._unsynced.pop(os.fstat(fd).st_ino, None)

    # The seam

    def open(self, path: str, *, create: bool = False) -> DataFile:
        self.check("open", path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return FaultyDataFile(os.open(path, flags, 0o644), path, self)

    def rename(self, source: str, target: str) -> None:
        self.check("rename", source)
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.check("remove", path)
        super().remove(path)

    def read(self, path: str) -> bytes:
        self.check("read", path)
        return super().read(path)

    def list_directory(self, path: str) -> list[str]:
        self.check("list", path)
        return super().list_directory(path)

    def make_directory(self, path: str) -> None:
        self.check("mkdir", path)
        super().make_directory(path)

    def sync_directory(self, path: str) -> None:
        self.check("sync", path)
        self.syncs += 1

    # Crashing

    def unsynced_bytes(self, path: str) -> int:
        writes = self._unsynced.get(os.stat(path).st_ino, [])
        return sum(size for _, size in writes)

    def crash(self, root: str, decide: Callable[[str, int], tuple[str, int]]) -> None:
        """Lose unsynced bytes of the files under `root`.

        For each file with unsynced bytes `decide(path, lost)` answers ("cut", n), ("zero", n) or
        ("hole", n): the last n of its unsynced bytes are cut off, or read as zeros; or the first n
        read as zeros.
        """
        for directory, _, names in os.walk(root):
            for name in sorted(names):
                path = os.path.join(directory, name)
                writes = self._unsynced.pop(os.stat(path).st_ino, None)
                if writes:
                    self._lose(path, writes, decide)
        self._unsynced.clear()

    @staticmethod
    def _lose(
        path: str, writes: list[tuple[int, int]], decide: Callable[[str, int], tuple[str, int]]
    ) -> None:
        size = os.path.getsize(path)
        start = min(position for position, _ in writes)
        end = min(max(position + length for position, length in writes), size)
        unsynced = max(end - start, 0)
        how, lost = decide(path, unsynced)
        lost = min(lost, unsynced)
        if not lost:
            return
        with open(path, "r+b") as file:
            if how == "cut" and end == size:
                file.truncate(end - lost)
            else:
                file.seek(start if how == "hole" else end - lost)
                file.write(bytes(lost))
