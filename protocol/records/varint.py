"""Zigzag variable-length integers of v2 records (Kafka's ByteUtils).

varint carries an int32 in at most 5 bytes, varlong an int64 in at most 10:
``(n << 1) ^ (n >> 63)``, then 7 bits a byte, low group first, high bit set when another byte
follows. Bits past the type's width are dropped, as Java drops them. The unsigned varints of
flexible messages are not here.

Callers inline the one-byte case, which is nearly all of them, and come here with the first byte.
"""

from typing import Final

from ..errors import ProtocolError

_MASK_32: Final = 0xFFFFFFFF
_MASK_64: Final = 0xFFFFFFFFFFFFFFFF

# Every one-byte encoding, indexed by value + 64.
ONE_BYTE: Final = tuple(bytes([(n << 1) ^ (n >> 63)]) for n in range(-64, 64))


def wrap_int64(value: int) -> int:
    """What is left of ``value`` in 64 bits: far apart timestamps wrap around, as in Java."""
    value &= _MASK_64
    return value - 2**64 if value >= 2**63 else value


def encode_varlong(value: int) -> bytes:
    """The zigzag encoding of an int32 or int64, which share it; wider values wrap."""
    if -64 <= value < 64:
        return ONE_BYTE[value + 64]
    if -8192 <= value < 8192:
        raw = (value << 1) ^ (value >> 63)
        return bytes((raw & 0x7F | 0x80, raw >> 7))
    if not -(2**63) <= value < 2**63:
        value = wrap_int64(value)
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def varint_after(data: bytes, position: int, first: int) -> tuple[int, int]:
    """The int32 whose first byte was ``first`` (>= 0x80); the rest starts at ``position``.

    Returns the value and the position after it. Runs off the end with IndexError.
    """
    raw = first & 0x7F
    byte = data[position]
    if byte < 0x80:
        raw |= byte << 7
        return (raw >> 1) ^ -(raw & 1), position + 1
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= _MASK_32
            return (raw >> 1) ^ -(raw & 1), position
    raise ProtocolError("a varint does not end after 5 bytes")


def varlong_after(data: bytes, position: int, first: int) -> tuple[int, int]:
    """The int64 whose first byte was ``first`` (>= 0x80); see varint_after."""
    raw = first & 0x7F
    for shift in (7, 14, 21, 28, 35, 42, 49, 56, 63):
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= _MASK_64
            return (raw >> 1) ^ -(raw & 1), position
    raise ProtocolError("a varlong does not end after 10 bytes")


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The int32 at ``position`` and the position after it. Runs off the end with IndexError."""
    first = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    return varint_after(data, position + 1, first)


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """The int64 at ``position`` and the position after it. Runs off the end with IndexError."""
    first = data[position]
    if first < 0x80:
        return (first >> 1) ^ -(first & 1), position + 1
    return varlong_after(data, position + 1, first)
