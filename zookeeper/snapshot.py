"""Snapshots: the whole tree and all sessions at one zxid, as bytes.

Taken between two transactions, so unlike ZooKeeper's a snapshot is never fuzzy: `capture` copies
references on the loop (data is immutable), `encode_snapshot` turns them into bytes in a thread.

File `snapshot.<zxid, 16 hex digits>`, big-endian:

    8 bytes magic "PYZKSNAP", uint32 format version, int64 zxid
    int32 count of sessions, each: int64 id, int32 timeout in ms
    int32 count of ACLs, each: a jute vector of ACL
    int32 count of nodes, parents first, each: jute path, jute data, int32 number of its ACL,
        int64 owner, czxid, mzxid, pzxid, ctime, mtime, int32 version, cversion, aversion
    uint32 CRC-32 of all before it
"""

import zlib
from collections.abc import Iterator, Mapping
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import NamedTuple

from ..protocol.errors import ProtocolError
from ..protocol.invariants import BrokenInvariant
from ..protocol.zookeeper.jute import ACL, BUFFER, INT, STRING, type_of, vector
from .acl import Acl
from .tree import DataTree, Node

FORMAT_VERSION = 1
CHUNK_BYTES = 256 * 1024

_MAGIC = b"PYZKSNAP"
_HEADER = Struct(">8sIq")
_SESSION = Struct(">qi")
_NODE = Struct(">iqqqqqqiii")
_CRC = Struct(">I")
_ACLS = vector(type_of(ACL))

NodeFields = tuple[str, bytes | None, Acl, int, int, int, int, int, int, int, int, int]


class Capture(NamedTuple):
    zxid: int
    sessions: dict[int, int]
    nodes: list[NodeFields]


def capture(tree: DataTree, sessions: Mapping[int, int]) -> Capture:
    """A copy of the current state, unaffected by later changes.

    A dict keeps the insertion order of its keys, so parents come before their children.
    """
    nodes = [
        (
            path,
            node.data,
            node.acl,
            node.owner,
            node.czxid,
            node.mzxid,
            node.pzxid,
            node.ctime,
            node.mtime,
            node.version,
            node.cversion,
            node.aversion,
        )
        for path, node in tree.nodes.items()
        if path  # "" is "/" once more
    ]
    return Capture(tree.last_zxid, dict(sessions), nodes)


def encode_snapshot(captured: Capture) -> Iterator[bytes]:
    """The file in pieces of about `CHUNK_BYTES`."""
    out = bytearray(_HEADER.pack(_MAGIC, FORMAT_VERSION, captured.zxid))
    INT.write(out, len(captured.sessions))
    for session_id, timeout_ms in captured.sessions.items():
        out += _SESSION.pack(session_id, timeout_ms)
    acls = {acl: index for index, acl in enumerate({fields[2]: None for fields in captured.nodes})}
    INT.write(out, len(acls))
    for acl in acls:
        _ACLS.write(out, acl)
    INT.write(out, len(captured.nodes))
    checksum = 0
    for path, data, acl, *numbers in captured.nodes:
        STRING.write(out, path)
        BUFFER.write(out, data)
        out += _NODE.pack(acls[acl], *numbers)
        if len(out) >= CHUNK_BYTES:
            checksum = zlib.crc32(out, checksum)
            yield bytes(out)
            out.clear()
    checksum = zlib.crc32(out, checksum)
    out += _CRC.pack(checksum)
    yield bytes(out)


def decode_snapshot(data: bytes) -> tuple[DataTree, dict[int, int]]:
    """The tree and the sessions (id to timeout). Raises ProtocolError if damaged or not ours."""
    if len(data) < _HEADER.size + _CRC.size:
        raise ProtocolError("it is cut short")
    magic, version, zxid = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise ProtocolError("it is not a snapshot of pybroker's ZooKeeper")
    if version != FORMAT_VERSION:
        raise ProtocolError(f"it has format {version}; this version reads {FORMAT_VERSION}")
    body = memoryview(data)[: -_CRC.size]
    if zlib.crc32(body) != _CRC.unpack_from(data, len(body))[0]:
        raise ProtocolError("its checksum is wrong")
    try:
        return _decode_body(body, zxid)
    except (StructError, LookupError, ValueError, BrokenInvariant) as error:
        raise ProtocolError(f"it does not parse: {error}") from error


def _decode_body(body: memoryview, zxid: int) -> tuple[DataTree, dict[int, int]]:
    position = _HEADER.size
    count, position = INT.read(body, position)
    sessions: dict[int, int] = {}
    for _ in range(count):
        session_id, timeout_ms = _SESSION.unpack_from(body, position)
        sessions[session_id] = timeout_ms
        position += _SESSION.size
    count, position = INT.read(body, position)
    acls: list[Acl] = []
    for _ in range(count):
        entries, position = _ACLS.read(body, position)
        acls.append(tuple(entries))
    tree = DataTree()
    count, position = INT.read(body, position)
    for _ in range(count):
        path, position = STRING.read(body, position)
        content, position = BUFFER.read(body, position)
        acl, owner, czxid, mzxid, pzxid, ctime, mtime, *versions = _NODE.unpack_from(body, position)
        position += _NODE.size
        node = Node(content, acls[acl], owner, czxid, ctime)
        node.mzxid, node.pzxid, node.mtime = mzxid, pzxid, mtime
        node.version, node.cversion, node.aversion = versions
        tree.restore(path, node)
    tree.last_zxid = zxid
    return tree, sessions
