"""The client's end of TLS beside trio's own server side."""

from __future__ import annotations

import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pybroker_kafka.client.frames import FrameReader, send_frame
from pybroker_kafka.client.security.tls import TlsFailure, explained, start_tls
from pybroker_kafka.client.security.tls_stream import TlsStream
from tests.support.certificates import AuthorityFiles

Serve = Callable[[trio.SSLStream[trio.SocketStream]], Awaitable[None]]


class Place:
    def __init__(self, directory: Path) -> None:
        self.authority = AuthorityFiles(directory)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(self.authority.issue("server"))
        self.client = ssl.create_default_context(cafile=str(self.authority.ca))

    @asynccontextmanager
    async def connected(self, serve: Serve) -> AsyncIterator[TlsStream]:
        async def handle(stream: trio.SocketStream) -> None:
            await serve(trio.SSLStream(stream, self.server, server_side=True))

        async with trio.open_nursery() as nursery:
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, handle, [listener])
            port = listener.socket.getsockname()[1]
            tcp = await trio.open_tcp_stream("127.0.0.1", port)
            with trio.fail_after(120):
                stream = await start_tls(tcp, self.client, "localhost")
                yield stream
            await stream.aclose()
            nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("tls"))


async def echo(stream: trio.SSLStream[trio.SocketStream]) -> None:
    """Frames come back as they are."""
    frames = FrameReader()
    while True:
        try:
            frame = bytes(await frames.read(stream))
        except trio.BrokenResourceError:
            return
        await stream.send_all(len(frame).to_bytes(4, "big") + frame)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_frames_of_all_sizes(place: Place, version: ssl.TLSVersion) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    place.client.maximum_version = version
    try:
        async with place.connected(echo) as stream:
            frames = FrameReader(reuse_buffer=True)
            sizes = [0, 1, 16_380, 16_384, 16_385, 3_000_000, dice.randrange(1_000_000)]
            for size in (*sizes, *(dice.randrange(70_000) for _ in range(30))):
                body = dice.randbytes(size)
                await send_frame(stream, size.to_bytes(4, "big") + body)
                assert await frames.read(stream) == body
    finally:
        place.client.maximum_version = ssl.TLSVersion.MAXIMUM_SUPPORTED


async def test_an_end_without_a_goodbye(place: Place) -> None:
    async def leave(stream: trio.SSLStream[trio.SocketStream]) -> None:
        await stream.send_all(b"last")
        await stream.transport_stream.aclose()

    async with place.connected(leave) as stream:
        assert await stream.receive_some(100) == b"last"
        assert await stream.receive_some(100) == b""
        with pytest.raises(trio.BrokenResourceError, match="closed the connection"):
            await FrameReader().read(stream)


async def test_a_goodbye_is_an_end(place: Place) -> None:
    async def leave(stream: trio.SSLStream[trio.SocketStream]) -> None:
        await stream.do_handshake()
        with trio.move_on_after(1):
            await stream.aclose()

    async with place.connected(leave) as stream:
        assert await stream.receive_some() == b""


async def test_what_was_changed_on_its_way_is_refused(place: Place) -> None:
    async def spoil(stream: trio.SSLStream[trio.SocketStream]) -> None:
        await stream.do_handshake()
        await stream.transport_stream.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
        await trio.sleep_forever()

    async with place.connected(spoil) as stream:
        with pytest.raises(trio.BrokenResourceError) as caught:
            await stream.receive_some(10)
        assert isinstance(caught.value.__cause__, ssl.SSLError)


async def test_a_name_that_is_not_in_the_certificate(place: Place) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")

    async def handle(stream: trio.SocketStream) -> None:
        with pytest.raises(trio.BrokenResourceError) as told:
            await trio.SSLStream(stream, place.server, server_side=True).receive_some(1)
        assert "ALERT" in str(told.value.__cause__), "the server is told why"
        listener.socket.close()

    async with trio.open_nursery() as nursery:

        async def accept() -> None:
            await handle(await listener.accept())

        nursery.start_soon(accept)
        tcp = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
        with pytest.raises(TlsFailure, match="certificate is not for other"):
            await start_tls(tcp, place.client, "other")


async def test_a_cancelled_wait(place: Place) -> None:
    async with place.connected(echo) as stream:
        with trio.move_on_after(0.01) as scope:
            await stream.receive_some(1)
        assert scope.cancelled_caught
        await stream.aclose()
        with pytest.raises((trio.ClosedResourceError, OSError)):
            await stream.receive_some(1)


@pytest.mark.parametrize("end", [ssl.SSLEOFError, ssl.SSLZeroReturnError])
def test_the_end_of_a_connection_in_a_handshake_names_the_key(end: type[ssl.SSLError]) -> None:
    assert "security.protocol" in explained(end(8, "EOF occurred"))
