"""One v2 record: its two Python shapes, its decoder and its encoder (Kafka's DefaultRecord).

``SimpleRecord`` is what goes into a builder, ``Record`` what comes out of a batch of any magic.
The decoder takes the records block of a batch, already decompressed, and checks what Kafka checks:
each record fills exactly its declared length, the block holds exactly ``count`` of them. Header
keys are text; bytes that are not UTF-8 become replacement characters, as in Java.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ..errors import ProtocolError
from .varint import (
    encode_varlong,
    read_varint,
    varint_after,
    varlong_after,
    wrap_int64,
)

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

MAX_INT32: Final = 2**31 - 1
MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1

# length, attributes, timestamp delta, offset delta, key length, value length, header count
MIN_RECORD_BYTES: Final = 7

Headers = Sequence[tuple[str, bytes | None]]


class InvalidRecord(ProtocolError):
    """A batch whose bytes are intact but whose records break the format's rules.

    The leader answers INVALID_RECORD for it, and CORRUPT_MESSAGE for any other ProtocolError.
    """


class TimestampType(IntEnum):
    """Bit 3 of the attributes."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class SimpleRecord(NamedTuple):
    """A record to be built; offsets come from its place."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Record(NamedTuple):
    """A record read from a batch of any magic. v0 has no timestamp: NO_TIMESTAMP."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    sequence: int = NO_SEQUENCE


def increment_sequence(sequence: int, increment: int) -> int:
    """Sequences go from 2^31 - 1 on to 0."""
    return (sequence + increment) & MAX_INT32


def decrement_sequence(sequence: int, decrement: int) -> int:
    return (sequence - decrement) & MAX_INT32


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
) -> bytes:
    """One record with its length in front."""
    parts = [
        b"\0",
        encode_varlong(timestamp_delta),
        encode_varlong(offset_delta),
        b"\x01" if key is None else encode_varlong(len(key)),
        key or b"",
        b"\x01" if value is None else encode_varlong(len(value)),
        value or b"",
        encode_varlong(len(headers)),
    ]
    for name, content in headers:
        name_bytes = name.encode()
        parts.append(encode_varlong(len(name_bytes)))
        parts.append(name_bytes)
        if content is None:
            parts.append(b"\x01")
        else:
            parts.append(encode_varlong(len(content)))
            parts.append(content)
    body = b"".join(parts)
    return encode_varlong(len(body)) + body


def decode_records(
    block: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    base_sequence: int,
    append_time: int | None,
) -> Iterator[Record]:
    """The records of one decompressed block. ``append_time`` replaces their own timestamps."""
    end = len(block)
    if not 0 <= count <= end // MIN_RECORD_BYTES:
        raise InvalidRecord(f"{count} records cannot be in {end} bytes")
    if not MIN_INT64 + MAX_INT32 < base_offset < MAX_INT64 - MAX_INT32:
        raise InvalidRecord(f"base offset {base_offset} leaves no room for offsets")
    new_record = tuple.__new__  # without the named tuple's own __new__ in between
    position = 0
    for _ in range(count):
        try:
            byte = block[position]
            position += 1
            if byte < 0x80:
                length = (byte >> 1) ^ -(byte & 1)
            else:
                length, position = varint_after(block, position, byte)
            record_end = position + length
            if length < MIN_RECORD_BYTES - 1 or record_end > end:
                raise InvalidRecord(f"a record of {length} bytes has {end - position} left")
            position += 1  # the record's attributes are unused
            byte = block[position]
            position += 1
            if byte < 0x80:
                timestamp = base_timestamp + ((byte >> 1) ^ -(byte & 1))
            else:
                timestamp, position = varlong_after(block, position, byte)
                timestamp += base_timestamp
            if append_time is not None:
                timestamp = append_time
            elif not MIN_INT64 <= timestamp <= MAX_INT64:
                timestamp = wrap_int64(timestamp)
            offset_delta, position = read_varint(block, position)
            key, position = _read_bytes(block, position, record_end)
            value, position = _read_bytes(block, position, record_end)
            header_count = block[position]
            position += 1
            headers: Headers = ()
            if header_count:
                headers, position = _read_headers(block, position - 1, record_end)
        except IndexError:
            raise InvalidRecord("a record runs past the end of its batch") from None
        if position != record_end:
            raise InvalidRecord(f"a record is {position - record_end} bytes off its length")
        sequence = NO_SEQUENCE
        if base_sequence >= 0:
            sequence = (base_sequence + offset_delta) & MAX_INT32
        yield new_record(
            Record, (base_offset + offset_delta, timestamp, key, value, headers, sequence)
        )
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of {count} records")


def _read_bytes(block: bytes, position: int, limit: int) -> tuple[bytes | None, int]:
    """A nullable field; any negative length means null, as in Kafka."""
    byte = block[position]
    position += 1
    if byte < 0x80:
        length = (byte >> 1) ^ -(byte & 1)
    else:
        length, position = varint_after(block, position, byte)
    if length < 0:
        return None, position
    field_end = position + length
    if field_end > limit:
        raise InvalidRecord(f"a field of {length} bytes has {limit - position} left")
    return block[position:field_end], field_end


def _read_headers(
    block: bytes, position: int, limit: int
) -> tuple[list[tuple[str, bytes | None]], int]:
    count, position = read_varint(block, position)
    if not 0 <= count <= limit - position:
        raise InvalidRecord(f"{count} record headers cannot be in {limit - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _read_bytes(block, position, limit)
        if key is None:
            raise InvalidRecord("a record header has no key")
        value, position = _read_bytes(block, position, limit)
        headers.append((key.decode("utf-8", "replace"), value))
    return headers, position
