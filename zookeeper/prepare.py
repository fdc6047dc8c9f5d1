"""Turn a write request into a transaction, with every check that ZooKeeper makes, in its order.

Mirrors `PrepRequestProcessor`. Nothing is changed here: a multi is checked against an overlay in
which the effects of its earlier parts are noted, and an overlay that is dropped is the rollback.
The order of the checks decides which error a client sees, so it is kept.

Left out: quotas and reconfig.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ..protocol.zookeeper.constants import (
    CONTAINER_OWNER,
    MAX_TTL_MS,
    CreateMode,
    KeeperError,
    Op,
    OwnerKind,
    Perm,
    ZkCode,
    owner_kind,
    to_int32,
    ttl_owner,
)
from ..protocol.zookeeper.jute import (
    CheckVersionRequest,
    CreateRequest,
    CreateTTLRequest,
    DeleteRequest,
    Id,
    SetACLRequest,
    SetDataRequest,
)
from ..protocol.zookeeper.paths import path_is_valid
from .access import OPEN_ACCESS, Access
from .acl import Acl, check_acl, fix_acl
from .transactions import (
    Body,
    CheckTxn,
    CreateTxn,
    DeleteTxn,
    SetAclTxn,
    SetDataTxn,
)
from .tree import SPECIAL_PATHS, DataTree

WriteRequest = (
    CreateRequest
    | CreateTTLRequest
    | DeleteRequest
    | SetDataRequest
    | SetACLRequest
    | CheckVersionRequest
)


class Pending(NamedTuple):
    """The state of a node that the checks need."""

    version: int
    cversion: int
    aversion: int
    owner: int
    acl: Acl
    child_count: int


class Overlay:
    """The tree as it will be once the parts checked so far are applied."""

    __slots__ = ("_changes", "_tree")

    def __init__(self, tree: DataTree) -> None:
        self._tree = tree
        self._changes: dict[str, Pending | None] = {}

    def find(self, path: str) -> Pending | None:
        if path in self._changes:
            return self._changes[path]
        node = self._tree.get(path)
        if node is None:
            return None
        return Pending(
            node.version,
            node.cversion,
            node.aversion,
            node.owner,
            node.acl,
            len(node.children) if node.children else 0,
        )

    def get(self, path: str) -> Pending:
        found = self.find(path)
        if found is None:
            raise KeeperError(ZkCode.NO_NODE)
        return found

    def put(self, path: str, pending: Pending | None) -> None:
        self._changes[path] = pending


def prepare(
    op: int,
    request: WriteRequest,
    session_id: int,
    identities: Sequence[Id],
    overlay: Overlay,
    access: Access = OPEN_ACCESS,
) -> Body:
    """The transaction for one write, noted in the overlay. Raises KeeperError."""
    if request.path is None:
        raise KeeperError(ZkCode.MARSHALLING_ERROR)
    if isinstance(request, CreateRequest | CreateTTLRequest):
        return _create(op, request, session_id, identities, overlay, access)
    if isinstance(request, DeleteRequest):
        return _delete(request, identities, overlay)
    if isinstance(request, SetDataRequest):
        validate_path(request.path)
        node = overlay.get(request.path)
        check_acl(node.acl, Perm.WRITE, identities)
        version = _next_version(node.version, request.version)
        overlay.put(request.path, node._replace(version=version))
        return SetDataTxn(request.path, request.data, version)
    if isinstance(request, SetACLRequest):
        validate_path(request.path)
        acl = fix_acl(request.acl, identities, access.schemes)
        node = overlay.get(request.path)
        check_acl(node.acl, Perm.ADMIN, identities)
        version = _next_version(node.aversion, request.version)
        overlay.put(request.path, node._replace(aversion=version, acl=acl))
        return SetAclTxn(request.path, acl, version)
    validate_path(request.path)
    node = overlay.get(request.path)
    check_acl(node.acl, Perm.READ, identities)
    _next_version(node.version, request.version)
    return CheckTxn(request.path)


def _create(
    op: int,
    request: CreateRequest | CreateTTLRequest,
    session_id: int,
    identities: Sequence[Id],
    overlay: Overlay,
    access: Access,
) -> CreateTxn:
    path = request.path
    ttl_ms = request.ttl_ms if isinstance(request, CreateTTLRequest) else -1
    mode = _create_mode(request.flags, ttl_ms)
    if op == Op.CREATE_TTL and not mode.has_ttl:
        raise KeeperError(
            ZkCode.BAD_ARGUMENTS
        )  # ZooKeeper accepts it with a ttl of -1, and crashes
    parent_path = _parent_path(path)
    acl = fix_acl(request.acl, identities, access.schemes)
    parent = overlay.get(parent_path)
    check_acl(parent.acl, Perm.CREATE, identities)
    if mode.is_sequential:
        path = f"{path}{parent.cversion:010d}"
    validate_path(path)
    if overlay.find(path) is not None:
        raise KeeperError(ZkCode.NODE_EXISTS)
    if owner_kind(parent.owner) is OwnerKind.SESSION:
        raise KeeperError(ZkCode.NO_CHILDREN_FOR_EPHEMERALS)
    cversion = to_int32(parent.cversion + 1)
    if op == Op.CREATE_CONTAINER:
        owner = CONTAINER_OWNER
    elif op == Op.CREATE_TTL:
        owner = ttl_owner(ttl_ms)
    else:
        owner = session_id if mode.is_ephemeral else 0
    overlay.put(parent_path, parent._replace(cversion=cversion, child_count=parent.child_count + 1))
    overlay.put(path, Pending(0, 0, 0, owner, acl, 0))
    return CreateTxn(path, request.data, acl, owner, cversion)


def _create_mode(flags: int, ttl_ms: int) -> CreateMode:
    try:
        mode = CreateMode(flags)
    except ValueError:
        raise KeeperError(ZkCode.BAD_ARGUMENTS) from None
    ttl_is_valid = 0 < ttl_ms <= MAX_TTL_MS if mode.has_ttl else ttl_ms < 0
    if not ttl_is_valid:
        raise KeeperError(ZkCode.BAD_ARGUMENTS)
    return mode


def _delete(request: DeleteRequest, identities: Sequence[Id], overlay: Overlay) -> DeleteTxn:
    path = request.path
    parent_path = _parent_path(path)
    if path in SPECIAL_PATHS:
        raise KeeperError(ZkCode.BAD_ARGUMENTS)
    parent = overlay.get(parent_path)
    check_acl(parent.acl, Perm.DELETE, identities)
    node = overlay.get(path)
    _next_version(node.version, request.version)
    if node.child_count > 0:
        raise KeeperError(ZkCode.NOT_EMPTY)
    overlay.put(parent_path, parent._replace(child_count=parent.child_count - 1))
    overlay.put(path, None)
    return DeleteTxn(path)


def _next_version(current: int, expected: int) -> int:
    if expected not in (-1, current):
        raise KeeperError(ZkCode.BAD_VERSION)
    return to_int32(current + 1)


def _parent_path(path: str) -> str:
    slash = path.rfind("/")
    if slash == -1 or "\0" in path:
        raise KeeperError(ZkCode.BAD_ARGUMENTS)
    return path[:slash]


def validate_path(path: str) -> None:
    """The rules of `PathUtils.validatePath`. Raises BAD_ARGUMENTS."""
    if not path_is_valid(path):
        raise KeeperError(ZkCode.BAD_ARGUMENTS)
