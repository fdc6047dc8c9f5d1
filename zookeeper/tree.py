"""The znode tree: nodes by path, changed only by applying transactions.

Mirrors `DataTree` and `DataNode`. Invariants:
- every node but the root has a parent that lists it; "" and "/" are the same node (ZooKeeper's own
  way of saying that the parent of "/a" is "");
- `cversion` counts creations only (it numbers sequential children); clients see twice that minus
  the number of children, so that deletions count too;
- applying a transaction cannot fail: the request was checked before. Replay over a newer snapshot
  is never needed, because snapshots are taken between two transactions.

`apply` returns the changes in order, each with the ACL that decides which watchers may be notified.
"""

from typing import NamedTuple

from ..protocol.invariants import BrokenInvariant
from ..protocol.zookeeper.constants import (
    OPEN_ACL,
    READ_ONLY_ACL,
    EventType,
    OwnerKind,
    owner_kind,
)
from ..protocol.zookeeper.jute import Stat
from .acl import Acl
from .transactions import (
    Body,
    CloseSessionTxn,
    CreateTxn,
    DeleteTxn,
    MultiTxn,
    SetAclTxn,
    SetDataTxn,
    Txn,
    TxnHeader,
)

SPECIAL_PATHS = frozenset({"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"})


class Node:
    """One znode. `children` is None as long as there are none: most nodes are leaves."""

    __slots__ = (
        "acl",
        "aversion",
        "children",
        "ctime",
        "cversion",
        "czxid",
        "data",
        "mtime",
        "mzxid",
        "owner",
        "pzxid",
        "version",
    )

    def __init__(self, data: bytes | None, acl: Acl, owner: int, zxid: int, time_ms: int) -> None:
        self.data = data
        # Equal ACLs share one tuple, by `DataTree.intern_acl`.
        self.acl = acl
        # A session's id, or another kind of owner (see `owner_kind`); 0: no owner. Never changes.
        self.owner = owner
        # The zxids of the transactions that created it, last set its data, and last changed its
        # children.
        self.czxid = self.mzxid = self.pzxid = zxid
        self.ctime = self.mtime = time_ms
        self.version = self.cversion = self.aversion = 0
        self.children: dict[str, None] | None = None

    def stat(self) -> Stat:
        count = len(self.children) if self.children else 0
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            self.cversion * 2 - count,
            self.aversion,
            self.owner if owner_kind(self.owner) is OwnerKind.SESSION else 0,
            len(self.data) if self.data else 0,
            count,
            self.pzxid,
        )


class Change(NamedTuple):
    """One event for the watches: its type, its path, and the ACL of the node it names."""

    event: EventType
    path: str
    acl: Acl


def parent_of(path: str) -> str:
    """The parent in ZooKeeper's spelling: "" above "/a"."""
    return path[: path.rindex("/")]


class DataTree:
    __slots__ = ("_acls", "containers", "data_size", "ephemerals", "last_zxid", "nodes", "ttls")

    def __init__(self) -> None:
        root = Node(b"", OPEN_ACL, 0, 0, 0)
        # By path, parents before their children; the root is there twice.
        self.nodes: dict[str, Node] = {"": root, "/": root}
        # By session id; a session without any is not in it.
        self.ephemerals: dict[int, dict[str, None]] = {}
        self.containers: dict[str, None] = {}
        self.ttls: dict[str, None] = {}
        # The zxid of the last applied transaction; it only grows.
        self.last_zxid = 0
        # Bytes of all paths and data.
        self.data_size = len("/")
        self._acls: dict[Acl, Acl] = {OPEN_ACL: OPEN_ACL}
        for path in ("/zookeeper", "/zookeeper/config", "/zookeeper/quota"):
            self._link(path, Node(b"", OPEN_ACL, 0, 0, 0))
        config = self.nodes["/zookeeper/config"]
        config.acl, config.aversion = READ_ONLY_ACL, -1

    def get(self, path: str) -> Node | None:
        return self.nodes.get(path)

    @property
    def node_count(self) -> int:
        """The number of nodes as ZooKeeper counts: the root counts twice, as "" and as "/"."""
        return len(self.nodes)

    def all_children_count(self, path: str) -> int:
        if path == "/":
            return len(self.nodes) - 2
        prefix = path + "/"
        return sum(1 for other in self.nodes if other.startswith(prefix))

    def apply(self, txn: Txn) -> tuple[list[Change], list[Stat | None]]:
        """The changes, and for each part the stat of its node right after it (where it has one)."""
        header, body = txn
        if header.zxid <= self.last_zxid:
            raise BrokenInvariant(f"{header} is to follow zxid {self.last_zxid:#x}")
        changes: list[Change] = []
        stats: list[Stat | None] = []
        parts: list[Body] = [p for _, p in body.parts] if isinstance(body, MultiTxn) else [body]
        for part in parts:
            node = self._apply_part(part, header, changes)
            stats.append(node.stat() if node is not None else None)
        self.last_zxid = header.zxid
        return changes, stats

    def restore(self, path: str, node: Node) -> None:
        """Put a node of a snapshot in place; its parent is there already."""
        node.acl = self.intern_acl(node.acl)
        old = self.nodes.get(path)
        if old is not None:
            node.children = old.children
            self.data_size += len(node.data or b"") - len(old.data or b"")
            self.nodes[path] = node
            if path == "/":
                self.nodes[""] = node
        else:
            self._link(path, node)

    def intern_acl(self, acl: Acl) -> Acl:
        """The one tuple for all equal ACLs: a tree has few different ACLs."""
        return self._acls.setdefault(acl, acl)

    def _apply_part(self, part: Body, header: TxnHeader, changes: list[Change]) -> Node | None:
        if isinstance(part, CreateTxn):
            return self._create(part, header.zxid, header.time_ms, changes)
        if isinstance(part, SetDataTxn):
            node = self.nodes[part.path]
            self.data_size += len(part.data or b"") - len(node.data or b"")
            node.data = part.data
            node.version = part.version
            node.mzxid, node.mtime = header.zxid, header.time_ms
            changes.append(Change(EventType.DATA_CHANGED, part.path, node.acl))
            return node
        if isinstance(part, SetAclTxn):
            node = self.nodes[part.path]
            node.acl = self.intern_acl(part.acl)
            node.aversion = part.version
            return node
        if isinstance(part, DeleteTxn):
            self._delete(part.path, header.zxid, changes)
        elif isinstance(part, CloseSessionTxn):
            for path in part.paths:
                self._delete(path, header.zxid, changes)
        return None

    def _create(self, txn: CreateTxn, zxid: int, time_ms: int, changes: list[Change]) -> Node:
        parent_path = parent_of(txn.path)
        parent = self.nodes[parent_path]
        parent.cversion = txn.parent_cversion
        parent.pzxid = zxid
        acl = self.intern_acl(txn.acl)
        node = Node(txn.data, acl, txn.owner, zxid, time_ms)
        self._link(txn.path, node)
        changes.append(Change(EventType.CREATED, txn.path, acl))
        changes.append(Change(EventType.CHILDREN_CHANGED, parent_path or "/", parent.acl))
        return node

    def _link(self, path: str, node: Node) -> None:
        if path in self.nodes:
            raise BrokenInvariant(f"{path} is made, and is there")
        parent = self.nodes[parent_of(path)]
        if parent.children is None:
            parent.children = {}
        parent.children[path[path.rindex("/") + 1 :]] = None
        self.nodes[path] = node
        self.data_size += len(path) + len(node.data or b"")
        kind = owner_kind(node.owner)
        if kind is OwnerKind.SESSION:
            self.ephemerals.setdefault(node.owner, {})[path] = None
        elif kind is OwnerKind.CONTAINER:
            self.containers[path] = None
        elif kind is OwnerKind.TTL:
            self.ttls[path] = None

    def _delete(self, path: str, zxid: int, changes: list[Change]) -> None:
        node = self.nodes[path]
        if node.children:
            raise BrokenInvariant(f"{path} is deleted, and has {list(node.children)}")
        del self.nodes[path]
        parent_path = parent_of(path)
        parent = self.nodes[parent_path]
        assert parent.children is not None
        del parent.children[path[len(parent_path) + 1 :]]
        if not parent.children:
            parent.children = None
        parent.pzxid = zxid
        self.data_size -= len(path) + len(node.data or b"")
        kind = owner_kind(node.owner)
        if kind is OwnerKind.SESSION:
            owned = self.ephemerals[node.owner]
            del owned[path]
            if not owned:
                del self.ephemerals[node.owner]
        elif kind is OwnerKind.CONTAINER:
            del self.containers[path]
        elif kind is OwnerKind.TTL:
            del self.ttls[path]
        changes.append(Change(EventType.DELETED, path, node.acl))
        changes.append(Change(EventType.CHILDREN_CHANGED, parent_path or "/", parent.acl))
