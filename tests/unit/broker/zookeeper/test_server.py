"""The runtime: bytes in pieces, four-letter words, bad input, limits, restarts."""

import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest
import trio

from pybroker_kafka.broker.zookeeper.server import serve_zookeeper
from pybroker_kafka.broker.zookeeper.storage import DataDirectoryError
from pybroker_kafka.protocol.zookeeper import jute
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.protocol.zookeeper.jute import (
    CreateRequest,
    GetDataResponse,
    PathsResponse,
    PathWatchRequest,
)
from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.patience import until
from tests.support.raw_zookeeper import RawClient

LOGGER = "pybroker_kafka.broker.zookeeper.server"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with embedded_zookeeper() as bound:
        yield bound


def create(client: RawClient, path: str, data: bytes = b"", flags: int = 0) -> int:
    return client.call(Op.CREATE, CreateRequest(path, data, list(OPEN_ACL), flags)).error


def data_of(client: RawClient, path: str) -> bytes | None:
    reply = client.call(Op.GET_DATA, PathWatchRequest(path, False))
    assert reply.error == 0
    return jute.decode(GetDataResponse, reply.body).data


def talk(port: int, data: bytes) -> bytes:
    """Send, and read until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(data)
        with sock.makefile("rb") as answer, contextlib.suppress(ConnectionResetError):
            return answer.read()
    return b""


def test_frames_may_come_byte_by_byte_or_all_at_once(port: int) -> None:
    client = RawClient(port)
    request = pack(">ii", 1, Op.EXISTS) + jute.encode(PathWatchRequest("/", False))
    for byte in pack(">i", len(request)) + request:
        client.sock.sendall(bytes([byte]))
    assert client.receive().xid == 1
    client.sock.sendall((pack(">i", len(request)) + request) * 500)
    assert [client.receive().xid for _ in range(500)] == [1] * 500
    client.close()


def test_an_old_client_without_read_only_gets_a_reply_without_it(port: int) -> None:
    old, new = RawClient(port, read_only=None), RawClient(port, read_only=True)
    assert (len(old.connect_frame), len(new.connect_frame)) == (36, 37)
    old.close()
    new.close()


def test_four_letter_words(port: int) -> None:
    client = RawClient(port)
    assert talk(port, b"ruok") == b"imok"
    assert talk(port, b"isro") == b"rw"
    assert b"Mode: standalone\n" in talk(port, b"srvr")
    create(client, "/counted")
    host, own_port = client.sock.getsockname()
    line = f" /{host}:{own_port}[1](queued=0,recved=2,sent=2"
    assert f"{line})\n".encode() in talk(port, b"stat")
    assert f"{line},sid={client.session_id:#x},lop=CREA,".encode() in talk(port, b"cons")
    assert b"zookeeper.version=3.9.3-" in talk(port, b"envi")
    assert talk(port, b"srst") == b"srst is not executed because it is not in the whitelist.\n"
    monitored = dict(line.split(b"\t") for line in talk(port, b"mntr").splitlines())
    assert int(monitored[b"zk_znode_count"]) >= 4
    assert monitored[b"zk_server_state"] == b"standalone"
    assert f"clientPort={port}\n".encode() in talk(port, b"conf")
    client.close()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00", "a TLS hello"),
        (b"\x7f\xff\xff\xff", "jute.maxbuffer"),
        (b"\xff\xff\xff\xff", "jute.maxbuffer"),
        (b"\x00\x00\x00\x00", "cut short"),
        (b"\x00\x00\x00\x04abcd", "cut short"),
    ],
)
def test_garbage_costs_one_connection_and_one_line(
    port: int, data: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    neighbour = RawClient(port)
    with caplog.at_level(logging.INFO, LOGGER):
        assert talk(port, data) == b""
        deadline = time.monotonic() + 120
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.01)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "closed the connection from 127.0.0.1:" in lines[0]
    assert said in lines[0]
    assert neighbour.call(Op.PING, xid=-2).error == 0
    neighbour.close()


def test_an_oversized_request_ends_the_connection_not_the_session(port: int) -> None:
    client = RawClient(port)
    create(client, "/oversized", flags=1)
    client.sock.sendall(pack(">i", 0xFFFFF + 1))
    assert client.is_closed_by_server()
    again = RawClient(port, session_id=client.session_id, password=client.response.password)
    assert again.session_id == client.session_id
    assert data_of(again, "/oversized") == b""
    assert create(again, "/large", bytes(900_000)) == 0
    assert data_of(again, "/large") == bytes(900_000)
    again.close()


def test_a_client_that_does_not_read_is_not_read_from(port: int) -> None:
    client = RawClient(port)
    create(client, "/stalled", bytes(500_000))
    request = pack(">ii", 1, Op.GET_DATA) + jute.encode(PathWatchRequest("/stalled", False))
    frame = pack(">i", len(request)) + request
    for _ in range(100):
        client.sock.sendall(frame)
    neighbour = RawClient(port)
    assert neighbour.call(Op.PING, xid=-2).error == 0
    assert all(len(client.receive().body) > 500_000 for _ in range(100))
    client.close()
    neighbour.close()


def connected_at_last(port: int) -> RawClient:
    """Once the server has seen that another client has gone."""
    deadline = time.monotonic() + 120
    while True:
        try:
            return RawClient(port)
        except ConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.01)


async def test_connections_a_host_are_limited() -> None:
    async with trio.open_nursery() as nursery:

        async def serve(*, task_status: trio.TaskStatus[int]) -> None:
            await serve_zookeeper(None, port=0, max_connections_per_host=2, task_status=task_status)

        port = await nursery.start(serve)

        def check() -> None:
            clients = [RawClient(port) for _ in range(2)]
            with pytest.raises(ConnectionError):
                RawClient(port)
            clients[0].drop()
            connected_at_last(port).drop()

        await trio.to_thread.run_sync(check)
        nursery.cancel_scope.cancel()


def test_replies_to_clients_that_have_gone_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client leaves while its write is on its way to the disk."""
    real_fsync = os.fsync

    def slow_fsync(file: int) -> None:
        time.sleep(0.05)
        real_fsync(file)

    with embedded_zookeeper(tmp_path) as port:
        neighbour = RawClient(port)
        monkeypatch.setattr("pybroker_kafka.broker.zookeeper.storage.os.fsync", slow_fsync)
        for number in range(5):
            client = RawClient(port)
            request = CreateRequest(f"/gone{number}", b"", list(OPEN_ACL), 0)
            client.send_frame(pack(">ii", 1, Op.CREATE) + jute.encode(request))
            client.drop()
        until(lambda: not neighbour.call(Op.EXISTS, PathWatchRequest("/gone4", False)).error)
        neighbour.close()


def test_a_restart_keeps_nodes_sessions_and_passwords(tmp_path: Path) -> None:
    with embedded_zookeeper(tmp_path) as port:
        owner, other = RawClient(port), RawClient(port)
        create(owner, "/kept", b"data")
        create(owner, "/ephemeral", flags=1)
        create(other, "/other", flags=1)
        last_zxid = owner.call(Op.PING, xid=-2).zxid
        other.close()
    with embedded_zookeeper(tmp_path) as port:
        again = RawClient(
            port,
            session_id=owner.session_id,
            password=owner.response.password,
            last_zxid=last_zxid,
        )
        assert again.session_id == owner.session_id
        assert data_of(again, "/kept") == b"data"
        reply = again.call(Op.GET_CHILDREN, PathWatchRequest("/", False))
        names = sorted(jute.decode(PathsResponse, reply.body).paths)
        assert names == ["ephemeral", "kept", "zookeeper"]
        again.close()
    with embedded_zookeeper(tmp_path) as port:
        last = RawClient(port)
        reply = last.call(Op.GET_CHILDREN, PathWatchRequest("/", False))
        assert sorted(jute.decode(PathsResponse, reply.body).paths) == ["kept", "zookeeper"]
        last.close()


def test_snapshots_are_taken_and_old_files_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybroker_kafka.broker.zookeeper.storage.SNAPSHOT_TRANSACTIONS", 20)
    with embedded_zookeeper(tmp_path) as port:
        client = RawClient(port)
        for number in range(150):
            assert create(client, f"/n{number}", b"x" * 10) == 0
        client.close()
    snapshots = list(tmp_path.glob("version-2/snapshot.*"))
    assert 1 <= len(snapshots) <= 4
    assert not (tmp_path / "version-2" / "log.1").exists()
    with embedded_zookeeper(tmp_path) as port:
        client = RawClient(port)
        reply = client.call(Op.GET_CHILDREN, PathWatchRequest("/", False))
        assert len(jute.decode(PathsResponse, reply.body).paths) == 151
        client.close()


def test_a_full_disk_stops_the_server_without_a_false_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_write = os.write

    def torn_write(file: int, data: bytes) -> int:
        real_write(file, bytes(data)[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    def fill_up(port: int) -> None:
        client = RawClient(port)
        create(client, "/kept")
        monkeypatch.setattr("pybroker_kafka.broker.zookeeper.storage.os.write", torn_write)
        with pytest.raises(ConnectionError):
            create(client, "/refused")

    with pytest.raises(BaseExceptionGroup) as caught, embedded_zookeeper(tmp_path) as port:
        fill_up(port)
    monkeypatch.undo()
    assert caught.group_contains(OSError, match="No space left")
    with embedded_zookeeper(tmp_path) as port:
        client = RawClient(port)
        reply = client.call(Op.GET_CHILDREN, PathWatchRequest("/", False))
        assert sorted(jute.decode(PathsResponse, reply.body).paths) == ["kept", "zookeeper"]
        client.close()


def test_a_taken_port_and_a_taken_directory_are_told(port: int, tmp_path: Path) -> None:
    with pytest.raises(BaseExceptionGroup) as caught, embedded_zookeeper(port=port):
        pass
    assert caught.group_contains(OSError, match="in use")
    with (
        embedded_zookeeper(tmp_path),
        pytest.raises(BaseExceptionGroup) as caught,
        embedded_zookeeper(tmp_path),
    ):
        pass
    assert caught.group_contains(DataDirectoryError, match="in use by another process")
