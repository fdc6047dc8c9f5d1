"""The sparse offset index of a segment: 8-byte entries (relative offset, file position).

Invariants: entries grow in both fields; the file of an active segment is preallocated to its
largest size and holds `entries` valid ones, that of an inactive segment is trimmed to them. Entries
are appended with pwrite and searched through a read-only shared mapping (see `storage.files`); both
are opened when they are needed, and released when others need their descriptors
(`storage.kept_open`). Another thread may release them, so each method reads the fields once.

Mirrors: AbstractIndex, OffsetIndex, LazyIndex.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import ClassVar, Final

from ..protocol.invariants import BrokenInvariant
from .files import DataFile, Files
from .kept_open import dispose

_ENTRY: Final = Struct(">ii")
_OFFSET: Final = Struct(">i")
# After so many entries that the data does not confirm, the whole index is ignored.
DOUBTED_ENTRIES: Final = 64
_MAX_OFFSET: Final = 2**63 - 1
OFFSET_DIGITS: Final = 20


class IndexFile:
    """The base of offset and time index: entries of fixed size in a mapped file."""

    __slots__ = (
        "_file",
        "_files",
        "_is_unsynced",
        "_map",
        "base_offset",
        "entries",
        "entry_size",
        "is_listed",
        "max_entries",
        "path",
        "was_used",
    )

    def __init__(
        self, files: Files, path: str, base_offset: int, max_bytes: int, entry_size: int
    ) -> None:
        self._files = files
        self.path = path
        self.base_offset = base_offset
        self.entry_size = entry_size
        self.max_entries = max_bytes // entry_size
        self.entries = files.size(path) // entry_size if files.exists(path) else 0
        self._file: DataFile | None = None
        self._map: mmap.mmap | None = None
        self._is_unsynced = False  # changed by this process and not synced
        self.is_listed = False  # these two are of `storage.kept_open`
        self.was_used = False

    def open_for_append(self, max_bytes: int) -> None:
        """Grow the file to its full size: this segment is the active one now."""
        self.max_entries = max_bytes // self.entry_size
        self._set_map(None)
        file = self._open()
        file.truncate(max(self.max_entries, self.entries) * self.entry_size)
        if not self.entries:
            self._set_file(None)  # opened again for the first entry: many partitions never have one

    def _open(self, *, create: bool = True) -> DataFile:
        """The file; open from now on if it may be kept so."""
        file = self._file
        if file is None:
            file = self._files.open(self.path, create=create)
            if self._files.keep_open(self, file):
                self._set_file(file)
        return file

    def _set_file(self, file: DataFile | None) -> None:
        before, self._file = self._file, file
        dispose(before)

    def _set_map(self, mapped: mmap.mmap | None) -> None:
        before, self._map = self._map, mapped
        dispose(before)

    def release_file(self) -> None:
        self._set_map(None)
        self._set_file(None)

    def _mapped(self) -> mmap.mmap:
        self.was_used = True
        kept = self._map
        if kept is not None:
            return kept
        file = self._open(create=False)  # its segment may be deleted while one searches on
        mapped: mmap.mmap = self._files.with_spare(file.map, file.size())
        if self._files.has_spare_descriptors() and self._file is file:
            self._set_map(mapped)
        else:
            self._set_file(None)  # nothing is kept for the next look-up
        return mapped

    def _last_entry(self) -> bytes:
        """The last entry, without mapping the file for it."""
        file = self._file or self._files.open(self.path)
        return file.read_at(self.entry_size, (self.entries - 1) * self.entry_size)

    def _append(self, entry: bytes) -> None:
        self.was_used = True
        if self._file is None and not self._files.has_spare_descriptors():
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), self.path)  # it would be kept
        self._open().write_at(entry, self.entries * self.entry_size)
        self.entries += 1
        self._is_unsynced = True

    def _truncate_to_entries(self, entries: int) -> None:
        """Drop entries; the stale bytes behind are cleared, since a crash shows them again."""
        stale = self.entries - entries
        if stale > 0:
            self._is_unsynced = True
            self._open().write_at(bytes(stale * self.entry_size), entries * self.entry_size)
            self.entries = entries

    def reset(self, max_bytes: int) -> None:
        """Empty the index to its preallocated size, for a rebuild."""
        self._set_map(None)
        file = self._open()
        file.truncate(0)
        self.entries = 0
        self._is_unsynced = True
        self.open_for_append(max_bytes)

    def trim(self) -> None:
        """Cut the file to its entries and release it: the segment is inactive now."""
        self._set_map(None)
        file = self._open()
        size = self.entries * self.entry_size
        if file.size() != size:
            file.truncate(size)
        self._set_file(None)

    def sync(self) -> None:
        """Force the changes to disk. Blocks; safe beside appends."""
        if not self._is_unsynced:
            return
        self._is_unsynced = False
        try:
            file = self._file or self._files.open(self.path)
            file.sync()
        except FileNotFoundError:
            return  # the segment was deleted meanwhile
        except OSError:
            self._is_unsynced = True
            raise

    def release(self) -> None:
        """Close without touching the file: it is gone, or its directory is offline."""
        self.release_file()

    def remove(self) -> None:
        self.release()
        self._files.remove(self.path)

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries

    def size_is_sane(self) -> bool:
        return (
            not self._files.exists(self.path) or self._files.size(self.path) % self.entry_size == 0
        )


class OffsetIndex(IndexFile):
    """Maps an offset to the position of a batch at or below it; entries of eight bytes."""

    __slots__ = ("last_offset",)

    ENTRY_SIZE: ClassVar[int] = 8

    def __init__(self, files: Files, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(files, path, base_offset, max_bytes, self.ENTRY_SIZE)
        self.last_offset = base_offset
        self._reload_last()

    def _reload_last(self) -> None:
        self.last_offset = self.base_offset
        if self.entries:
            self.last_offset += _OFFSET.unpack_from(self._last_entry())[0]

    def entry(self, number: int) -> tuple[int, int]:
        """(offset, position) of one entry."""
        relative, position = _ENTRY.unpack_from(self._mapped(), number * 8)
        return self.base_offset + relative, position

    def append(self, offset: int, position: int) -> None:
        if self.entries and offset <= self.last_offset:
            raise BrokenInvariant(f"{self.path}: {offset} is to follow {self.last_offset}")
        self._append(_ENTRY.pack(offset - self.base_offset, position))
        self.last_offset = offset

    def look_up(self, offset: int) -> tuple[int, int]:
        """The greatest entry with an offset <= `offset`, else (base offset, 0)."""
        number = self._search(offset)
        return self.entry(number) if number >= 0 else (self.base_offset, 0)

    def entries_below(self, offset: int) -> Iterator[tuple[int, int]]:
        """The entry that `look_up` finds, then some entries before it, in case it is damaged."""
        number = self._search(offset)
        for earlier in range(number, max(number - DOUBTED_ENTRIES, -1), -1):
            yield self.entry(earlier)

    def _search(self, offset: int) -> int:
        if not self.entries:
            return -1
        relative = offset - self.base_offset
        mapped = self._mapped()
        unpack = _OFFSET.unpack_from
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) >> 1
            if unpack(mapped, middle * 8)[0] <= relative:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def first_at_or_after(self, position: int) -> tuple[int, int] | None:
        """The first entry whose position is at or after `position`."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) >> 1
            if self.entry(middle)[1] < position:
                low = middle + 1
            else:
                high = middle
        return self.entry(low) if low < self.entries else None

    def truncate_to(self, offset: int) -> None:
        """Drop entries at or above `offset`."""
        self._truncate_to_entries(self._search(offset - 1) + 1)
        self._reload_last()

    def reset(self, max_bytes: int) -> None:
        super().reset(max_bytes)
        self.last_offset = self.base_offset

    def is_sane(self) -> bool:
        """A zero-filled tail or a foreign file shows as a last offset that did not grow."""
        if not self.size_is_sane():
            return False
        return self.entries == 0 or self.last_offset > self.base_offset or self.entries == 1

    def grows(self, log_size: int) -> bool:
        """Whether all entries do, and lead into the data; reads the whole file."""
        if not self._files.exists(self.path):
            return True
        found = list(decode_entries(self._files.read(self.path), self.base_offset))
        in_order = all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(found))
        # The first batch of a segment never gets an entry.
        starts = all(position > 0 for _, position in found[:1])
        return starts and in_order and all(position < log_size for _, position in found[-1:])


def index_path(directory: str, base_offset: int, suffix: str) -> str:
    return os.path.join(directory, f"{base_offset:020d}{suffix}")


def offset_in_name(digits: str) -> int | None:
    """The offset that a file's name begins with: 20 digits; None if the name is none of ours."""
    if len(digits) != OFFSET_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    offset = int(digits)
    return offset if offset <= _MAX_OFFSET else None


def decode_entries(data: bytes, base_offset: int) -> Iterator[tuple[int, int]]:
    """(offset, position) of each entry in the bytes of an index file."""
    whole = memoryview(data)[: len(data) - len(data) % _ENTRY.size]
    for relative, position in _ENTRY.iter_unpack(whole):
        yield base_offset + relative, position
