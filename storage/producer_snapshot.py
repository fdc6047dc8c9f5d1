"""Producer snapshots: `<offset>.snapshot`, the producer state up to (excluding) an offset.

Only the last batch of each producer is kept in the file. A snapshot that does not check out is
deleted and the next older one is used; the log behind it is read again.

Mirrors: ProducerStateManager.readSnapshot / writeSnapshot, SnapshotFile.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from struct import Struct

import crc32c

from .files import Files
from .offset_index import offset_in_name
from .producer_state import BatchMetadata, ProducerEntry, ProducerState
from .segment import SNAPSHOT_SUFFIX

_HEADER = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_END = 6


class CorruptSnapshot(Exception):
    """The file is no producer snapshot, or was cut or damaged."""


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's bytes; of a producer's batches only the last one is in it."""
    body = bytearray(_HEADER.size)
    count = 0
    for e in entries:
        count += 1
        body += _ENTRY.pack(
            e.producer_id,
            e.epoch,
            e.last_sequence,
            e.last_data_offset,
            e.last_offset_delta,
            e.last_timestamp,
            e.coordinator_epoch,
            e.current_txn_first_offset,
        )
    _HEADER.pack_into(body, 0, _VERSION, 0, count)
    crc = crc32c.crc32c(memoryview(body)[_CRC_END:])
    _HEADER.pack_into(body, 0, _VERSION, crc, count)
    return bytes(body)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers of a file. Raises CorruptSnapshot."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc32c.crc32c(memoryview(data)[_CRC_END:]) != crc:
        raise CorruptSnapshot("the CRC is wrong")
    if count < 0 or _HEADER.size + count * _ENTRY.size > len(data):
        raise CorruptSnapshot(f"{count} entries do not fit in {len(data)} bytes")
    entries = []
    for number in range(count):
        (
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            delta,
            timestamp,
            coordinator_epoch,
            txn_first_offset,
        ) = _ENTRY.unpack_from(data, _HEADER.size + number * _ENTRY.size)
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

    __slots__ = ("_directory", "_files", "is_newest_unsynced", "last_snapshot_offset", "offsets")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
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
        data = encode_snapshot(state.entries.values())
        file = self._files.open(self.path(offset), create=True)
        file.truncate(0)
        file.write_at(data, 0)
        if offset not in self.offsets:
            self.offsets.append(offset)
            self.offsets.sort()
        self.last_snapshot_offset = offset
        self.is_newest_unsynced = True
        return True

    def sync(self, offset: int) -> None:
        """Force the snapshot at `offset`, if there is one, to the disk. Blocks."""
        try:
            file = self._files.open(self.path(offset))
        except FileNotFoundError:
            return
        file.sync()
        if offset == self.last_snapshot_offset:
            self.is_newest_unsynced = False

    def load_newest(self, state: ProducerState, log_start_offset: int) -> str | None:
        """Fill `state` from the newest good snapshot, else leave it empty at the log start.

        Returns what was wrong with the snapshots that were thrown away.
        """
        problem = None
        while self.offsets:
            offset = self.offsets[-1]
            try:
                entries = decode_snapshot(self._files.read(self.path(offset)))
            except (CorruptSnapshot, FileNotFoundError) as error:
                problem = f"{self.path(offset)}: {error}"
                self.delete(offset)
                continue
            state.load(entries, offset)
            self.last_snapshot_offset = offset
            return problem
        state.clear(log_start_offset)
        self.last_snapshot_offset = log_start_offset
        return problem

    def delete(self, offset: int) -> None:
        self.offsets.remove(offset)
        self._files.remove(self.path(offset))

    def delete_outside(self, low_exclusive: int, high_inclusive: int) -> None:
        for offset in list(self.offsets):
            if offset > high_inclusive or offset <= low_exclusive:
                self.delete(offset)

    def delete_all(self) -> None:
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
