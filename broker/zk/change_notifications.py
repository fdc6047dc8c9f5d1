"""Change notifications between brokers through sequence nodes in ZooKeeper.

Job: a broker that changes shared state (configs, tokens) writes a sequence node whose data names
the change; each broker watches the parent and is called with the data of new nodes, in order. A
broker that processes a new node deletes nodes that have been there for 15 minutes.
Invariants: a watch is armed before the nodes are read, so none is missed; a node is retried until
its changes are applied; nodes there at the start count as applied, since the caller loads
everything after it, and again after a lost session, during which nodes may have come and gone.

Mirrors kafka.common.ZkNodeChangeNotificationListener. Different: a node's age is the time for which
this broker has known it, by the monotonic clock. Kafka compares ZooKeeper's clock with its own:
where one of them is wrong, it deletes nodes that other brokers have not read yet.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

import trio

from ...protocol.zookeeper.operations import Delete, GetChildren, GetData, SessionExpired
from ...replication.controller import znodes
from .zookeeper import NEXT_SESSION_DELAY_MS

if TYPE_CHECKING:
    from .zookeeper import WatchKind
    from .zookeeper_client import ZooKeeperClient

logger = logging.getLogger("pybroker.broker.zk.change_notifications")

CHANGE_EXPIRY_MS = 15 * 60 * 1000

OnChanges: TypeAlias = Callable[[Sequence[bytes | None]], Awaitable[None]]


class ChangeNotifications:
    """The notifications below one path."""

    __slots__ = ("_applied", "_changed", "_client", "_last_change", "_path", "_seen_ms")

    def __init__(self, client: ZooKeeperClient, path: str) -> None:
        self._client = client
        self._path = path
        self._changed = trio.Event()
        self._last_change = -1
        self._applied = trio.Event()  # when the last change is another one
        self._seen_ms: dict[str, int] = {}  # by node: the time when it was first seen

    async def follow(
        self,
        on_changes: OnChanges,
        clock: Callable[[], int],
        *,
        load: Callable[[], Awaitable[None]] | None = None,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `on_changes` for new changes, until cancelled.

        `load`, which reads everything, comes first, and again in each new session.
        """
        first, loaded_in = True, -1
        while True:
            self._changed = trio.Event()
            session = self._client.session_generation
            loads = first or (load is not None and session != loaded_in)
            try:
                listing = await self._client.execute_one(
                    GetChildren(self._path, watch=True), self._fired
                )
                await self._process(listing.children, on_changes, clock(), quiet=loads)
                if load is not None and loads:
                    await load()
                loaded_in = session
            except SessionExpired:
                logger.info("Following %s continues with a new ZooKeeper session", self._path)
                await trio.sleep(NEXT_SESSION_DELAY_MS / 1000)
                continue
            if first:
                first = False
                task_status.started()
            await self._changed.wait()

    async def until_applied(self, number: int) -> None:
        """Wait until the change in the node of this sequence number is applied here."""
        while self._last_change < number:
            await self._applied.wait()

    def _fired(self, _kind: WatchKind, _path: str) -> None:
        self._changed.set()

    async def _process(
        self, children: Collection[str], on_changes: OnChanges, now_ms: int, *, quiet: bool
    ) -> None:
        prefix = f"{self._path}/"
        pending = sorted((znodes.sequence_number(name), name) for name in children)
        fresh = [(number, name) for number, name in pending if number > self._last_change]
        if not fresh:
            return
        results = await self._client.execute([GetData(prefix + name) for _, name in fresh])
        if not quiet:
            await on_changes([result.data for result in results if result.ok])
        self._last_change = fresh[-1][0]
        self._applied.set()
        self._applied = trio.Event()
        await self._delete_old(children, now_ms)

    async def _delete_old(self, children: Collection[str], now_ms: int) -> None:
        self._seen_ms = {name: self._seen_ms.get(name, now_ms) for name in children}
        expired = [
            name for name, at_ms in self._seen_ms.items() if now_ms - at_ms > CHANGE_EXPIRY_MS
        ]
        if expired:
            await self._client.execute([Delete(f"{self._path}/{name}") for name in expired])
