"""The dispatcher reads headers as `protocol.framing` does: its fast way, its careful way, in turns.

Any bytes behind the size: both find the same correlation id and client id and go on with the body
at the same place, or both refuse. Frames follow each other in one buffer, so that none may end in
the bytes of the next, and a client id that is known may not stand for one that is not there.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.network.bad_input import BadInput
from pybroker_kafka.broker.network.dispatcher import Dispatcher
from pybroker_kafka.broker.network.request import Request
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.protocol import codec
from pybroker_kafka.protocol.api import API_TABLE, ApiKey, request_class
from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.framing import decode_request_header
from tests.support.connections import connection_over

# Header v0, v1 and v2; a body without a field, a body of one byte, small ones, one that is decoded
# in the buffer, one that is never decoded at once.
ASKED = [
    (ApiKey.CONTROLLED_SHUTDOWN, 0),
    (ApiKey.CONTROLLED_SHUTDOWN, 1),
    (ApiKey.CONTROLLED_SHUTDOWN, 3),
    (ApiKey.LIST_GROUPS, 0),
    (ApiKey.LIST_GROUPS, 3),
    (ApiKey.HEARTBEAT, 3),
    (ApiKey.HEARTBEAT, 4),
    (ApiKey.PRODUCE, 8),
    (ApiKey.PRODUCE, 9),
    (ApiKey.STOP_REPLICA, 2),
    (ApiKey.API_VERSIONS, 0),
    (ApiKey.API_VERSIONS, 3),
]
NAMES = [b"", b"a", b"client", "Gerät".encode(), "Gerät".encode("latin-1"), b"\xe2\x82", b"\0"]
Read = tuple[int, str, Any]


class Readers:
    """Two dispatchers: of one all routes are known, of the other none ever is."""

    def __init__(self) -> None:
        self.handled: list[Request] = []
        handlers = {key: self.handled.append for key, _ in ASKED}
        self.known, self.new = Dispatcher(BrokerMetrics()), Dispatcher(BrokerMetrics())
        for dispatcher in (self.known, self.new):
            dispatcher.register(handlers)
            dispatcher.intercept_with(lambda *_: self.handled.append)  # of whatever kind they are

    def read(self, frames: list[bytes], *, is_known: bool) -> list[Read | None]:
        """What the frames of one connection are read as; None is refused, and the end of it."""
        dispatcher = self.known if is_known else self.new
        found: list[Read | None] = []
        with socket.socket() as transport:
            connection = connection_over(transport)
            whole = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)
            connection.receive_memory.try_take(len(whole), 0)
            connection.buffer = bytearray(whole)
            connection.view = memoryview(connection.buffer)
            connection.end = len(whole)
            for frame in frames:
                if not is_known:
                    dispatcher._routes.clear()
                connection.needed = 4 + len(frame)
                self.handled.clear()
                with suppress(BadInput):
                    dispatcher.handle_frame(connection)
                if not self.handled:
                    return [*found, None]
                (request,) = self.handled
                found.append((request.correlation_id, request.client_id or "", request.body))
        return found


def expected(frames: list[bytes]) -> list[Read | None]:
    found: list[Read | None] = []
    for frame in frames:
        try:
            header, offset = decode_request_header(frame)
            if not API_TABLE[ApiKey(header.api_key)].supports(header.api_version):
                raise ProtocolError("not served")
            of = request_class(ApiKey(header.api_key))
            body = codec.decode(of, header.api_version, frame, offset)
        except ProtocolError:
            return [*found, None]
        found.append((header.correlation_id, header.client_id or "", body))
    return found


@st.composite
def a_frame(draw: st.DrawFn) -> bytes:
    """A frame with a header of its version, which may say what is not true."""
    key, version = draw(st.sampled_from(ASKED))
    name = draw(st.sampled_from(NAMES) | st.binary(max_size=6))
    lengths = st.just(len(name)) | st.sampled_from([-1, -2, -(2**15)]) | st.integers(-9, 40)
    tags = st.just(b"\0") | st.sampled_from([b"\2\0\1a\5\2bc", b"\1\0\x09x", b"\x80\0", b""])
    parts = [
        key.to_bytes(2, "big"),
        version.to_bytes(2, "big"),
        draw(st.integers(-(2**31), 2**31 - 1)).to_bytes(4, "big", signed=True),
        draw(lengths).to_bytes(2, "big", signed=True),
        name,
        draw(tags | st.binary(max_size=4)) if API_TABLE[key].is_flexible(version) else b"",
        draw(st.just(codec.encode(request_class(key)(), version)) | st.binary(max_size=12)),
    ]
    if (key, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0):
        del parts[3:6]
    return b"".join(parts)


@st.composite
def any_frame(draw: st.DrawFn) -> bytes:
    key, version = draw(st.sampled_from(ASKED))
    start = key.to_bytes(2, "big") + version.to_bytes(2, "big")
    return (start + draw(st.binary(max_size=40)))[: draw(st.integers(4, 44))]


@pytest.fixture(scope="module")
def readers() -> Readers:
    made = Readers()
    for key, version in ASKED:
        frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + b"\xff\xff"
        made.read([frame], is_known=True)
    return made


@given(
    frames=st.lists(a_frame() | any_frame(), min_size=1, max_size=3),
    repeats=st.integers(1, 2),
    is_known=st.booleans(),
)
def test_both_read_the_same(
    readers: Readers, frames: list[bytes], repeats: int, is_known: bool
) -> None:
    frames = frames * repeats
    assert readers.read(frames, is_known=is_known) == expected(frames)
