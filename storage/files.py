"""The filesystem seam: every file that storage touches is opened, written and renamed here.

`Files` is the real thing; tests put a fault-injecting subclass in its place. Rules:
- A `DataFile` is closed when the last reference to it is gone. A `FileSlice` on its way to a
  socket, or a flush in a worker thread, thus never meets a descriptor that was reused for another
  file.
- Writes go to a position the caller knows; there is no shared file pointer.
- `Files` may keep spare descriptors: when no others are left, files are opened with these (see
  `storage.descriptors`), after all files that are kept open without need were released.
- Index entries are written with pwrite and read through a shared mapping: both see the same page
  cache, and a full disk is an `OSError` instead of a SIGBUS, which would end the process.

Mirrors: org.apache.kafka.common.record.FileRecords, Utils.atomicMoveWithFallback, FileLock.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
from collections.abc import Callable
from typing import TypeVar

from ..protocol.primitives import Buffer
from .kept_open import KeptFile, KeptOpen

T = TypeVar("T")
# macOS has no fdatasync.
_sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
# The share of this process's descriptors for files that could be opened again; with their mappings
# they take twice as many.
KEPT_SHARE = 8
MAX_KEPT = 16_384
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
# Errors that concern one file; any other may concern the whole disk.
OF_ONE_FILE = frozenset(
    {
        errno.EACCES,
        errno.EEXIST,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ENOTEMPTY,
        errno.EPERM,
    }
)
# Errors of a broken disk, a damaged file system, or a lost file server; never errors of a socket.
BROKEN_DISK = {errno.EIO, errno.EBADMSG, errno.ESTALE, getattr(errno, "EUCLEAN", errno.EIO)}


def is_out_of_descriptors(error: BaseException) -> bool:
    """Whether this process or the whole machine has reached its limit of open files: no disk is at
    fault."""
    return isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS


class DataFile:
    """A file open for positioned reads and writes; closes itself with its last reference."""

    __slots__ = ("__weakref__", "_fd", "on_broken", "path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path
        # Called when any read fails because the disk is broken; set by the file's log.
        self.on_broken: Callable[[OSError], None] | None = None

    def fileno(self) -> int:
        return self._fd

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of `data`; a short write is continued, an error leaves a partial tail."""
        written = os.pwrite(self._fd, data, position)
        if written != len(data):
            self._write_rest(memoryview(data), position, written)

    def _write_rest(self, data: memoryview, position: int, written: int) -> None:
        while written < len(data):
            count = os.pwrite(self._fd, data[written:], position + written)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            written += count

    def read_at(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        try:
            data = os.pread(self._fd, size, position)
        except OSError as error:
            self.read_failed(error)
            raise
        if len(data) == size or not data:
            return data
        parts = [data]
        read = len(data)
        while read < size:
            more = os.pread(self._fd, size - read, position + read)
            if not more:
                break
            parts.append(more)
            read += len(more)
        return b"".join(parts)

    def read_failed(self, error: OSError) -> None:
        """A read of it by its descriptor failed; the error may be that of a socket as well."""
        if error.errno in BROKEN_DISK and self.on_broken is not None:
            self.on_broken(error)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Force data, and the size needed to read it, to the disk. Blocks."""
        _sync_data(self._fd)

    def map(self, size: int) -> mmap.mmap:
        return mmap.mmap(self._fd, size, mmap.MAP_SHARED, mmap.PROT_READ)

    def __del__(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


CLOSED_FILE = DataFile(-1, "(closed)")


class CopiedRange(DataFile):
    """The bytes of a range of a file, at their positions in it, for use without keeping the file
    open."""

    __slots__ = ("_data", "_start")

    def __init__(self, path: str, data: Buffer, start: int) -> None:
        super().__init__(-1, path)
        self._data = data
        self._start = start

    def read_at(self, size: int, position: int) -> bytes:
        begin = position - self._start
        return bytes(self._data[begin : begin + size]) if begin >= 0 else b""


class FileSlice:
    """A range of a file; keeps its file open while it lives.

    `held` has the bytes if they have been read already, else it is empty. If `file` is a
    `CopiedRange`, `held` always has them.
    """

    __slots__ = ("file", "held", "position", "size")

    def __init__(self, file: DataFile, position: int, size: int, held: Buffer = b"") -> None:
        self.file = file
        self.position = position
        self.size = size
        self.held = held

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        return self.file.fileno()

    def read_failed(self, error: OSError) -> None:
        self.file.read_failed(error)

    def read(self) -> bytes:
        if self.held:
            return bytes(self.held)
        return self.file.read_at(self.size, self.position) if self.size else b""


EMPTY_SLICE = FileSlice(CLOSED_FILE, 0, 0)


class DirectoryLock:
    """Holds `.lock` of a log directory until `release`."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    __del__ = release


class Files:
    """The real filesystem."""

    _spare: list[DataFile] = []
    _spare_wanted = 0
    descriptor_limit = 0  # of this process; 0: not set
    _kept: KeptOpen | None = None

    # Descriptors

    def keep_spare_descriptors(self, count: int, limit: int = 0) -> None:
        """Keep `count` spare descriptors from now on, for use when there are no others. `limit`:
        the limit of this process."""
        self._spare = []
        self._spare_wanted = count
        self.descriptor_limit = limit
        self._kept = KeptOpen(min(limit // KEPT_SHARE, MAX_KEPT)) if limit else None
        self.has_spare_descriptors()

    def release_spare_descriptors(self) -> None:
        """Keep no spare descriptors any more, at the end of these files' owner: an object may live
        on after it, in a cycle or frozen."""
        self._spare, self._spare_wanted = [], 0

    def has_spare_descriptors(self, leaving: int = 0) -> bool:
        """Open missing spare descriptors if possible; whether all of them are there.

        With `leaving`, so many descriptor numbers must also stay free of kept files: the lowest
        free number is below them.
        """
        if leaving and self.descriptor_limit:
            try:
                lowest = DataFile(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), os.devnull)
            except OSError as error:
                if not is_out_of_descriptors(error):
                    raise
                return False
            if lowest.fileno() >= self.descriptor_limit - leaving:
                del lowest
                return self._release_kept() and self.has_spare_descriptors(leaving)
        while len(self._spare) < self._spare_wanted:
            try:
                fd = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            except OSError as error:
                if not is_out_of_descriptors(error):
                    raise
                if self._release_kept():
                    continue
                return False
            self._spare.append(DataFile(fd, os.devnull))
        return True

    def with_spare(self, call: Callable[..., T], *arguments: object) -> T:
        """The result of a call that needs a descriptor, a spare one if there is no other."""
        while True:
            try:
                return call(*arguments)
            except OSError as error:
                if not is_out_of_descriptors(error):
                    raise
                if self._release_kept():
                    continue
                try:
                    self._spare.pop()
                except IndexError:
                    raise error from None

    def keep_open(self, kept: KeptFile, file: DataFile) -> bool:
        """Register a file that was opened, to be released when others need its descriptor. False if
        there is no descriptor to keep it open: the caller must release it after its use."""
        if self._kept is not None and not self._kept.add(kept, file):
            return False
        return self.has_spare_descriptors()

    def _release_kept(self) -> bool:
        """Release all files that are kept open without need; False if there were none."""
        return self._kept is not None and self._kept.close_all()

    # Files

    def open(self, path: str, *, create: bool = False) -> DataFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return DataFile(self.with_spare(os.open, path, flags, 0o644), path)

    def open_to_read(self, path: str) -> DataFile:
        return DataFile(self.with_spare(os.open, path, os.O_RDONLY | os.O_CLOEXEC), path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_directory(self, path: str) -> list[str]:
        return sorted(self.with_spare(os.listdir, path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def read(self, path: str) -> bytes:
        file = self.open_to_read(path)
        try:
            return file.read_at(file.size(), 0)
        except OSError as error:
            error.filename = path  # a directory, say, can be opened
            raise

    def size(self, path: str) -> int:
        """The size of a file; an OSError for anything else."""
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EISDIR, "is no file", path)
        return found.st_size

    def disk_space(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the file system that holds `path`."""
        space = os.statvfs(path)
        return space.f_blocks * space.f_frsize, space.f_bavail * space.f_frsize

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file; one that is gone already is no error."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        """Remove a directory of files (partition directories hold no others)."""
        try:
            names = self.list_directory(path)
        except FileNotFoundError:
            return
        for name in names:
            entry = os.path.join(path, name)
            if self.is_directory(entry):
                self.remove_tree(entry)
            else:
                self.remove(entry)
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """Make creations and renames in a directory durable. Blocks."""
        fd = self.with_spare(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def write_atomically(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replace a small file whole: `path.tmp`, fsync, rename, fsync of the directory."""
        temporary = path + ".tmp"
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.write_at(data, 0)
        if sync:
            file.sync()
        del file
        self.rename(temporary, path)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def lock(self, path: str) -> DirectoryLock | None:
        """Take the exclusive lock on a file, None if another process has it.

        Java takes the POSIX lock; it does not exclude within a process, so flock comes on top.
        """
        fd = self.with_spare(os.open, path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return None
            raise
        return DirectoryLock(fd)
