"""What is not in the page cache is read by a thread before it is sent, and all of it arrives."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from pathlib import Path

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.broker.network import cold_reads
from pybroker_kafka.broker.network.cold_reads import ColdReads
from pybroker_kafka.broker.network.connection import Connection
from pybroker_kafka.broker.network.page_cache import PROBE_BYTES, is_cached, read_to_cache
from pybroker_kafka.broker.network.send_queue import LOOKED_FOR_BYTES, Part, SendQueue
from pybroker_kafka.storage.files import Files, FileSlice
from tests.support.cold_files import (
    cache_that_holds_nothing,
    drop_from_cache,
    is_ever_cold,
    kernel_says_cold,
    read_what_is_cold,
)
from tests.support.connections import connection_over

CONTENT = os.urandom(3 * LOOKED_FOR_BYTES + 12_345)


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    path = tmp_path / "segment"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def cold(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """To the queues, none of it is in the page cache until it was read."""
    cache_that_holds_nothing(monkeypatch)
    return on_disk


def received(sock: socket.socket) -> bytes:
    found = bytearray()
    with contextlib.suppress(BlockingIOError):
        while data := sock.recv(1 << 20):
            found += data
    return bytes(found)


def pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    return ours, theirs


def test_a_range_is_cached_once_it_was_read(on_disk: Path) -> None:
    if not is_ever_cold(on_disk, kernel_says_cold):
        pytest.skip("this file system, or this system, does not tell what is on the disk")
    assert is_ever_cold(on_disk, lambda fileno: not is_cached(fileno, 0, LOOKED_FOR_BYTES))
    with on_disk.open("rb") as file:
        fileno = file.fileno()
        read_to_cache(fileno, 0, LOOKED_FOR_BYTES)
        assert is_cached(fileno, 0, LOOKED_FOR_BYTES)
        assert is_cached(fileno, 5, PROBE_BYTES + 1)
        read_to_cache(fileno, 0, 2 * len(CONTENT))  # it ends where the file ends
        assert is_cached(fileno, 0, len(CONTENT))


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.ENOSYS, errno.EPERM, errno.EIO])
def test_what_nothing_can_be_said_of_is_sent(
    on_disk: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """File systems without the call, and containers that forbid it."""

    def refuse(*_arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "preadv", refuse)
    with on_disk.open("rb") as file:
        assert is_cached(file.fileno(), 0, LOOKED_FOR_BYTES)


def test_nothing_is_sent_that_is_on_the_disk(cold: Path) -> None:
    ours, theirs = pair()
    with ours, theirs:
        queue = SendQueue(ours)
        file = Files().open(str(cold))
        queue.add([b"head", FileSlice(file, 100, 500_000), b"tail"])
        for _ in range(3):  # however often somebody tries
            assert not queue.flush()
            assert queue.blocked
            assert queue.size == 500_004
            assert queue.cold is not None
            assert (queue.cold.position, len(queue.cold)) == (100, 500_000)
        assert received(theirs) == b"head"
        # It was read and is gone again: then the kernel has to wait once, and it is sent.
        queue.was_read()
        got = b""
        while not queue.flush():
            got += received(theirs)
        assert got + received(theirs) == CONTENT[100:500_100] + b"tail"


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_all_arrives_whatever_is_cached_when(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("cold") / "segment"
    path.write_bytes(CONTENT)
    drop_from_cache(path)
    ours, theirs = pair()
    with ours, theirs:
        queue = SendQueue(ours)
        file = Files().open(str(path))
        expected = got = b""
        parts: list[Part] = []
        for is_file in data.draw(st.lists(st.booleans(), min_size=1, max_size=5)):
            at = data.draw(st.integers(0, len(CONTENT) - 1))
            size = data.draw(st.integers(1, min(len(CONTENT) - at, 2 * LOOKED_FOR_BYTES)))
            parts.append(FileSlice(file, at, size) if is_file else CONTENT[at : at + size])
            expected += CONTENT[at : at + size]
        queue.add(parts)
        while not queue.flush():
            assert queue.blocked
            if data.draw(st.booleans()):
                drop_from_cache(path)
            got += received(theirs)
            read_what_is_cold(queue)
        assert got + received(theirs) == expected
        assert queue.size == 0


def test_a_connection_waits_for_the_disk_and_others_do_not(cold: Path) -> None:
    """As the handlers do it; a closed connection is nobody's."""
    ours, theirs = pair()
    closed_end, _other = pair()

    async def main() -> None:
        reads, went_on = ColdReads(), trio.Event()
        file = Files().open(str(cold))
        waiting, closed = connection_over(ours), connection_over(closed_end)
        for connection in (closed, waiting):
            connection.out.add([FileSlice(file, 0, LOOKED_FOR_BYTES)])
            assert not connection.out.flush()
            reads.add(connection)
            reads.add(connection)
        closed.closed = True

        def go_on(connection: Connection) -> None:
            assert connection is waiting
            assert connection.out.cold is None
            went_on.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(reads.run, go_on)
            with trio.fail_after(120):
                await went_on.wait()
            assert reads.count == 1
            # It may lack more, later.
            waiting.out.flush()
            went_on = trio.Event()
            reads.add(waiting)
            with trio.fail_after(120):
                await went_on.wait()
            nursery.cancel_scope.cancel()

    with ours, theirs, closed_end, _other:
        trio.run(main)


def test_a_read_that_fails_is_left_to_sending(cold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(cold_reads, "read_to_cache", fail)
    ours, theirs = pair()

    async def main() -> None:
        reads, went_on = ColdReads(), trio.Event()
        waiting = connection_over(ours)
        waiting.out.add([FileSlice(Files().open(str(cold)), 0, LOOKED_FOR_BYTES)])
        assert not waiting.out.flush()
        reads.add(waiting)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reads.run, lambda _connection: went_on.set())
            with trio.fail_after(120):
                await went_on.wait()
            nursery.cancel_scope.cancel()
        waiting.out.flush()
        assert waiting.out.cold is None
        assert received(theirs)

    with ours, theirs:
        trio.run(main)
