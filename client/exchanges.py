"""Requests and their answers: the common part of the connections of clients and brokers.

`Exchanges` numbers requests and makes their frames; `SentRequest` is a request in flight, and reads
its answer. Neither waits for anything. `ask` is a whole exchange for callers with one request at a
time (a login, a broker's connection to another); `connection.Connection` has many requests in
flight.
Invariants: correlation ids increase, and an answer with another id than its request is an error.
After any error of `ask`, a cancellation included, the state of the stream is unknown: the caller
closes it.
Mirrors: the correlation of NetworkClient and InFlightRequests; KIP-511.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import trio

from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.framing import decode_response, encode_request
from ..protocol.primitives import Buffer
from ..protocol.schema import Message
from .frames import MAX_FRAME_BYTES, FrameReader, send_frame

MAX_CORRELATION_ID = 2**31

# `ask` raises these, and ProtocolError.
STREAM_ERRORS = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)

_UNSUPPORTED = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")
_NUMBER_BYTES = 4


class SentRequest(NamedTuple):
    """A request in flight, with the fields needed to read its answer."""

    number: int
    api_key: int
    api_version: int

    def read(self, frame: Buffer) -> Message:
        """The answer. Raises ProtocolError."""
        version = self.api_version
        if self.api_key == ApiKey.API_VERSIONS and frame[4:6] == _UNSUPPORTED:
            version = 0  # an unsupported version is answered in version 0
        answered, response = decode_response(self.api_key, version, frame)
        if answered != self.number:
            raise ProtocolError(f"answer {answered} to request {self.number}")
        return response

    def drop(self, frame: Buffer) -> None:
        """Drop an answer that no caller waits for; its id still has to match."""
        answered = int.from_bytes(frame[:_NUMBER_BYTES], "big", signed=True)
        if len(frame) < _NUMBER_BYTES or answered != self.number:
            raise ProtocolError(f"answer {answered} to request {self.number}")


class Exchanges:
    """The exchanges of one client, over one stream after the other."""

    __slots__ = ("_client_id", "_correlation_id", "_frames")

    def __init__(
        self, client_id: str, *, reuse_buffer: bool = False, max_frame_bytes: int = MAX_FRAME_BYTES
    ) -> None:
        """With `reuse_buffer` an answer's bytes are valid until the next request only."""
        self._client_id = client_id
        self._correlation_id = -1  # of the last request
        self._frames = FrameReader(reuse_buffer=reuse_buffer, max_frame_bytes=max_frame_bytes)

    def encode(self, message: Message, api_version: int) -> tuple[SentRequest, bytes]:
        """The next request and its frame. Raises ProtocolError if the version cannot express it."""
        number = (self._correlation_id + 1) % MAX_CORRELATION_ID
        api_key = message._spec.api_key
        parts = encode_request(api_key, api_version, number, self._client_id, message)
        self._correlation_id = number
        return SentRequest(number, api_key, api_version), b"".join(cast(list[bytes], parts))

    async def ask(self, stream: trio.abc.Stream, message: Message, api_version: int) -> Message:
        """Send `message`, wait for its answer: no other request may be in flight."""
        sent, frame = self.encode(message, api_version)
        await send_frame(stream, frame)
        return sent.read(await self._frames.read(stream))
