"""The places of a whole block's records as packed numbers: `places` without an object a number.

Only compiled code has packed lists (librt's, which mypyc knows): interpreted, `pack_places` cannot
be called, and `places` serves. A list of so many numbers of 64 bits is one buffer, which arrays,
Arrow and ``memoryview`` take as it is; that makes this ten times as fast.

Invariant: the same columns and refusals as `places.find_places` has for the whole block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from ...errors import InvalidRecord
from .scan import MIN_RECORD_BYTES, skip_header
from .varint import add_int64, read_varint, varint_after, varlong_after

if TYPE_CHECKING:
    from librt.vecs import append, vec
    from mypy_extensions import i64

    # Offsets, timestamps; starts and lengths of keys, of values; starts and counts of headers.
    Packed: TypeAlias = tuple[
        vec[i64], vec[i64], vec[i64], vec[i64], vec[i64], vec[i64], vec[i64], vec[i64]
    ]

# Up to here from 0, a time and a small difference have a sum that needs no care.
_FAR: Final = 2**62


def pack_places(
    block: bytes,
    position: i64,
    end: i64,
    records: i64,
    base_offset: i64,
    base_timestamp: i64,
    shift: i64,
) -> Packed:
    """The columns of the ``records`` records that are block[position:end].

    Places are counted from ``shift`` bytes before the start of ``block``. Raises InvalidRecord for
    whatever breaks the format's rules; that the block can hold so many records, and that
    ``base_offset`` leaves room for offsets, is the caller's.
    """
    try:
        return _pack_places(block, position, end, records, base_offset, base_timestamp, shift)
    except IndexError:
        raise InvalidRecord("a record runs past the end of its batch") from None


def _pack_places(
    block: bytes,
    position: i64,
    end: i64,
    records: i64,
    base_offset: i64,
    base_timestamp: i64,
    shift: i64,
) -> Packed:
    offsets = vec[i64](capacity=records)
    timestamps = vec[i64](capacity=records)
    key_starts = vec[i64](capacity=records)
    key_lengths = vec[i64](capacity=records)
    value_starts = vec[i64](capacity=records)
    value_lengths = vec[i64](capacity=records)
    header_starts = vec[i64](capacity=records)
    header_counts = vec[i64](capacity=records)
    near = -_FAR < base_timestamp < _FAR
    byte: i64
    second: i64
    length: i64
    delta: i64
    headers: i64
    while records > 0:
        records -= 1
        byte = block[position]
        if byte < 0x80:
            position += 1
            length = (byte >> 1) ^ -(byte & 1)
        else:
            second = block[position + 1]
            if second < 0x80:
                length = ((byte & 0x7F | second << 7) >> 1) ^ -(byte & 1)
                position += 2
            else:
                length, position = varint_after(block, position + 1, byte)
        record_end: i64 = position + length
        if length < MIN_RECORD_BYTES - 1 or record_end > end:
            raise InvalidRecord(f"a record of {length} bytes has {end - position} left")
        byte = block[position + 1]  # after the record's attributes, which are unused
        position += 2
        if byte < 0x80 and near:
            timestamps = append(timestamps, base_timestamp + ((byte >> 1) ^ -(byte & 1)))
        else:
            delta = (byte >> 1) ^ -(byte & 1)
            if byte >= 0x80:
                delta, position = varlong_after(block, position, byte)
            timestamps = append(timestamps, add_int64(base_timestamp, delta))
        byte = block[position]
        position += 1
        if byte < 0x80:
            delta = (byte >> 1) ^ -(byte & 1)
        else:
            delta, position = varint_after(block, position, byte)
        offsets = append(offsets, base_offset + delta)
        byte = block[position]
        position += 1
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
        else:
            length, position = varint_after(block, position, byte)
        key_starts = append(key_starts, position + shift)
        if length < 0:
            key_lengths = append(key_lengths, -1)
        else:
            key_lengths = append(key_lengths, length)
            position += length
            if position > record_end:
                raise InvalidRecord(f"a key of {length} bytes leaves its record")
        byte = block[position]
        position += 1
        if byte < 0x80:
            length = (byte >> 1) ^ -(byte & 1)
        else:
            second = block[position]
            if second < 0x80:
                length = ((byte & 0x7F | second << 7) >> 1) ^ -(byte & 1)
                position += 1
            else:
                length, position = varint_after(block, position, byte)
        value_starts = append(value_starts, position + shift)
        if length < 0:
            value_lengths = append(value_lengths, -1)
        else:
            value_lengths = append(value_lengths, length)
            position += length
            if position > record_end:
                raise InvalidRecord(f"a value of {length} bytes leaves its record")
        byte = block[position]
        position += 1
        if byte == 0:
            header_counts = append(header_counts, 0)
            header_starts = append(header_starts, position + shift)
        else:
            headers, position = read_varint(block, position - 1)
            if not 0 <= headers <= record_end - position:
                raise InvalidRecord(
                    f"{headers} record headers cannot be in {record_end - position} bytes"
                )
            header_counts = append(header_counts, headers)
            header_starts = append(header_starts, position + shift)
            while headers > 0:
                headers -= 1
                position = skip_header(block, position, record_end)
        if position != record_end:
            raise InvalidRecord(f"a record is {position - record_end} bytes off its length")
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of its batch's records")
    return (
        offsets, timestamps, key_starts, key_lengths, value_starts, value_lengths,
        header_starts, header_counts,
    )  # fmt: skip
