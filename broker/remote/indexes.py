"""Indexes of remote segments, fetched once and kept in memory.

Job: positions by offset and by time, and aborted transactions, from the index files beside a remote
segment. All methods that fetch block; they run in worker threads, several at once.
Invariant: the kept files are of at most `max_bytes` together, one entry aside.

Mirrors: RemoteIndexCache.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection
from struct import Struct
from threading import Lock

from ...storage.remote.segments import RemoteLogSegmentId, RemoteLogSegmentMetadata
from ...storage.remote.storage_manager import (
    IndexType,
    RemoteResourceNotFoundError,
    RemoteStorageManager,
)
from ...storage.transaction_index import AbortedTransaction

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_ABORTED_ENTRY = Struct(">hqqqq")


class SegmentIndexes:
    """The indexes of one segment."""

    __slots__ = ("_aborted", "_base", "_offsets", "_positions", "_times", "size_bytes")

    def __init__(self, base_offset: int, offsets: bytes, times: bytes, aborted: bytes) -> None:
        self._base = base_offset
        self.size_bytes = len(offsets) + len(times) + len(aborted)
        entries = list(_OFFSET_ENTRY.iter_unpack(offsets[: len(offsets) // 8 * 8]))
        self._offsets = [base_offset + relative for relative, _ in entries]
        self._positions = [position for _, position in entries]
        self._times = [
            (timestamp, base_offset + relative)
            for timestamp, relative in _TIME_ENTRY.iter_unpack(times[: len(times) // 12 * 12])
        ]
        self._aborted = [
            AbortedTransaction(*fields[1:])
            for fields in _ABORTED_ENTRY.iter_unpack(aborted[: len(aborted) // 34 * 34])
        ]

    def lookup_offset(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`."""
        index = bisect_right(self._offsets, offset)
        return self._positions[index - 1] if index else 0

    def lookup_timestamp(self, timestamp: int, starting_offset: int) -> int:
        """A position at or before the first batch with a record at or after both."""
        earlier = [offset for time, offset in self._times if time < timestamp]
        return self.lookup_offset(max(earlier[-1] if earlier else 0, starting_offset))

    def upper_bound_offset(self, position: int, size: int) -> int | None:
        """The offset of the first entry at or behind the end of a range of bytes."""
        end = position + size
        return next(
            (o for o, p in zip(self._offsets, self._positions, strict=True) if p >= end), None
        )

    def aborted(self, offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions that overlap a range, and whether no other segment has more."""
        found = []
        for entry in self._aborted:
            if entry.last_offset >= offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False


class RemoteIndexes:
    __slots__ = ("_kept", "_lock", "_size", "_store", "max_bytes")

    def __init__(self, store: RemoteStorageManager, max_bytes: int) -> None:
        self._store = store
        self.max_bytes = max_bytes
        self._lock = Lock()
        self._kept: OrderedDict[RemoteLogSegmentId, SegmentIndexes] = OrderedDict()
        self._size = 0

    def entry(self, metadata: RemoteLogSegmentMetadata) -> SegmentIndexes:
        """Blocks. RemoteStorageError if an index cannot be had."""
        key = metadata.segment_id
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
                return kept
        fetch = self._store.fetch_index
        try:
            aborted = bytes(fetch(metadata, IndexType.TRANSACTION))
        except RemoteResourceNotFoundError:
            aborted = b""
        made = SegmentIndexes(
            metadata.start_offset,
            bytes(fetch(metadata, IndexType.OFFSET)),
            bytes(fetch(metadata, IndexType.TIMESTAMP)),
            aborted,
        )
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._size += made.size_bytes
            while self._size > self.max_bytes and len(self._kept) > 1:
                self._size -= self._kept.popitem(last=False)[1].size_bytes
        return made

    def remove(self, segment_ids: Collection[RemoteLogSegmentId]) -> None:
        with self._lock:
            for segment_id in segment_ids:
                gone = self._kept.pop(segment_id, None)
                if gone is not None:
                    self._size -= gone.size_bytes
