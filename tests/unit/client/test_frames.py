"""Frames over memory streams and sockets: whole, in pieces, big, too big, cut off."""

import random
from collections.abc import AsyncIterator
from typing import TypeAlias

import pytest
import trio
from trio.testing import memory_stream_pair

from pybroker_kafka.client.frames import FIRST_BUFFER_BYTES, FrameReader, FramesReader, send_frame
from pybroker_kafka.protocol.errors import ProtocolError

SIZES = (0, 1, 4, 100, FIRST_BUFFER_BYTES - 5, FIRST_BUFFER_BYTES, FIRST_BUFFER_BYTES * 3)
Pair: TypeAlias = tuple[trio.abc.Stream, trio.abc.Stream]


def frame(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


async def socket_pair() -> Pair:
    one, other = trio.socket.socketpair()
    return trio.SocketStream(one), trio.SocketStream(other)


async def memory_pair() -> Pair:
    return memory_stream_pair()


@pytest.fixture(params=[socket_pair, memory_pair], ids=["socket", "memory"])
async def pair(
    request: pytest.FixtureRequest,
) -> AsyncIterator[Pair]:
    one, other = await request.param()
    yield one, other
    await trio.aclose_forcefully(one)
    await trio.aclose_forcefully(other)


@pytest.mark.parametrize("reuse", [False, True])
async def test_frames_one_after_the_other(pair: Pair, reuse: bool) -> None:
    one, other = pair
    reader = FrameReader(reuse_buffer=reuse)
    kept = []
    async with trio.open_nursery() as nursery:
        for size in SIZES:
            content = random.Random(size).randbytes(size)
            nursery.start_soon(send_frame, one, frame(content))
            got = await reader.read(other)
            assert got == content
            kept.append((got, content))
    if not reuse:  # an old frame stays what it was
        assert all(got == content for got, content in kept)


async def test_many_frames_at_once_stay_what_they_are(pair: Pair) -> None:
    """While somebody holds a part of one; the buffers of those that nobody holds are used again."""
    one, other = pair
    reader = FramesReader()
    draw = random.Random(7)
    kept = []
    async with trio.open_nursery() as nursery:
        contents = [draw.randbytes(size) for size in (*SIZES, *SIZES[::-1], *SIZES[-3:] * 4)]
        nursery.start_soon(one.send_all, b"".join(frame(content) for content in contents))
        for content in contents:
            got = await reader.read(other)
            assert got == content
            if draw.random() < 0.5:
                kept.append((got[1:], content[1:]))
            elif kept and draw.random() < 0.5:
                kept.pop(0)
            del got
            assert all(part == expected for part, expected in kept)


async def test_byte_by_byte(pair: Pair) -> None:
    one, other = pair
    reader = FrameReader()

    async def drip() -> None:
        for value in frame(b"slowly"):
            await one.send_all(bytes([value]))
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drip)
        assert await reader.read(other) == b"slowly"


async def test_a_reused_buffer_is_given_back_when_frames_are_small_again(
    pair: Pair,
) -> None:
    one, other = pair
    reader = FrameReader(reuse_buffer=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_frame, one, frame(bytes(FIRST_BUFFER_BYTES * 2)))
        await reader.read(other)
    assert len(reader._buffer) > FIRST_BUFFER_BYTES
    for _ in range(1001):
        await send_frame(one, frame(b"small"))
        assert await reader.read(other) == b"small"
    assert len(reader._buffer) == FIRST_BUFFER_BYTES


async def test_sizes_are_checked_before_anything_is_allocated(
    pair: Pair,
) -> None:
    one, other = pair
    await one.send_all((101).to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="101 bytes"):
        await FrameReader(max_frame_bytes=100).read(other)
    await one.send_all(b"\xff\xff\xff\xff")
    with pytest.raises(ProtocolError):
        await FrameReader().read(other)


async def test_more_than_the_frame(pair: Pair) -> None:
    one, other = pair
    await one.send_all(frame(b"asked for") + b"not asked for")
    with pytest.raises(ProtocolError, match="no request asked"):
        await FrameReader().read(other)


async def test_the_end_in_the_middle(pair: Pair) -> None:
    one, other = pair
    await one.send_all(frame(b"whole")[:-1])
    await one.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await FrameReader().read(other)
