"""Checks the arguments for a record: bytes and numbers, or a TypeError at once.

A wrong argument must fail in the call that passes it: later it would fail its batch, with all the
records in it. `bytearray` and `memoryview` are copied, since they may change before they are sent.
"""

from __future__ import annotations

from typing import TypeAlias

from ...protocol.records.record import Headers

# The content of a key or a value.
Content: TypeAlias = bytes | bytearray | memoryview


def checked(
    value: object, key: object, partition: object, headers: Headers, timestamp_ms: object
) -> tuple[bytes | None, bytes | None, Headers]:
    """The value, the key and the headers as the producer keeps them. Raises TypeError."""
    for number, what in ((partition, "partition"), (timestamp_ms, "timestamp")):
        if number is not None and not isinstance(number, int):
            raise TypeError(f"a record's {what} is an int or None, not {type(number).__name__}")
    kept = []
    for name, of_header in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's name is a str, not {type(name).__name__}")
        kept.append((name, _content(of_header, f"header {name!r}")))
    return _content(value, "value"), _content(key, "key"), tuple(kept)


def _content(given: object, what: str) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, (bytearray, memoryview)):
        return bytes(given)
    raise TypeError(
        f"a record's {what} is bytes or None, not {type(given).__name__}: encode it before"
    )
