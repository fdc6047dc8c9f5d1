"""The requests of clients: bodies read, reads answered, multi requests taken apart.

Mirrors the request side of `FinalRequestProcessor`, `MultiOperationRecord` and `MultiResponse`.
Functions here read the tree and set watches; changes of the tree go through `prepare` and the
machine.
"""

from collections.abc import Hashable, Sequence
from typing import Any

from ..protocol.errors import ProtocolError
from ..protocol.primitives import Buffer
from ..protocol.zookeeper import jute
from ..protocol.zookeeper.constants import (
    AddWatchMode,
    CreateMode,
    EventType,
    KeeperError,
    Op,
    Perm,
    WatcherType,
    ZkCode,
)
from ..protocol.zookeeper.jute import (
    CheckVersionRequest,
    ClientInfo,
    CreateRequest,
    CreateTTLRequest,
    DeleteRequest,
    GetACLResponse,
    GetChildren2Response,
    GetDataResponse,
    Id,
    IntResponse,
    MultiHeader,
    PathRequest,
    PathResponse,
    PathsResponse,
    PathWatchRequest,
    SetACLRequest,
    SetDataRequest,
    SetWatches,
    SetWatches2,
    StatResponse,
    WatchRequest,
    WhoAmIResponse,
)
from .acl import check_acl, user_name, without_digests
from .prepare import WriteRequest
from .tree import DataTree, Node
from .watches import RECURSIVE, Watches

WRITE_REQUESTS: dict[int, type] = {
    Op.CREATE: CreateRequest,
    Op.CREATE2: CreateRequest,
    Op.CREATE_CONTAINER: CreateRequest,
    Op.CREATE_TTL: CreateTTLRequest,
    Op.DELETE: DeleteRequest,
    Op.SET_DATA: SetDataRequest,
    Op.SET_ACL: SetACLRequest,
    Op.CHECK: CheckVersionRequest,
}
READ_REQUESTS: dict[int, type] = {
    Op.EXISTS: PathWatchRequest,
    Op.GET_DATA: PathWatchRequest,
    Op.GET_CHILDREN: PathWatchRequest,
    Op.GET_CHILDREN2: PathWatchRequest,
    Op.GET_ACL: PathRequest,
    Op.SYNC: PathRequest,
    Op.GET_ALL_CHILDREN_NUMBER: PathRequest,
    Op.GET_EPHEMERALS: PathRequest,
    Op.ADD_WATCH: WatchRequest,
    Op.CHECK_WATCHES: WatchRequest,
    Op.REMOVE_WATCHES: WatchRequest,
}
_MULTI_WRITES = frozenset(WRITE_REQUESTS) - {Op.SET_ACL}
_MULTI_READS = frozenset({Op.GET_CHILDREN, Op.GET_DATA})


def read_multi(body: Buffer, *, reads: bool) -> list[tuple[Op, Any]]:
    """The parts of a multi (or multiRead). Raises ProtocolError: a marshalling error."""
    kinds = _MULTI_READS if reads else _MULTI_WRITES
    parts: list[tuple[Op, Any]] = []
    header, position = jute.decode_from(MultiHeader, body, 0)
    while not header.done:
        if header.type not in kinds:
            raise ProtocolError(f"operation {header.type} in a multi request")
        op = Op(header.type)
        part_type = READ_REQUESTS[op] if reads else WRITE_REQUESTS[op]
        part: Any
        part, position = jute.decode_from(part_type, body, position)
        if part.path is None:
            raise ProtocolError("a path is null")
        if isinstance(part, CreateRequest) and part.flags not in CreateMode.__members__.values():
            raise ProtocolError(f"create mode {part.flags}")
        parts.append((op, part))
        header, position = jute.decode_from(MultiHeader, body, position)
    return parts


def multi_reply(results: Sequence[tuple[int, Sequence[object], int]]) -> list[object]:
    """The records of a MultiResponse from (type, body, error) of each part."""
    records: list[object] = []
    for kind, body, error in results:
        records.append(MultiHeader(kind, False, error))
        if kind == Op.ERROR:
            records.append(IntResponse(error))
        else:
            records += body
    records.append(MultiHeader(-1, True, -1))
    return records


class Reads:
    """Answers everything that changes no node. `watcher` is the connection that asks."""

    __slots__ = ("_tree", "_watches")

    def __init__(self, tree: DataTree, watches: Watches) -> None:
        self._tree = tree
        self._watches = watches

    def answer(
        self,
        op: int,
        body: Buffer,
        watcher: Hashable,
        session_id: int,
        identities: Sequence[Id],
    ) -> list[object]:
        """The body of the reply. Raises KeeperError, or ProtocolError for a malformed request."""
        if op == Op.MULTI_READ:
            return self._multi_read(body, identities)
        if op == Op.WHO_AM_I:
            return [WhoAmIResponse([ClientInfo(i.scheme, user_name(i)) for i in identities])]
        answer = self._answer(
            op, jute.decode(READ_REQUESTS[op], body), watcher, session_id, identities
        )
        return [] if answer is None else [answer]

    def _answer(
        self,
        op: int,
        request: Any,
        watcher: Hashable,
        session_id: int,
        identities: Sequence[Id],
    ) -> object | None:
        if op == Op.GET_EPHEMERALS:
            return self._ephemerals(request.path, session_id)
        if request.path is None:
            raise ProtocolError("a path is null")
        if isinstance(request, WatchRequest):
            return self._watch(op, request, watcher)
        if op == Op.SYNC:
            return PathResponse(request.path)
        if op == Op.EXISTS:
            return self._exists(request, watcher, identities)
        node = self._readable(request.path, op, identities)
        if op == Op.GET_ACL:
            return self._acl(node, identities)
        if op == Op.GET_ALL_CHILDREN_NUMBER:
            return IntResponse(self._tree.all_children_count(request.path))
        if op == Op.GET_DATA:
            if request.watch:
                self._watches.data.add(request.path, watcher)
            return GetDataResponse(node.data, node.stat())
        if request.watch:
            self._watches.children.add(request.path, watcher)
        children = list(node.children or ())
        if op == Op.GET_CHILDREN:
            return PathsResponse(children)
        return GetChildren2Response(children, node.stat())

    def set_watches(self, op: int, body: Buffer, watcher: Hashable) -> list[tuple[EventType, str]]:
        """Restore the watches of a reconnected client; returns the events that it missed."""
        missed: list[tuple[EventType, str]] = []
        request: Any = jute.decode(SetWatches if op == Op.SET_WATCHES else SetWatches2, body)
        since_zxid = request.relative_zxid
        tree, watches = self._tree, self._watches
        for path in request.data_watches or ():
            node = tree.get(path)
            if node is None:
                missed.append((EventType.DELETED, path))
            elif node.mzxid > since_zxid:
                missed.append((EventType.DATA_CHANGED, path))
            else:
                watches.data.add(path, watcher)
        for path in request.exist_watches or ():
            if tree.get(path) is not None:
                missed.append((EventType.CREATED, path))
            else:
                watches.data.add(path, watcher)
        for path in request.child_watches or ():
            node = tree.get(path)
            if node is None:
                missed.append((EventType.DELETED, path))
            elif node.pzxid > since_zxid:
                missed.append((EventType.CHILDREN_CHANGED, path))
            else:
                watches.children.add(path, watcher)
        if isinstance(request, SetWatches2):
            for path in request.persistent_watches or ():
                watches.add(path, watcher, AddWatchMode.PERSISTENT)
            for path in request.persistent_recursive_watches or ():
                watches.data.add(path, watcher, RECURSIVE)
        return missed

    def _readable(self, path: str, op: int, identities: Sequence[Id]) -> Node:
        node = self._tree.get(path)
        if node is None:
            raise KeeperError(ZkCode.NO_NODE)
        wanted = Perm.READ | Perm.ADMIN if op == Op.GET_ACL else Perm.READ
        check_acl(node.acl, wanted, identities)
        return node

    def _exists(
        self, request: PathWatchRequest, watcher: Hashable, identities: Sequence[Id]
    ) -> StatResponse:
        if "\0" in request.path:
            raise KeeperError(ZkCode.BAD_ARGUMENTS)
        node = self._tree.get(request.path)
        if node is not None:
            check_acl(node.acl, Perm.READ, identities)
        if request.watch:
            self._watches.data.add(request.path, watcher)
        if node is None:
            raise KeeperError(ZkCode.NO_NODE)
        return StatResponse(node.stat())

    @staticmethod
    def _acl(node: Node, identities: Sequence[Id]) -> GetACLResponse:
        try:
            check_acl(node.acl, Perm.ADMIN, identities)
        except KeeperError:
            return GetACLResponse(without_digests(node.acl), node.stat())
        return GetACLResponse(list(node.acl), node.stat())

    def _ephemerals(self, prefix: str | None, session_id: int) -> PathsResponse:
        paths = list(self._tree.ephemerals.get(session_id, ()))
        if prefix and prefix.strip() not in ("", "/"):
            paths = [path for path in paths if path.startswith(prefix)]
        return PathsResponse(paths)

    def _watch(self, op: int, request: WatchRequest, watcher: Hashable) -> IntResponse | None:
        if op == Op.ADD_WATCH:
            try:
                mode = AddWatchMode(request.kind)
            except ValueError as error:
                raise ProtocolError(f"watch mode {request.kind}") from error
            self._watches.add(request.path, watcher, mode)
            return IntResponse(0)
        try:
            kind = WatcherType(request.kind)
        except ValueError as error:
            raise ProtocolError(f"watcher type {request.kind}") from error
        if op == Op.CHECK_WATCHES:
            found = self._watches.has(request.path, watcher, kind)
        else:
            found = self._watches.remove(request.path, watcher, kind)
        if not found:
            raise KeeperError(ZkCode.NO_WATCHER)
        return None

    def _multi_read(self, body: Buffer, identities: Sequence[Id]) -> list[object]:
        results: list[tuple[int, list[object], int]] = []
        for op, part in read_multi(body, reads=True):
            try:
                node = self._readable(part.path, op, identities)
            except KeeperError as error:
                results.append((Op.ERROR, [], error.code))
                continue
            if op == Op.GET_DATA:
                results.append((op, [GetDataResponse(node.data, node.stat())], 0))
            else:
                results.append((op, [PathsResponse(list(node.children or ()))], 0))
        return multi_reply(results)


def read_write(op: int, body: Buffer) -> WriteRequest:
    request: WriteRequest = jute.decode(WRITE_REQUESTS[op], body)
    return request
