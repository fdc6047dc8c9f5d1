"""The snapshot behind a SNAP: round trips in pieces of any size, and malformed ones."""

import pytest

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, READ_ONLY_ACL, Op
from pybroker_kafka.zookeeper.quorum.learner import LearnerStream
from pybroker_kafka.zookeeper.quorum.packets import PacketType, QuorumPacket, encode_packet
from pybroker_kafka.zookeeper.snapshot import capture
from pybroker_kafka.zookeeper.transactions import Body, CreateTxn, SetDataTxn, Txn, TxnHeader
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.tree_bytes import (
    ReadTree,
    TreeReader,
    encode_tree,
)

SESSIONS = {0x100000000000007: 6000, -3: 4000}


def some_tree() -> DataTree:
    tree = DataTree()
    bodies: list[tuple[Op, Body]] = [
        (Op.CREATE, CreateTxn("/a", b"x" * 100, OPEN_ACL, 0, 1)),
        (Op.CREATE, CreateTxn("/a/b", None, READ_ONLY_ACL, 0, 1)),
        (Op.CREATE, CreateTxn("/e", "ä".encode(), OPEN_ACL, 0x100000000000007, 2)),
        (Op.SET_DATA, SetDataTxn("/a", b"new", 1)),
    ]
    for zxid, (op, body) in enumerate(bodies, 1):
        tree.apply(Txn(TxnHeader(1, 1, zxid, 1000 + zxid, op), body))
    return tree


def facts(tree: DataTree) -> dict[str, object]:
    return {path: (node.data, node.acl, node.stat()) for path, node in tree.nodes.items()}


@pytest.mark.parametrize("size", [1, 3, 50, 100_000])
def test_round_trip_in_pieces(size: int) -> None:
    tree = some_tree()
    data = b"".join(encode_tree(capture(tree, SESSIONS), signed=True)) + b"behind"
    reader = TreeReader(tree.last_zxid, signed=True)
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
    assert reader.received is not None
    assert facts(reader.received.tree) == facts(tree)
    assert reader.received.tree.last_zxid == tree.last_zxid
    assert reader.received.tree.ephemerals == tree.ephemerals
    assert reader.received.tree.data_size == tree.data_size
    assert reader.received.sessions == SESSIONS
    assert reader.take_rest() == b"behind"


@pytest.mark.parametrize("size", [1, 17, 100_000])
def test_a_stream_with_a_snapshot_between_packets(size: int) -> None:
    tree = some_tree()
    snap = QuorumPacket(PacketType.SNAP, tree.last_zxid)
    new_leader = QuorumPacket(PacketType.NEWLEADER, 1 << 32)
    data = encode_packet(snap)
    data += b"".join(encode_tree(capture(tree, SESSIONS), signed=True)) + encode_packet(new_leader)
    stream, found = LearnerStream(), []
    for start in range(0, len(data), size):
        found += stream.feed(data[start : start + size])
    assert [found[0], found[2]] == [snap, new_leader]
    assert isinstance(found[1], ReadTree)
    assert facts(found[1].tree) == facts(tree)


def test_malformed_snapshots() -> None:
    tree = some_tree()
    data = b"".join(encode_tree(capture(tree, {}), signed=True))
    with pytest.raises(ProtocolError, match="ends in"):
        TreeReader(1, signed=True).feed(data[:-1] + b"!")
    with pytest.raises(ProtocolError, match="counts"):
        TreeReader(1, signed=True).feed(b"\x80\0\0\0")
    with pytest.raises(ProtocolError, match="parent"):
        TreeReader(1, signed=True).feed(data.replace(b"/a/b", b"/q/b"))
    no_acls = b"\0\0\0\0" * 2 + data[data.index(b"\0\0\0\0" + b"\0\0\0\0" + b"\xff" * 8) :]
    with pytest.raises(ProtocolError, match="lacks"):
        TreeReader(1, signed=True).feed(no_acls)
