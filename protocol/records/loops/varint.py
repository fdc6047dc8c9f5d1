"""Zigzag variable-length integers of v2 records (Kafka's ByteUtils).

varint carries an int32 in at most 5 bytes, varlong an int64 in at most 10:
``(n << 1) ^ (n >> 63)``, then 7 bits a byte, low group first, high bit set when another byte
follows. Bits past the type's width are dropped, as Java drops them. The unsigned varints of
flexible messages are not here.

Callers inline the one-byte case, which is nearly all of them, and come here with the first byte.
No step leaves 64 bits, so that compiled and interpreted numbers are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...errors import InvalidRecord

if TYPE_CHECKING:
    from mypy_extensions import i64

_MASK_64: Final = 0xFFFFFFFFFFFFFFFF
MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)

# Every one-byte encoding, indexed by value + 64.
ONE_BYTE: Final = tuple([bytes([(n << 1) ^ (n >> 63)]) for n in range(-64, 64)])


def wrap_int64(value: int) -> int:
    """Wrap ``value`` to 64 bits: far apart timestamps wrap around, as in Java."""
    value &= _MASK_64
    return value - 2**64 if value >= 2**63 else value


def encode_varlong(value: int) -> bytes:
    """The zigzag encoding of an int32 or int64, which share it; wider values wrap."""
    if -64 <= value < 64:
        return ONE_BYTE[value + 64]
    if -8192 <= value < 8192:
        raw = (value << 1) ^ (value >> 63)
        return bytes([raw & 0x7F | 0x80, raw >> 7])
    if not MIN_INT64 <= value <= MAX_INT64:
        value = wrap_int64(value)
    rest = (value << 1) ^ (value >> 63)
    out = []
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def varint_after(data: bytes, position: i64, first: i64) -> tuple[i64, i64]:
    """The int32 whose first byte was ``first`` (>= 0x80); the rest starts at ``position``.

    Returns the value and the position after it. Runs off the end with IndexError; InvalidRecord
    if it does not end after 5 bytes.
    """
    raw: i64 = first & 0x7F
    byte: i64 = data[position]
    if byte < 0x80:
        raw |= byte << 7
        return (raw >> 1) ^ -(raw & 1), position + 1
    shift: i64 = 7
    while shift < 35:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFFFFFF
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    raise InvalidRecord("a varint does not end after 5 bytes")


def varlong_after(data: bytes, position: i64, first: i64) -> tuple[i64, i64]:
    """The int64 whose first byte was ``first`` (>= 0x80); see varint_after."""
    raw: i64 = first & 0x7F
    byte: i64
    shift: i64 = 7
    while shift < 63:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    byte = data[position]
    if byte >= 0x80:
        raise InvalidRecord("a varlong does not end after 10 bytes")
    return ((raw >> 1) | (byte & 1) << 62) ^ -(raw & 1), position + 1


def read_varint(data: bytes, position: i64) -> tuple[i64, i64]:
    """The int32 at ``position`` and the position after it. Runs off the end with IndexError."""
    first: i64 = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    return varint_after(data, position + 1, first)


def read_varlong(data: bytes, position: i64) -> tuple[i64, i64]:
    """The int64 at ``position`` and the position after it. Runs off the end with IndexError."""
    first: i64 = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    return varlong_after(data, position + 1, first)


def add_int64(a: i64, b: i64) -> i64:
    """The sum of two int64 in 64 bits, without a step that leaves them."""
    if a >= 0 and b > MAX_INT64 - a:
        return (a + MIN_INT64) + (b + MIN_INT64)
    if a < 0 and b < MIN_INT64 - a:
        return (a - MIN_INT64) + (b - MIN_INT64)
    return a + b
