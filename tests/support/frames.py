"""Whole requests as a broker reads them, for tests that play one."""

from __future__ import annotations

from pybroker.protocol.api import request_class
from pybroker.protocol.codec import Buffer, decode
from pybroker.protocol.framing import RequestHeader, decode_request_header
from pybroker.protocol.schema import Message


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """Header and body of a frame (without its size)."""
    header, position = decode_request_header(frame)
    return header, decode(request_class(header.api_key), header.api_version, frame, position)
