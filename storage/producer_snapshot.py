"""Producer snapshots: `<offset>.snapshot`, the producer state up to (excluding) an offset.

Only the last batch of each producer is kept in the file. A snapshot that does not check out is
deleted and the next older one is used; the log behind it is read again.

So a missing snapshot costs time at the next start or truncation; a producer that is forgotten then,
as in Kafka, has no batch in the log any more. If the producers are few, a new segment begins with a
snapshot. If they are many, they are frozen, and periodic calls of `begin` have their rows made in
pieces and written to a file whose name the next start deletes; `finish` makes it a snapshot if the
log was not truncated below it meanwhile. At most one is written per MIN_INTERVAL_MS; the newest
waiting one replaces the others.

Mirrors: ProducerStateManager.readSnapshot / writeSnapshot, SnapshotFile. Kafka writes all of them
when it rolls, under the lock of the log.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Generator, Iterable
from struct import Struct

import crc32c

from .files import Files
from .offset_index import offset_in_name
from .producer_entry import ROW, BatchMetadata, FrozenProducers, ProducerEntry, snapshot_row
from .producer_state import ProducerState
from .segment import DELETED_SUFFIX, SNAPSHOT_SUFFIX

_HEADER = Struct(">hIi")
# Where a row has the first offset of its open transaction, and the first byte that is none of -1.
_TRANSACTION_AT = ROW.size - 8
_OPEN = re.compile(rb"[\x00-\x7f]")
_VERSION = 1
_CRC_END = 6

# Producers that are written when a segment begins; half a millisecond.
ROWS_AT_ONCE = 500
# Producers that are read in one piece.
ROWS_READ_AT_ONCE = 500
MAX_OFFSET = 2**63 - 1
MIN_INTERVAL_MS = 10_000


class CorruptSnapshot(Exception):
    """The file is no producer snapshot, or was cut or damaged."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's bytes; of a producer's batches only the last one is in it."""
    return _with_header(b"".join([snapshot_row(entry) for entry in entries]))


def _with_header(rows: bytes | bytearray) -> bytes:
    body = bytearray(_HEADER.size)
    body += rows
    count = len(rows) // ROW.size
    _HEADER.pack_into(body, 0, _VERSION, 0, count)
    crc = crc32c.crc32c(memoryview(body)[_CRC_END:])
    _HEADER.pack_into(body, 0, _VERSION, crc, count)
    return bytes(body)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers of a file. Raises CorruptSnapshot."""
    return decode_rows(data, 0, count_rows(data))


def count_rows(data: bytes) -> int:
    """How many producers are in the bytes of a file. Raises CorruptSnapshot."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc32c.crc32c(memoryview(data)[_CRC_END:]) != crc:
        raise CorruptSnapshot("the CRC is wrong")
    if count < 0 or _HEADER.size + count * ROW.size > len(data):
        raise CorruptSnapshot(f"{count} entries do not fit in {len(data)} bytes")
    return int(count)


def with_open_transactions(data: bytes) -> list[ProducerEntry]:
    """The producers whose transactions are open; quick also for very many others. Raises
    CorruptSnapshot."""
    rows = data[_HEADER.size : _HEADER.size + count_rows(data) * ROW.size]
    return [
        entry
        for found in _OPEN.finditer(rows[_TRANSACTION_AT :: ROW.size])
        for entry in decode_rows(data, found.start(), found.end())
    ]


def decode_rows(data: bytes, first: int, end: int) -> list[ProducerEntry]:
    """The producers of the rows from `first` up to (excluding) `end`."""
    entries = []
    for number in range(first, end):
        (
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            delta,
            timestamp,
            coordinator_epoch,
            txn_first_offset,
        ) = ROW.unpack_from(data, _HEADER.size + number * ROW.size)
        entry = ProducerEntry(producer_id, epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        entry.current_txn_first_offset = max(txn_first_offset, -1)
        if last_offset >= 0:
            entry.batches.append(BatchMetadata(last_sequence, last_offset, delta, timestamp))
        entries.append(entry)
    return entries


class SnapshotStore:
    """The snapshot files of one partition directory."""

    __slots__ = (
        "_begun_ms",
        "_directory",
        "_files",
        "_waiting",
        "_writing",
        "is_newest_unsynced",
        "last_snapshot_offset",
        "offsets",
    )

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._waiting: FrozenProducers | None = None
        self._writing: FrozenProducers | None = None
        self._begun_ms: int | None = None  # when the last one was
        self.offsets: list[int] = sorted(
            offset
            for name in files.list_directory(directory)
            if name.endswith(SNAPSHOT_SUFFIX)
            and (offset := offset_in_name(name[: -len(SNAPSHOT_SUFFIX)])) is not None
        )
        self.last_snapshot_offset = self.offsets[-1] if self.offsets else 0
        self.is_newest_unsynced = False  # written by this process, and not forced to disk yet

    def moved_to(self, directory: str) -> None:
        self._directory = directory

    def path(self, offset: int) -> str:
        return os.path.join(self._directory, f"{offset:020d}{SNAPSHOT_SUFFIX}")

    def take(self, state: ProducerState) -> bool:
        """Write a snapshot at the state's end unless the newest one is as new; not synced."""
        offset = state.map_end_offset
        if offset <= self.last_snapshot_offset:
            return False
        self._drop_unwritten()
        file = self._files.open(self.path(offset), create=True)
        file.truncate(0)
        file.write_at(encode_snapshot(state.entries.values()), 0)
        self._add(offset)
        return True

    def put(self, offset: int, data: bytes) -> None:
        """Write a snapshot that another broker has made; not synced."""
        file = self._files.open(self.path(offset), create=True)
        file.truncate(0)
        file.write_at(data, 0)
        self._add(offset)

    def _add(self, offset: int) -> None:
        if offset not in self.offsets:
            self.offsets.append(offset)
            self.offsets.sort()
        self.last_snapshot_offset = max(offset, self.last_snapshot_offset)
        self.is_newest_unsynced = True

    # Snapshots of many producers

    def take_soon(self, state: ProducerState) -> None:
        """Like `take`, but leaves the snapshot of many producers to `begin`."""
        if len(state.entries) <= ROWS_AT_ONCE:
            self.take(state)
        elif state.map_end_offset > self._awaited_offset():
            if self._waiting is not None:
                self._waiting.end()
            self._waiting = state.freeze()

    def _awaited_offset(self) -> int:
        """The offset of the newest snapshot, including one that waits or is being written."""
        newest = self._waiting or self._writing
        return self.last_snapshot_offset if newest is None else newest.offset

    def is_due(self, now_ms: int) -> bool:
        return self._waiting is not None and (
            self._begun_ms is None or now_ms - self._begun_ms >= MIN_INTERVAL_MS
        )

    def begin(self, now_ms: int) -> FrozenProducers:
        """The waiting snapshot, when one is due: the caller encodes, writes and finishes it."""
        frozen = self._waiting
        assert frozen is not None, "no snapshot waits"
        if self._writing is not None:
            self._writing.end()
        self._writing, self._waiting, self._begun_ms = frozen, None, now_ms
        return frozen

    def write(self, frozen: FrozenProducers) -> None:
        """Write and sync its file, under a name that a start deletes. Blocks; in any thread."""
        data = _with_header(frozen.rows)
        try:
            file = self._files.open(self.path(frozen.offset) + DELETED_SUFFIX, create=True)
        except FileNotFoundError:
            return  # the directory has another name now, or is gone
        file.truncate(0)
        file.write_at(data, 0)
        file.sync()
        frozen.is_written = True

    def finish(self, frozen: FrozenProducers) -> None:
        """Make the written file a snapshot, or remove it if it is obsolete."""
        path = self.path(frozen.offset)
        if not frozen.is_over and frozen.is_written:
            self._files.rename(path + DELETED_SUFFIX, path)
            self._add(frozen.offset)
        else:
            self._files.remove(path + DELETED_SUFFIX)
        frozen.end()
        if self._writing is frozen:
            self._writing = None

    def _drop_unwritten(self, low_exclusive: int = -1, high_inclusive: int = -1) -> None:
        """Drop the snapshots not written yet whose offsets lie outside the interval."""
        for frozen in (self._writing, self._waiting):
            if frozen is not None and not low_exclusive < frozen.offset <= high_inclusive:
                frozen.end()
        if self._writing is not None and self._writing.is_over:
            self._writing = None
        if self._waiting is not None and self._waiting.is_over:
            self._waiting = None

    # Stored snapshots

    def sync(self, offset: int) -> None:
        """Force the snapshot at `offset`, if there is one, to the disk. Blocks."""
        try:
            file = self._files.open(self.path(offset))
        except FileNotFoundError:
            return
        file.sync()
        if offset == self.last_snapshot_offset:
            self.is_newest_unsynced = False

    def load_newest(
        self, state: ProducerState, log_start_offset: int
    ) -> Generator[None, None, str | None]:
        """Fill `state` from the newest good snapshot, else leave it empty at the log start; in
        pieces.

        Returns the problems of the snapshots that were deleted.
        """
        problem = None
        while self.offsets:
            offset = self.offsets[-1]
            try:
                data = self._files.read(self.path(offset))
                count = count_rows(data)
                self.last_snapshot_offset = offset
                state.clear(offset)
                for first in range(0, count, ROWS_READ_AT_ONCE):
                    entries = decode_rows(data, first, min(first + ROWS_READ_AT_ONCE, count))
                    if any(one.latest_offset >= offset for one in entries):
                        raise CorruptSnapshot("it has a batch of a producer from behind its offset")
                    state.load_some(entries)
                    yield
            except (CorruptSnapshot, FileNotFoundError) as error:
                problem = f"{self.path(offset)}: {error}"
                self.delete(offset)
                continue
            state.all_loaded()
            return problem
        state.clear(log_start_offset)
        self.last_snapshot_offset = log_start_offset
        return problem

    def delete(self, offset: int) -> None:
        self.offsets.remove(offset)
        self._files.remove(self.path(offset))

    def delete_outside(self, low_exclusive: int, high_inclusive: int) -> None:
        self._drop_unwritten(low_exclusive, high_inclusive)
        for offset in list(self.offsets):
            if offset > high_inclusive or offset <= low_exclusive:
                self.delete(offset)

    def delete_below(self, offset: int) -> None:
        """Delete the snapshots below `offset`, the new log start: the log has no records behind
        them."""
        self._drop_unwritten(offset - 1, MAX_OFFSET)
        for older in self.offsets[: bisect_left(self.offsets, offset)]:
            self.delete(older)

    def delete_all(self) -> None:
        self._drop_unwritten()
        for offset in list(self.offsets):
            self.delete(offset)
        self.last_snapshot_offset = 0

    def delete_strays(self, segment_base_offsets: Iterable[int]) -> None:
        """Keep those at segment bases and the newest, if that is newer than all segments."""
        bases = set(segment_base_offsets)
        highest_base = max(bases, default=-1)
        strays = [offset for offset in self.offsets if offset not in bases]
        newest_stray = strays[-1] if strays and strays[-1] > highest_base else None
        for offset in strays:
            if offset != newest_stray:
                self.delete(offset)

    def refresh_last(self, log_start_offset: int) -> None:
        self.last_snapshot_offset = self.offsets[-1] if self.offsets else log_start_offset
