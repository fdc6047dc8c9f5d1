"""The ensemble of ZooKeepers of a local cluster: each member's role, and how far it is.

A member is asked by the four-letter word `srvr`; one that is stopped or paused is not asked. A zxid
is a transaction: the epoch of its leader in the upper half, a number within the epoch in the lower.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ..local.cluster_state import NodeState, NodeStatus
from ..local.zookeeper_nodes import status_of
from .cluster_view import Happening

LEADER: Final = "leader"
COUNTER_BITS: Final = 32
COUNTER_MASK: Final = (1 << COUNTER_BITS) - 1


def member_row(node: NodeState) -> dict[str, Any] | None:
    """Role and position of a ZooKeeper; None for a broker. Blocks for a second at most."""
    if node.kind != "zookeeper":
        return None
    if node.status != NodeStatus.RUNNING:
        return {"mode": "", "epoch": 0, "counter": 0, "clients": 0, "znodes": 0}
    found = status_of(node.host, node.port)
    return {
        "mode": found.mode,
        "epoch": found.zxid >> COUNTER_BITS,
        "counter": found.zxid & COUNTER_MASK,
        "clients": found.connections,
        "znodes": found.nodes,
    }


def elections(before: Sequence[dict[str, Any]], after: Sequence[dict[str, Any]]) -> list[Happening]:
    """The members that lead now and did not before, and those that have lost their leader."""
    earlier = {row["name"]: row["zookeeper"] for row in before}
    found = []
    for row in after:
        now, then = row["zookeeper"], earlier.get(row["name"])
        if now is None or then is None or now["mode"] == then["mode"]:
            continue
        if now["mode"] == LEADER:
            found.append(Happening("leader", f"{row['name']} leads the ensemble of ZooKeepers"))
        elif not now["mode"] and row["status"] == NodeStatus.RUNNING:
            found.append(Happening("offline", f"{row['name']} has no leader and serves no clients"))
        elif now["mode"] and not then["mode"]:
            found.append(Happening("node", f"{row['name']} is a {now['mode']} of the ensemble"))
    return found
