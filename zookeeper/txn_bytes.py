"""The bytes of transactions: in the log, and in the proposals of an ensemble's leader.

Mirrors `org.apache.zookeeper.txn` and `SerializeUtils.deserializeTxn`: a header, the record of the
transaction's type, and optionally a digest of the tree, which is skipped. `transactions` and these
bytes hold the same facts; only a close of a session may come without the paths that it deletes: the
tree has them (`close_session_in`).

Leaves out: the creates of ZooKeeper before 3.4 (without the `cversion` of the parent), and digests
in what we write: who reads none compares none.
"""

from typing import NamedTuple

from ..protocol.errors import ProtocolError
from ..protocol.primitives import Buffer
from ..protocol.zookeeper import jute
from ..protocol.zookeeper.constants import (
    CONTAINER_OWNER,
    OPEN_ACL,
    Op,
    OwnerKind,
    owner_kind,
    owner_ttl_ms,
    ttl_owner,
)
from ..protocol.zookeeper.jute import (
    ACL,
    BOOLEAN,
    BUFFER,
    INT,
    LONG,
    STRING,
    record,
    type_of,
    vector,
)
from .transactions import (
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
from .tree import DataTree

_ACLS = vector(type_of(ACL))
_DIGEST_SIZE, _DIGEST_VERSION = 12, 2
_OPEN_ACL_BYTES = bytearray()
_ACLS.write(_OPEN_ACL_BYTES, OPEN_ACL)  # nearly all nodes have it


@record(STRING, BUFFER, _ACLS, BOOLEAN, INT)
class _Create(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    is_ephemeral: bool
    parent_cversion: int


@record(STRING, BUFFER, _ACLS, INT, LONG)
class _CreateTtl(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    parent_cversion: int
    ttl_ms: int


@record(STRING, BUFFER, _ACLS, INT)
class _CreateContainer(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    parent_cversion: int


@record(STRING, INT)
class _Check(NamedTuple):
    path: str
    version: int


@record(INT, BUFFER)
class _Part(NamedTuple):
    type: int
    data: bytes | None


@record(vector(type_of(_Part)))
class _Multi(NamedTuple):
    parts: list[_Part]


_SAME: dict[int, type] = {
    Op.DELETE: DeleteTxn,
    Op.DELETE_CONTAINER: DeleteTxn,
    Op.SET_DATA: SetDataTxn,
    Op.RECONFIG: SetDataTxn,
    Op.SET_ACL: SetAclTxn,
    Op.CREATE_SESSION: CreateSessionTxn,
    Op.CLOSE_SESSION: CloseSessionTxn,
    Op.ERROR: ErrorTxn,
}


def encode_txn(txn: Txn) -> bytes:
    """A record of the log; the data of a PROPOSAL or INFORM."""
    out = bytearray()
    header, body = txn
    if isinstance(body, CreateTxn):
        kind = _create_type(header.type, body)
        jute.append(out, header if kind == header.type else header._replace(type=kind))
        _append_create(out, kind, body)
        return bytes(out)
    jute.append(out, header)
    if isinstance(body, MultiTxn):
        jute.append(out, _Multi([_encoded_part(op, part) for op, part in body.parts]))
    else:
        jute.append(out, body)
    return bytes(out)


def _encoded_part(op: Op, part: Body) -> _Part:
    if isinstance(part, CreateTxn):
        kind, out = _create_type(op, part), bytearray()
        _append_create(out, kind, part)
        return _Part(kind, bytes(out))
    return _Part(op, jute.encode(_Check(part.path, -1) if isinstance(part, CheckTxn) else part))


def _append_create(out: bytearray, kind: int, body: CreateTxn) -> None:
    STRING.write(out, body.path)
    BUFFER.write(out, body.data)
    if body.acl == OPEN_ACL:
        out += _OPEN_ACL_BYTES
    else:
        _ACLS.write(out, body.acl)
    if kind in (Op.CREATE, Op.CREATE2):
        BOOLEAN.write(out, owner_kind(body.owner) is OwnerKind.SESSION)
    INT.write(out, body.parent_cversion)
    if kind == Op.CREATE_TTL:
        LONG.write(out, owner_ttl_ms(body.owner))


def decode_txn(data: Buffer) -> Txn:
    """Raises ProtocolError."""
    header, position = jute.decode_from(TxnHeader, data, 0)
    if header.type == Op.MULTI:
        multi, _ = jute.decode_from(_Multi, data, position)
        parts: list[tuple[Op, Body]] = []
        for kind, content in multi.parts or ():
            parts.append(_decode_part(kind, content or b"", header.session_id))
        return Txn(header, _failed(parts))
    if header.type == Op.CLOSE_SESSION and _names_no_paths(data, position):
        return Txn(header, CloseSessionTxn([]))
    return Txn(header, _body(header.type, data, position, header.session_id))


def _names_no_paths(data: Buffer, position: int) -> bool:
    """Whether a close of a session is only a header, with or without a digest of the tree."""
    size = len(data) - position
    return size == 0 or (size == _DIGEST_SIZE and INT.read(data, position)[0] == _DIGEST_VERSION)


def close_session_in(tree: DataTree, txn: Txn) -> Txn:
    """A close of a session deletes the ephemeral nodes that the session has, named or not."""
    if not isinstance(txn.body, CloseSessionTxn):
        return txn
    owned = list(tree.ephemerals.get(txn.header.session_id, ()))
    return txn._replace(body=CloseSessionTxn(owned))


def _failed(parts: list[tuple[Op, Body]]) -> MultiTxn:
    """A multi with a failed part changes nothing: all its parts are errors, those before it OK."""
    if not any(op is Op.ERROR for op, _ in parts):
        return MultiTxn(parts)
    return MultiTxn(
        [(Op.ERROR, part if isinstance(part, ErrorTxn) else ErrorTxn(0)) for _, part in parts]
    )


def _decode_part(kind: int, content: bytes, session_id: int) -> tuple[Op, Body]:
    if kind == Op.CHECK:
        return Op.CHECK, CheckTxn(jute.decode(_Check, content).path)
    body = _body(kind, content, 0, session_id)
    return Op(kind), body


def _body(kind: int, data: Buffer, position: int, session_id: int) -> Body:
    if kind in (Op.CREATE, Op.CREATE2):
        create = jute.decode(_Create, data, position)
        owner = session_id if create.is_ephemeral else 0
        return _create_txn(create.path, create.data, create.acl, owner, create.parent_cversion)
    if kind == Op.CREATE_TTL:
        ttl = jute.decode(_CreateTtl, data, position)
        if not 0 < ttl.ttl_ms < 1 << 40:
            raise ProtocolError(f"a node with a time to live of {ttl.ttl_ms} ms")
        owner = ttl_owner(ttl.ttl_ms)
        return _create_txn(ttl.path, ttl.data, ttl.acl, owner, ttl.parent_cversion)
    if kind == Op.CREATE_CONTAINER:
        made = jute.decode(_CreateContainer, data, position)
        return _create_txn(made.path, made.data, made.acl, CONTAINER_OWNER, made.parent_cversion)
    cls = _SAME.get(kind)
    if cls is None:
        raise ProtocolError(f"no transaction has type {kind}")
    body: Body = jute.decode(cls, data, position)
    if isinstance(body, SetAclTxn):
        return body._replace(acl=tuple(body.acl or ()))
    return body


def _create_txn(
    path: str, data: bytes | None, acl: tuple[ACL, ...], owner: int, parent_cversion: int
) -> CreateTxn:
    return CreateTxn(path, data, tuple(acl or ()), owner, parent_cversion)


def _create_type(kind: int, body: CreateTxn) -> int:
    """The operation that gives a node this owner."""
    owner = owner_kind(body.owner)
    if owner is OwnerKind.CONTAINER:
        return Op.CREATE_CONTAINER
    if owner is OwnerKind.TTL:
        return Op.CREATE_TTL
    return kind
