"""A request and its answer: numbers, answers to other requests, versions that nobody knows."""

from __future__ import annotations

from typing import cast

import pytest
import trio
from trio.testing import memory_stream_pair

from pybroker_kafka.client import exchanges
from pybroker_kafka.client.exchanges import Exchanges
from pybroker_kafka.client.frames import FrameReader
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from pybroker_kafka.protocol.errors import ErrorCode, ProtocolError
from pybroker_kafka.protocol.framing import decode_request_header, encode_response


async def serve(stream: trio.abc.Stream, seen: list[int], *, off_by: int = 0) -> None:
    """Answers heartbeats and ApiVersions as a broker that knows version 0 of the latter."""
    frames = FrameReader()
    while True:
        header, _ = decode_request_header(await frames.read(stream))
        seen.append(header.correlation_id)
        if header.api_key == ApiVersionsRequest._spec.api_key:
            refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
            parts = encode_response(header.api_key, 0, header.correlation_id, refused)
        else:
            answer = HeartbeatResponse(throttle_time_ms=header.correlation_id)
            number = header.correlation_id + off_by
            parts = encode_response(header.api_key, header.api_version, number, answer)
        await stream.send_all(b"".join(cast(list[bytes], parts)))


async def test_each_request_has_a_number_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over one stream after the other; after the last there is, from the beginning."""
    monkeypatch.setattr(exchanges, "MAX_CORRELATION_ID", 3)
    exchange = Exchanges("client")
    seen: list[int] = []
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            ours, theirs = memory_stream_pair()
            nursery.start_soon(serve, theirs, seen)
            for _ in range(2):
                answer = await exchange.ask(ours, HeartbeatRequest(), 4)
                assert isinstance(answer, HeartbeatResponse)
                assert answer.throttle_time_ms == seen[-1]
        nursery.cancel_scope.cancel()
    assert seen == [0, 1, 2, 0]


async def test_the_answer_to_another_request_is_an_error() -> None:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: serve(theirs, [], off_by=1))
        with pytest.raises(ProtocolError, match="answer 1 to request 0"):
            await Exchanges("client").ask(ours, HeartbeatRequest(), 4)
        nursery.cancel_scope.cancel()


async def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve, theirs, [])
        answer = await Exchanges("client").ask(ours, ApiVersionsRequest(), 4)
        assert isinstance(answer, ApiVersionsResponse)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        nursery.cancel_scope.cancel()
