"""The whole tree and all sessions at one zxid, captured between two transactions.

So a snapshot of ours is never fuzzy, unlike ZooKeeper's: `capture` copies references on the loop
(data is immutable), and a thread makes bytes of them (`tree_bytes`, `snapshot_file`).
"""

from collections.abc import Mapping
from typing import NamedTuple

from .acl import Acl
from .tree import DataTree

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
