"""One v2 record: its two Python shapes, its decoder and its encoder (Kafka's DefaultRecord).

``SimpleRecord`` is the input of a builder, ``Record`` a record read from a batch of any magic. The
decoder takes the records block of a batch, already decompressed, and makes Kafka's checks: each
record fills exactly its declared length, the block holds exactly ``count`` of them. Header keys are
text; bytes that are not UTF-8 become replacement characters, as in Java.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from ..errors import InvalidRecord
from .loops.places import find_places
from .loops.scan import MIN_RECORD_BYTES
from .loops.varint import MAX_INT64, MIN_INT64, read_varint
from .vecs import as_list

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

MAX_INT32: Final = 2**31 - 1

# The number of records that are checked before the first of them is made.
_PORTION: Final = 64

Headers = Sequence[tuple[str, bytes | None]]


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


def check_block(count: int, size: int, base_offset: int) -> None:
    """InvalidRecord unless ``count`` records from ``base_offset`` on can be in ``size`` bytes."""
    if not 0 <= count <= size // MIN_RECORD_BYTES:
        raise InvalidRecord(f"{count} records cannot be in {size} bytes")
    if not MIN_INT64 + MAX_INT32 < base_offset < MAX_INT64 - MAX_INT32:
        raise InvalidRecord(f"base offset {base_offset} leaves no room for offsets")


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
    check_block(count, end, base_offset)
    position = 0
    left = count
    while left:
        portion = min(left, _PORTION)
        places, position = find_places(
            block, position, end, portion, base_offset, base_timestamp, 0
        )
        left -= portion
        numbers = [as_list(column) for column in places]
        yield from records_at(block, numbers, base_offset, base_sequence, append_time)
    if position != end:
        raise InvalidRecord(f"{end - position} bytes follow the last of {count} records")


def records_at(
    block: bytes,
    columns: Iterable[Sequence[int]],
    base_offset: int = 0,
    base_sequence: int = NO_SEQUENCE,
    append_time: int | None = None,
) -> Iterator[Record]:
    """The objects of the rows of ``columns``, which are those of `find_places`, in their order."""
    new_record = tuple.__new__  # without the named tuple's own __new__ in between
    sequence = NO_SEQUENCE
    headers: Headers
    for offset, timestamp, key_start, key, value_start, value, header_start, count in zip(
        *columns, strict=True
    ):
        if base_sequence >= 0:
            sequence = (base_sequence + offset - base_offset) & MAX_INT32
        headers = headers_at(block, header_start, count) if count else ()
        yield new_record(
            Record,
            (
                offset,
                timestamp if append_time is None else append_time,
                None if key < 0 else block[key_start : key_start + key],
                None if value < 0 else block[value_start : value_start + value],
                headers,
                sequence,
            ),
        )


def headers_at(block: bytes, position: int, count: int) -> list[tuple[str, bytes | None]]:
    """The ``count`` record headers from ``position`` on, which `find_places` has found good."""
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        size, position = read_varint(block, position)
        name = block[position : position + size].decode("utf-8", "replace")
        size, position = read_varint(block, position + size)
        if size < 0:
            headers.append((name, None))
        else:
            headers.append((name, block[position : position + size]))
            position += size
    return headers
