"""Whole requests as a broker reads them, and frames in one piece, for tests that play a peer."""

from __future__ import annotations

from collections.abc import Iterable

from pybroker.protocol.api import request_class
from pybroker.protocol.codec import decode
from pybroker.protocol.framing import RequestHeader, decode_request_header
from pybroker.protocol.primitives import Buffer, Records
from pybroker.protocol.schema import Message
from pybroker.storage.files import FileSlice


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """Header and body of a frame (without its size)."""
    header, position = decode_request_header(frame)
    return header, decode(request_class(header.api_key), header.api_version, frame, position)


def joined(parts: Iterable[Records]) -> bytes:
    """What a socket gets to see of the parts of a frame; slices of files are read."""
    return b"".join(map(_bytes_of, parts))


def _bytes_of(part: Records) -> Buffer:
    if isinstance(part, FileSlice):
        return part.read()
    assert isinstance(part, Buffer)
    return part
