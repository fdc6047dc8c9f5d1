"""Encode the records of a batch in one call, without copying keys and values.

``encode_parts`` returns pieces that are the block when they are joined. Each key or value, of any
buffer type, is a piece; the bytes between two of them are one piece.

Mirrors: DefaultRecord.writeTo. The numbers must be in their ranges: offsets and lengths in int32;
timestamps that are further apart than 64 bits wrap around, as in Java.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from .varint import encode_varlong

if TYPE_CHECKING:
    from mypy_extensions import i64

_TABLE_SIZE: Final = 2048
# The encoding of each small number from 0 on, which most lengths and offset deltas are.
_TABLE: Final = [
    bytes((n << 1,)) if n < 64 else bytes((n << 1 & 0x7F | 0x80, n >> 6))
    for n in range(_TABLE_SIZE)
]
_NULL: Final = b"\x01"  # the length of a key or value that is not there
_NO_ATTRIBUTES: Final = b"\0"
_NO_HEADERS: Final = b"\0"


def encode_parts(
    records: Sequence[tuple[int, Any, Any, Any]], base_timestamp: int, parts: list[Any]
) -> int:
    """Append the pieces of records, (timestamp, key, value, headers) each, deltas from 0 on.

    Returns the largest timestamp, ``base_timestamp`` if none is larger.
    """
    delta: i64 = 0
    length: i64
    size: i64
    max_timestamp = last_timestamp = base_timestamp
    time = _TABLE[0]
    tail = b""  # the end of the record before
    for timestamp, key, value, headers in records:
        if timestamp != last_timestamp:
            last_timestamp = timestamp
            time = encode_varlong(timestamp - base_timestamp)
            if timestamp > max_timestamp:
                max_timestamp = timestamp
        offset = _TABLE[delta] if delta < _TABLE_SIZE else encode_varlong(delta)
        delta += 1  # noqa: SIM113 (a number of 64 bits where it is compiled)
        if value is None:
            value_head = _NULL
            size = 1
        else:
            length = len(value)
            value_head = _TABLE[length] if length < _TABLE_SIZE else encode_varlong(length)
            size = len(value_head) + length
        size += 1 + len(time) + len(offset)
        if headers:
            after = _headers(headers)
            size += len(after)
        else:
            after = _NO_HEADERS
            size += 1
        if key is None:
            size += 1
            head = _TABLE[size] if size < _TABLE_SIZE else encode_varlong(size)
            parts.append(tail + head + _NO_ATTRIBUTES + time + offset + _NULL + value_head)
        else:
            length = len(key)
            key_head = _TABLE[length] if length < _TABLE_SIZE else encode_varlong(length)
            size += len(key_head) + length
            head = _TABLE[size] if size < _TABLE_SIZE else encode_varlong(size)
            parts.append(tail + head + _NO_ATTRIBUTES + time + offset + key_head)
            parts.append(key)
            parts.append(value_head)
        if value is not None:
            parts.append(value)
        tail = after
    parts.append(tail)
    return max_timestamp


def _headers(headers: Any) -> bytes:
    """Encode the number of headers, and the name and content of each."""
    parts = [encode_varlong(len(headers))]
    for name, content in headers:
        name_bytes = name.encode()
        parts.append(encode_varlong(len(name_bytes)))
        parts.append(name_bytes)
        if content is None:
            parts.append(_NULL)
        else:
            parts.append(encode_varlong(len(content)))
            parts.append(content)
    return b"".join(parts)
