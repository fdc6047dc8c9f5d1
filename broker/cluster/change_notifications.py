"""Changes that brokers tell each other through sequence nodes in ZooKeeper.

Job: whoever changes something that all brokers keep (configs, tokens) writes a sequence node whose
data says what; each broker watches the parent and is called with the data of new nodes, in order.
Old nodes are deleted after 15 minutes by whoever sees them first.
Invariants: a watch is armed before the nodes are read, so none is missed; a node is told once; what
is there at the start counts as told, since the caller loads everything after it.

Mirrors kafka.common.ZkNodeChangeNotificationListener.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import trio

from ...protocol.zookeeper.operations import Delete, GetChildren, GetData, SessionExpired
from ...replication.controller import znodes

if TYPE_CHECKING:
    from .zookeeper_client import WatchKind, ZooKeeperClient

logger = logging.getLogger(__name__)

CHANGE_EXPIRY_MS = 15 * 60 * 1000
SESSION_RETRY_SECONDS = 0.1

OnChanges: TypeAlias = Callable[[Sequence[bytes | None]], Awaitable[None]]


async def _nothing() -> None:
    """Everything is loaded already."""


class ChangeNotifications:
    """Those below one path."""

    __slots__ = ("_changed", "_client", "_last_change", "_path")

    def __init__(self, client: ZooKeeperClient, path: str) -> None:
        self._client = client
        self._path = path
        self._changed = trio.Event()
        self._last_change = -1

    async def follow(
        self,
        on_changes: OnChanges,
        clock: Callable[[], int],
        *,
        load: Callable[[], Awaitable[None]] = _nothing,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `on_changes` for what is new, until cancelled; `load` once before anything else."""
        first = True
        while True:
            self._changed = trio.Event()
            try:
                listing = await self._client.execute_one(
                    GetChildren(self._path, watch=True), self._fired
                )
                await self._process(listing.children, on_changes, clock(), quiet=first)
                if first:
                    await load()
            except SessionExpired:
                logger.info("Following %s goes on with a new ZooKeeper session", self._path)
                await trio.sleep(SESSION_RETRY_SECONDS)
                continue
            if first:
                first = False
                task_status.started()
            await self._changed.wait()

    def _fired(self, _kind: WatchKind, _path: str) -> None:
        self._changed.set()

    async def _process(
        self, children: Iterable[str], on_changes: OnChanges, now_ms: int, *, quiet: bool
    ) -> None:
        prefix = f"{self._path}/"
        pending = sorted((znodes.sequence_number(name), name) for name in children)
        fresh = [(number, name) for number, name in pending if number > self._last_change]
        if not fresh:
            return
        results = await self._client.execute([GetData(prefix + name) for _, name in fresh])
        self._last_change = fresh[-1][0]
        if not quiet:
            await on_changes([result.data for result in results if result.ok])
        expired = [
            Delete(prefix + name)
            for (_, name), result in zip(fresh, results, strict=True)
            if result.stat is not None and now_ms - result.stat.ctime_ms > CHANGE_EXPIRY_MS
        ]
        if expired:
            await self._client.execute(expired)
