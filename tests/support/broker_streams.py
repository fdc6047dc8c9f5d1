"""The other broker's end of a stream in memory, for tests of what a broker asks other brokers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.framing import encode_response
from tests.support.frames import decode_request, joined


async def answer_requests(
    stream: Any, answer: Callable[[ApiKey, int, Any], Awaitable[Any]]
) -> None:
    """Answer one request after the other with what `answer(key, version, request)` returns, until
    the stream ends; with None it is closed."""
    while (size := await _exactly(stream, 4)) is not None:
        frame = memoryview(await _exactly(stream, int.from_bytes(size, "big")) or b"")
        header, body = decode_request(frame)
        key, version = ApiKey(header.api_key), header.api_version
        response = await answer(key, version, body)
        if response is None:
            await stream.aclose()
            return
        parts = encode_response(key, version, header.correlation_id, response)
        await stream.send_all(joined(parts))


async def _exactly(stream: Any, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        try:
            more = await stream.receive_some(size - len(data))
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            return None
        if not more:
            return None
        data += more
    return data
