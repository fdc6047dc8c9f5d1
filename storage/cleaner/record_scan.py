"""Walk the encoded records of a v2 batch for what the cleaner asks: keys, offsets, null values.

No record object is made and no value is looked at: a record is its place in the block. The
loops decode the common one- and two-byte numbers in place, since a call costs more than a record.

Mirrors: DefaultRecord.readPartiallyFrom, DefaultRecordBatch.skipKeyValueIterator.
"""

from __future__ import annotations

from typing import NamedTuple

from protocol.records.record import InvalidRecord
from protocol.records.varint import read_varint, read_varlong, varint_after


class RecordPlaces(NamedTuple):
    """The records of one block, column by column."""

    starts: list[int]  # where each record's length begins; and the end of the block
    offsets: list[int]
    keys: list[bytes | None]
    tombstones: list[bool]


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
                length = byte >> 1
                position += 1
            else:
                second = block[position + 1]
                if second < 0x80:
                    length = (byte & 0x7F | second << 7) >> 1
                    position += 2
                else:
                    length, position = varint_after(block, position + 1, byte)
            record_end = position + length
            position += 1
            while block[position] >= 0x80:
                position += 1
            position += 1
            byte = block[position]
            position += 1
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


def scan_places(block: bytes, count: int, base_offset: int) -> RecordPlaces:
    """Where each record is, its offset, its key, and whether its value is null."""
    starts: list[int] = []
    offsets: list[int] = []
    keys: list[bytes | None] = []
    tombstones: list[bool] = []
    add_start, add_offset = starts.append, offsets.append
    add_key, add_tombstone = keys.append, tombstones.append
    end = len(block)
    position = 0
    try:
        for _ in range(count):
            add_start(position)
            byte = block[position]
            if byte < 0x80:
                length = byte >> 1
                position += 1
            else:
                second = block[position + 1]
                if second < 0x80:
                    length = (byte & 0x7F | second << 7) >> 1
                    position += 2
                else:
                    length, position = varint_after(block, position + 1, byte)
            record_end = position + length
            position += 1
            while block[position] >= 0x80:
                position += 1
            position += 1
            byte = block[position]
            position += 1
            if byte < 0x80:
                delta = (byte >> 1) ^ -(byte & 1)
            else:
                delta, position = varint_after(block, position, byte)
            add_offset(base_offset + delta)
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
                position = key_end
            else:
                add_key(None)
            # Zigzag: the lowest bit is the sign, and any negative length means null.
            add_tombstone(block[position] & 1 == 1)
            if record_end <= position or record_end > end:
                raise InvalidRecord("a record runs past the end of its batch")
            position = record_end
    except IndexError:
        raise InvalidRecord("a record runs past the end of its batch") from None
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of {count} records")
    starts.append(end)
    return RecordPlaces(starts, offsets, keys, tombstones)


def timestamp_delta(block: bytes, start: int) -> tuple[int, int, int]:
    """(delta, where it begins, where it ends) of the record at `start`."""
    _, position = read_varint(block, start)
    begin = position + 1
    delta, after = read_varlong(block, begin)
    return delta, begin, after
