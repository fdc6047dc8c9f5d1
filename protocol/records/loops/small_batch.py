"""Check one small batch, as producers usually send it, in one call and without an object.

True for good batches to which no special rule applies, False for all others, including some good
ones, which `storage/validation.py` then examines. `loops/scan.py` scans large batches, and reports
the error.

Mirrors: DefaultRecord.readFrom, and LogValidator.validateBatch for a batch without compression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import InvalidRecord
from .scan import MIN_RECORD_BYTES, skip_header
from .varint import MIN_INT64, add_int64, read_varint, read_varlong

if TYPE_CHECKING:
    from mypy_extensions import i64

# A batch from its attributes on, the part that its CRC covers.
CHECKED_FROM: Final = 21
_LAST_DELTA: Final = 2
_BASE_TIMESTAMP: Final = 6
_MAX_TIMESTAMP: Final = 14
_PRODUCER_ID: Final = 22
_SEQUENCE: Final = 32
_COUNT: Final = 36
_RECORDS: Final = 40
# Compression, timestamp type, control, delete horizon.
_ODD_BITS: Final = 0x6F


def is_plain_and_whole(checked: bytes) -> bool:
    """Whether a batch, given from its attributes on, is plain and its records match its header.

    Plain: from a client, without compression, with the time of its records; its largest time is in
    its header. The batch must be small: no other thread runs meanwhile.
    """
    try:
        return _is_plain_and_whole(checked)
    except (IndexError, InvalidRecord):
        return False


def _is_plain_and_whole(checked: bytes) -> bool:
    end: i64 = len(checked)
    if checked[1] & _ODD_BITS:
        return False
    count: i64 = _int32(checked, _COUNT)
    if count <= 0 or _int32(checked, _LAST_DELTA) != count - 1:
        return False
    if checked[_SEQUENCE] >= 0x80 and checked[_PRODUCER_ID] < 0x80:
        return False
    base: i64 = _int64(checked, _BASE_TIMESTAMP)
    highest: i64 = MIN_INT64
    position: i64 = _RECORDS
    record_end: i64
    length: i64
    headers: i64
    timestamp: i64
    while count:
        count -= 1
        length, position = read_varint(checked, position)
        record_end = position + length
        if length < MIN_RECORD_BYTES - 1 or record_end > end:
            return False
        timestamp, position = read_varlong(checked, position + 1)
        timestamp = add_int64(base, timestamp)
        if timestamp > highest:
            highest = timestamp
        _, position = read_varint(checked, position)  # the offset delta
        length, position = read_varint(checked, position)  # the key
        if length > 0:
            position += length
            if position > record_end:
                return False
        length, position = read_varint(checked, position)  # the value
        if length > 0:
            position += length
            if position > record_end:
                return False
        headers, position = read_varint(checked, position)
        if not 0 <= headers <= record_end - position:
            return False
        while headers:
            headers -= 1
            position = skip_header(checked, position, record_end)
        if position != record_end:
            return False
    return position == end and highest == _int64(checked, _MAX_TIMESTAMP)


def _int32(data: bytes, position: i64) -> i64:
    first: i64 = data[position]
    value: i64 = data[position + 1] << 16 | data[position + 2] << 8 | data[position + 3]
    return (first ^ 0x80) - 0x80 << 24 | value


def _int64(data: bytes, position: i64) -> i64:
    low: i64 = _int32(data, position + 4) & 0xFFFFFFFF
    return _int32(data, position) << 32 | low
