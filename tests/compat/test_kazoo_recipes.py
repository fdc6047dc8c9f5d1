"""kazoo and its recipes against our ZooKeeper and the real one, with the same results.

Every test runs on both servers (`server` is parameterised) and asserts the same outcome.
"""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)
from kazoo.recipe.barrier import Barrier, DoubleBarrier
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.party import Party
from kazoo.recipe.queue import LockingQueue, Queue
from kazoo.recipe.watchers import PatientChildrenWatch
from kazoo.security import CREATOR_ALL_ACL, make_acl, make_digest_acl

from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.patience import until
from tests.support.raw_zookeeper import close_session
from tests.support.real_zookeeper import real_zookeeper

pytestmark = pytest.mark.filterwarnings("ignore:No chroot path exists")

TICK_MS = 200
SESSION_TIMEOUT_S = 10.0
WAIT_S = 120.0


@pytest.fixture(scope="module", params=["embedded", "real"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """The port of a server: ours on disk, or the real one."""
    directory: Path = tmp_path_factory.mktemp("zookeeper")
    if request.param == "embedded":
        with embedded_zookeeper(directory / "data", tick_ms=TICK_MS) as port:
            yield port
    else:
        with real_zookeeper(directory, tick_ms=TICK_MS) as port:
            yield port


@pytest.fixture
def connect(server: int, request: pytest.FixtureRequest) -> Iterator[Callable[..., KazooClient]]:
    """Makes started clients in a subtree of this test; all are stopped at its end."""
    clients: list[KazooClient] = []
    top = "/" + request.node.name.replace("[", "-").replace("]", "")

    def make(**options: Any) -> KazooClient:
        chroot = options.pop("chroot", top)
        client = KazooClient(
            hosts=f"127.0.0.1:{server}{chroot}", timeout=SESSION_TIMEOUT_S, **options
        )
        clients.append(client)
        client.start(timeout=WAIT_S)
        client.ensure_path("/")
        return client

    yield make
    for client in clients:
        client.stop()
        client.close()


def in_threads(*functions: Callable[[], object]) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def cut(client: KazooClient) -> None:
    """Cut the connection as a network would; kazoo connects again by itself."""
    client._connection._socket.shutdown(2)


# Plain operations


def test_nodes_versions_and_errors(connect: Callable[..., KazooClient]) -> None:
    client = connect()
    assert client.create("/a", b"one") == "/a"
    data, stat = client.get("/a")
    assert (data, stat.version, stat.czxid, stat.dataLength) == (b"one", 0, stat.mzxid, 3)
    stat = client.set("/a", b"two", version=0)
    assert (stat.version, stat.mzxid > stat.czxid) == (1, True)
    with pytest.raises(BadVersionError):
        client.set("/a", b"three", version=0)
    with pytest.raises(NodeExistsError):
        client.create("/a")
    with pytest.raises(NoNodeError):
        client.create("/b/c")
    client.create("/b/c/d", makepath=True)
    with pytest.raises(NotEmptyError):
        client.delete("/b")
    client.delete("/b", recursive=True)
    assert client.exists("/b") is None
    assert client.get_children("/") == ["a"]
    path, stat = client.create("/a/x", b"12345", include_data=True)
    assert (path, stat.dataLength) == ("/a/x", 5)


def test_sequential_names_count_all_creations(connect: Callable[..., KazooClient]) -> None:
    client = connect()
    names = [client.create("/n-", sequence=True) for _ in range(3)]
    client.delete(names[2])
    client.create("/other")
    assert [*names, client.create("/n-", sequence=True)] == [
        "/n-0000000000",
        "/n-0000000001",
        "/n-0000000002",
        "/n-0000000004",
    ]
    assert client.exists("/").cversion == 6


def test_transactions(connect: Callable[..., KazooClient]) -> None:
    client = connect()
    good = client.transaction()
    good.create("/t", b"x")
    good.set_data("/t", b"yy")
    good.check("/t", 1)
    good.create("/t/s-", sequence=True)
    results = good.commit()
    assert results[0] == "/t"
    assert (results[1].version, results[1].dataLength, results[1].numChildren) == (1, 2, 0)
    assert results[2:] == [True, "/t/s-0000000000"]
    bad = client.transaction()
    bad.delete("/t/s-0000000000")
    bad.check("/t", 7)
    bad.create("/never")
    kinds = [type(result) for result in bad.commit()]
    assert kinds == [RolledBackError, BadVersionError, RuntimeInconsistency]
    assert client.get_children("/t") == ["s-0000000000"]
    assert client.exists("/never") is None


def test_acls(connect: Callable[..., KazooClient]) -> None:
    client = connect()
    mine = make_digest_acl("me", "secret", all=True)
    client.create("/mine", b"x", acl=[mine])
    with pytest.raises(NoAuthError):
        client.get("/mine")
    shown, _ = connect(auth_data=[("digest", "me:secret")]).get_acls("/mine")
    assert shown == [mine]
    client.add_auth("digest", "me:secret")
    assert client.get("/mine")[0] == b"x"
    client.set_acls("/mine", [mine, make_acl("world", "anyone", read=True)])
    stranger = connect()
    assert stranger.get("/mine")[0] == b"x"
    with pytest.raises(NoAuthError):
        stranger.set("/mine", b"y")
    client.create("/creators", acl=CREATOR_ALL_ACL)
    assert [entry.id for entry in client.get_acls("/creators")[0]] == [mine.id]
    with pytest.raises(InvalidACLError):
        stranger.create("/nobodys", acl=CREATOR_ALL_ACL)
    with pytest.raises(InvalidACLError):
        client.create("/odd", acl=[make_acl("nonsense", "x", read=True)])


# Watches


def test_an_event_comes_before_the_answer_that_reveals_it(
    connect: Callable[..., KazooClient],
) -> None:
    watcher, writer = connect(), connect()
    watcher.create("/w", b"0")
    seen: list[tuple[str, str]] = []

    def note(event: Any) -> None:
        seen.append((event.type, event.path))

    watcher.get("/w", watch=note)
    watcher.get_children("/w", watch=note)
    watcher.exists("/w/c", watch=note)
    writer.set("/w", b"1")
    writer.create("/w/c")
    writer.delete("/w/c")
    assert watcher.get("/w")[0] == b"1"
    until(lambda: len(seen) == 3)
    assert seen == [("CHANGED", "/w"), ("CREATED", "/w/c"), ("CHILD", "/w")]


def test_data_watches_go_on_after_a_cut_connection(connect: Callable[..., KazooClient]) -> None:
    client, writer = connect(), connect()
    client.create("/w", b"0")
    seen: list[object] = []
    session = client.client_id
    client.DataWatch("/w", lambda value, stat: seen.append(value))
    cut(client)
    writer.set("/w", b"1")
    until(lambda: client.connected and seen[-1] == b"1")
    writer.set("/w", b"2")
    until(lambda: seen[-1] == b"2")
    assert client.client_id == session


def test_data_watch_and_children_watch(connect: Callable[..., KazooClient]) -> None:
    client = connect()
    data: list[object] = []
    children: list[list[str]] = []
    client.create("/w")
    client.DataWatch("/w/x", lambda value, stat: data.append(value))
    client.ChildrenWatch("/w", lambda names: children.append(sorted(names)))
    client.create("/w/x", b"1")
    until(lambda: data == [None, b"1"] and children == [[], ["x"]])
    client.set("/w/x", b"2")
    until(lambda: data == [None, b"1", b"2"])
    client.create("/w/y")
    until(lambda: children[-1] == ["x", "y"])
    client.delete("/w/x")
    until(lambda: data == [None, b"1", b"2", None] and children[-1] == ["y"])


def test_patient_children_watch(connect: Callable[..., KazooClient]) -> None:
    client = connect()
    client.create("/w/a", makepath=True)
    result = PatientChildrenWatch(client, "/w", 0.2).start()
    client.create("/w/b")
    names, _ = result.get(timeout=WAIT_S)
    assert sorted(names) == ["a", "b"]


def test_tree_cache(connect: Callable[..., KazooClient]) -> None:
    client, writer = connect(), connect()
    writer.create("/t/a/b", b"deep", makepath=True)
    cache = TreeCache(client, "/t")
    events: list[tuple[int, str]] = []
    cache.listen(
        lambda event: events.append((event.event_type, getattr(event.event_data, "path", "")))
    )
    cache.start()
    try:
        until(lambda: (TreeEvent.INITIALIZED, "") in events)
        assert cache.get_data("/t/a/b").data == b"deep"
        writer.set("/t/a/b", b"new")
        until(lambda: cache.get_data("/t/a/b").data == b"new")
        writer.create("/t/a/c")
        until(lambda: cache.get_children("/t/a") == {"b", "c"})
        writer.delete("/t/a", recursive=True)
        until(lambda: cache.get_children("/t") == set())
        below = {"/t/a", "/t/a/b", "/t/a/c"}
        until(lambda: paths_of(events, TreeEvent.NODE_REMOVED) == below)
        assert paths_of(events, TreeEvent.NODE_ADDED) == below | {"/t"}
    finally:
        cache.close()


def paths_of(events: list[tuple[int, str]], kind: int) -> set[str]:
    return {path for one, path in events if one == kind}


# Recipes


def test_lock_is_held_by_one_and_handed_on_in_order(connect: Callable[..., KazooClient]) -> None:
    clients = [connect() for _ in range(3)]
    holders: list[int] = []
    inside: list[int] = []

    def work(number: int) -> None:
        for _ in range(5):
            with clients[number].Lock("/lock", str(number)):
                inside.append(number)
                assert inside == [number]
                holders.append(number)
                inside.remove(number)

    in_threads(*(lambda number=number: work(number) for number in range(3)))
    assert sorted(holders) == [0] * 5 + [1] * 5 + [2] * 5
    lock = clients[0].Lock("/lock", "first")
    lock.acquire()
    other = clients[1].Lock("/lock", "second")
    assert not other.acquire(blocking=False)
    assert other.contenders() == ["first"]
    lock.release()
    assert other.acquire(timeout=WAIT_S)
    other.release()


def test_read_locks_share_and_a_write_lock_excludes(connect: Callable[..., KazooClient]) -> None:
    first, second = connect(), connect()
    one, two = first.ReadLock("/lock"), second.ReadLock("/lock")
    assert one.acquire(timeout=WAIT_S)
    assert two.acquire(timeout=WAIT_S)
    write = first.WriteLock("/lock")
    assert not write.acquire(blocking=False)
    one.release()
    two.release()
    assert write.acquire(timeout=WAIT_S)
    write.release()


def test_semaphore(connect: Callable[..., KazooClient]) -> None:
    client = connect()
    first, second, third = (client.Semaphore("/s", max_leases=2) for _ in range(3))
    assert first.acquire()
    assert second.acquire()
    assert not third.acquire(blocking=False)
    first.release()
    assert third.acquire(timeout=WAIT_S)


def test_election_moves_on_when_the_leader_goes(connect: Callable[..., KazooClient]) -> None:
    first, second = connect(), connect()
    led: list[str] = []
    first_leads, first_may_go = threading.Event(), threading.Event()

    def lead_first() -> None:
        led.append("first")
        first_leads.set()
        first_may_go.wait(WAIT_S)

    elections = first.Election("/e", "first"), second.Election("/e", "second")
    one = threading.Thread(target=lambda: elections[0].run(lead_first))
    one.start()
    assert first_leads.wait(WAIT_S)
    two = threading.Thread(target=lambda: elections[1].run(lambda: led.append("second")))
    two.start()
    until(lambda: elections[0].contenders() == ["first", "second"])
    first_may_go.set()
    one.join(WAIT_S)
    two.join(WAIT_S)
    assert led == ["first", "second"]


def test_queues(connect: Callable[..., KazooClient]) -> None:
    client = connect()
    queue = Queue(client, "/q")
    for item in (b"one", b"two", b"three"):
        queue.put(item)
    queue.put(b"urgent", priority=1)
    assert len(queue) == 4
    assert [queue.get() for _ in range(5)] == [b"urgent", b"one", b"two", b"three", None]
    locking = LockingQueue(connect(), "/lq")
    locking.put_all([b"a", b"b"])
    assert locking.get(timeout=WAIT_S) == b"a"
    assert locking.holds_lock()
    assert locking.consume()
    assert locking.get(timeout=WAIT_S) == b"b"
    locking.release()
    assert len(locking) == 1


def test_party_loses_who_leaves(connect: Callable[..., KazooClient]) -> None:
    first, second = connect(), connect()
    parties = Party(first, "/p", "first"), Party(second, "/p", "second")
    for party in parties:
        party.join()
    assert sorted(parties[0]) == ["first", "second"]
    second.stop()
    until(lambda: list(parties[0]) == ["first"])


def test_barriers(connect: Callable[..., KazooClient]) -> None:
    clients = [connect(), connect()]
    barrier = Barrier(clients[0], "/b")
    barrier.create()
    assert not Barrier(clients[1], "/b").wait(timeout=0.2)
    passed: list[bool] = []
    waiter = threading.Thread(
        target=lambda: passed.append(Barrier(clients[1], "/b").wait(timeout=WAIT_S))
    )
    waiter.start()
    barrier.remove()
    waiter.join(WAIT_S)
    assert passed == [True]
    doubles = [DoubleBarrier(client, "/d", 2) for client in clients]
    in_threads(*(double.enter for double in doubles))
    assert all(double.participating for double in doubles)
    in_threads(*(double.leave for double in doubles))


def test_counter_is_exact_under_contention(connect: Callable[..., KazooClient]) -> None:
    clients = [connect() for _ in range(3)]

    def count(client: KazooClient) -> None:
        counter = client.Counter("/c")
        for _ in range(10):
            counter += 1

    in_threads(*(lambda client=client: count(client) for client in clients))
    assert clients[0].Counter("/c").value == 30


def test_partitioner_gives_each_member_its_share(connect: Callable[..., KazooClient]) -> None:
    clients = [connect(), connect()]
    partitioners = [
        client.SetPartitioner("/sp", set=range(4), identifier=name, time_boundary=0.3)
        for client, name in zip(clients, ("one", "two"), strict=True)
    ]
    deadline = time.monotonic() + WAIT_S
    while not all(one.acquired and len(list(one)) == 2 for one in partitioners):
        assert time.monotonic() < deadline
        for one in partitioners:
            if one.release:
                one.release_set()
            elif one.allocating:
                one.wait_for_acquire(0.1)
    assert sorted(item for one in partitioners for item in one) == [0, 1, 2, 3]
    for one in partitioners:
        one.finish()


# Sessions


def test_ephemeral_nodes_go_with_their_session(connect: Callable[..., KazooClient]) -> None:
    owner, watcher = connect(), connect()
    owner.create("/e1", ephemeral=True)
    owner.create("/e2", ephemeral=True)
    assert watcher.exists("/e1").ephemeralOwner == owner.client_id[0]
    gone: list[str] = []
    watcher.exists("/e1", watch=lambda event: gone.append(event.type))
    before = watcher.exists("/").pzxid
    owner.stop()
    until(lambda: gone == ["DELETED"])
    assert watcher.get_children("/") == []
    # Both nodes went at one zxid, that of the closing of the session.
    assert watcher.exists("/").pzxid == before + 1


def test_a_session_expires_without_its_client(
    server: int, connect: Callable[..., KazooClient]
) -> None:
    owner, watcher = connect(), connect()
    owner.create("/e", ephemeral=True)
    states: list[str] = []
    owner.add_listener(states.append)
    session_id, password = owner.client_id
    assert watcher.exists("/e") is not None
    close_session(server, (session_id, password))
    until(lambda: watcher.exists("/e") is None)
    until(lambda: KazooState.LOST in states)
    until(lambda: owner.connected and owner.client_id[0] != session_id)


def test_a_wrong_password_gets_no_session(connect: Callable[..., KazooClient]) -> None:
    owner = connect()
    session_id, _ = owner.client_id
    other = connect(client_id=(session_id, b"\x01" * 16))
    assert other.client_id[0] != session_id
    assert owner.get_children("/") == []
