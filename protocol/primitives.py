"""The small parts of Kafka's wire format that compiled codecs and hand-written ones share.

Job: unsigned varints, and the type aliases for bytes-like values.
Invariants: a read never passes the end of its buffer without a `ProtocolError`; a length is
compared with the remaining bytes before memory is allocated for it. Mirrors:
org.apache.kafka.common.utils.ByteUtils.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any, Final, TypeAlias

from .errors import ProtocolError

# Any object that holds bytes: the one alias for all rooms.
Buffer: TypeAlias = bytes | bytearray | memoryview
# The values of a `records` field: a buffer, or an object with a length that can be sent in its
# place, such as a slice of a file.
Records: TypeAlias = Buffer | Sized

MAX_STRING_BYTES: Final = 0x7FFF
MAX_INT32: Final = 0x7FFFFFFF

ONE_BYTE: Final = tuple(bytes((value,)) for value in range(256))


def encode_uvarint(value: int) -> bytes:
    """7 bits a byte, low bits first, the high bit set on all bytes but the last."""
    if value < 0x80:
        return ONE_BYTE[value]
    if value < 0x4000:
        return ONE_BYTE[value & 0x7F | 0x80] + ONE_BYTE[value >> 7]
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_uvarint(buffer: Any, position: int) -> tuple[int, int]:
    """The value and the position behind it. IndexError at the end of the buffer."""
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    return uvarint_tail(buffer, position + 1, byte)


def uvarint_tail(buffer: Any, position: int, first: int) -> tuple[int, int]:
    """The rest of a varint of two bytes or more, whose `first` byte was read already."""
    value = first & 0x7F
    shift = 7
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise ProtocolError("varint is longer than 5 bytes")
    if value > MAX_INT32:
        raise ProtocolError(f"varint {value} does not fit 31 bits")
    return value, position
