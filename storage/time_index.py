"""The sparse time index of a segment: 12-byte entries (timestamp, relative offset).

An entry (T, off) means: every message with a timestamp > T has an offset > off. Timestamps and
offsets never decrease along the file. One slot is kept for the entry that closes the segment.

Mirrors: TimeIndex.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import ClassVar, Final

from ..protocol.records.batch import NO_TIMESTAMP
from .files import Files
from .offset_index import DOUBTED_ENTRIES, IndexFile

_ENTRY: Final = Struct(">qi")
_TIMESTAMP: Final = Struct(">q")


class TimeIndex(IndexFile):
    __slots__ = ("last_offset", "last_timestamp")

    ENTRY_SIZE: ClassVar[int] = 12

    def __init__(self, files: Files, path: str, base_offset: int, max_bytes: int) -> None:
        super().__init__(files, path, base_offset, max_bytes, self.ENTRY_SIZE)
        self.last_timestamp = NO_TIMESTAMP
        self.last_offset = base_offset
        self._reload_last()

    def _reload_last(self) -> None:
        if self.entries:
            self.last_timestamp, relative = _ENTRY.unpack(self._last_entry())
            self.last_offset = self.base_offset + relative
        else:
            self.last_timestamp, self.last_offset = NO_TIMESTAMP, self.base_offset

    def entry(self, number: int) -> tuple[int, int]:
        """(timestamp, offset) of one entry."""
        timestamp, relative = _ENTRY.unpack_from(self._mapped(), number * 12)
        return timestamp, self.base_offset + relative

    @property
    def is_full(self) -> bool:
        return self.entries >= self.max_entries - 1

    def maybe_append(self, timestamp: int, offset: int, *, closing: bool = False) -> None:
        """Add an entry if its timestamp is larger than the last one's.

        Only the closing entry of a segment may take the last slot.
        """
        if timestamp <= self.last_timestamp or offset < self.last_offset:
            return
        if self.is_full and not (closing and self.entries < self.max_entries):
            return
        self._append(_ENTRY.pack(timestamp, offset - self.base_offset))
        self.last_timestamp, self.last_offset = timestamp, offset

    def look_up(self, timestamp: int) -> tuple[int, int]:
        """The greatest entry with a timestamp <= `timestamp`, else (-1, base offset)."""
        return next(self.entries_below(timestamp), (NO_TIMESTAMP, self.base_offset))

    def entries_below(self, timestamp: int) -> Iterator[tuple[int, int]]:
        """The entry that `look_up` finds, then some entries before it, in case it is damaged."""
        number = self._search(timestamp)
        for earlier in range(number, max(number - DOUBTED_ENTRIES, -1), -1):
            yield self.entry(earlier)

    def _search(self, timestamp: int) -> int:
        if not self.entries:
            return -1
        mapped = self._mapped()
        unpack = _TIMESTAMP.unpack_from
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) >> 1
            if unpack(mapped, middle * 12)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return low - 1

    def truncate_to(self, offset: int) -> None:
        """Drop entries at or above `offset`."""
        entries = self.entries
        while entries and self.entry(entries - 1)[1] >= offset:
            entries -= 1
        self._truncate_to_entries(entries)
        self._reload_last()

    def reset(self, max_bytes: int) -> None:
        super().reset(max_bytes)
        self._reload_last()

    def is_sane(self) -> bool:
        """Size fits, and the last entry is above the first: a zero-filled tail shows here."""
        if not self.size_is_sane():
            return False
        if not self.entries:
            return True
        first_timestamp, _ = self.entry(0)
        grows = self.entries == 1 or self.last_timestamp > first_timestamp
        sane = grows and self.last_offset >= self.base_offset
        self._set_map(None)
        return sane

    def grows(self) -> bool:
        """Whether all entries do; reads the whole file."""
        if not self._files.exists(self.path):
            return True
        found = decode_entries(self._files.read(self.path), self.base_offset)
        return all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(found))


def decode_entries(data: bytes, base_offset: int) -> Iterator[tuple[int, int]]:
    """(timestamp, offset) of each entry in the bytes of an index file."""
    whole = memoryview(data)[: len(data) - len(data) % _ENTRY.size]
    for timestamp, relative in _ENTRY.iter_unpack(whole):
        yield timestamp, base_offset + relative
