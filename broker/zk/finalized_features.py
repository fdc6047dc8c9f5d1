"""The epoch of the cluster's finalized features, followed in ZooKeeper.

Job: know the version of /feature, which ApiVersions answers as the epoch of the finalized features
(-1: there is no such node).
Invariant: a watch is armed before the version is read, so no change is missed; a lost session
fires all watches, and the node is read again.

Mirrors Kafka's FinalizedFeatureChangeListener (KIP-584). Leaves out the features themselves: in
ZooKeeper mode brokers of 3.9 support none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ...protocol.zookeeper.operations import Exists, SessionExpired
from ...replication.controller import znodes

if TYPE_CHECKING:
    from .zookeeper import WatchKind
    from .zookeeper_client import ZooKeeperClient

SESSION_RETRY_SECONDS = 0.1


class FinalizedFeatures:
    __slots__ = ("_changed", "_client", "epoch")

    def __init__(self, client: ZooKeeperClient) -> None:
        self._client = client
        self._changed = trio.Event()
        self.epoch = -1

    async def follow(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep `epoch` up to date until cancelled; started once it has been read."""
        first = True
        while True:
            self._changed = trio.Event()
            try:
                look = Exists(znodes.FEATURE, watch=True)
                stat = (await self._client.execute_one(look, self._fired)).stat
            except SessionExpired:
                # On a machine that stands still for seconds; a new session is on its way.
                await trio.sleep(SESSION_RETRY_SECONDS)
                continue
            self.epoch = -1 if stat is None else stat.version
            if first:
                first = False
                task_status.started()
            await self._changed.wait()

    def _fired(self, _kind: WatchKind, _path: str) -> None:
        self._changed.set()
