"""Transactions that follow a fuzzy snapshot, made to fit the tree that it gave.

A JVM's leader writes the snapshot for a learner while it applies transactions, so that the snapshot
has some effects of transactions that come behind it once more. `DataTree.processTxn` ignores the
errors of these; our trees refuse what cannot be applied, so each is changed here into a transaction
with the same effect on a tree that has all, a part, or nothing of it:

- a create of a node that is there deletes it first; the transactions behind it, which come too,
  bring it to its later state;
- a delete of a node that is not there makes it first, so that its parent gets the zxid;
- a part whose node or parent is missing is left out, and so is one that would orphan children.

Mirrors: the handling of NODEEXISTS and NONODE in `DataTree.processTxn`.
"""

from ..protocol.zookeeper.constants import OPEN_ACL, Op
from .transactions import (
    Body,
    CheckTxn,
    CreateTxn,
    DeleteTxn,
    MultiTxn,
    SetAclTxn,
    SetDataTxn,
    Txn,
)
from .tree import DataTree, parent_of

Part = tuple[Op, Body]


def fitted(tree: DataTree, txn: Txn) -> Txn:
    """The transaction itself if it can be applied, else a multi with its effect."""
    header, body = txn
    given = body.parts if isinstance(body, MultiTxn) else [(Op(header.type), body)]
    view = _View(tree)
    parts = [fit for op, part in given for fit in view.fit(op, part)]
    if parts == given:
        return txn
    return Txn(header._replace(type=Op.MULTI), MultiTxn(parts))


class _View:
    """The nodes and counts of children of the tree with the parts so far."""

    __slots__ = ("_counts", "_there", "_tree")

    def __init__(self, tree: DataTree) -> None:
        self._tree = tree
        self._there: dict[str, bool] = {}
        self._counts: dict[str, int] = {}

    def fit(self, op: Op, part: Body) -> list[Part]:
        if isinstance(part, CreateTxn):
            return self._create(op, part)
        if isinstance(part, DeleteTxn):
            return self._delete(op, part)
        if isinstance(part, SetDataTxn | SetAclTxn | CheckTxn):
            return [(op, part)] if self._is_there(part.path) else []
        return [(op, part)]

    def _create(self, op: Op, part: CreateTxn) -> list[Part]:
        parent = parent_of(part.path)
        if not self._is_there(parent):
            return []
        if not self._is_there(part.path):
            self._set(part.path, there=True)
            return [(op, part)]
        if self._child_count(part.path):
            return []
        return [(Op.DELETE, DeleteTxn(part.path)), (op, part)]

    def _delete(self, op: Op, part: DeleteTxn) -> list[Part]:
        parent = parent_of(part.path)
        if not self._is_there(parent) or self._child_count(part.path):
            return []
        if self._is_there(part.path):
            self._set(part.path, there=False)
            return [(op, part)]
        node = self._tree.get(parent)
        cversion = node.cversion if node is not None else 0
        return [(Op.CREATE, CreateTxn(part.path, b"", OPEN_ACL, 0, cversion)), (op, part)]

    def _is_there(self, path: str) -> bool:
        known = self._there.get(path)
        return self._tree.get(path) is not None if known is None else known

    def _child_count(self, path: str) -> int:
        node = self._tree.get(path)
        children = len(node.children) if node is not None and node.children else 0
        return children + self._counts.get(path, 0)

    def _set(self, path: str, *, there: bool) -> None:
        self._there[path] = there
        parent = parent_of(path)
        self._counts[parent] = self._counts.get(parent, 0) + (1 if there else -1)
