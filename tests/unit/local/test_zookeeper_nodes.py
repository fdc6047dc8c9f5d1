"""The ZooKeepers of a local cluster: their directories when their number changes."""

from pathlib import Path

import pytest

from pybroker_kafka.local.cluster_state import ClusterError, NodeState
from pybroker_kafka.local.zookeeper_nodes import (
    free_ports,
    member_config,
    mode_of,
    names_of,
    prepare_directories,
    remembered_zookeepers,
)
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.zookeeper.transactions import CreateTxn, Txn, TxnHeader
from pybroker_kafka.zookeeper.txn_bytes import encode_txn
from pybroker_kafka.zookeeper.wal import encode_records, log_header, log_name, recover
from tests.support.processes import free_port


def fill(directory: Path, count: int, *, epoch: int = 0) -> None:
    """A log of `count` transactions, the last ones of an epoch."""
    directory = directory / "version-2"
    directory.mkdir(parents=True, exist_ok=True)
    records = []
    for number in range(1, count + 1):
        header = TxnHeader(1, 1, number, 1, Op.CREATE)
        records.append(encode_txn(Txn(header, CreateTxn(f"/{number}", b"", OPEN_ACL, 0, number))))
    (directory / log_name(1)).write_bytes(log_header() + encode_records(records))
    if epoch:
        (directory / "currentEpoch").write_text(str(epoch))
        (directory / "acceptedEpoch").write_text(str(epoch))


def last_zxid(directory: Path) -> int:
    directory = directory / "version-2"
    names = sorted(path.name for path in directory.iterdir())
    return recover(names, lambda name: (directory / name).read_bytes()).tree.last_zxid


def directories(data_dir: Path) -> list[str]:
    return sorted(path.name for path in data_dir.iterdir())


def test_a_new_cluster(tmp_path: Path) -> None:
    assert remembered_zookeepers(tmp_path) == 0
    prepare_directories(tmp_path, 3)
    assert directories(tmp_path) == names_of(3)
    assert (tmp_path / "zookeeper-2" / "myid").read_text() == "2\n"
    assert remembered_zookeepers(tmp_path) == 3
    other = tmp_path / "other"
    other.mkdir()
    prepare_directories(other, 1)
    assert directories(other) == ["zookeeper"]
    assert remembered_zookeepers(other) == 1


def test_one_becomes_three_and_one_again(tmp_path: Path) -> None:
    fill(tmp_path / "zookeeper", 5)
    (tmp_path / "zookeeper" / "lock").touch()
    prepare_directories(tmp_path, 3)
    assert directories(tmp_path) == names_of(3)
    for number in (1, 2, 3):
        member = tmp_path / f"zookeeper-{number}"
        assert last_zxid(member) == 5
        assert (member / "myid").read_text() == f"{number}\n"
        assert not (member / "lock").exists()
    fill(tmp_path / "zookeeper-2", 9)
    prepare_directories(tmp_path, 1)
    assert directories(tmp_path) == ["zookeeper"]
    assert last_zxid(tmp_path / "zookeeper") == 9
    assert not (tmp_path / "zookeeper" / "myid").exists()


def test_the_newest_epoch_wins_and_goes_to_all(tmp_path: Path) -> None:
    fill(tmp_path / "zookeeper-1", 9, epoch=2)
    fill(tmp_path / "zookeeper-2", 7, epoch=3)
    fill(tmp_path / "zookeeper-3", 6, epoch=3)
    (tmp_path / "zookeeper-3" / "version-2" / "acceptedEpoch").write_text("4")
    prepare_directories(tmp_path, 5)
    for number in range(1, 6):
        member = tmp_path / f"zookeeper-{number}"
        assert last_zxid(member) == 7
        assert (member / "version-2" / "currentEpoch").read_text() == "3"
        assert (member / "version-2" / "acceptedEpoch").read_text() == "4"


def test_the_same_number_changes_nothing(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        fill(tmp_path / f"zookeeper-{number}", number)
    prepare_directories(tmp_path, 3)
    assert [last_zxid(tmp_path / f"zookeeper-{number}") for number in (1, 2, 3)] == [1, 2, 3]


def test_a_damaged_state_is_not_spread(tmp_path: Path) -> None:
    fill(tmp_path / "zookeeper", 5)
    log = tmp_path / "zookeeper" / "version-2" / log_name(1)
    log.write_bytes(b"x" + log.read_bytes()[1:])
    with pytest.raises(ClusterError, match="number of ZooKeepers cannot change"):
        prepare_directories(tmp_path, 3)
    assert directories(tmp_path) == ["zookeeper"]


def test_the_config_of_a_member(tmp_path: Path) -> None:
    ports = free_ports(3, set())
    assert len({port for pair in ports.values() for port in pair}) == 6
    node = NodeState("zookeeper", 2, 0, "127.0.0.1", 0, str(tmp_path), "")
    assert (node.name, node.label) == ("zookeeper-2", "zookeeper-2")
    config = member_config(node, ports, {(2, 1): (7001, 7002), (1, 2): (7003, 7004)})
    assert config.my_id == 2
    assert config.voters == {1, 2, 3}
    for servers, number, expected in (
        (config.servers, 1, ports[1]),
        (config.servers, 2, ports[2]),
        (config.reached, 1, (7001, 7002)),
        (config.reached, 2, ports[2]),
        (config.reached, 3, ports[3]),
    ):
        assert (servers[number].quorum_port, servers[number].election_port) == expected


def test_a_server_that_is_not_there_has_no_mode() -> None:
    assert mode_of("127.0.0.1", free_port()) == ""
