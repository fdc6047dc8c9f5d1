"""Transactions: the effects of a successful (or failed) write, as logged and replayed.

Mirrors `org.apache.zookeeper.txn`, with two differences of our own: a create names the final
ephemeral owner (so containers and TTL nodes need no types of their own), and a close of a session
always names the nodes that it deletes.

A transaction is the header (session, time, zxid) and one body. Bodies are idempotent facts (`path
exists since zxid z with this data`), never requests, so that replay needs no checks.
"""

from typing import NamedTuple

from ..protocol.errors import ProtocolError
from ..protocol.primitives import Buffer
from ..protocol.zookeeper import jute
from ..protocol.zookeeper.constants import Op
from ..protocol.zookeeper.jute import ACL, BUFFER, INT, LONG, STRING, record, type_of, vector


@record(LONG, INT, LONG, LONG, INT)
class TxnHeader(NamedTuple):
    session_id: int
    cxid: int
    zxid: int
    time_ms: int
    type: int


@record(STRING, BUFFER, vector(type_of(ACL)), LONG, INT)
class CreateTxn(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    owner: int
    parent_cversion: int


@record(STRING)
class DeleteTxn(NamedTuple):
    path: str


@record(STRING, BUFFER, INT)
class SetDataTxn(NamedTuple):
    path: str
    data: bytes | None
    version: int


@record(STRING, vector(type_of(ACL)), INT)
class SetAclTxn(NamedTuple):
    path: str
    acl: tuple[ACL, ...]
    version: int


@record(STRING)
class CheckTxn(NamedTuple):
    path: str


@record(INT)
class CreateSessionTxn(NamedTuple):
    timeout_ms: int


@record(vector(STRING))
class CloseSessionTxn(NamedTuple):
    paths: list[str]


@record(INT)
class ErrorTxn(NamedTuple):
    """A write that failed: it changed nothing, but it used up its zxid."""

    code: int


class MultiTxn(NamedTuple):
    """Several operations at one zxid. Encoded as a count, then the type and body of each part."""

    parts: list[tuple[Op, "Body"]]


Body = (
    CreateTxn
    | DeleteTxn
    | SetDataTxn
    | SetAclTxn
    | CheckTxn
    | CreateSessionTxn
    | CloseSessionTxn
    | ErrorTxn
    | MultiTxn
)


class Txn(NamedTuple):
    header: TxnHeader
    body: Body


_BODY_CLASSES: dict[int, type] = {
    Op.CREATE: CreateTxn,
    Op.CREATE2: CreateTxn,
    Op.CREATE_CONTAINER: CreateTxn,
    Op.CREATE_TTL: CreateTxn,
    Op.DELETE: DeleteTxn,
    Op.DELETE_CONTAINER: DeleteTxn,
    Op.SET_DATA: SetDataTxn,
    Op.SET_ACL: SetAclTxn,
    Op.CHECK: CheckTxn,
    Op.CREATE_SESSION: CreateSessionTxn,
    Op.CLOSE_SESSION: CloseSessionTxn,
    Op.ERROR: ErrorTxn,
}


def encode_txn(txn: Txn) -> bytes:
    out = bytearray()
    jute.append(out, txn.header)
    if isinstance(txn.body, MultiTxn):
        INT.write(out, len(txn.body.parts))
        for op, part in txn.body.parts:
            INT.write(out, op)
            jute.append(out, part)
    else:
        jute.append(out, txn.body)
    return bytes(out)


def decode_txn(data: Buffer) -> Txn:
    """Raises ProtocolError for anything that `encode_txn` would not have written."""
    header, position = jute.decode_from(TxnHeader, data, 0)
    body: Body
    if header.type == Op.MULTI:
        body, position = _decode_multi(data, position)
    else:
        body, position = _decode_body(header.type, data, position)
    if position != len(data):
        raise ProtocolError(f"{len(data) - position} bytes behind a transaction")
    return Txn(header, body)


def _decode_multi(data: Buffer, position: int) -> tuple[MultiTxn, int]:
    (count,), position = jute.decode_from(jute.IntResponse, data, position)
    if not 0 <= count <= (len(data) - position) // 4:
        raise ProtocolError(f"a transaction of {count} parts")
    parts: list[tuple[Op, Body]] = []
    for _ in range(count):
        (kind,), position = jute.decode_from(jute.IntResponse, data, position)
        part, position = _decode_body(kind, data, position)
        parts.append((Op(kind), part))
    return MultiTxn(parts), position


def _decode_body(kind: int, data: Buffer, position: int) -> tuple[Body, int]:
    cls = _BODY_CLASSES.get(kind)
    if cls is None:
        raise ProtocolError(f"no transaction has type {kind}")
    body: Body
    body, position = jute.decode_from(cls, data, position)
    if isinstance(body, CreateTxn | SetAclTxn):
        body = body._replace(acl=tuple(body.acl or ()))
    return body, position
