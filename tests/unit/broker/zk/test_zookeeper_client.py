"""kazoo behind our interface, against the embedded and the real ZooKeeper."""

import errno
import itertools
import os
import threading
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import trio
from kazoo.protocol.connection import ConnectionHandler

from pybroker_kafka.broker.zk import zookeeper_client
from pybroker_kafka.broker.zk.registration import (
    close_sessions_of_predecessors,
    remembered_sessions,
    save_session,
)
from pybroker_kafka.broker.zk.zookeeper import SessionEvent, WatchKind
from pybroker_kafka.broker.zk.zookeeper_client import (
    MAX_REQUEST_BYTES,
    ZooKeeperClient,
    ZooKeeperUnavailable,
    open_zookeeper,
)
from pybroker_kafka.protocol.zookeeper.constants import ZkCode
from pybroker_kafka.protocol.zookeeper.operations import (
    Check,
    Create,
    Delete,
    Exists,
    Flow,
    GetChildren,
    GetData,
    Multi,
    SessionExpired,
    SetData,
    ZkOperation,
    create_recursive,
)
from pybroker_kafka.testing import Network
from tests.support.patience import eventually
from tests.support.raw_zookeeper import close_session

SESSION_TIMEOUT_MS = 4_000
_names = itertools.count()


@pytest.fixture
def connect(zookeeper_port: int) -> str:
    """A connect string with a chroot of the test's own."""
    return f"127.0.0.1:{zookeeper_port}/test-{next(_names)}/nested"


def opened(connect: str, **options: Any) -> AbstractAsyncContextManager[ZooKeeperClient]:
    return open_zookeeper(connect, session_timeout_ms=SESSION_TIMEOUT_MS, **options)


async def test_operations_and_their_results(connect: str) -> None:
    async with opened(connect) as client:
        results = await client.execute(
            [
                Create("/n", None),
                GetData("/n"),
                SetData("/n", b"1", 0),
                SetData("/n", b"2", 0),
                Create("/n", b""),
                Exists("/n"),
                Exists("/none"),
                GetData("/none"),
                Create("/n/s-", b"", sequential=True),
                GetChildren("/n"),
                Delete("/n"),
                Create("/none/child", b""),
                Delete("/none"),
            ]
        )
        assert [result.code for result in results] == [
            ZkCode.OK,
            ZkCode.OK,
            ZkCode.OK,
            ZkCode.BAD_VERSION,
            ZkCode.NODE_EXISTS,
            ZkCode.OK,
            ZkCode.NO_NODE,
            ZkCode.NO_NODE,
            ZkCode.OK,
            ZkCode.OK,
            ZkCode.NOT_EMPTY,
            ZkCode.NO_NODE,
            ZkCode.NO_NODE,
        ]
        assert not results[1].data
        assert results[2].version == 1
        assert results[8].path == "/n/s-0000000000"
        assert results[9].children == ("s-0000000000",)
        read, seen = results[1].stat, results[5].stat
        assert read is not None
        assert seen is not None
        assert seen.czxid == read.czxid


async def test_multi_is_all_or_nothing(connect: str) -> None:
    async with opened(connect) as client:
        await client.execute_one(Create("/n", b""))
        good = Multi((Check("/n", 0), Create("/n/a", None, ephemeral=True), SetData("/n/a", b"x")))
        bad = Multi((Check("/n", 0), Create("/n/b", b""), SetData("/n", b"", 7), Delete("/n")))
        first, second = await client.execute([good, bad])
        assert first.ok
        assert first.results[1].path == "/n/a"
        owned = first.results[2].stat
        assert owned is not None
        assert owned.ephemeral_owner == client.session[0]
        assert second.code is ZkCode.BAD_VERSION
        assert [part.code for part in second.results] == [
            ZkCode.RUNTIME_INCONSISTENCY,
            ZkCode.RUNTIME_INCONSISTENCY,
            ZkCode.BAD_VERSION,
            ZkCode.RUNTIME_INCONSISTENCY,
        ]
        assert not (await client.execute_one(Exists("/n/b"))).ok


async def test_more_operations_than_fit_into_one_flight(connect: str) -> None:
    async with opened(connect) as client:
        await client.execute_one(Create("/n", b""))
        results = await client.execute([Create(f"/n/{index}", b"") for index in range(200)])
        assert all(result.ok for result in results)
        assert len((await client.execute_one(GetChildren("/n"))).children) == 200
        assert await client.execute([]) == []


async def test_others_have_their_turn_while_operations_are_submitted(
    connect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_client, "SUBMIT_SECONDS", 0.0)
    async with opened(connect) as client:
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            results = await client.execute([Exists(f"/none/{n}") for n in range(300)])
            nursery.cancel_scope.cancel()
        assert {result.code for result in results} == {ZkCode.NO_NODE}
        assert turns >= 300


async def test_what_zookeeper_would_not_take_is_not_sent(connect: str) -> None:
    """It ends the connection of who sends it, and it would be sent again."""
    large = bytes(MAX_REQUEST_BYTES + 1)
    async with opened(connect) as client:
        with trio.fail_after(120):
            results = await client.execute(
                [
                    Create("/large", large),
                    Create("/small", b"x"),
                    Multi((SetData("/small", b"y"), Create("/large", large))),
                    Create("/largest", large[1:]),
                ]
            )
        assert [result.code for result in results] == [
            ZkCode.BAD_ARGUMENTS, ZkCode.OK, ZkCode.BAD_ARGUMENTS, ZkCode.OK,
        ]  # fmt: skip
        assert (await client.execute_one(GetData("/small"))).data == b"x"


async def test_flows_run_to_their_value(connect: str) -> None:
    async with opened(connect) as client:
        assert await client.run(create_recursive("/a/b/c", b"x")) is ZkCode.OK
        assert await client.run(create_recursive("/a/b/c", b"x")) is ZkCode.NODE_EXISTS
        assert (await client.execute_one(GetData("/a/b/c"))).data == b"x"


async def test_a_watch_fires_once_however_often_it_was_armed(connect: str) -> None:
    fired = []
    enough = trio.Event()

    def note(kind: WatchKind, path: str) -> None:
        fired.append((kind, path))
        if len(fired) == 3:
            enough.set()

    async with opened(connect) as client, opened(connect) as other:
        await client.execute_one(Create("/n", b""))
        for _ in range(3):
            await client.execute(
                [
                    GetData("/n", watch=True),
                    Exists("/later", watch=True),
                    GetChildren("/n", watch=True),
                    GetData("/never", watch=True),
                ],
                note,
            )
        await other.execute(
            [SetData("/n", b"1"), SetData("/n", b"2"), Create("/n/c", b""), Create("/later", b"")]
        )
        with trio.fail_after(120):
            await enough.wait()
        await trio.sleep(0.05)
        assert sorted(fired, key=str) == sorted(
            [
                (WatchKind.DATA, "/n"),
                (WatchKind.CHILDREN, "/n"),
                (WatchKind.DATA, "/later"),
            ],
            key=str,
        )


async def test_a_watch_that_fires_while_it_is_armed_again_is_not_lost(connect: str) -> None:
    """The read goes out before the loop hears of the watch, its answer comes after it."""
    fired = []

    def note(kind: WatchKind, path: str) -> None:
        fired.append((kind, path))

    async with opened(connect) as client, opened(connect) as other:
        await client.execute_one(Create("/n", b""))
        await client.execute_one(GetData("/n", watch=True), note)
        for count in range(1, 4):
            told = trio.Event()
            trio.lowlevel.spawn_system_task(_set_and_tell, other, told)
            while not told.is_set():
                # Whatever comes from the other side: armed or not, the watch is asked for anew.
                await client.execute_one(GetData("/n", watch=True), note)
            await eventually(lambda: len(fired) >= count)  # noqa: B023
            await client.execute_one(GetData("/n", watch=True), note)


async def _set_and_tell(client: ZooKeeperClient, told: trio.Event) -> None:
    await client.execute_one(SetData("/n", b"new"))
    told.set()


async def test_a_cut_connection_only_delays(connect: str, network: Network) -> None:
    address, _, chroot = connect.partition("/")
    port = network.front("zookeeper", int(address.rpartition(":")[2]))
    fired = []
    async with opened(f"127.0.0.1:{port}/{chroot}") as client, opened(connect) as other:
        session = client.session
        events = client.session_events()
        await client.execute_one(Create("/n", b""))
        # The read that fails has no watch: that of the other one stays armed.
        reads: list[ZkOperation] = [
            GetData("/n", watch=True),
            Exists("/none", watch=True),
            GetData("/none"),
        ]
        await client.execute(reads, lambda *what: fired.append(what))
        away = network.cut("client", "zookeeper")
        assert await events.receive() is SessionEvent.SUSPENDED
        assert client.session == session, "the session outlives its connection"
        await other.execute_one(SetData("/n", b"while it was away"))
        answers = []

        async def read() -> None:
            answers.append(await client.execute_one(GetData("/n")))

        async with trio.open_nursery() as waiting:
            waiting.start_soon(read)
            await trio.sleep(0.2)
            assert answers == []
            away.undo()
        assert answers[0].data == b"while it was away"
        assert client.session == session
        assert await events.receive() is SessionEvent.CONNECTED
        assert sorted(fired) == [(WatchKind.DATA, "/n"), (WatchKind.DATA, "/none")]
        network.cut("client", "zookeeper").undo()
        results = await client.execute([Create(f"/n/{index}", b"") for index in range(50)])
        assert {result.code for result in results} <= {ZkCode.OK, ZkCode.NODE_EXISTS}
        await trio.sleep(0.1)
        assert len(fired) == 2, "a watch that has fired is not armed any more"


async def test_an_expired_session_is_told_and_replaced(connect: str, zookeeper_port: int) -> None:
    async with opened(connect) as client:
        first = client.session
        events = client.session_events()
        await client.execute_one(Create("/e", b"", ephemeral=True))
        close_session(zookeeper_port, first)
        outcomes = []

        def endless() -> Flow[None]:
            try:
                while True:
                    yield (Exists("/e"),)
            except SessionExpired:
                outcomes.append("expired")

        with trio.fail_after(120):
            await client.run(endless())
        assert outcomes == ["expired"], "the flow heard of it"
        with trio.fail_after(120):
            seen = [await events.receive() for _ in range(3)]
        assert seen == [SessionEvent.SUSPENDED, SessionEvent.EXPIRED, SessionEvent.CONNECTED]
        assert client.session_generation == 1
        assert client.session[0] not in (0, first[0])
        assert not (await client.execute_one(Exists("/e"))).ok


async def test_kazoo_is_started_again_however_often_it_fails(
    connect: str, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread ends when something unexpected comes up in it, and tells of it once only, if it
    was not connected in between."""
    server, _, chroot = connect.partition("/")
    port = network.front("zookeeper", int(server.rpartition(":")[2]))
    failures = 3
    attempt = ConnectionHandler._connect_attempt

    def fail(self: ConnectionHandler, *arguments: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return attempt(self, *arguments)

    async with opened(f"127.0.0.1:{port}/{chroot}") as client:
        events = client.session_events()
        with monkeypatch.context() as patched, trio.fail_after(120):
            patched.setattr(ConnectionHandler, "_connect_attempt", fail)
            patched.setattr(threading, "excepthook", lambda *_: None)
            network.cut("client", "zookeeper").undo()
            told = [await events.receive() for _ in range(3)]
        assert failures == 0
        assert told == [SessionEvent.SUSPENDED, SessionEvent.EXPIRED, SessionEvent.CONNECTED]
        assert (await client.execute_one(Exists("/"))).code == ZkCode.OK


async def test_a_session_is_taken_over(connect: str, network: Network) -> None:
    address, _, chroot = connect.partition("/")
    port = network.front("zookeeper", int(address.rpartition(":")[2]))
    async with opened(f"127.0.0.1:{port}/{chroot}") as client:
        events = client.session_events()
        # Kept away, or the two would take the session from each other, again and again.
        away = network.cut("client", "zookeeper")
        async with opened(connect, session=client.session) as successor:
            assert successor.session == client.session
        away.undo()
        with trio.fail_after(120):
            while await events.receive() is not SessionEvent.EXPIRED:
                pass


async def test_a_killed_predecessors_session_is_closed(
    connect: str, network: Network, tmp_path: Path
) -> None:
    address, _, chroot = connect.partition("/")
    port = network.front("zookeeper", int(address.rpartition(":")[2]))
    async with opened(f"127.0.0.1:{port}/{chroot}") as client:
        await client.execute_one(Create("/e", b"", ephemeral=True))
        save_session(tmp_path, "cluster-a", client.session)
        network.cut("client", "zookeeper")  # the dead do not come back for their sessions
        async with opened(connect) as successor:
            assert (await successor.execute_one(Exists("/e"))).ok
            sessions = remembered_sessions([tmp_path, tmp_path], "cluster-a")
            assert await close_sessions_of_predecessors(sessions, connect)
            assert not (await successor.execute_one(Exists("/e"))).ok
        assert not await close_sessions_of_predecessors(sessions, connect)
        expired_long_ago = [(12345, b"\0" * 16)]
        assert not await close_sessions_of_predecessors(expired_long_ago, connect)


async def test_nobody_answers(zookeeper_port: int) -> None:
    with pytest.raises(ZooKeeperUnavailable, match=r"no ZooKeeper answered at 127\.0\.0\.1:1 "):
        async with opened("127.0.0.1:1", connection_timeout_ms=200):
            pass


async def test_closing_ends_ephemeral_nodes_and_waiters(connect: str) -> None:
    async with opened(connect) as watcher:
        async with opened(connect) as client:
            await client.execute_one(Create("/e", b"", ephemeral=True))
            assert (await watcher.execute_one(Exists("/e"))).ok
        assert not (await watcher.execute_one(Exists("/e"))).ok
        with pytest.raises(SessionExpired):
            await client.execute_one(Exists("/e"))
