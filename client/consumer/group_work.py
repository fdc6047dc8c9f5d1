"""The parts of a consumer's membership that all group protocols share: subscription, callbacks, the
release of partitions, and the connection to the coordinator.

Invariant: partitions are dropped once their callback has ended, and kept if it fails.

Mirrors: SubscriptionState and the callers of ConsumerRebalanceListener in the Java client.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import trio

from ...protocol.topics import INTERNAL_TOPICS, TopicPartition
from ..cluster import Cluster, CoordinatorKind
from ..connection import Connection
from .background import Bell
from .fetcher import Fetcher
from .options import ConsumerOptions
from .positions import Positions
from .received import ReceivedBatch

SILENCE_SECONDS: Final = 10.0  # of a heartbeat: then the coordinator is looked up again

Callback = Callable[[list[TopicPartition]], Awaitable[None]]


class Callbacks(NamedTuple):
    """The callbacks of an application; each is called with the partitions concerned."""

    on_assigned: Callback | None = None
    on_revoked: Callback | None = None  # still owned: the last chance to commit
    on_lost: Callback | None = None  # others may own them; None: `on_revoked` is called


@dataclass(frozen=True)
class SubscriptionPattern:
    """A regular expression in the language of RE2, which the coordinator evaluates (KIP-848)."""

    pattern: str


class GroupWork:
    """See the module."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        positions: Positions,
        fetcher: Fetcher[ReceivedBatch],
    ) -> None:
        assert options.group_id is not None
        self.group_id = options.group_id
        self.cluster = cluster
        self.purpose = cluster.new_purpose("group")
        self.options = options
        self.positions = positions
        self.fetcher = fetcher
        self.commit_before_rebalance: Callable[[], Awaitable[None]] = trio.lowlevel.checkpoint
        self.bell = Bell()
        self.topics: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self.server_pattern: str | None = None
        self.callbacks = Callbacks()
        self.on_gone: Callable[[list[TopicPartition]], None] = lambda _partitions: None

    def find_topics(self) -> bool:
        """Find the known topics that match the pattern; whether they are others than before."""
        if self.pattern is None:
            return False
        names = [name for name in self.fetcher.view.names if name not in INTERNAL_TOPICS]
        found = frozenset(name for name in names if self.pattern.fullmatch(name))
        has_changed, self.topics = found != self.topics, found
        return has_changed

    def wake_all(self) -> None:
        self.bell.ring()
        self.fetcher.arrived.ring()

    async def release(
        self, partitions: list[TopicPartition], callback: Callback | None, *, is_lost: bool = False
    ) -> None:
        """Call the callback, then drop the partitions; if it raises or is cancelled they are
        kept."""
        if not partitions:
            return
        if is_lost:
            callback = callback or self.callbacks.on_revoked
        self.positions.mark_revoked(partitions, True)
        try:
            if callback is not None:
                await callback(partitions)
        except BaseException:
            self.positions.mark_revoked(partitions, False)
            raise
        self.positions.drop(partitions)
        self.on_gone(partitions)

    async def coordinator(self) -> Connection:
        """The coordinator, over a connection of our own: a join waits for all members. Raises
        ClientError."""
        return await self.cluster.coordinator(CoordinatorKind.GROUP, self.group_id, self.purpose)

    def forget_coordinator(self) -> None:
        self.cluster.forget_coordinator(CoordinatorKind.GROUP, self.group_id)
