"""Fuzzy snapshots: a tree written node by node while transactions are applied, and these again.

The dumb twin applies each transaction once. The other tree begins with what a JVM's leader would
have written meanwhile, and gets all transactions of that time; both must be equal.
"""

import random

from pybroker_kafka.protocol.zookeeper.constants import OPEN_ACL, Op
from pybroker_kafka.zookeeper.fuzzy import fitted
from pybroker_kafka.zookeeper.snapshot import capture
from pybroker_kafka.zookeeper.snapshot_file import encode_snapshot
from pybroker_kafka.zookeeper.transactions import (
    Body,
    CreateTxn,
    DeleteTxn,
    MultiTxn,
    SetDataTxn,
    Txn,
    TxnHeader,
)
from pybroker_kafka.zookeeper.tree import DataTree, Node, parent_of
from pybroker_kafka.zookeeper.txn_bytes import encode_txn
from pybroker_kafka.zookeeper.wal import (
    encode_records,
    log_header,
    log_name,
    recover,
    snapshot_name,
)
from tests.support import examples

SEEDS = examples.of(300)


def random_part(chance: random.Random, tree: DataTree) -> tuple[Op, Body]:
    paths = [path for path in tree.nodes if path and not path.startswith("/zookeeper")]
    path = chance.choice(paths)
    node = tree.nodes[path]
    kind = chance.random()
    if kind < 0.3 and path != "/" and not node.children:
        return Op.DELETE, DeleteTxn(path)
    if kind < 0.5:
        return Op.SET_DATA, SetDataTxn(path, str(chance.random()).encode(), node.version + 1)
    child = f"{path.rstrip('/')}/{chance.randrange(4)}"
    if child in tree.nodes or path.count("/") > 3:
        return Op.SET_DATA, SetDataTxn(path, b"again", node.version + 1)
    return Op.CREATE, CreateTxn(child, b"new", OPEN_ACL, 0, node.cversion + 1)


def copy_of(node: Node) -> Node:
    copy = Node(node.data, node.acl, node.owner, node.czxid, node.ctime)
    copy.mzxid, copy.pzxid, copy.mtime = node.mzxid, node.pzxid, node.mtime
    copy.version, copy.cversion, copy.aversion = node.version, node.cversion, node.aversion
    return copy


def facts(tree: DataTree) -> dict[str, tuple[object, ...]]:
    """Without what may differ: the creations that a later deletion has hidden."""
    return {
        path: (node.data, node.version, node.mzxid, node.czxid) for path, node in tree.nodes.items()
    }


class Leader:
    """A tree that changes while its snapshot is written."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tree = DataTree()
        self.snapshot = DataTree()
        self.meanwhile: list[Txn] = []

    def step(self) -> Txn:
        zxid = self.tree.last_zxid + 1
        op, body = random_part(self.chance, self.tree)
        if self.chance.random() < 0.3:
            op, body = Op.MULTI, MultiTxn([(op, body)])
        txn = Txn(TxnHeader(1, 1, zxid, zxid, op), body)
        self.tree.apply(txn)
        return txn

    def write(self, path: str) -> None:
        """As `DataTree.serializeNode`: the node and its children's names, then the children."""
        if self.chance.random() < 0.4:
            self.meanwhile.append(self.step())
        node = self.tree.nodes.get(path)
        if node is None:
            return
        children = list(node.children or ())
        if path == "/" or self.snapshot.get(parent_of(path)) is not None:
            self.snapshot.restore(path, copy_of(node))
        for child in children:
            self.write(f"{path.rstrip('/')}/{child}")


def test_transactions_again_over_a_fuzzy_snapshot_give_the_same_tree() -> None:
    for seed in range(SEEDS):
        leader = Leader(seed)
        for _ in range(30):
            leader.step()
        begin = leader.tree.last_zxid
        leader.write("/")
        # A file is named by the zxid at its beginning, and has that at its end.
        leader.snapshot.last_zxid = leader.tree.last_zxid
        file = b"".join(encode_snapshot(capture(leader.snapshot, {})))
        leader.meanwhile += [leader.step() for _ in range(5)]
        records = [encode_txn(txn) for txn in leader.meanwhile]
        files = {
            snapshot_name(begin): file,
            log_name(begin + 1): log_header() + encode_records(records),
        }
        recovered = recover(list(files), files.__getitem__)
        assert facts(recovered.tree) == facts(leader.tree), seed
        received = leader.snapshot
        received.last_zxid = begin
        for txn in leader.meanwhile:
            received.apply(fitted(received, txn))
        assert facts(received) == facts(leader.tree), seed
        assert received.last_zxid == leader.tree.last_zxid
