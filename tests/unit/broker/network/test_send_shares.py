"""Who reads as fast as it is sent to gets its answer in shares, between which others have turns."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker_kafka.broker.network import send_queue
from pybroker_kafka.broker.network.acceptor import LOCAL_SEND_BUFFER, Acceptor
from pybroker_kafka.broker.network.cold_reads import ColdReads
from pybroker_kafka.broker.network.connection_quotas import ConnectionQuotas
from pybroker_kafka.broker.network.memory_shortage import MemoryShortage
from pybroker_kafka.broker.network.receive_buffer import ReceiveMemory
from pybroker_kafka.broker.network.request_channel import RequestChannel
from pybroker_kafka.broker.network.request_handler_pool import RequestHandlerPool
from pybroker_kafka.broker.network.selector import READ, WRITE
from pybroker_kafka.broker.network.send_queue import (
    MAX_SENT_BYTES_PER_ROUND,
    SENDFILE_BYTES,
    SendQueue,
)
from pybroker_kafka.storage.files import Files, FileSlice
from tests.support.connections import connection_over
from tests.support.sources import needs_sources

SHARE = MAX_SENT_BYTES_PER_ROUND
SIZE = 3 * SHARE + 12_345


@pytest.fixture
def part(tmp_path: Path) -> FileSlice:
    path = tmp_path / "segment"
    path.write_bytes(bytes(SIZE))
    return FileSlice(Files().open(str(path)), 0, SIZE)


class Socket:
    """How much of what it is given the kernel takes, each time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int = SIZE) -> None:
        self.most = most
        self.calls: list[tuple[int, int]] = []

        def send_range(_queue: SendQueue, _part: object, position: int, size: int) -> int:
            self.calls.append((position, size))
            return min(size, self.most)

        monkeypatch.setattr(SendQueue, "_send_range", send_range)
        monkeypatch.setattr(send_queue, "is_cached", lambda *_range: True)


@needs_sources
def test_a_flush_sends_a_share_of_a_file_and_goes_on_there(
    part: FileSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Socket(monkeypatch)
    transport: Any = None
    queue = SendQueue(transport)
    queue.add([part])
    for sent in (SHARE, 2 * SHARE, 3 * SHARE):
        assert not queue.flush()
        assert (queue.size, queue.blocked, queue.had_share) == (SIZE - sent, True, True)
    assert queue.flush()
    assert (queue.size, queue.blocked, queue.had_share) == (0, False, False)
    assert max(size for _, size in kernel.calls) == SENDFILE_BYTES
    assert sum(size for _, size in kernel.calls) == SIZE


@needs_sources
def test_a_socket_that_took_less_is_not_asked_again(
    part: FileSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Socket(monkeypatch, most=1000)
    transport: Any = None
    queue = SendQueue(transport)
    queue.add([part])
    assert not queue.flush()
    assert (queue.size, queue.had_share) == (SIZE - 1000, False)
    assert len(kernel.calls) == 1


class Watched:
    """A selector that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def modify(self, _fileno: int, events: int) -> None:
        self.told.append(events)


@needs_sources
def test_who_had_a_share_is_served_in_the_next_batch_without_the_selector(
    part: FileSlice, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Socket(monkeypatch)
    handle_frame: Any = None
    memory = MemoryShortage(ReceiveMemory(), None, lambda: ())
    pool = RequestHandlerPool(RequestChannel(8), handle_frame, memory, ColdReads())
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = connection_over(ours)
        watched: Any = Watched()
        connection.selector = watched
        connection.events = READ
        connection.out.add([part])
        pool.answered(connection)
        for batch in range(1, 4):
            pool.serve_batch()
            assert connection.out.size == SIZE - batch * SHARE
            assert pool.has_work
        kernel.most = 10
        pool.serve_batch()
        assert not pool.has_work
        assert watched.told == [READ | WRITE]
        kernel.most = SIZE
        pool.writable(connection)
        assert connection.out.size == 0
        assert watched.told == [READ | WRITE, READ]
        assert not pool.has_work


@pytest.mark.parametrize(
    ("address", "setting", "wanted"),
    [
        ("127.0.0.1", None, LOCAL_SEND_BUFFER),
        ("::ffff:127.0.0.1", None, LOCAL_SEND_BUFFER),
        ("192.0.2.7", None, 0),
        ("127.0.0.1", 70_000, 70_000),
        ("192.0.2.7", 70_000, 70_000),
    ],
)
def test_the_kernel_holds_little_for_clients_on_this_machine(
    address: str, setting: int | None, wanted: int
) -> None:
    taken: list[socket.socket] = []
    processor: Any = SimpleNamespace(add=lambda sock, _info: taken.append(sock))
    quotas = ConnectionQuotas()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        acceptor = Acceptor("L", "PLAINTEXT", listening, [processor], quotas, setting)
        with socket.create_connection(listening.getsockname()) as client:
            accepted, (_, port) = listening.accept()
            with accepted:
                before = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
                acceptor.accepted(accepted, (address, port))
                assert taken == [accepted]
                size = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
                assert size in ((wanted, 2 * wanted) if wanted else (before,))
            client.close()
