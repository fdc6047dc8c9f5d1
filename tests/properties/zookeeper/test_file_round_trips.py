"""Any tree and any transactions come back from a snapshot and from a log as they were."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.protocol.zookeeper.constants import (
    CONTAINER_OWNER,
    OPEN_ACL,
    Op,
    OwnerKind,
    owner_kind,
    ttl_owner,
)
from pybroker_kafka.protocol.zookeeper.jute import ACL, Id
from pybroker_kafka.zookeeper.snapshot import capture
from pybroker_kafka.zookeeper.snapshot_file import decode_snapshot, encode_snapshot
from pybroker_kafka.zookeeper.transactions import (
    Body,
    CheckTxn,
    CloseSessionTxn,
    CreateSessionTxn,
    CreateTxn,
    DeleteTxn,
    ErrorTxn,
    MultiTxn,
    SetAclTxn,
    SetDataTxn,
    Txn,
    TxnHeader,
)
from pybroker_kafka.zookeeper.tree import DataTree, Node
from pybroker_kafka.zookeeper.txn_bytes import encode_txn
from pybroker_kafka.zookeeper.wal import encode_records, log_header, read_log

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(0, 2**63 - 1)
names = st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=8)
data = st.none() | st.binary(max_size=40)
acls = st.just(OPEN_ACL) | st.lists(
    st.builds(ACL, st.integers(0, 31), st.builds(Id, names, names)), min_size=1, max_size=3
).map(tuple)
sessions = st.integers(1, 2**56)
owners = st.one_of(
    st.just(0), sessions, st.just(CONTAINER_OWNER), st.integers(1, 2**39).map(ttl_owner)
)


@st.composite
def trees(draw: st.DrawFn) -> DataTree:
    tree = DataTree()
    places = ["/"]
    for name in draw(st.lists(names, max_size=12)):
        path = draw(st.sampled_from(places)).rstrip("/") + "/" + name
        if tree.get(path) is not None:
            continue
        node = Node(draw(data), draw(acls), draw(owners), draw(longs), draw(longs))
        node.mzxid, node.pzxid, node.mtime = draw(longs), draw(longs), draw(longs)
        node.version, node.cversion, node.aversion = draw(ints), draw(ints), draw(ints)
        tree.restore(path, node)
        places.append(path)
    tree.last_zxid = draw(longs)
    return tree


def facts(tree: DataTree) -> dict[str, tuple[object, ...]]:
    return {
        path: tuple(
            set(value) if name == "children" and value else value
            for name in Node.__slots__
            for value in [getattr(node, name)]
        )
        for path, node in tree.nodes.items()
    }


@settings(max_examples=50, deadline=None)
@given(trees(), st.dictionaries(longs, ints, max_size=4))
def test_a_tree_comes_back(tree: DataTree, timeouts: dict[int, int]) -> None:
    file = b"".join(encode_snapshot(capture(tree, timeouts)))
    read = decode_snapshot(file, tree.last_zxid)
    assert facts(read.tree) == facts(tree)
    assert (read.sessions, read.tree.last_zxid) == (timeouts, tree.last_zxid)
    assert read.tree.ephemerals == tree.ephemerals
    assert (read.tree.containers, read.tree.ttls) == (tree.containers, tree.ttls)
    assert read.tree.data_size == tree.data_size


paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
_TYPES = {OwnerKind.CONTAINER: Op.CREATE_CONTAINER, OwnerKind.TTL: Op.CREATE_TTL}


def created(body: CreateTxn, op: Op) -> tuple[Op, Body]:
    return _TYPES.get(owner_kind(body.owner), op), body


def parts_of(session: int) -> st.SearchStrategy[tuple[Op, Body]]:
    own = st.one_of(
        st.sampled_from([0, session, CONTAINER_OWNER]), st.integers(1, 2**39).map(ttl_owner)
    )
    creates = st.builds(CreateTxn, paths, data, acls, own, ints)
    return st.one_of(
        st.builds(created, creates, st.sampled_from([Op.CREATE, Op.CREATE2])),
        st.tuples(st.sampled_from([Op.DELETE, Op.DELETE_CONTAINER]), st.builds(DeleteTxn, paths)),
        st.tuples(st.just(Op.SET_DATA), st.builds(SetDataTxn, paths, data, ints)),
        st.tuples(st.just(Op.CHECK), st.builds(CheckTxn, paths)),
    )


def bodies(session: int) -> st.SearchStrategy[tuple[Op, Body]]:
    parts = parts_of(session)
    return st.one_of(
        parts.filter(lambda part: part[0] is not Op.CHECK),
        st.tuples(st.just(Op.SET_ACL), st.builds(SetAclTxn, paths, acls, ints)),
        st.tuples(st.just(Op.CREATE_SESSION), st.builds(CreateSessionTxn, ints)),
        st.tuples(
            st.just(Op.CLOSE_SESSION), st.builds(CloseSessionTxn, st.lists(paths, max_size=3))
        ),
        st.tuples(st.just(Op.ERROR), st.builds(ErrorTxn, ints)),
        st.tuples(st.just(Op.MULTI), st.builds(MultiTxn, st.lists(parts, max_size=3))),
    )


@st.composite
def transactions(draw: st.DrawFn) -> list[Txn]:
    found = []
    for zxid in range(1, draw(st.integers(1, 6))):
        session = draw(sessions)
        op, body = draw(bodies(session))
        found.append(Txn(TxnHeader(session, draw(ints), zxid, draw(longs), op), body))
    return found


@settings(max_examples=50, deadline=None)
@given(transactions(), st.integers(0, 40))
def test_transactions_come_back(txns: list[Txn], zeros: int) -> None:
    file = log_header() + encode_records(encode_txn(txn) for txn in txns)
    contents = read_log("log.1", file + bytes(zeros))
    assert [txn for _, txn in contents.transactions] == txns
    assert (contents.valid_bytes, contents.problem) == (len(file), None)
