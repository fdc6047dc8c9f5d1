"""A file that cannot be read any more while it is sent: its log is told, whoever reads.

Cases: a. the kernel's sendfile; b. a small part that is read; c. a part of which something has been
sent; d. the read of what is cold, in a thread; e. an error of the socket is no fault of the disk.
"""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.network import cold_reads
from pybroker_kafka.broker.network.cold_reads import ColdReads
from pybroker_kafka.broker.network.send_queue import Rest, SendQueue
from pybroker_kafka.storage.files import DataFile, Files, FileSlice
from tests.support.connections import connection_over

SIZE = 500_000


def failing(code: int) -> Any:
    def fail(*_arguments: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.fixture
def file(tmp_path: Path) -> tuple[DataFile, list[OSError]]:
    (tmp_path / "segment").write_bytes(bytes(SIZE))
    opened, told = Files().open(str(tmp_path / "segment")), list[OSError]()
    opened.on_broken = told.append
    return opened, told


def flush_of(part: object) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        queue = SendQueue(ours)
        queue.add([b"head", part])  # type: ignore[list-item]
        queue.was_read()
        queue.flush()


@pytest.mark.parametrize("code", [errno.EIO, errno.EBADMSG, errno.ESTALE])
def test_sendfile(
    file: tuple[DataFile, list[OSError]], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Case `a` and case `c`."""
    opened, told = file
    monkeypatch.setattr(os, "sendfile", failing(code))
    for part in (FileSlice(opened, 0, SIZE), Rest(FileSlice(opened, 0, SIZE), 10, 9_000)):
        with pytest.raises(OSError, match=os.strerror(code)):
            flush_of(part)
    assert [error.errno for error in told] == [code, code]


def test_a_small_part(
    file: tuple[DataFile, list[OSError]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case b."""
    opened, told = file
    monkeypatch.setattr(os, "pread", failing(errno.EIO))
    with pytest.raises(OSError, match="Input/output"):
        flush_of(FileSlice(opened, 0, 100))
    with pytest.raises(OSError, match="Input/output"):
        opened.read_at(10, 0)
    assert len(told) == 2


def test_a_cold_read(file: tuple[DataFile, list[OSError]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Case d."""
    opened, told = file
    monkeypatch.setattr(cold_reads, "read_to_cache", failing(errno.EIO))
    ours, theirs = socket.socketpair()

    async def main() -> None:
        reads, went_on = ColdReads(), trio.Event()
        waiting = connection_over(ours)
        waiting.out.cold = Rest(FileSlice(opened, 0, SIZE), 0, SIZE)
        reads.add(waiting)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reads.run, lambda _connection: went_on.set())
            with trio.fail_after(120):
                await went_on.wait()
            nursery.cancel_scope.cancel()

    with ours, theirs:
        trio.run(main)
    assert len(told) == 1


def test_an_error_of_the_socket(
    file: tuple[DataFile, list[OSError]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Case e."""
    opened, told = file
    monkeypatch.setattr(os, "sendfile", failing(errno.ECONNRESET))
    with pytest.raises(ConnectionResetError):
        flush_of(FileSlice(opened, 0, SIZE))
    assert told == []
