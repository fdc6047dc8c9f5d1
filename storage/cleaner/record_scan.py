"""Walk the encoded records of a v2 batch for what the cleaner asks: keys, and which of them stay.

No record object is made and no value is looked at: a record is its place in the block. The
loops decode the common one- and two-byte numbers in place, since a call costs more than a record.

Mirrors: DefaultRecord.readPartiallyFrom, DefaultRecordBatch.skipKeyValueIterator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...protocol.errors import InvalidRecord
from ...protocol.records.loops.varint import read_varint, read_varlong, varint_after


class Chosen(NamedTuple):
    """Where the records of a block begin and end that stay, and what is to know of them."""

    starts: list[int]
    ends: list[int]
    has_tombstones: bool
    without_key: int  # dropped for that


def scan_keys(block: bytes, count: int, base_offset: int) -> tuple[list[bytes], list[int]]:
    """Keys and offsets of the records that have a key."""
    keys: list[bytes] = []
    offsets: list[int] = []
    add_key, add_offset = keys.append, offsets.append
    end = len(block)
    position = 0
    try:
        for _ in range(count):
            byte = block[position]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                second = block[position + 1]
                if second < 0x80:
                    length = ((byte & 0x7F | second << 7) >> 1) ^ -(byte & 1)
                    position += 2
                else:
                    length, position = varint_after(block, position + 1, byte)
            record_end = position + length
            position += 1
            while block[position] >= 0x80:
                position += 1
            byte = block[position + 1]
            position += 2
            if byte < 0x80:
                delta = (byte >> 1) ^ -(byte & 1)
            else:
                delta, position = varint_after(block, position, byte)
            byte = block[position]
            position += 1
            if byte < 0x80:
                size = (byte >> 1) ^ -(byte & 1)
            else:
                size, position = varint_after(block, position, byte)
            if size >= 0:
                key_end = position + size
                if key_end >= record_end:
                    raise InvalidRecord(f"a key of {size} bytes does not fit in its record")
                add_key(block[position:key_end])
                add_offset(base_offset + delta)
            if record_end <= position - 1 or record_end > end:
                raise InvalidRecord("a record runs past the end of its batch")
            position = record_end
    except IndexError:
        raise InvalidRecord("a record runs past the end of its batch") from None
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of {count} records")
    return keys, offsets


def choose_records(
    block: bytes,
    count: int,
    base_offset: int,
    look_up: Callable[[bytes], int | None],
    latest: int,
    drop_tombstones: bool,
) -> Chosen:
    """The records that stay: those behind `latest`, and the last one of each key."""
    starts: list[int] = []
    ends: list[int] = []
    add_start, add_end = starts.append, ends.append
    tombstones = without_key = 0
    end = len(block)
    position = 0
    try:
        for _ in range(count):
            start = position
            byte = block[position]
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                second = block[position + 1]
                if second < 0x80:
                    length = ((byte & 0x7F | second << 7) >> 1) ^ -(byte & 1)
                    position += 2
                else:
                    length, position = varint_after(block, position + 1, byte)
            record_end = position + length
            position += 1
            while block[position] >= 0x80:
                position += 1
            byte = block[position + 1]
            position += 2
            if byte < 0x80:
                offset = base_offset + ((byte >> 1) ^ -(byte & 1))
            else:
                delta, position = varint_after(block, position, byte)
                offset = base_offset + delta
            byte = block[position]
            position += 1
            if byte < 0x80:
                size = (byte >> 1) ^ -(byte & 1)
            else:
                size, position = varint_after(block, position, byte)
            key_end = position + size if size >= 0 else position
            # Zigzag: the lowest bit is the sign, and any negative length means null.
            is_tombstone = block[key_end] & 1
            if record_end <= key_end or record_end > end:
                raise InvalidRecord("a record runs past the end of its batch")
            if offset > latest:
                stays = True
            elif size < 0 or (is_tombstone and drop_tombstones):
                stays = False
                without_key += size < 0
            else:
                found = look_up(block[position:key_end])
                stays = found is None or offset >= found
            if stays:
                add_start(start)
                add_end(record_end)
                tombstones |= is_tombstone
            position = record_end
    except IndexError:
        raise InvalidRecord("a record runs past the end of its batch") from None
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of {count} records")
    return Chosen(starts, ends, tombstones != 0, without_key)


def timestamp_delta(block: bytes, start: int) -> tuple[int, int, int]:
    """(delta, where it begins, where it ends) of the record at `start`."""
    _, position = read_varint(block, start)
    begin = position + 1
    delta, after = read_varlong(block, begin)
    return delta, begin, after
