"""The finalized features of the cluster and their epoch, followed in ZooKeeper.

Job: know the levels in /feature, which decide about the versions that this broker serves, and the
version of the node, which ApiVersions answers as their epoch (-1: there is no such node).
Invariants: a watch is armed before the node is read, so no change is missed; a lost session fires
all watches, and the node is read again; `on_change` is called after each change of the levels, and
once at the beginning if any feature is finalized.

Mirrors Kafka's FinalizedFeatureChangeListener (KIP-584): a broker that does not support a finalized
feature does not start. Unlike Kafka's, it goes on if that happens while it runs, which no
controller does, and says so in its log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from ...protocol.features import NOTHING_FINALIZED, SUPPORTED, Levels
from ...protocol.zookeeper.operations import Exists, GetData, ZkOperation, ZkResult
from ...replication.controller import znodes
from .registration import RegistrationError

if TYPE_CHECKING:
    from .zookeeper import WatchKind
    from .zookeeper_client import ZooKeeperClient

logger = logging.getLogger("pybroker.broker.zk.finalized_features")


class FinalizedFeatures:
    __slots__ = ("_changed", "_client", "epoch", "exist", "levels", "on_change")

    def __init__(self, client: ZooKeeperClient) -> None:
        self._client = client
        self._changed = trio.Event()
        self.epoch = -1
        self.levels: Levels = NOTHING_FINALIZED
        self.exist = trio.Event()  # /feature is there, and what it says is served
        self.on_change: Callable[[Levels], None] = lambda _levels: None

    async def follow(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Keep `levels` and `epoch` up to date until cancelled; started once they were read. Raises
        RegistrationError if this broker does not support them."""
        first = True
        while True:
            _, found = await self._client.over_sessions(self._look)
            self._take(-1 if found.stat is None else found.stat.version, found.data)
            if first:
                if problems := unsupported(self.levels):
                    raise RegistrationError("; ".join(problems))
                first = False
                task_status.started()
            await self._changed.wait()

    async def _look(self) -> list[ZkResult]:
        """The first one arms a watch even if there is no node."""
        self._changed = trio.Event()
        look: list[ZkOperation] = [Exists(znodes.FEATURE, watch=True), GetData(znodes.FEATURE)]
        return await self._client.execute(look, self._fired)

    def _take(self, epoch: int, data: bytes | None) -> None:
        self.epoch = epoch
        try:
            levels = NOTHING_FINALIZED if epoch < 0 else znodes.decode_features(data)
        except znodes.MalformedZnode as error:
            logger.error("%s; the features stay as they were: %s", error, dict(self.levels))
            return
        if levels != self.levels:
            self.levels = levels
            logger.info("Finalized features at epoch %d: %s", epoch, levels or "none")
            for problem in unsupported(levels):
                logger.error("%s", problem)
            self.on_change(levels)
        if epoch >= 0:
            self.exist.set()

    def _fired(self, _kind: WatchKind, _path: str) -> None:
        self._changed.set()


def unsupported(levels: Levels) -> list[str]:
    """What is finalized in the cluster and cannot be had from this broker."""
    return [
        f"the cluster has finalized {name} at level {level}, which this broker does not support "
        f"({'levels ' + '-'.join(map(str, SUPPORTED[name])) if name in SUPPORTED else 'unknown'})"
        for name, level in sorted(levels.items())
        if name not in SUPPORTED or level > SUPPORTED[name][1]
    ]
