"""Joining the cluster: paths, ids, registration and its conflicts, and the session file."""

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from trio.testing import MockClock

from pybroker_kafka.broker.zk import registration
from pybroker_kafka.broker.zk.registration import (
    RegistrationError,
    register_broker,
    register_in_session,
)
from pybroker_kafka.broker.zk.zookeeper import NO_SESSION, WatchCallback, ZooKeeper
from pybroker_kafka.protocol.zookeeper.operations import (
    Delete,
    Flow,
    SessionExpired,
    ZkOperation,
    ZkResult,
)
from pybroker_kafka.replication.controller import znodes
from pybroker_kafka.replication.controller.znodes import BrokerRegistration
from pybroker_kafka.replication.metadata_cache import Endpoint
from tests.support.zookeeper_tree import ZooKeeperTree


def broker(broker_id: int, port: int | None = None) -> BrokerRegistration:
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "h", port or 9000 + broker_id)
    return BrokerRegistration(broker_id, (endpoint,))


@pytest.fixture
def tree() -> ZooKeeperTree:
    tree = ZooKeeperTree()
    tree.run(registration.ensure_top_level_paths())
    return tree


def test_top_level_paths_are_made_once(tree: ZooKeeperTree) -> None:
    for path in znodes.PERSISTENT_PATHS:
        assert tree.nodes[path].data is None
    before = dict(tree.nodes)
    tree.run(registration.ensure_top_level_paths())
    assert tree.nodes == before


def test_the_first_broker_names_the_cluster(tree: ZooKeeperTree) -> None:
    first = tree.run(registration.get_or_create_cluster_id(bytes(range(16))))
    second = tree.run(registration.get_or_create_cluster_id(bytes(16)))
    assert first == second == "AAECAwQFBgcICQoLDA0ODw"


def test_generated_broker_ids_are_above_the_reserved_ones(tree: ZooKeeperTree) -> None:
    assert [tree.run(registration.generate_broker_id(1000)) for _ in range(3)] == [
        1001,
        1002,
        1003,
    ]
    tree.perform([Delete(znodes.BROKER_SEQUENCE)])
    assert tree.run(registration.generate_broker_id(0)) == 1


def test_the_broker_epoch_is_the_czxid(tree: ZooKeeperTree) -> None:
    epoch = tree.run(register_broker(broker(1), 5, session_id=77), 77)
    node = tree.nodes["/brokers/ids/1"]
    assert (epoch, node.version, node.owner) == (node.czxid, 1, 77)
    assert [b.epoch for b in tree.run(registration.read_brokers())] == [epoch]


def test_registering_again_in_the_same_session_keeps_the_epoch(tree: ZooKeeperTree) -> None:
    first = tree.run(register_broker(broker(1), 5, 77), 77)
    assert tree.run(register_broker(broker(1), 6, 77), 77) == first
    stored = tree.nodes["/brokers/ids/1"].data
    assert stored is not None
    assert b'"timestamp":"6"' in stored


def test_a_former_session_of_ours_is_replaced(tree: ZooKeeperTree) -> None:
    first = tree.run(register_broker(broker(1), 5, 77), 77)
    second = tree.run(register_broker(broker(1), 5, 78, previous_session_ids=[77]), 78)
    assert second > first
    assert tree.nodes["/brokers/ids/1"].owner == 78


class Sessions(ZooKeeper):
    """A tree whose session 77 expires after so many operations; 78 begins with the next ones.

    With `is_told` the operation after the last one of a session raises SessionExpired.
    """

    def __init__(self, tree: ZooKeeperTree, operations: int, *, is_told: bool = False) -> None:
        super().__init__()
        self.is_told = is_told
        self.tree = tree
        self.left = operations
        self.current = (77, b"first")

    @property
    def session(self) -> tuple[int, bytes]:
        if self.left == 0 and self.current[0] == 77 and not self.is_told:
            self.current = NO_SESSION
            self.tree.expire(77)
        return self.current

    @property
    def is_connected(self) -> bool:
        return self.session != NO_SESSION

    @property
    def session_generation(self) -> int:
        return int(self.session[0] != 77)

    async def execute(
        self, operations: Sequence[ZkOperation], on_watch: WatchCallback | None = None
    ) -> list[ZkResult]:
        assert on_watch is None
        if self.left == 0 and self.is_told:
            self.left -= 1
            self.tree.expire(77)
            self.current = (78, b"second")
            raise SessionExpired
        if self.session == NO_SESSION:
            self.current = (78, b"second")
        self.left -= 1
        return self.tree.perform(operations, self.current[0])


@pytest.mark.parametrize("is_told", [False, True])
@pytest.mark.parametrize("operations", range(4))
async def test_a_session_that_expires_meanwhile_is_not_the_one_remembered(
    tree: ZooKeeperTree, operations: int, is_told: bool, autojump_clock: MockClock
) -> None:
    zookeeper = Sessions(tree, operations, is_told=is_told)
    remembered: list[tuple[int, bytes]] = []

    def flow(session_id: int) -> Flow[int]:
        return register_broker(broker(1), 5, session_id, [session for session, _ in remembered])

    epoch = await register_in_session(zookeeper, flow, remembered.append)
    node = tree.nodes["/brokers/ids/1"]
    assert (node.owner, node.czxid) == (remembered[-1][0], epoch)
    assert remembered[-1] == zookeeper.session
    assert NO_SESSION not in remembered


def test_the_id_of_another_broker_is_refused(tree: ZooKeeperTree) -> None:
    tree.run(register_broker(broker(1), 5, 77), 77)
    with pytest.raises(RegistrationError, match="broker id 1 is already registered"):
        tree.run(register_broker(broker(1), 5, 78), 78)


def test_an_endpoint_of_another_broker_is_refused(tree: ZooKeeperTree) -> None:
    tree.run(register_broker(broker(1, port=9092), 5, 77), 77)
    with pytest.raises(RegistrationError, match="h:9092 is already advertised by broker 1"):
        tree.run(register_broker(broker(2, port=9092), 5, 78), 78)


def test_the_session_file_is_private_and_names_its_cluster(tmp_path: Path) -> None:
    assert registration.load_session(tmp_path, "cluster-a") is None
    registration.save_session(tmp_path, "cluster-a", (-5, b"\x01" * 16))
    path = tmp_path / registration.SESSION_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert registration.load_session(tmp_path, "cluster-a") == (-5, b"\x01" * 16)
    assert registration.load_session(tmp_path, "cluster-b") is None
    assert registration.load_session(tmp_path) == (-5, b"\x01" * 16), "of whichever cluster"
    path.write_text("damaged")
    assert registration.load_session(tmp_path, "cluster-a") is None


def test_directories_remember_each_session_of_their_cluster_once(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in "abcd"]
    for directory in directories:
        directory.mkdir()
    registration.save_sessions(directories[:2], "cluster-a", (5, b"\x01" * 16))
    registration.save_session(directories[2], "cluster-b", (6, b"\x01" * 16))
    found = registration.remembered_sessions(directories, "cluster-a")
    assert found == [(5, b"\x01" * 16)]
