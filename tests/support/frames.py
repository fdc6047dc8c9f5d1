"""Whole requests as a broker reads them, and frames in one piece, for tests that play a peer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from pybroker_kafka.protocol.api import request_class
from pybroker_kafka.protocol.codec import decode
from pybroker_kafka.protocol.framing import RequestHeader, decode_request_header
from pybroker_kafka.protocol.primitives import Buffer, Records
from pybroker_kafka.protocol.schema import Message


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """Header and body of a frame (without its size)."""
    header, position = decode_request_header(frame)
    return header, decode(request_class(header.api_key), header.api_version, frame, position)


@runtime_checkable
class Readable(Protocol):
    """A slice of a file, or what is converted on its way."""

    def read(self) -> bytes: ...


def joined(parts: Iterable[Records]) -> bytes:
    """What a socket gets to see of the parts of a frame; what is no buffer is read."""
    return b"".join(map(_bytes_of, parts))


def _bytes_of(part: Records) -> Buffer:
    if isinstance(part, Buffer):
        return part
    assert isinstance(part, Readable)
    return part.read()
