"""The indexes of remote segments, in files, so that a read asks the store for records only.

Job: the position of an offset or a timestamp in a remote segment, and its aborted transactions. An
entry is three files of `remote-log-index-cache` below the log directory, with Kafka's names; they
are fetched at the first question, mapped into memory, and found again after a restart.

Invariants:
- A file under its final name is whole: it is forced to disk before it is renamed.
- The entries have at most `max_bytes` together, one entry aside; the one that was not used for the
  longest time goes first. A reader that has an evicted entry may go on using it.
- An entry is fetched by one thread; others that ask for the same one wait for it. Its files are
  asked for side by side: a store takes as long for a small one as for a large one.
- The cache is never needed: what cannot be written is kept in memory by the one who asked.

Calls may block, but for `at_hand`, and may be made by several threads at once; the locks, and the
threads of one fetch, come from the caller.

Mirrors: RemoteIndexCache. Leaves out its cleaner thread: files go at once, and maps with the last
user.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from struct import Struct
from typing import Final, TypeAlias

from ...protocol.uuids import uuid_from_text, uuid_to_text
from ..files import Files
from ..transaction_index import AbortedTransaction
from .segments import RemoteLogSegmentId, RemoteLogSegmentMetadata
from .storage_manager import (
    IndexType,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
)

# By index: the suffix of its file, and the size of its entries.
CACHED: Final = {
    IndexType.OFFSET: (".index", 8),
    IndexType.TIMESTAMP: (".timeindex", 12),
    IndexType.TRANSACTION: (".txnindex", 34),
}
_OFFSET: Final = Struct(">i")
_POSITION: Final = Struct(">i")
_TIMESTAMP: Final = Struct(">q")
_ABORTED: Final = Struct(">hqqqq")

FEW_ABORTED: Final = 500

Lock: TypeAlias = AbstractContextManager[object]
Content: TypeAlias = bytes | mmap.mmap
# Makes all calls, and returns their results in order; raises what the first of them has raised.
SideBySide: TypeAlias = Callable[[Sequence[Callable[[], bytes]]], list[bytes]]


def one_by_one(calls: Sequence[Callable[[], bytes]]) -> list[bytes]:
    return [call() for call in calls]


class SegmentIndexes:
    """The indexes of one segment; offsets are absolute, positions are within the segment."""

    __slots__ = ("_aborted", "_base", "_offsets", "_times", "size_bytes")

    def __init__(self, base_offset: int, contents: dict[IndexType, Content]) -> None:
        self._base = base_offset
        self._offsets = contents[IndexType.OFFSET]
        self._times = contents[IndexType.TIMESTAMP]
        self._aborted = contents[IndexType.TRANSACTION]
        self.size_bytes = sum(map(len, contents.values()))

    def lookup_offset(self, offset: int) -> int:
        """A position at or before the batch that holds `offset`."""
        found = bisect_right(
            range(len(self._offsets) // 8), offset - self._base, key=self._relative
        )
        return self._position(found - 1) if found else 0

    def lookup_timestamp(self, timestamp: int, starting_offset: int) -> int:
        """A position at or before the first batch with a record at or after both."""
        data = self._times
        found = bisect_right(
            range(len(data) // 12),
            timestamp,
            key=lambda number: _TIMESTAMP.unpack_from(data, 12 * number)[0],
        )
        offset: int = _OFFSET.unpack_from(data, 12 * found - 4)[0] if found else 0
        return self.lookup_offset(max(self._base + offset, starting_offset))

    def upper_bound_offset(self, position: int, size: int) -> int | None:
        """The offset of the first entry at or behind the end of a range of bytes."""
        entries = range(len(self._offsets) // 8)
        found = bisect_left(entries, position + size, key=self._position)
        return self._base + self._relative(found) if found < len(entries) else None

    @property
    def has_few_aborted(self) -> bool:
        """Whether `aborted` takes less than a millisecond."""
        return len(self._aborted) <= FEW_ABORTED * _ABORTED.size

    def aborted(
        self, offset: int, upper_bound: int, end_offset: int | None = None
    ) -> tuple[list[AbortedTransaction], bool]:
        """The aborted transactions that overlap a range, and whether no other segment has more.
        Markers at `end_offset` and behind it do not count."""
        found = []
        for fields in _ABORTED.iter_unpack(bytes(self._aborted)):
            entry = AbortedTransaction(*fields[1:])
            if end_offset is not None and entry.last_offset >= end_offset:
                break
            if entry.last_offset >= offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def _relative(self, number: int) -> int:
        value: int = _OFFSET.unpack_from(self._offsets, 8 * number)[0]
        return value

    def _position(self, number: int) -> int:
        value: int = _POSITION.unpack_from(self._offsets, 8 * number + 4)[0]
        return value


class _Kept:
    """An entry in files; its maps are made at the first use after a restart."""

    __slots__ = ("indexes", "is_used", "paths", "size_bytes")

    def __init__(self, paths: dict[IndexType, str], size_bytes: int) -> None:
        self.paths = paths
        self.size_bytes = size_bytes
        self.indexes: SegmentIndexes | None = None
        self.is_used = False  # since it was last looked for under the lock


class RemoteIndexCache:
    """`new_lock` makes the locks between threads, `side_by_side` the calls of one fetch."""

    __slots__ = (
        "_directory", "_fetching", "_files", "_kept", "_lock", "_new_lock", "_side_by_side",
        "_size", "_store", "max_bytes",
    )  # fmt: skip

    def __init__(
        self,
        directory: str,
        store: RemoteStorageManager,
        max_bytes: int,
        new_lock: Callable[[], Lock],
        files: Files | None = None,
        side_by_side: SideBySide = one_by_one,
    ) -> None:
        """Find the entries in the directory, and remove whatever else is there. OSError if it
        cannot be made or read."""
        self._directory = directory
        self._store = store
        self.max_bytes = max_bytes
        self._files = files or Files()
        self._new_lock = new_lock
        self._side_by_side = side_by_side
        self._lock = new_lock()
        # By segment id, the one that was used last at the end.
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._size = 0
        # By segment id: the lock of its fetch, and how many have it or wait for it.
        self._fetching: dict[bytes, tuple[Lock, int]] = {}
        self._files.make_directory(directory)
        self._find_files()

    def entry(self, metadata: RemoteLogSegmentMetadata) -> SegmentIndexes:
        """Blocks. RemoteStorageError if an index cannot be had."""
        key = metadata.segment_id.id
        found = self._from_files(key, metadata.start_offset)
        if found is not None:
            return found
        with self._fetch_of(key):
            found = self._from_files(key, metadata.start_offset)
            return found if found is not None else self._fetch(key, metadata)

    def at_hand(self, metadata: RemoteLogSegmentMetadata) -> SegmentIndexes | None:
        """The indexes if they are mapped already. Neither blocks nor waits for a lock."""
        kept = self._kept.get(metadata.segment_id.id)
        if kept is None or kept.indexes is None:
            return None
        kept.is_used = True
        return kept.indexes

    def remove(self, segment_ids: Collection[RemoteLogSegmentId]) -> None:
        """Forget segments that were deleted."""
        with self._lock:
            for segment_id in segment_ids:
                self._remove(segment_id.id)

    def resize(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        with self._lock:
            self._evict()

    # Files

    def _find_files(self) -> None:
        """The complete entries, the oldest ones first."""
        suffixes = {suffix: one for one, (suffix, _) in CACHED.items()}
        paths: dict[bytes, dict[IndexType, str]] = {}
        for name in self._files.list_directory(self._directory):
            path = os.path.join(self._directory, name)
            stem, suffix = os.path.splitext(name)
            try:
                key = uuid_from_text(stem.partition("_")[2])
                paths.setdefault(key, {})[suffixes[suffix]] = path
            except (KeyError, ValueError):
                if not self._files.is_directory(path):
                    self._files.remove(path)
        found = []
        for key, ones in paths.items():
            size = self._size_of(ones)
            if size is None:
                for path in ones.values():
                    self._files.remove(path)
            else:
                used_ms = max(map(self._files.modified_ms, ones.values()))
                found.append((used_ms, key, _Kept(ones, size)))
        for _, key, kept in sorted(found, key=lambda one: one[:2]):
            self._kept[key] = kept
            self._size += kept.size_bytes
        self._evict()

    def _size_of(self, paths: dict[IndexType, str]) -> int | None:
        """None unless there are all files of an entry, each of whole entries."""
        sizes = {one: self._files.size(path) for one, path in paths.items()}
        whole = all(size % CACHED[one][1] == 0 for one, size in sizes.items())
        return sum(sizes.values()) if whole and sizes.keys() == CACHED.keys() else None

    def _from_files(self, key: bytes, base_offset: int) -> SegmentIndexes | None:
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                return None
            self._kept.move_to_end(key)
            if kept.indexes is None:
                try:
                    contents = {one: self._mapped(path) for one, path in kept.paths.items()}
                except OSError:
                    self._remove(key)
                    return None
                kept.indexes = SegmentIndexes(base_offset, contents)
            return kept.indexes

    def _mapped(self, path: str) -> Content:
        file = self._files.open_to_read(path)
        size = file.size()
        return file.map(size) if size else b""

    def _fetch(self, key: bytes, metadata: RemoteLogSegmentMetadata) -> SegmentIndexes:
        calls = [partial(self._fetched, metadata, one) for one in CACHED]
        contents: dict[IndexType, Content] = dict(
            zip(CACHED, self._side_by_side(calls), strict=True)
        )
        stem = f"{metadata.start_offset}_{uuid_to_text(key)}"
        paths = {
            one: os.path.join(self._directory, stem + suffix) for one, (suffix, _) in CACHED.items()
        }
        in_memory = SegmentIndexes(metadata.start_offset, contents)
        try:
            for one, data in contents.items():
                self._files.write_atomically(paths[one], bytes(data))
        except OSError:
            self._unlink(paths)
            return in_memory
        with self._lock:
            self._kept[key] = _Kept(paths, in_memory.size_bytes)
            self._size += in_memory.size_bytes
            self._evict()
        return self._from_files(key, metadata.start_offset) or in_memory

    def _fetched(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        """The bytes of one index, whole entries."""
        try:
            fetched = bytes(self._store.fetch_index(metadata, index_type))
        except RemoteResourceNotFoundError:
            if index_type is not IndexType.TRANSACTION:
                raise
            fetched = b""
        if len(fetched) % CACHED[index_type][1]:
            raise RemoteStorageError(
                f"the {index_type.value} of {metadata.segment_id} has {len(fetched)} bytes"
            )
        return fetched

    def _evict(self) -> None:
        while self._size > self.max_bytes and len(self._kept) > 1:
            key, kept = next(iter(self._kept.items()))
            if kept.is_used:
                kept.is_used = False
                self._kept.move_to_end(key)
            else:
                self._remove(key)

    def _remove(self, key: bytes) -> None:
        kept = self._kept.pop(key, None)
        if kept is None:
            return
        self._size -= kept.size_bytes
        self._unlink(kept.paths)

    def _unlink(self, paths: dict[IndexType, str]) -> None:
        """What cannot be removed is found, and perhaps removed, at the next start."""
        for path in paths.values():
            with suppress(OSError):
                self._files.remove(path)

    @contextmanager
    def _fetch_of(self, key: bytes) -> Iterator[None]:
        """The right to fetch an entry; one thread has it at a time."""
        with self._lock:
            lock, users = self._fetching.get(key) or (self._new_lock(), 0)
            self._fetching[key] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                users = self._fetching[key][1] - 1
                if users:
                    self._fetching[key] = lock, users
                else:
                    del self._fetching[key]
