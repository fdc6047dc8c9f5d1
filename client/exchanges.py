"""A request and its answer over a stream: what connections of clients and brokers have in common.

Invariants: one exchange at a time; correlation ids go up, and an answer with another one than its
request is an error. After any error, a cancellation included, nobody knows what the stream says
next: whoever asked closes it.
Mirrors: the correlation of NetworkClient and InFlightRequests; KIP-511.
"""

from __future__ import annotations

from typing import cast

import trio

from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.framing import decode_response, encode_request
from ..protocol.schema import Message
from .frames import MAX_FRAME_BYTES, FrameReader, send_frame

MAX_CORRELATION_ID = 2**31

# With ProtocolError, what `ask` raises.
STREAM_ERRORS = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)

_UNSUPPORTED = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


class Exchanges:
    """Of one client, over one stream after the other."""

    __slots__ = ("_client_id", "_correlation_id", "_frames")

    def __init__(
        self, client_id: str, *, reuse_buffer: bool = False, max_frame_bytes: int = MAX_FRAME_BYTES
    ) -> None:
        """With `reuse_buffer` an answer's bytes are good until the next request only."""
        self._client_id = client_id
        self._correlation_id = -1  # of the last request
        self._frames = FrameReader(reuse_buffer=reuse_buffer, max_frame_bytes=max_frame_bytes)

    async def ask(self, stream: trio.abc.Stream, message: Message, api_version: int) -> Message:
        """Send `message`, wait for its answer."""
        number = self._correlation_id = (self._correlation_id + 1) % MAX_CORRELATION_ID
        api_key = message._spec.api_key
        parts = encode_request(api_key, api_version, number, self._client_id, message)
        await send_frame(stream, b"".join(cast(list[bytes], parts)))
        frame = await self._frames.read(stream)
        if api_key == ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED:
            api_version = 0  # an unsupported version is answered in version 0
        answered, response = decode_response(api_key, api_version, frame)
        if answered != number:
            raise ProtocolError(f"answer {answered} to request {number}")
        return response
