"""The ensemble of ZooKeepers of a test's cluster: its leader, and waiting for its members.

A member is asked by the four-letter word `srvr`. Invariant: an old leader that was cut off, and
does not know it yet, is not taken for the leader once a newer one serves.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..local.cluster_state import ClusterError, ClusterState, NodeStatus
from ..local.zookeeper_nodes import ZooKeeperStatus, status_of

POLL_SECONDS = 0.02
LEADING = frozenset({"leader", "standalone"})

State = Callable[[], ClusterState]


def leader_of(state: State, timeout: float) -> str:
    """The name of the ZooKeeper that leads. Raises ClusterError if there is none in time."""
    deadline = time.monotonic() + timeout
    while True:
        leaders = {name: one for name, one in _statuses(state()).items() if one.mode in LEADING}
        if leaders:
            return max(leaders, key=lambda name: leaders[name].zxid)
        if time.monotonic() > deadline:
            raise ClusterError(f"the ensemble has no leader after {timeout:g} s")
        time.sleep(POLL_SECONDS)


def wait_for_members(state: State, timeout: float) -> None:
    """Wait until one of the running members leads, and the others have its state."""
    deadline = time.monotonic() + timeout
    while True:
        found = _statuses(state())
        newest = max((one.zxid for one in found.values() if one.mode in LEADING), default=-1)
        late = [name for name, one in found.items() if not one.mode or one.zxid < newest]
        if not late and (newest >= 0 or not found):
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"{', '.join(late)} do not serve after {timeout:g} s")
        time.sleep(POLL_SECONDS)


def _statuses(state: ClusterState) -> dict[str, ZooKeeperStatus]:
    """The answers of the ZooKeepers that run, by name."""
    return {
        node.name: status_of(node.host, node.port)
        for node in state.nodes
        if node.kind == "zookeeper" and node.status == NodeStatus.RUNNING
    }
