"""Frames: a size, a request or response header, and a body.

Job: read and write the headers around messages.
Invariants: header versions follow from the API and its version: requests carry v2 when flexible,
else v1 (v0 for ControlledShutdown v0); responses v1 when flexible, else v0 (always v0 for
ApiVersions, whose sender may not know what its reader understands). The client id is never compact.
Mirrors: org.apache.kafka.common.requests.RequestHeader and ResponseHeader; KIP-482, KIP-511.
As in Kafka, a client id that is not UTF-8 is decoded as far as possible, a negative length means no
client id, and the order of tags does not matter. Leaves out: tagged fields of headers, of which
Kafka defines none: they are checked and skipped.

A request for an unsupported version of ApiVersions still has a header that can be read, so that it
can be answered with the versions that are supported.
"""

from __future__ import annotations

from struct import Struct as Layout
from struct import error as struct_error
from typing import Any, Final, NamedTuple

from .api import API_TABLE, ApiKey, response_class
from .codec import decode, encode_parts
from .errors import ProtocolError
from .primitives import Buffer, Records, decode_uvarint
from .schema import Message

_REQUEST_START: Final = Layout(">hhih")
_REQUEST_V0: Final = Layout(">hhi")
_CONTROLLED_SHUTDOWN: Final = int(ApiKey.CONTROLLED_SHUTDOWN)
_new_tuple: Final = tuple.__new__
_RESPONSE_SIZED: Final = Layout(">ii")
_RESPONSE_SIZED_V1: Final = Layout(">iix")
_INT32: Final = Layout(">i")

# Kafka defines none; without a limit they would be a long loop.
MAX_HEADER_TAGS: Final = 1000

# By API key: the first request version with header v2, and the first response version with v1.
_NEVER: Final = 1 << 15
_REQUEST_FLEXIBLE: Final = {
    int(key): _NEVER if spec.first_flexible is None else spec.first_flexible
    for key, spec in API_TABLE.items()
}
_RESPONSE_FLEXIBLE: Final = _REQUEST_FLEXIBLE | {int(ApiKey.API_VERSIONS): _NEVER}


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a frame (without its size), and where the body starts."""
    try:
        api_key, api_version, correlation_id, length = _REQUEST_START.unpack_from(frame)
    except struct_error as error:
        return _decode_shortest_header(frame, error)
    flexible_from = _REQUEST_FLEXIBLE.get(api_key)
    if flexible_from is None:
        raise ProtocolError(f"API key {api_key} is not known")
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        return RequestHeader(api_key, api_version, correlation_id, None), _REQUEST_V0.size
    position = 10
    client_id = None
    if length > 0:
        position += length
        if position > len(frame):
            raise ProtocolError(f"client id of {length} bytes is longer than its frame")
        client_id = str(frame[10:position], "utf-8", "replace")
    elif length == 0:
        client_id = ""
    if api_version >= flexible_from:
        position = _skip_tags(frame, position)
    # Past NamedTuple's own constructor, which would be a fifth of this function's time.
    header = _new_tuple(RequestHeader, (api_key, api_version, correlation_id, client_id))
    return header, position


def _decode_shortest_header(frame: Buffer, error: Exception) -> tuple[RequestHeader, int]:
    """Eight bytes are a whole header only for ControlledShutdown v0."""
    if len(frame) >= _REQUEST_V0.size:
        api_key, api_version, correlation_id = _REQUEST_V0.unpack_from(frame)
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None), _REQUEST_V0.size
    raise ProtocolError(f"a frame of {len(frame)} bytes has no request header") from error


def _skip_tags(frame: Buffer, position: int) -> int:
    try:
        if frame[position] == 0:
            return position + 1
        count, position = decode_uvarint(frame, position)
        if count > MAX_HEADER_TAGS:
            raise ProtocolError(f"header has {count} tags")
        for _ in range(count):
            _, position = decode_uvarint(frame, position)
            size, position = decode_uvarint(frame, position)
            position += size
    except IndexError as error:
        raise ProtocolError("header ends too early") from error
    if position > len(frame):
        raise ProtocolError("header has a tag past the end")
    return position


def encode_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        return _REQUEST_V0.pack(api_key, api_version, correlation_id)
    tags = b"\0" if api_version >= _REQUEST_FLEXIBLE[api_key] else b""
    if client_id is None:
        return _REQUEST_START.pack(api_key, api_version, correlation_id, -1) + tags
    name = client_id.encode()
    return _REQUEST_START.pack(api_key, api_version, correlation_id, len(name)) + name + tags


def encode_request(
    api_key: int,
    api_version: int,
    correlation_id: int,
    client_id: str | None,
    message: Message,
) -> list[Records]:
    """A whole frame in parts, size first."""
    parts = encode_parts(message, api_version)
    header = encode_request_header(api_key, api_version, correlation_id, client_id)
    size = len(header) + sum([len(part) for part in parts])
    parts[0] = _INT32.pack(size) + header + parts[0]  # type: ignore[operator]
    return parts


def encode_response(
    api_key: int, api_version: int, correlation_id: int, message: Message
) -> list[Records]:
    """A whole frame in parts, size first."""
    parts = encode_parts(message, api_version)
    add_response_header(api_key, api_version, correlation_id, parts)
    return parts


def add_response_header(
    api_key: int, api_version: int, correlation_id: int, parts: list[Any]
) -> None:
    """Make a frame, size first, of the parts of a message."""
    first = parts[0]
    size = len(first) if len(parts) == 1 else sum([len(part) for part in parts])
    if api_version >= _RESPONSE_FLEXIBLE[api_key]:
        start = _RESPONSE_SIZED_V1.pack(size + 5, correlation_id)
    else:
        start = _RESPONSE_SIZED.pack(size + 4, correlation_id)
    parts[0] = start + first


def decode_response(api_key: int, api_version: int, frame: Buffer) -> tuple[int, Message]:
    """Correlation id and body of a frame (without its size)."""
    try:
        correlation_id: int = _INT32.unpack_from(frame)[0]
    except struct_error as error:
        raise ProtocolError("a response is shorter than its header") from error
    position = 4
    if api_version >= _RESPONSE_FLEXIBLE[api_key]:
        position = _skip_tags(frame, position)
    return correlation_id, decode(response_class(api_key), api_version, frame, position)
