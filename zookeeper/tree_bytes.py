"""The bytes of a whole state: sessions, ACLs, nodes, and the path "/" as their end.

The file of a snapshot has them (`snapshot_file`), and a leader sends them behind a SNAP packet,
there with a signature at the end.

Mirrors `SerializeUtils.serializeSnapshot`, `DataTree.serialize` and
`ReferenceCountedACLCache.serialize`. Nothing says how long it is, so the reader is a generator that
asks for bytes: `TreeReader.feed` gives it those that have arrived.

The snapshot of a JVM's leader is fuzzy: see `fuzzy`. Ours is that of one moment.
"""

from collections.abc import Generator, Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from ..protocol.errors import ProtocolError
from ..protocol.primitives import Buffer
from ..protocol.zookeeper import jute
from ..protocol.zookeeper.constants import OPEN_ACL
from ..protocol.zookeeper.jute import ACL, BUFFER, STRING, type_of, vector
from .acl import Acl
from .snapshot import Capture
from .tree import DataTree, Node, parent_of

SIGNATURE = "BenWasHere"
CHUNK_BYTES = 256 * 1024
OPEN_ACL_ID = -1  # `ZooDefs.Ids.OPEN_ACL_UNSAFE`, which no list of a snapshot names
MAX_STRING_BYTES = 16 * 1024 * 1024
MAX_COUNT = 1 << 31

_INT = Struct(">i")
_LONG = Struct(">q")
_SESSION = Struct(">qi")
_STAT = Struct(">qqqqiiiqq")
_NODE_END = Struct(">qqqqqiiiqqi")  # the ACL, the stat, and the length of the next path
_ACLS = vector(type_of(ACL))


class ReadTree(NamedTuple):
    tree: DataTree
    sessions: dict[int, int]


def encode_tree(captured: Capture, *, signed: bool = False) -> Iterator[bytes]:
    """In pieces of about `CHUNK_BYTES`; `signed`: for a SNAP packet."""
    out = bytearray(_INT.pack(len(captured.sessions)))
    for session_id, timeout_ms in captured.sessions.items():
        out += _SESSION.pack(session_id, timeout_ms)
    acls = {fields[2]: 0 for fields in captured.nodes}
    acls.pop(OPEN_ACL, None)
    ids = {acl: number for number, acl in enumerate(acls, 1)}
    out += _INT.pack(len(ids))
    for acl, number in ids.items():
        out += _LONG.pack(number)
        _ACLS.write(out, acl)
    ids[OPEN_ACL] = OPEN_ACL_ID
    for fields in captured.nodes:
        path, data, acl, owner, czxid, mzxid, pzxid, ctime, mtime, version, cver, aver = fields
        STRING.write(out, "" if path == "/" else path)
        BUFFER.write(out, data)
        out += _LONG.pack(ids[acl])
        out += _STAT.pack(czxid, mzxid, ctime, mtime, version, cver, aver, owner, pzxid)
        if len(out) >= CHUNK_BYTES:
            yield bytes(out)
            out.clear()
    STRING.write(out, "/")  # the end of the nodes
    if signed:
        STRING.write(out, SIGNATURE)
    yield bytes(out)


class TreeReader:
    """A snapshot out of a stream; `rest` has the bytes behind its end."""

    __slots__ = ("_buffer", "_generator", "_wanted", "received")

    def __init__(self, zxid: int, *, signed: bool = False) -> None:
        self._buffer = bytearray()
        self.received: ReadTree | None = None
        self._generator = _read(zxid, signed=signed)
        self._wanted = next(self._generator)

    def feed(self, data: Buffer) -> None:
        """Raises ProtocolError."""
        self._buffer += data
        position, size = 0, len(self._buffer)
        with memoryview(self._buffer) as buffer:
            while self.received is None and (end := position + self._wanted) <= size:
                piece = bytes(buffer[position:end])
                position = end
                try:
                    self._wanted = self._generator.send(piece)
                except StopIteration as result:
                    self.received = result.value
        del self._buffer[:position]

    def take_rest(self) -> bytes:
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest


_Read = Generator[int, bytes, ReadTree]


def _read(zxid: int, *, signed: bool) -> _Read:
    sessions: dict[int, int] = {}
    for _ in range((yield from _count())):
        session_id, timeout_ms = _SESSION.unpack((yield _SESSION.size))
        sessions[session_id] = timeout_ms
    acls: dict[int, Acl] = {OPEN_ACL_ID: OPEN_ACL}
    for _ in range((yield from _count())):
        (number,) = _LONG.unpack((yield 8))
        entries = []
        for _ in range((yield from _count())):
            perms = yield 4
            scheme = yield from _raw()
            name = yield from _raw()
            entries.append(jute.decode(ACL, perms + scheme + name))
        acls[number] = tuple(entries)
    tree = DataTree()
    (length,) = _INT.unpack((yield 4))
    while length != 1:  # "/": the root is "", and no other path has one character
        head = yield _checked(length) + 4
        try:
            path = head[:-4].decode()
        except UnicodeDecodeError as error:
            raise ProtocolError("a path of a snapshot is not UTF-8") from error
        (size,) = _INT.unpack_from(head, len(head) - 4)
        end = _checked(size)
        body = yield end + _NODE_END.size
        acl_id, *stat, length = _NODE_END.unpack_from(body, end)
        _add_node(tree, path, None if size < 0 else body[:end], acls.get(acl_id), stat)
    if (yield 1) != b"/":
        raise ProtocolError("the nodes of a snapshot end in another path")
    if signed and (signature := (yield from _string())) != SIGNATURE:
        raise ProtocolError(f"a snapshot ends in {signature!r}")
    tree.last_zxid = zxid
    return ReadTree(tree, sessions)


def _add_node(
    tree: DataTree, path: str, data: bytes | None, acl: Acl | None, stat: Sequence[int]
) -> None:
    czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = stat
    if acl is None:
        raise ProtocolError(f"{path} of a snapshot has an ACL that the snapshot lacks")
    if path and (not path.startswith("/") or tree.get(parent_of(path)) is None):
        raise ProtocolError(f"{path} of a snapshot has no parent")
    node = Node(data, acl, owner, czxid, ctime)
    node.mzxid, node.pzxid, node.mtime = mzxid, pzxid, mtime
    node.version, node.cversion, node.aversion = version, cversion, aversion
    tree.restore(path or "/", node)


def _count() -> Generator[int, bytes, int]:
    (count,) = _INT.unpack((yield 4))
    if not -1 <= count < MAX_COUNT:
        raise ProtocolError(f"a snapshot counts {count}")
    return max(0, int(count))


def _raw() -> Generator[int, bytes, bytes]:
    """A string or buffer with its length in front."""
    head = yield 4
    length = _checked(_INT.unpack(head)[0])
    return head + (yield length) if length else head


def _checked(length: int) -> int:
    if not -1 <= length <= MAX_STRING_BYTES:
        raise ProtocolError(f"a snapshot has a string of {length} bytes")
    return max(0, length)


def _string() -> Generator[int, bytes, str]:
    text, _ = STRING.read((yield from _raw()), 0)
    return text or ""
