"""Ensembles of processes: three of ours, and mixed with Apache ZooKeeper's.

Members elect, clients write at each, members are killed in turn; sessions, ephemeral nodes and
watches outlive their leader.
"""

import threading
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionLoss,
    NoNodeError,
    OperationTimeoutError,
    ReconfigDisabledError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import CREATOR_ALL_ACL, make_digest_acl

from pybroker_kafka.broker.zookeeper.member_storage import MemberStorage
from pybroker_kafka.local.certificates import prepare_certificates
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.zookeeper.quorum.packets import first_zxid
from pybroker_kafka.zookeeper.snapshot import capture
from pybroker_kafka.zookeeper.transactions import CreateTxn, Txn, TxnHeader
from pybroker_kafka.zookeeper.tree import DataTree
from tests.support.ensembles import (
    Ensemble,
    OurMember,
    ensemble,
    four_letter_answer,
    tree_of,
)
from tests.support.nightly import chosen
from tests.support.patience import until
from tests.support.real_zookeeper import jars

OURS = ("ours", "ours", "ours")
ONE_REAL = ("ours", "real", "ours")
TWO_REAL = ("real", "real", "ours")
MIXED = [("real", "ours", "real"), ONE_REAL]
LOST = (ConnectionLoss, OperationTimeoutError, SessionExpiredError)


def skip_without_java(kinds: tuple[str, ...]) -> None:
    if "real" in kinds and jars() is None:
        pytest.skip("no Java, or no pyspark with ZooKeeper's jars")


def write_until_done(client: KazooClient, path: str) -> None:
    """Create `path`, also if its first attempt was done without an answer."""

    def is_done() -> bool:
        try:
            client.ensure_path(path)
        except LOST:
            return False
        return True

    until(is_done)


def trees(running: Ensemble) -> list[dict[str, tuple[object, ...]]]:
    found = []
    for number in running.members:
        with running.client(number) as client:
            client.sync("/")
            found.append(tree_of(client))
    return found


def assert_equal_trees(running: Ensemble) -> dict[str, tuple[object, ...]]:
    first, *others = trees(running)
    for other in others:
        assert other == first
    return first


def write_at_each(running: Ensemble, name: str) -> None:
    for number in running.members:
        with running.client(number) as client:
            path = f"/{name}-{number}"
            client.create(path, b"1")
            assert client.set(path, b"2").version == 1
            assert client.get(path)[0] == b"2"
            done = client.transaction()
            done.create(f"{path}/child", b"c")
            done.set_data(path, b"3")
            assert done.commit()[0] == f"{path}/child"
            failed = client.transaction()
            failed.create(f"{path}/other")
            failed.delete("/nowhere")
            results = failed.commit()
            assert isinstance(results[1], NoNodeError)
            assert client.exists(f"{path}/other") is None
            assert client.create(f"{path}/s", sequence=True) == f"{path}/s0000000001"


def test_three_of_ours(tmp_path: Path) -> None:
    with ensemble(tmp_path, OURS) as running:
        running.launch()
        leader = running.await_leader()
        write_at_each(running, "first")
        before = assert_equal_trees(running)
        assert len(before) == 3 * 3 + 1
        for number in running.members:
            with running.client(number) as client, pytest.raises(ReconfigDisabledError):
                client.reconfig(joining=None, leaving="3", new_members=None)
        for round_number, victim in enumerate((leader, *[n for n in (1, 2, 3) if n != leader])):
            rest = [number for number in running.members if number != victim]
            running.kill(victim)
            running.await_leader(*rest)
            with running.client(*rest) as client:
                write_until_done(client, f"/without-{victim}/{round_number}")
            running.launch(victim)
            running.await_leader()
        after = assert_equal_trees(running)
        assert all(after[path] == facts for path, facts in before.items() if path != "/")


def test_a_member_without_a_leader_serves_no_client_that_would_read_only(tmp_path: Path) -> None:
    with ensemble(tmp_path, OURS) as running:
        running.launch(1)
        port = running.members[1].port
        until(lambda: four_letter_answer(port, b"isro") == "null")
        client = KazooClient(f"127.0.0.1:{port}", read_only=True, connection_retry={"max_tries": 0})
        try:
            with pytest.raises(KazooTimeoutError):
                client.start(timeout=2)
        finally:
            client.stop()
            client.close()


@pytest.mark.parametrize("kinds", chosen(MIXED, [ONE_REAL]), ids="-".join)
def test_mixed_with_apache_zookeeper(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    skip_without_java(kinds)
    with ensemble(tmp_path, kinds) as running:
        running.launch()
        running.await_leader()
        write_at_each(running, "first")
        leaders = set()
        for victim in (3, 2, 1):
            rest = [number for number in running.members if number != victim]
            running.kill(victim)
            leaders.add(running.await_leader(*rest))
            with running.client(*rest) as client:
                write_until_done(client, f"/without-{victim}/x")
                client.set(f"/first-{victim}", b"while it was away")
            running.launch(victim)
            running.await_leader()
        assert {kinds[number - 1] for number in leaders} == {"ours", "real"}
        write_at_each(running, "second")
        assert_equal_trees(running)


@pytest.mark.parametrize("kinds", chosen([OURS, *MIXED], [OURS]), ids="-".join)
def test_a_new_member_gets_the_whole_state(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """More transactions than a leader keeps: member 2, which leads, sends a snapshot to member 3.

    In mixed ensembles that is one of ours to the JVM's, and the other way round.
    """
    skip_without_java(kinds)
    with ensemble(tmp_path, kinds) as running:
        running.launch(1, 2)
        assert running.await_leader(1, 2) == 2
        with running.client(1, 2, timeout=30) as client:
            client.add_auth("digest", "user:secret")
            client.create("/many", b"")
            client.create("/own", b"", acl=[make_digest_acl("user", "secret", all=True)])
            client.create("/own/child", "ä".encode() * 100, acl=CREATOR_ALL_ACL)
            client.create("/e", b"", ephemeral=True)
            for group in range(12):
                requests = [client.create_async(f"/many/{group}-{i}") for i in range(100)]
                for request in requests:
                    request.get(timeout=60)
            running.launch(3)
            running.await_leader()
            names = sorted(client.get_children("/many"))
            with running.client(3) as other:
                other.add_auth("digest", "user:secret")
                other.sync("/")
                assert sorted(other.get_children("/many")) == names
                assert len(names) == 1200
                for path in ("/own", "/own/child", "/e", "/many"):
                    assert other.get(path) == client.get(path)
                    assert other.get_acls(path) == client.get_acls(path)
        running.kill(3)
        running.launch(3)
        running.await_leader()
        write_at_each(running, "again")


@pytest.mark.parametrize("kinds", chosen([OURS, TWO_REAL], [OURS]), ids="-".join)
def test_a_member_whose_files_cannot_be_cut_gets_a_snapshot(
    tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    """Member 3 got a snapshot whose end no quorum had, as the first leader was about to die."""
    skip_without_java(kinds)
    with ensemble(tmp_path, kinds) as running:
        running.launch(1, 2)
        running.await_leader(1, 2)
        with running.client(1, 2) as client:
            write_until_done(client, "/before")
        third = running.members[3]
        assert isinstance(third, OurMember)
        lost = DataTree()
        zxid = first_zxid(1) | 0x1000
        lost.apply(Txn(TxnHeader(1, 1, zxid, 1, Op.CREATE), CreateTxn("/x", b"", OPEN_ACL, 0, 1)))
        storage = MemberStorage(third.data, fsync=False)
        storage.install(capture(lost, {}))
        storage.save_current_epoch(1)
        storage.close()
        running.launch(3)
        running.await_leader()
        assert {"/", "/before"} == assert_equal_trees(running).keys()
        write_at_each(running, "after")
    assert "is asked for a snapshot" in third.log_text


@pytest.mark.nightly
def test_members_move_from_the_jvm_and_back_one_by_one(tmp_path: Path) -> None:
    skip_without_java(("real",))
    with ensemble(tmp_path, ("real", "real", "real")) as running:
        running.launch()
        running.await_leader()
        write_at_each(running, "before")
        for kind in ("ours", "real"):
            for number in (1, 2, 3):
                running.kill(number)
                rest = [other for other in running.members if other != number]
                running.await_leader(*rest)
                running.place(number, kind)
                running.launch(number)
                running.await_leader()
                with running.client(number) as client:
                    write_until_done(client, f"/moved-{kind}-{number}")
            write_at_each(running, f"all-{kind}")
        found = assert_equal_trees(running)
        assert {"/before-1", "/all-ours-3", "/moved-real-2"} <= found.keys()


def test_sessions_ephemerals_and_watches_outlive_a_leader(tmp_path: Path) -> None:
    with ensemble(tmp_path, OURS) as running:
        running.launch()
        leader = running.await_leader()
        followers = [number for number in running.members if number != leader]
        with running.client(timeout=30) as owner, running.client(*followers, timeout=30) as other:
            owner.create("/owned", b"", ephemeral=True)
            other.create("/watched", b"")
            seen = threading.Event()

            def note(data: bytes | None, _stat: object) -> None:
                if data == b"new":
                    seen.set()

            other.DataWatch("/watched", note)
            identity = owner.client_id
            running.kill(leader)
            running.await_leader(*followers)
            write_until_done(owner, "/after")
            assert owner.client_id == identity
            assert owner.exists("/owned").ephemeralOwner == identity[0]
            until(lambda: other.exists("/owned") is not None)
            with running.client(*followers) as third:
                third.set("/watched", b"new")
            assert seen.wait(60)
            owner.stop()
            until(lambda: other.exists("/owned") is None)


def test_a_client_that_dies_loses_its_nodes_at_every_member(tmp_path: Path) -> None:
    with ensemble(tmp_path, OURS) as running:
        running.launch()
        running.await_leader()
        with running.client(2, timeout=2) as watcher:
            dying = KazooClient(hosts=running.connect_string(1), timeout=2)
            dying.start(timeout=60)
            dying.create("/e", b"", ephemeral=True)
            until(lambda: watcher.exists("/e") is not None)
            dying._connection._write_sock.close()  # its thread ends: no pings, no close
            until(lambda: watcher.exists("/e") is None)


def test_a_frozen_leader_is_replaced_and_follows_when_it_wakes(tmp_path: Path) -> None:
    with ensemble(tmp_path, OURS) as running:
        running.launch()
        leader = running.await_leader()
        frozen = running.members[leader]
        assert isinstance(frozen, OurMember)
        rest = [number for number in running.members if number != leader]
        frozen.pause()
        try:
            running.await_leader(*rest)
            with running.client(*rest) as client:
                write_until_done(client, "/while-it-slept")
        finally:
            frozen.resume()
        until(lambda: frozen.mode == "follower")
        assert "/while-it-slept" in assert_equal_trees(running)


def test_an_observer_serves_clients_and_has_no_vote(tmp_path: Path) -> None:
    with ensemble(tmp_path, (*OURS, "ours"), observers=1) as running:
        running.launch()
        running.await_leader()
        assert running.members[4].mode == "observer"
        with running.client(4) as client:
            client.create("/by-observer", b"x")
            client.sync("/")
        running.kill(1)
        running.kill(2)
        until(lambda: running.members[4].mode == "")
        running.launch(1, 2)
        running.await_leader()
        assert "/by-observer" in assert_equal_trees(running)


def test_four_letter_words(tmp_path: Path) -> None:
    with ensemble(tmp_path, OURS) as running:
        running.launch(1)
        port = running.members[1].port
        until(lambda: four_letter_answer(port, b"ruok") == "imok")
        nothing = "This ZooKeeper instance is not currently serving requests\n"
        for word in (b"srvr", b"stat", b"mntr"):
            assert four_letter_answer(port, word) == nothing
        assert four_letter_answer(port, b"isro") == "null"
        assert "server.3=127.0.0.1" in four_letter_answer(port, b"conf")
        running.launch(2, 3)
        leader = running.await_leader()
        leads = running.members[leader].port
        assert "Mode: leader" in four_letter_answer(leads, b"stat")
        until(lambda: "zk_synced_followers\t2" in four_letter_answer(leads, b"mntr"))
        follows = next(m.port for n, m in running.members.items() if n != leader)
        assert "zk_server_state\tfollower" in four_letter_answer(follows, b"mntr")
        assert four_letter_answer(follows, b"isro") == "rw"


@pytest.mark.parametrize("kinds", chosen([OURS, *MIXED], [OURS]), ids="-".join)
def test_members_with_tls(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """`sslQuorum=true`: each kind is leader and follower once, and a plain connection gets none."""
    skip_without_java(kinds)
    prepare_certificates(tmp_path, "a member", ["member"], ["127.0.0.1", "localhost"])
    settings = {
        "sslQuorum": "true",
        "ssl.quorum.keyStore.location": str(tmp_path / "member.pem"),
        "ssl.quorum.trustStore.location": str(tmp_path / "ca.pem"),
    }
    with ensemble(tmp_path, kinds, settings=settings) as running:
        running.launch()
        first = running.await_leader()
        write_at_each(running, "first")
        running.kill(first)
        rest = [number for number in running.members if number != first]
        running.await_leader(*rest)
        with running.client(*rest) as client:
            write_until_done(client, "/second")
        running.launch(first)
        running.await_leader()
        assert_equal_trees(running)
