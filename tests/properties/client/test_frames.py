"""Frames in pieces of any sizes: each comes as it was sent, and stays so while it is held."""

from __future__ import annotations

import socket
from random import Random

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import memory_stream_pair

from pybroker_kafka.client.frames import FIRST_BUFFER_BYTES, FramesReader

sizes = st.integers(0, 300) | st.integers(FIRST_BUFFER_BYTES - 8, 4 * FIRST_BUFFER_BYTES)
# Of a frame's content; in how many pieces it is sent (0: with the next one); whether it is held.
frames = st.lists(st.tuples(sizes, st.integers(0, 5), st.booleans()), max_size=8)


def streams(over_sockets: bool) -> tuple[trio.abc.Stream, trio.abc.Stream]:
    if not over_sockets:
        return memory_stream_pair()
    one, other = (trio.socket.from_stdlib_socket(each) for each in socket.socketpair())
    return trio.SocketStream(one), trio.SocketStream(other)


@pytest.mark.parametrize("over_sockets", [True, False], ids=["sockets", "memory"])
@given(frames, st.integers(0, 2**32))
def test_frames_come_and_stay_as_they_were_sent(
    over_sockets: bool, drawn: list[tuple[int, int, bool]], seed: int
) -> None:
    contents = [Random(seed + n).randbytes(size) for n, (size, *_) in enumerate(drawn)]

    async def send(stream: trio.abc.SendStream) -> None:
        waiting = b""
        for content, (_, pieces, _) in zip(contents, drawn, strict=True):
            waiting += len(content).to_bytes(4, "big") + content
            for left in range(pieces, 0, -1):
                size = len(waiting) // left
                await stream.send_all(waiting[:size])
                waiting = waiting[size:]
        await stream.send_all(waiting)

    async def run() -> None:
        one, other = streams(over_sockets)
        reader = FramesReader()
        held = []
        async with one, other, trio.open_nursery() as nursery:
            nursery.start_soon(send, one)
            for content, (*_, is_held) in zip(contents, drawn, strict=True):
                steps = reader.steps
                frame = await reader.read(other)
                assert frame == content
                assert reader.steps > steps
                if is_held:
                    held.append((frame[1:], content[1:]))
                del frame
        assert all(frame == content for frame, content in held)

    trio.run(run)
