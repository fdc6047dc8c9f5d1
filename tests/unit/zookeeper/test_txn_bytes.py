"""Transactions between members: golden bytes as ZooKeeper writes them, and ours as theirs."""

import pytest

from pybroker_kafka.protocol.errors import ProtocolError
from pybroker_kafka.protocol.zookeeper.constants import (
    CONTAINER_OWNER,
    OPEN_ACL,
    READ_ONLY_ACL,
    Op,
    ttl_owner,
)
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
from pybroker_kafka.zookeeper.tree import DataTree
from pybroker_kafka.zookeeper.txn_bytes import (
    close_session_in,
    decode_txn,
    encode_txn,
)

SESSION = 0x100000000000007
ACL_BYTES = "000000010000001f00000005776f726c6400000006616e796f6e65"


def txn(op: Op, body: Body, zxid: int = 0x1_0000_0001) -> Txn:
    return Txn(TxnHeader(SESSION, 4, zxid, 1_700_000_000_000, op), body)


BODIES: list[tuple[Op, Body]] = [
    (Op.CREATE, CreateTxn("/a", b"x", OPEN_ACL, 0, 1)),
    (Op.CREATE, CreateTxn("/a", b"x", OPEN_ACL, SESSION, 1)),
    (Op.CREATE2, CreateTxn("/a", None, READ_ONLY_ACL, 0, 9)),
    (Op.CREATE_CONTAINER, CreateTxn("/c", b"", OPEN_ACL, CONTAINER_OWNER, 2)),
    (Op.CREATE_TTL, CreateTxn("/t", b"", OPEN_ACL, ttl_owner(5000), 2)),
    (Op.DELETE, DeleteTxn("/a")),
    (Op.DELETE_CONTAINER, DeleteTxn("/c")),
    (Op.SET_DATA, SetDataTxn("/a", b"y", 3)),
    (Op.SET_ACL, SetAclTxn("/a", READ_ONLY_ACL, 2)),
    (Op.CREATE_SESSION, CreateSessionTxn(6000)),
    (Op.CLOSE_SESSION, CloseSessionTxn(["/e", "/f"])),
    (Op.ERROR, ErrorTxn(-101)),
    (
        Op.MULTI,
        MultiTxn(
            [
                (Op.CREATE, CreateTxn("/m", b"", OPEN_ACL, 0, 3)),
                (Op.CHECK, CheckTxn("/m")),
                (Op.CREATE_TTL, CreateTxn("/m/t", b"", OPEN_ACL, ttl_owner(1), 1)),
                (Op.SET_DATA, SetDataTxn("/m", b"z", 1)),
                (Op.DELETE, DeleteTxn("/x")),
            ]
        ),
    ),
    (Op.MULTI, MultiTxn([(Op.ERROR, ErrorTxn(0)), (Op.ERROR, ErrorTxn(-101))])),
]


@pytest.mark.parametrize(("op", "body"), BODIES)
def test_ours_survive_the_journey(op: Op, body: Body) -> None:
    whole = txn(op, body)
    assert decode_txn(encode_txn(whole)) == whole


def test_the_bytes_of_a_create() -> None:
    data = encode_txn(txn(Op.CREATE, CreateTxn("/a", b"x", OPEN_ACL, SESSION, 1)))
    header = "01000000000000070000000400000001000000010000018bcfe5680000000001"
    body = "000000022f610000000178" + ACL_BYTES + "0100000001"
    assert data.hex() == header + body


def test_a_digest_behind_a_transaction_is_skipped() -> None:
    whole = txn(Op.SET_DATA, SetDataTxn("/a", b"y", 3))
    digest = bytes.fromhex("000000020123456789abcdef")
    assert decode_txn(encode_txn(whole) + digest) == whole


def test_a_failed_multi_changes_nothing() -> None:
    """A JVM's leader leaves the parts before the failed one as they were."""
    parts: list[tuple[Op, Body]] = [
        (Op.CREATE, CreateTxn("/m", b"", OPEN_ACL, 0, 3)),
        (Op.ERROR, ErrorTxn(-101)),
        (Op.ERROR, ErrorTxn(-2)),
    ]
    decoded = decode_txn(encode_txn(txn(Op.MULTI, MultiTxn(parts))))
    codes = [(Op.ERROR, ErrorTxn(code)) for code in (0, -101, -2)]
    assert decoded.body == MultiTxn([*codes])


def test_a_close_of_a_session_deletes_what_the_session_has() -> None:
    tree = DataTree()
    tree.apply(txn(Op.CREATE, CreateTxn("/e", b"", OPEN_ACL, SESSION, 1), zxid=1))
    data = encode_txn(txn(Op.CLOSE_SESSION, CloseSessionTxn([]), zxid=2))
    without_record = decode_txn(data[:-4])
    assert without_record.body == CloseSessionTxn([])
    assert close_session_in(tree, without_record).body == CloseSessionTxn(["/e"])
    other = txn(Op.DELETE, DeleteTxn("/e"))
    assert close_session_in(tree, other) is other


def test_malformed_transactions() -> None:
    data = encode_txn(txn(Op.SET_DATA, SetDataTxn("/a", b"y", 3)))
    for end in range(len(data)):
        with pytest.raises(ProtocolError):
            decode_txn(data[:end])
    unknown = encode_txn(txn(Op.ERROR, ErrorTxn(1)))[:28] + (99).to_bytes(4, "big")
    with pytest.raises(ProtocolError):
        decode_txn(unknown)
    ttl = CreateTxn("/t", b"", OPEN_ACL, ttl_owner(5), 2)
    endless = encode_txn(txn(Op.CREATE_TTL, ttl))[:-8] + (1 << 50).to_bytes(8, "big")
    with pytest.raises(ProtocolError):
        decode_txn(endless)
