"""The embedded ZooKeeper closed to all but its cluster, with kazoo as our brokers drive it."""

import logging
import socket
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
import trio

from pybroker_kafka.broker.config import KafkaConfig
from pybroker_kafka.broker.server import run_broker
from pybroker_kafka.broker.zk.dead_sessions import CannotClose, close_sessions, passwords
from pybroker_kafka.broker.zk.zookeeper import SessionEvent, WatchKind
from pybroker_kafka.broker.zk.zookeeper_client import (
    ZooKeeperClient,
    ZooKeeperUnavailable,
    open_zookeeper,
)
from pybroker_kafka.broker.zk.zookeeper_security import ZooKeeperSecurity
from pybroker_kafka.broker.zookeeper.client_ports import NotLoopback
from pybroker_kafka.broker.zookeeper.server import serve_zookeeper
from pybroker_kafka.broker.zookeeper.storage import SECRET_FILE
from pybroker_kafka.protocol.zookeeper.constants import AUTH_XID, OPEN_ACL, Op
from pybroker_kafka.protocol.zookeeper.jute import AuthPacket, CreateRequest, PathRequest
from pybroker_kafka.protocol.zookeeper.operations import Create, GetData, SetData
from pybroker_kafka.testing import Network
from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.processes import free_port
from tests.support.raw_zookeeper import RawClient

CREDENTIALS = b"cluster:secret"
SESSION_TIMEOUT_MS = 4_000
OURS = ZooKeeperSecurity(digest=CREDENTIALS.decode(), set_acl=True)


def opened(
    port: int, security: ZooKeeperSecurity = OURS
) -> AbstractAsyncContextManager[ZooKeeperClient]:
    return open_zookeeper(
        f"127.0.0.1:{port}",
        session_timeout_ms=SESSION_TIMEOUT_MS,
        connection_timeout_ms=10_000,
        security=security,
    )


def log_in(client: RawClient) -> int:
    return client.call(Op.AUTH, AuthPacket(0, "digest", CREDENTIALS), xid=AUTH_XID).error


def say(port: int, word: bytes) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        sock.sendall(word)
        with sock.makefile("rb") as answer:
            return answer.read().decode()


def test_words_tell_only_that_it_lives() -> None:
    with embedded_zookeeper(credentials=CREDENTIALS) as port:
        assert say(port, b"ruok") == "imok"
        assert say(port, b"isro") == "rw"
        for word in (b"srvr", b"mntr", b"dump", b"cons", b"envi", b"wchp", b"conf"):
            assert say(port, word).endswith("is not executed because it is not in the whitelist.\n")


def test_strangers_cannot_keep_the_cluster_out() -> None:
    with embedded_zookeeper(credentials=CREDENTIALS, max_connections_per_host=4) as port:
        member = RawClient(port)
        assert log_in(member) == 0
        strangers = [RawClient(port) for _ in range(3)]
        silent = socket.create_connection(("127.0.0.1", port), timeout=10)
        assert strangers[0].is_closed_by_server()
        others = []
        for _ in range(3):
            others.append(RawClient(port))
            assert log_in(others[-1]) == 0
        assert strangers[1].is_closed_by_server()
        assert strangers[2].is_closed_by_server()
        assert silent.recv(1) == b""
        # Full of the cluster's own: then nobody else is let in.
        with pytest.raises(ConnectionError):
            RawClient(port)
        for client in (member, *others):
            client.close()


def test_many_strangers_are_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    with embedded_zookeeper(credentials=CREDENTIALS) as port:
        for _ in range(50):
            stranger = RawClient(port)
            assert stranger.call(Op.SYNC, PathRequest("/")).error
            assert stranger.is_closed_by_server()
            stranger.drop()
    (line,) = [record.getMessage() for record in caplog.records if "log in" in record.message]
    assert line.startswith("closed 1 connections that did not log in, the last from 127.0.0.1:")


def test_strangers_have_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybroker_kafka.broker.zookeeper.server.SESSIONLESS_TIMEOUT_S", 0.3)
    with embedded_zookeeper(credentials=CREDENTIALS) as port:
        member, stranger = RawClient(port), RawClient(port)
        assert log_in(member) == 0
        assert stranger.is_closed_by_server()
        assert member.call(Op.SYNC, PathRequest("/")).error == 0
        member.close()


async def test_it_is_heard_on_this_machine_only() -> None:
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.org"):
        with pytest.raises(NotLoopback):
            await serve_zookeeper(None, host=host, port=0, credentials=CREDENTIALS)


async def test_who_is_refused_is_told_why() -> None:
    with embedded_zookeeper(credentials=CREDENTIALS) as port:
        wrong = ZooKeeperSecurity(digest="cluster:wrong")
        with trio.fail_after(120):
            with pytest.raises(
                ZooKeeperUnavailable, match="refuses this broker's name or password"
            ):
                async with opened(port, wrong):
                    pass
            with pytest.raises(ZooKeeperUnavailable, match="refuses clients without a login"):
                async with opened(port, ZooKeeperSecurity()):
                    pass
            async with opened(port) as client:
                assert (await client.execute_one(Create("/n"))).ok


async def test_every_reconnect_logs_in_before_anything_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Many operations while connections are cut: none is ever sent by a stranger."""
    caplog.set_level(logging.WARNING, "pybroker_kafka.broker.zookeeper")
    with embedded_zookeeper(credentials=CREDENTIALS) as port, Network() as network:
        async with opened(network.front("zookeeper", port)) as client:
            assert (await client.execute_one(Create("/n", b""))).ok
            session = client.session
            fired: list[str] = []
            await client.execute_one(
                GetData("/n", watch=True), lambda _kind, path: fired.append(path)
            )

            async def write() -> None:
                for _ in range(200):
                    assert (await client.execute_one(SetData("/n", b"x"))).ok

            async with trio.open_nursery() as writing:
                writing.start_soon(write)
                for _ in range(5):
                    await trio.sleep(0.05)
                    network.cut("client", "zookeeper").undo()
            assert client.session == session
            assert fired == ["/n"]
    assert caplog.records == []


async def test_away_and_back_with_other_credentials_for_a_while(tmp_path: Path) -> None:
    """Nothing opens meanwhile, and the client that was refused comes back by itself."""
    port = free_port()
    changes: list[tuple[WatchKind, str]] = []
    first = embedded_zookeeper(tmp_path, port=port, credentials=CREDENTIALS)
    first.__enter__()
    async with opened(port) as client:
        events = client.session_events()
        create = [Create("/kept", b"1"), Create("/mine", ephemeral=True)]
        assert all(result.ok for result in await client.execute(create))
        read = GetData("/kept", watch=True)
        await client.execute_one(read, lambda *what: changes.append(what))
        await trio.to_thread.run_sync(first.__exit__, None, None, None)
        assert await events.receive() is SessionEvent.SUSPENDED
        with embedded_zookeeper(tmp_path, port=port, credentials=b"cluster:another"):
            assert await events.receive() is SessionEvent.EXPIRED
            await trio.sleep(1.3)  # it is tried again, and refused again
            assert not client.is_connected
        with embedded_zookeeper(tmp_path, port=port, credentials=CREDENTIALS):
            with trio.fail_after(120):
                assert await events.receive() is SessionEvent.CONNECTED
            found = await client.execute_one(GetData("/kept"))
            assert found.data == b"1"
            assert changes == [(WatchKind.DATA, "/kept")]
            await client.close()


def test_sessions_of_the_dead_are_closed_with_the_credentials(tmp_path: Path) -> None:
    with embedded_zookeeper(tmp_path, credentials=CREDENTIALS) as port:
        dead, alive = RawClient(port), RawClient(port)
        assert (log_in(dead), log_in(alive)) == (0, 0)
        for path, flags in (("/brokers", 0), ("/brokers/ids", 0), ("/brokers/ids/1", 1)):
            assert dead.call(Op.CREATE, CreateRequest(path, b"", list(OPEN_ACL), flags)).error == 0
        dead.drop()
        connect = f"127.0.0.1:{port}"
        password_of = passwords([], tmp_path / SECRET_FILE)
        for credentials in (None, b"cluster:wrong"):
            with pytest.raises(CannotClose):
                close_sessions(connect, [1], password_of, credentials=credentials)
        found = close_sessions(connect, [1], password_of, credentials=CREDENTIALS)
        assert found == [dead.session_id]
        alive.close()


async def test_a_broker_says_whose_znodes_it_may_not_use(tmp_path: Path) -> None:
    with embedded_zookeeper() as port:
        async with opened(port) as owner:
            assert (await owner.execute_one(Create("/kafka"))).ok
        config = KafkaConfig(
            {
                "zookeeper.connect": f"127.0.0.1:{port}/kafka",
                "listeners": "PLAINTEXT://127.0.0.1:0",
                "log.dirs": str(tmp_path),
            }
        )
        told = "do not let this broker use /.*credentials.file"
        with pytest.raises(ZooKeeperUnavailable, match=told), trio.fail_after(120):
            await run_broker(config)
