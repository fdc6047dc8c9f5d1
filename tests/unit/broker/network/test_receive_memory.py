"""Receive buffers: how they grow with what comes in, what all of them may hold, who has to go."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import trio

from pybroker_kafka.broker.config.loading import load_config
from pybroker_kafka.broker.network import memory_shortage, processor, socket_server
from pybroker_kafka.broker.network.connection import Connection
from pybroker_kafka.broker.network.receive_buffer import (
    COMMON_BUFFER_BYTES,
    DEFAULT_MEMORY_BYTES,
    FIRST_BUFFER_BYTES,
    KEPT_BUFFER_BYTES,
    MAPPED_BYTES,
    UNLIMITED_BYTES,
    ReceiveMemory,
)
from pybroker_kafka.broker.network.selector import READ
from pybroker_kafka.broker.network.socket_server import SocketSettings
from pybroker_kafka.broker.settings import socket_settings
from tests.support.connections import connection_over
from tests.support.network import RawClient, RunningNetwork, heartbeat, running_network
from tests.support.patience import eventually, fair
from tests.support.sources import needs_sources

LARGE = 90_000_000


def beginning(size: int, sent: int) -> bytes:
    """The first `sent` bytes of a frame of `size`."""
    return (struct.pack(">i", size) + b"\0\x0c\0\0").ljust(sent, b"x")


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.settimeout(10)
    yield connection_over(left), right
    left.close()
    right.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_buffer_is_at_most_twice_what_came_in(
    pair: tuple[Connection, socket.socket], seed: int
) -> None:
    connection, peer = pair
    rng = random.Random(seed)
    data = beginning(3_000_000, 3_000_004)
    sent = 0
    while sent < len(data):
        piece = data[sent : sent + rng.choice([1, 100, 5_000, 60_000, 150_000])]
        sent += peer.send(piece)
        while connection.end < sent:
            assert connection.receive()
            assert len(connection.buffer) <= max(2 * connection.end, FIRST_BUFFER_BYTES)
            assert len(connection.buffer) == connection.receive_memory.used
    assert connection.frame_ready()
    assert bytes(connection.view[: len(data)]) == data
    assert len(connection.buffer) < len(data) + COMMON_BUFFER_BYTES


def test_a_prefix_alone_claims_nothing(pair: tuple[Connection, socket.socket]) -> None:
    connection, peer = pair
    peer.sendall(beginning(LARGE, 8))
    assert connection.receive()
    assert len(connection.buffer) == FIRST_BUFFER_BYTES


def test_who_sends_much_at_once_gets_a_larger_buffer(
    pair: tuple[Connection, socket.socket],
) -> None:
    connection, peer = pair
    frame = b"\0\0\0\x04abcd"
    for _ in range(5):
        peer.sendall(frame * 3000)
        received = 0
        while received < 3000:
            assert connection.receive()
            while connection.frame_ready():
                connection.start += connection.needed
                received += 1
    assert len(connection.buffer) == COMMON_BUFFER_BYTES


def test_a_large_buffer_is_kept_for_the_next_request_and_not_for_ever(
    pair: tuple[Connection, socket.socket],
) -> None:
    connection, peer = pair
    size = 2 * KEPT_BUFFER_BYTES
    sizes = []
    for _ in range(2):
        connection.start = connection.end  # the one before is handled
        frame = beginning(size, size + 4)
        sent = 0
        while sent < len(frame):
            sent += peer.send(frame[sent : sent + 100_000])
            while connection.end - connection.start < sent:
                assert connection.receive()
        assert connection.frame_ready()
        sizes.append(len(connection.buffer))
    assert sizes[0] == sizes[1] >= size > MAPPED_BYTES
    assert not connection.buffer_is_too_large(), "since the last time there was a large request"
    assert connection.buffer_is_too_large()


@pytest.mark.parametrize(
    ("overrides", "limit"),
    [
        ({}, DEFAULT_MEMORY_BYTES),
        ({"socket.request.max.bytes": "200000000"}, 400_000_000),
        ({"queued.max.request.bytes": "-1"}, UNLIMITED_BYTES),
        ({"queued.max.request.bytes": "104857600"}, UNLIMITED_BYTES),
    ],
)
def test_a_limit_that_is_set_has_kafkas_meaning(overrides: dict[str, str], limit: int) -> None:
    settings = socket_settings(load_config(overrides={"zookeeper.connect": "zk:1", **overrides}))
    assert settings.receive_memory_bytes == limit
    assert settings.queued_bytes == int(overrides.get("queued.max.request.bytes", "-1"))


def test_receive_memory() -> None:
    memory = ReceiveMemory(100_000)
    assert memory.try_take(80_000, 0)
    assert not memory.is_short
    assert not memory.try_take(40_000, 16_000)
    assert memory.is_short
    assert memory.used == 80_000
    assert memory.try_take(COMMON_BUFFER_BYTES, 0), "what a small request needs there always is"
    memory.give(80_000)
    assert memory.try_take(40_000, COMMON_BUFFER_BYTES)
    assert memory.used == 40_000
    with pytest.raises(AssertionError):
        memory.give(40_001)


async def send_half(client: RawClient) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        await client.send(beginning(LARGE, 200_000))


async def whole(client: RawClient) -> int:
    """Sends one large request and waits for its answer; how many bytes it has."""
    frame = heartbeat("g" * 30_000, 1, 0)
    await client.send(frame)
    assert await client.receive_frame() is not None
    return len(frame)


async def until(network: RunningNetwork, used: int) -> None:
    await eventually(lambda: network.server.receive_memory.used <= used)


async def test_all_buffers_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that stop half-way hold all there is: small ones go on, a large one waits until
    those that came no further are given up, the largest first, and no more than need be."""
    monkeypatch.setattr(memory_shortage, "STALLED_SECONDS", 0.3)
    monkeypatch.setattr(socket_server, "MAX_SWEEP_SECONDS", 0.05)
    limit = 1024 * 1024
    async with running_network(SocketSettings(receive_memory_bytes=limit)) as network:
        halves = [await network.connect() for _ in range(20)]
        large, small = await network.connect(), await network.connect()
        memory = network.server.receive_memory
        async with trio.open_nursery() as nursery:
            for client in halves:
                nursery.start_soon(send_half, client)
            await eventually(lambda: memory.is_short)
            nursery.start_soon(whole, large)
            for n in range(20):
                began = fair.now()
                await small.send(heartbeat("small", n))
                assert await small.receive_frame() is not None
                assert fair.now() - began < 0.3, "small requests do not wait"
                assert memory.used <= limit + len(halves) * COMMON_BUFFER_BYTES
                await trio.sleep(0.02)
            await eventually(lambda: "g" * 30_000 in network.heartbeats.seen)
            nursery.cancel_scope.cancel()
        assert memory.used <= limit + 2 * COMMON_BUFFER_BYTES


async def test_buffers_that_nobody_uses_make_room_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More connections with large requests one after the other than there is room for."""
    monkeypatch.setattr(memory_shortage, "STALLED_SECONDS", 600.0)  # not for want of progress
    async with running_network(SocketSettings(receive_memory_bytes=100_000)) as network:
        with trio.fail_after(120):
            for _ in range(20):
                await whole(await network.connect())
        assert network.server.receive_memory.used <= 100_000


async def test_memory_is_given_back_with_the_connection() -> None:
    async with running_network() as network:
        clients = [await network.connect() for _ in range(5)]
        for client in clients:
            await client.send(beginning(LARGE, 300_000))
        await eventually(lambda: network.server.receive_memory.used >= 5 * 300_000)
        for client in clients:
            await client.stream.aclose()
        await until(network, 0)


@needs_sources
async def test_a_round_of_large_requests_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever it does not come to has its turn in the next ones."""
    monkeypatch.setattr(processor, "ROUND_SECONDS", 0.0)
    async with running_network(SocketSettings(network_threads=1)) as network:
        (only,) = network.server.processors
        clients = [await network.connect() for _ in range(8)]
        longest = 0
        original = only.selector.poll

        def poll() -> list[tuple[int, int]]:
            nonlocal longest
            longest = max(longest, len(only.left))
            return original()

        only.selector = SimpleNamespace(
            poll=poll,
            **{
                name: getattr(only.selector, name)
                for name in ("register", "modify", "unregister", "close")
            },
        )
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(whole, client)
        assert longest > 1
        assert len(network.heartbeats.seen) == 8


@needs_sources
def test_small_requests_go_before_what_large_ones_left() -> None:
    """Then those that the last round did not come to, then those that have had their turn."""
    needed = {1: 0, 2: LARGE, 3: LARGE, 4: LARGE, 5: 100}
    made = SimpleNamespace(
        left=[(3, READ), (4, READ)],
        selector=SimpleNamespace(poll=lambda: [(n, READ) for n in (2, 3, 5, 4, 1)]),
        connections={n: SimpleNamespace(needed=size) for n, size in needed.items()},
    )
    pending = processor.Processor._pending(made)  # type: ignore[arg-type]
    assert [fileno for fileno, _ in pending] == [5, 1, 3, 4, 2]
    made.left = []
    pending = processor.Processor._pending(made)  # type: ignore[arg-type]
    assert [fileno for fileno, _ in pending] == [2, 3, 5, 4, 1]
