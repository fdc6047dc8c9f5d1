"""Clean one batch: keep it unchanged, keep some of its records, leave it empty, or drop it.

A batch is copied byte for byte if all its records stay. Otherwise, the records that stay are copied
in their encoded form; their timestamps are encoded anew only where the batch's base timestamp
changes: to that of the first record that stays, or to the delete horizon (KIP-534), the time from
which tombstones and markers may go. Offsets, sequences, producer, leader epoch, flags and codec
stay.

Mirrors: MemoryRecords.filterTo, Cleaner.shouldRetainRecord.
Leaves out: repairing wrappers whose inner messages have another magic (KAFKA-4298).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...protocol.primitives import Buffer
from ...protocol.records.batch import (
    DELETE_HORIZON_BIT,
    BatchHeader,
    TimestampType,
    iter_records,
    records_block,
)
from ...protocol.records.builder import assemble, build_empty_batch
from ...protocol.records.compression import MAX_DECOMPRESSED_BYTES, compression_of
from ...protocol.records.loops.keys import choose_records, timestamp_delta
from ...protocol.records.loops.varint import MAX_INT64, MIN_INT64, encode_varlong, wrap_int64
from ...protocol.records.message_set import encode_message_set
from ...protocol.records.record import check_block
from .offset_map import OffsetMap


class Chosen(NamedTuple):
    """The positions of the records of a block that stay, and facts about the block."""

    starts: list[int]
    ends: list[int]
    has_tombstones: bool
    without_key: int  # dropped for that


class Kept(NamedTuple):
    """The replacement of one batch in the new segment; `batch` is None if nothing stays."""

    batch: Buffer | None
    header: BatchHeader  # of `batch`
    read: int
    kept: int
    invalid: int = 0  # records without a key


class BatchFilter:
    """The rules of one pass, for one segment after the other."""

    __slots__ = ("_delete_horizon_ms", "_map", "_wall_ms", "keep_legacy_tombstones")

    def __init__(self, offset_map: OffsetMap, wall_ms: int, delete_retention_ms: int) -> None:
        self._map = offset_map
        self._wall_ms = wall_ms
        self._delete_horizon_ms = wall_ms + delete_retention_ms
        self.keep_legacy_tombstones = True

    def is_past_horizon(self, header: BatchHeader) -> bool:
        horizon_ms = header.delete_horizon_ms
        return horizon_ms is not None and horizon_ms <= self._wall_ms

    def keep_data(self, batch: Buffer, header: BatchHeader, *, keep_empty: bool) -> Kept:
        """A data batch, of which the last record of each key stays."""
        if header.magic < 2:
            return self._keep_legacy(batch, header)
        count = header.record_count
        if count == 0:
            return _emptied(header, 0, keep_empty)
        block = records_block(batch, 0, header, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
        chosen = _choose(block, header, self._map, self.is_past_horizon(header))
        kept = len(chosen.starts)
        if not kept:
            return _emptied(header, count, keep_empty, chosen.without_key)
        if kept == count and (not chosen.has_tombstones or header.has_delete_horizon):
            return Kept(batch, header, count, count)
        horizon_ms = header.delete_horizon_ms
        if horizon_ms is None and chosen.has_tombstones:
            horizon_ms = self._delete_horizon_ms
        return _rebuilt(header, block, chosen, horizon_ms)

    def keep_marker(self, batch: Buffer, header: BatchHeader, *, removable: bool) -> Kept:
        """A control batch that stays; if it may go some day, it gets its delete horizon now."""
        count = header.record_count
        if count == 0 or header.has_delete_horizon or not removable:
            return Kept(batch, header, count, count)
        block = records_block(batch, 0, header, max_decompressed_bytes=MAX_DECOMPRESSED_BYTES)
        every = _choose(block, header, None, False)
        return _rebuilt(header, block, every, self._delete_horizon_ms)

    def _keep_legacy(self, batch: Buffer, header: BatchHeader) -> Kept:
        look_up = self._map.look_up
        latest = self._map.latest_offset
        records = list(iter_records(batch))
        kept = []
        invalid = 0
        for record in records:
            if record.offset > latest:
                kept.append(record)
            elif record.key is None:
                invalid += 1
            elif record.value is not None or self.keep_legacy_tombstones:
                found = look_up(record.key)
                if found is None or record.offset >= found:
                    kept.append(record)
        if len(kept) == len(records):
            return Kept(batch, header, len(records), len(kept))
        if not kept:
            return Kept(None, header, len(records), 0, invalid)
        append_time = None
        if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
            append_time = header.max_timestamp
        rebuilt = encode_message_set(
            kept,
            magic=header.magic,
            compression=compression_of(header.attributes),
            log_append_time=append_time,
        )
        newest = max(record.timestamp for record in kept)
        kept_header = header._replace(
            base_offset=kept[-1].offset,
            batch_length=len(rebuilt) - (header.size_in_bytes - header.batch_length),
            base_timestamp=newest,
            max_timestamp=newest,
        )
        return Kept(rebuilt, kept_header, len(records), len(kept), invalid)


def emptied(header: BatchHeader, *, keep_empty: bool) -> Kept:
    """A batch none of whose records stays."""
    return _emptied(header, max(header.record_count, 0), keep_empty)


def _emptied(header: BatchHeader, read: int, keep_empty: bool, invalid: int = 0) -> Kept:
    if not keep_empty:
        return Kept(None, header, read, 0, invalid)
    empty = build_empty_batch(header)
    return Kept(empty, _length_of(header, empty), read, 0, invalid)


def _length_of(header: BatchHeader, batch: Buffer) -> BatchHeader:
    overhead = header.size_in_bytes - header.batch_length
    return header._replace(batch_length=len(batch) - overhead)


def _choose(
    block: bytes, header: BatchHeader, offset_map: OffsetMap | None, drop_tombstones: bool
) -> Chosen:
    """The records that stay; all of them without a map."""
    check_block(header.record_count, len(block), header.base_offset)
    look_up: Callable[[bytes], int | None] = _nothing
    latest = -1
    if offset_map is not None:
        look_up, latest = offset_map.look_up, offset_map.latest_offset
    return Chosen(
        *choose_records(
            block, header.record_count, header.base_offset, look_up, latest, drop_tombstones
        )
    )


def _nothing(_: bytes) -> int | None:
    """The look-up in an empty map."""
    return None


def _rebuilt(header: BatchHeader, block: bytes, chosen: Chosen, horizon_ms: int | None) -> Kept:
    """The batch with only the `chosen` records."""
    starts, ends = chosen.starts, chosen.ends
    old_base = header.base_timestamp
    append_time = None
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        append_time = header.max_timestamp
        first = newest = append_time
    else:
        deltas = [timestamp_delta(block, start)[0] for start in starts]
        first = _timestamp(old_base, deltas[0])
        newest = max(_timestamp(old_base, delta) for delta in deltas)
    new_base = first if horizon_ms is None else horizon_ms
    places = zip(starts, ends, strict=True)
    if append_time is None and new_base == old_base:
        body = b"".join([block[start:end] for start, end in places])
    else:
        body = b"".join(
            [
                _with_base(block, start, end, old_base, new_base, append_time)
                for start, end in places
            ]
        )
    attributes = header.attributes & ~DELETE_HORIZON_BIT
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
    kept_header = header._replace(
        attributes=attributes,
        base_timestamp=new_base,
        max_timestamp=newest,
        record_count=len(starts),
    )
    batch = assemble(kept_header, body)
    kept_header = _length_of(kept_header, batch)
    return Kept(batch, kept_header, header.record_count, len(starts), chosen.without_key)


def _timestamp(base: int, delta: int) -> int:
    timestamp = base + delta
    return timestamp if MIN_INT64 <= timestamp <= MAX_INT64 else wrap_int64(timestamp)


def _with_base(
    block: bytes, start: int, end: int, old_base: int, new_base: int, append_time: int | None
) -> bytes:
    """The record of [start, end) with its timestamp relative to another base."""
    delta, begin, after = timestamp_delta(block, start)
    timestamp = _timestamp(old_base, delta) if append_time is None else append_time
    moved = encode_varlong(timestamp - new_base)
    size = 1 + len(moved) + end - after
    return b"".join((encode_varlong(size), block[begin - 1 : begin], moved, block[after:end]))


__all__ = ["BatchFilter", "Kept", "emptied"]
