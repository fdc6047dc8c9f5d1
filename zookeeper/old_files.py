"""The files of a ZooKeeper of ours from before it had the format of Apache ZooKeeper: only read.

They lie in the data directory itself; the next start writes what is in them anew.

    log.<zxid, 16 hex digits>: 16 bytes header, then records: uint32 length, uint32 CRC-32, a
        transaction: a header, then a body; a multi is a count, then the type and body of each part
    snapshot.<zxid, 16 hex digits>: 8 bytes magic, uint32 format, int64 zxid; sessions, ACLs, nodes;
        uint32 CRC-32 of all before it. With `.whole` behind its name it is all that counts.

A torn record at the end of the newest log is no transaction; other damage is an error.
"""

import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from ..protocol.errors import ProtocolError
from ..protocol.primitives import Buffer
from ..protocol.zookeeper import jute
from ..protocol.zookeeper.constants import Op
from ..protocol.zookeeper.jute import ACL, BUFFER, INT, LONG, STRING, record, type_of, vector
from .acl import Acl
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
from .tree import DataTree, Node

_NAME = re.compile(r"(?:log|snapshot)\.([0-9a-f]{16})(?:\.whole)?")
_LOG_HEADER = b"PYZKLOG\n\0\0\0\1U74H"
_SNAPSHOT_MAGIC = b"PYZKSNAP\0\0\0\1"
_RECORD = Struct(">II")
_SESSION = Struct(">qi")
_NODE = Struct(">iqqqqqqiii")
_ACLS = vector(type_of(ACL))


@record(STRING, BUFFER, vector(type_of(ACL)), LONG, INT)
class _Create(NamedTuple):
    path: str
    data: bytes | None
    acl: tuple[ACL, ...]
    owner: int
    parent_cversion: int


@record(STRING)
class _Check(NamedTuple):
    path: str


_BODIES: dict[int, type] = {
    Op.CREATE: _Create,
    Op.CREATE2: _Create,
    Op.CREATE_CONTAINER: _Create,
    Op.CREATE_TTL: _Create,
    Op.DELETE: DeleteTxn,
    Op.DELETE_CONTAINER: DeleteTxn,
    Op.SET_DATA: SetDataTxn,
    Op.SET_ACL: SetAclTxn,
    Op.CHECK: _Check,
    Op.CREATE_SESSION: CreateSessionTxn,
    Op.CLOSE_SESSION: CloseSessionTxn,
    Op.ERROR: ErrorTxn,
}


def old_files(names: Sequence[str]) -> list[str]:
    """The logs and snapshots among them."""
    return [name for name in names if _NAME.fullmatch(name)]


def read_old_files(
    names: Sequence[str], read: Callable[[str], bytes]
) -> tuple[DataTree, dict[int, int]]:
    """The tree and the sessions (id to timeout). Raises ProtocolError."""
    by_zxid = sorted(old_files(names), key=_zxid_of)
    whole = [name for name in by_zxid if name.endswith(".whole")]
    snapshots = whole or [name for name in by_zxid if name.startswith("snapshot.")]
    tree, sessions = DataTree(), dict[int, int]()
    for name in reversed(snapshots):
        with suppress(ProtocolError):  # the logs may have it all
            tree, sessions = _snapshot(read(name))
            break
    logs = [] if whole else [name for name in by_zxid if name.startswith("log.")]
    for name, following in zip(logs, [*logs[1:], None], strict=bool(logs)):
        if following is not None and _zxid_of(following) <= tree.last_zxid + 1:
            continue
        for position, txn in _transactions(name, read(name), is_newest=following is None):
            zxid, last = txn.header.zxid, tree.last_zxid
            if zxid <= last:
                continue
            is_first = zxid & 0xFFFF_FFFF == 1 and zxid >> 32 > last >> 32
            if zxid != last + 1 and not is_first:
                raise ProtocolError(f"{name}, byte {position}: {zxid:#x} follows {last:#x}")
            tree.apply(txn)
            if isinstance(txn.body, CreateSessionTxn):
                sessions[txn.header.session_id] = txn.body.timeout_ms
            elif isinstance(txn.body, CloseSessionTxn):
                sessions.pop(txn.header.session_id, None)
    if snapshots and tree.last_zxid < _zxid_of(snapshots[-1]):
        raise ProtocolError(f"{snapshots[-1]} is damaged, and the logs end before it")
    return tree, sessions


def _zxid_of(name: str) -> int:
    return int(name.split(".")[1], 16)


def _transactions(name: str, data: bytes, *, is_newest: bool) -> list[tuple[int, Txn]]:
    if len(data) >= len(_LOG_HEADER) and not data.startswith(_LOG_HEADER):
        raise ProtocolError(f"{name}, byte 0: it is no log")
    found: list[tuple[int, Txn]] = []
    position = len(_LOG_HEADER)
    while (payload := _payload(data, position)) is not None:
        found.append((position, _transaction(payload)))
        position += _RECORD.size + len(payload)
    is_torn = position < len(data)
    if is_torn and not (
        is_newest and all(_payload(data, at) is None for at in range(position, len(data)))
    ):
        raise ProtocolError(f"{name}, byte {position}: it is damaged")
    return found


def _payload(data: bytes, position: int) -> bytes | None:
    if position + _RECORD.size > len(data):
        return None
    length, checksum = _RECORD.unpack_from(data, position)
    start = position + _RECORD.size
    if length == 0 or start + length > len(data):
        return None
    payload = data[start : start + length]
    return payload if zlib.crc32(payload) == checksum else None


def _transaction(data: Buffer) -> Txn:
    header, position = jute.decode_from(TxnHeader, data, 0)
    if header.type != Op.MULTI:
        return Txn(header, _body(header.type, data, position)[0])
    count, position = INT.read(data, position)
    parts: list[tuple[Op, Body]] = []
    for _ in range(count):
        kind, position = INT.read(data, position)
        body, position = _body(kind, data, position)
        parts.append((Op(kind), body))
    return Txn(header, MultiTxn(parts))


def _body(kind: int, data: Buffer, position: int) -> tuple[Body, int]:
    cls = _BODIES.get(kind)
    if cls is None:
        raise ProtocolError(f"no transaction has type {kind}")
    body: Body | _Create | _Check
    body, position = jute.decode_from(cls, data, position)
    if isinstance(body, _Create | SetAclTxn):
        body = body._replace(acl=tuple(body.acl))
    if isinstance(body, _Create):
        return CreateTxn(*body), position
    return (CheckTxn(body.path) if isinstance(body, _Check) else body), position


def _snapshot(data: bytes) -> tuple[DataTree, dict[int, int]]:
    checksum = zlib.crc32(data[:-4]).to_bytes(4, "big")
    if not data.startswith(_SNAPSHOT_MAGIC) or data[-4:] != checksum:
        raise ProtocolError("it is damaged")
    zxid, position = LONG.read(data, len(_SNAPSHOT_MAGIC))
    count, position = INT.read(data, position)
    sessions: dict[int, int] = {}
    for _ in range(count):
        session_id, timeout_ms = _SESSION.unpack_from(data, position)
        sessions[session_id] = timeout_ms
        position += _SESSION.size
    count, position = INT.read(data, position)
    acls: list[Acl] = []
    for _ in range(count):
        entries, position = _ACLS.read(data, position)
        acls.append(tuple(entries))
    tree = DataTree()
    count, position = INT.read(data, position)
    for _ in range(count):
        path, position = STRING.read(data, position)
        content, position = BUFFER.read(data, position)
        acl, owner, czxid, mzxid, pzxid, ctime, mtime, *versions = _NODE.unpack_from(data, position)
        position += _NODE.size
        node = Node(content, acls[acl], owner, czxid, ctime)
        node.mzxid, node.pzxid, node.mtime = mzxid, pzxid, mtime
        node.version, node.cversion, node.aversion = versions
        tree.restore(path, node)
    tree.last_zxid = zxid
    return tree, sessions
