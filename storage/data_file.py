"""A file that is open, and a range of one.

Rules:
- A `DataFile` is closed when nobody refers to it any more. A `FileSlice` on its way to a socket,
  or a flush in a worker thread, thus never meets a descriptor that was reused for another file.
- Writes go to a position the caller knows; there is no shared file pointer.

Mirrors: org.apache.kafka.common.record.FileRecords.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Callable
from typing import Final

from mypy_extensions import mypyc_attr

from ..protocol.primitives import Buffer
from .open_descriptor import OpenDescriptor

# macOS has no fdatasync.
_sync_data: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)
_pread: Final = os.pread
_pwrite: Final = os.pwrite


@mypyc_attr(allow_interpreted_subclasses=True)
class DataFile:
    """A file open for positioned reads and writes; closes itself with its last reference."""

    __slots__ = ("_descriptor", "_fd", "path")

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self._descriptor = OpenDescriptor(fd)
        self.path = path

    def fileno(self) -> int:
        return self._fd

    def write_at(self, data: Buffer, position: int) -> None:
        """Write all of `data`; a short write is continued, an error leaves a partial tail."""
        written = _pwrite(self._fd, data, position)
        if written != len(data):
            self._write_rest(memoryview(data), position, written)

    def _write_rest(self, data: memoryview, position: int, written: int) -> None:
        while written < len(data):
            count = _pwrite(self._fd, data[written:], position + written)
            if count == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            written += count

    def read_at(self, size: int, position: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        data = _pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        read = len(data)
        while read < size:
            more = _pread(self._fd, size - read, position + read)
            if not more:
                break
            parts.append(more)
            read += len(more)
        return b"".join(parts)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        """Force data, and the size needed to read it, to the disk. Blocks."""
        _sync_data(self._fd)

    def map(self, size: int) -> mmap.mmap:
        return mmap.mmap(self._fd, size, mmap.MAP_SHARED, mmap.PROT_READ)


CLOSED_FILE: Final = DataFile(-1, "(closed)")


class FileSlice:
    """A range of a file; keeps its file open while it lives.

    `held` is what is in it if that has been read already, else empty.
    """

    __slots__ = ("file", "held", "position", "size")

    def __init__(self, file: DataFile, position: int, size: int, held: bytes = b"") -> None:
        self.file = file
        self.position = position
        self.size = size
        self.held = held

    def __len__(self) -> int:
        return self.size

    def fileno(self) -> int:
        return self.file.fileno()

    def read(self) -> bytes:
        return self.held or (self.file.read_at(self.size, self.position) if self.size else b"")


EMPTY_SLICE: Final = FileSlice(CLOSED_FILE, 0, 0)
