"""Two answers for the cleaner about a block's records: their keys, and the records that stay.

No record object is made and no value is read: one walk finds the positions of records and keys, and
both answers are made from its columns.

Mirrors: DefaultRecord.readPartiallyFrom, DefaultRecordBatch.skipKeyValueIterator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ...errors import InvalidRecord
from ..vecs import i64, vec
from .varint import read_varint, read_varlong, varint_after

if TYPE_CHECKING:
    # For each record: its end, its offset, the start of its key and the key's length (below 0:
    # null); whether its value is null (1).
    Keyed: TypeAlias = tuple[vec[i64], vec[i64], vec[i64], vec[i64], vec[i64]]


def scan_keys(block: bytes, count: i64, base_offset: i64) -> tuple[list[bytes], list[int]]:
    """Keys and offsets of the records that have a key.

    Here and below the caller ensures that the block can hold ``count`` records, and that
    ``base_offset`` leaves room for offsets (`check_block`). Raises InvalidRecord if a byte that is
    read breaks the format's rules.
    """
    _, record_offsets, key_starts, key_lengths, _ = _walk(block, count, base_offset)
    keys: list[bytes] = []
    offsets: list[int] = []
    row: i64 = 0
    while row < count:
        length = key_lengths[row]
        if length >= 0:
            start = key_starts[row]
            keys.append(block[start : start + length])
            offsets.append(record_offsets[row])
        row += 1
    return keys, offsets


def choose_records(
    block: bytes,
    count: i64,
    base_offset: i64,
    look_up: Callable[[bytes], int | None],
    latest: i64,
    drop_tombstones: bool,
) -> tuple[list[int], list[int], bool, int]:
    """The records that stay: those behind ``latest``, and the last one of each key.

    ``look_up`` has the last offset of a key, or None. Returns the starts and ends of the records
    that stay, whether a tombstone is among them, and the number of records dropped for want of a
    key.
    """
    record_ends, offsets, key_starts, key_lengths, nulls = _walk(block, count, base_offset)
    starts: list[int] = []
    ends: list[int] = []
    has_tombstones = False
    without_key: i64 = 0
    start: i64 = 0
    row: i64 = 0
    while row < count:
        offset = offsets[row]
        length = key_lengths[row]
        stays = True
        if offset <= latest:
            if length < 0:
                stays = False
                without_key += 1
            elif nulls[row] and drop_tombstones:
                stays = False
            else:
                key_start = key_starts[row]
                found = look_up(block[key_start : key_start + length])
                if found is not None:
                    newest: i64 = found
                    stays = offset >= newest
        if stays:
            starts.append(start)
            ends.append(record_ends[row])
            if nulls[row]:
                has_tombstones = True
        start = record_ends[row]
        row += 1
    return starts, ends, has_tombstones, without_key


def timestamp_delta(block: bytes, start: i64) -> tuple[int, int, int]:
    """(delta, where it begins, where it ends) of the record at ``start``."""
    _, position = read_varint(block, start)
    delta, after = read_varlong(block, position + 1)
    return delta, position + 1, after


def _walk(block: bytes, count: i64, base_offset: i64) -> Keyed:
    try:
        return _walk_records(block, count, base_offset)
    except IndexError:
        raise InvalidRecord("a record runs past the end of its batch") from None


def _walk_records(block: bytes, count: i64, base_offset: i64) -> Keyed:
    ends = vec[i64]([0] * count)
    offsets = vec[i64]([0] * count)
    key_starts = vec[i64]([0] * count)
    key_lengths = vec[i64]([0] * count)
    nulls = vec[i64]([0] * count)
    end: i64 = len(block)
    position: i64 = 0
    byte: i64
    second: i64
    number: i64
    row: i64 = 0
    while row < count:
        byte = block[position]
        if byte < 0x80:
            number = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            second = block[position + 1]
            if second < 0x80:
                number = ((byte & 0x7F | second << 7) >> 1) ^ -(byte & 1)
                position += 2
            else:
                number, position = varint_after(block, position + 1, byte)
        record_end: i64 = position + number
        position += 1
        while block[position] >= 0x80:  # the timestamp
            position += 1
        byte = block[position + 1]
        position += 2
        if byte < 0x80:
            number = (byte >> 1) ^ -(byte & 1)
        else:
            number, position = varint_after(block, position, byte)
        offsets[row] = base_offset + number
        byte = block[position]
        position += 1
        if byte < 0x80:
            number = (byte >> 1) ^ -(byte & 1)
        else:
            number, position = varint_after(block, position, byte)
        key_starts[row] = position
        key_lengths[row] = number
        if number > 0:
            position += number
        if record_end <= position or record_end > end:
            raise InvalidRecord("a record runs past the end of its batch")
        # Zigzag: the lowest bit of a value's length is its sign, and any below 0 means null.
        nulls[row] = block[position] & 1
        ends[row] = record_end
        position = record_end
        row += 1
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of {count} records")
    return ends, offsets, key_starts, key_lengths, nulls
