"""ZooKeeper's tree, a znode at a time, as this broker may read it; secrets are left out.

Paths that Kafka protects (KIP-554, `ZkData.SensitiveRootPaths`) are not shown: credentials of
users, passwords in brokers' configs, tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.zookeeper.operations import Exists, GetChildren, GetData
from ..zk.zookeeper_security import is_sensitive

if TYPE_CHECKING:
    from ..zk.zookeeper_client import ZooKeeperClient

MOST_CHILDREN = 500
MOST_BYTES = 64 * 1024
HIDDEN = "hidden: secrets may be in it"


async def znode(zookeeper: ZooKeeperClient, path: str) -> dict[str, Any] | None:
    """A znode's children by name, its data as text, its versions; None if it does not exist."""
    found, children, data = await zookeeper.execute(
        [Exists(path), GetChildren(path), GetData(path)]
    )
    stat = found.stat
    if not found.ok or stat is None:
        return None
    content = data.data or b""
    text = HIDDEN if is_sensitive(path) else content[:MOST_BYTES].decode(errors="replace")
    return {
        "path": path,
        "data": text,
        "bytes": len(content),
        "version": stat.version,
        "children_version": stat.cversion,
        "created_ms": stat.ctime_ms,
        "created_by": hex(stat.czxid),
        "session": hex(stat.ephemeral_owner) if stat.ephemeral_owner else None,
        "child_count": stat.child_count,
        "children": list(children.children[:MOST_CHILDREN]) if children.ok else [],
    }
