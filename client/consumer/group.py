"""A consumer's membership in its group, by the protocol of its options or the cluster's.

The classic protocol (`classic_member`) and the consumer protocol of KIP-848 (`epoch_member`) have
the same callers: `before_poll` in the application's task, when it requests records, and `run` in
the consumer's nursery. Without `group_protocol` the first answer of the coordinator decides: the
consumer protocol where group.version is finalized, the classic one elsewhere, for consumers with
options that only the classic one has, and for groups that the coordinator keeps classic.

Invariant: the protocol is chosen once, before the first request of a membership; only a group that
refuses the consumer protocol to a member that it never had is asked again, by the classic one.

Mirrors: group.protocol of the Java client, which is classic unless it is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import trio

from ...protocol.errors import ErrorCode
from ...protocol.features import Feature
from ..cluster import RETRY_BACKOFF_SECONDS, Cluster
from ..errors import ClientError, LoginError, Refused
from .assignments import Assignor
from .classic_member import ClassicMember
from .epoch_member import EpochMember
from .fetcher import Fetcher, now_ms
from .group_work import Callbacks, GroupWork, SubscriptionPattern
from .membership import NO_GENERATION
from .offset_requests import Member
from .options import CLASSIC, CONSUMER, ConsumerOptions
from .positions import Positions
from .received import ReceivedBatch

# The coordinator keeps a group classic, or does not serve the consumer protocol after all.
_STAYS_CLASSIC: Final = frozenset(
    {
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
IDLE_SECONDS: Final = 1.0


class Group:
    """See the module."""

    def __init__(
        self,
        cluster: Cluster,
        options: ConsumerOptions,
        assignors: Sequence[Assignor],
        positions: Positions,
        fetcher: Fetcher[ReceivedBatch],
    ) -> None:
        self.work = GroupWork(cluster, options, positions, fetcher)
        self._assignors = assignors
        self.is_subscribed = False
        self._is_wanted = False  # records were requested
        self.side: ClassicMember | EpochMember | None = None  # None: not chosen yet
        if options.group_protocol is not None or options.has_classic_options:
            self._choose(options.group_protocol or CLASSIC)

    def _choose(self, protocol: str) -> EpochMember | ClassicMember:
        side: EpochMember | ClassicMember
        if protocol == CONSUMER:
            side = EpochMember(self.work)
        else:
            side = ClassicMember(self.work, self._assignors)
        self.side = side
        return side

    @property
    def group_id(self) -> str:
        return self.work.group_id

    @property
    def protocol(self) -> str | None:
        """The protocol in use; None: not chosen yet."""
        if self.side is None:
            return None
        return CONSUMER if isinstance(self.side, EpochMember) else CLASSIC

    @property
    def generation(self) -> int:
        """Grows whenever partitions are given up or lost: offsets of an earlier one are not
        committed."""
        return NO_GENERATION if self.side is None else self.side.generation

    @property
    def rebalances(self) -> int:
        return 0 if self.side is None else self.side.rebalances

    # Subscription

    def subscribe(
        self,
        topics: Iterable[str],
        pattern: re.Pattern[str] | SubscriptionPattern | None,
        callbacks: Callbacks,
    ) -> None:
        work = self.work
        if isinstance(pattern, SubscriptionPattern):
            if self.protocol == CLASSIC:
                raise ClientError("a SubscriptionPattern needs group_protocol='consumer'")
            work.server_pattern, work.pattern = pattern.pattern, None
            if self.side is None:
                self._choose(CONSUMER)
        else:
            work.server_pattern, work.pattern = None, pattern
        work.topics = frozenset(topics)
        work.callbacks = callbacks
        work.find_topics()
        if self.side is not None:
            self.side.subscribed()
            self.side.membership.polled(now_ms())
        self.is_subscribed = True
        work.bell.ring()
        work.fetcher.need_metadata()

    def wanted_topics(self) -> set[str] | None:
        """The topics whose metadata is needed; None: all."""
        work = self.work
        if work.pattern is not None or work.server_pattern is not None:
            return None
        return {*work.topics, *(self.side.led_topics if self.side is not None else ())}

    def on_metadata(self) -> None:
        """Check for new topics and partitions."""
        if not self.is_subscribed:
            return
        has_changed = self.work.find_topics()
        if self.side is not None:
            if has_changed:
                self.side.subscribed()
            self.side.on_metadata()
        self.work.wake_all()

    def member(self) -> Member:
        """The member that commits. Raises ClientError while it is none."""
        if not self.is_subscribed:
            return Member(self.group_id)
        member = None if self.side is None else self.side.member()
        if member is None:
            raise ClientError(
                f"this consumer is no member of group {self.group_id!r} now: poll for records"
            )
        return member

    def reader(self) -> Member:
        """The member that reads committed offsets: the coordinator checks those of the consumer
        protocol."""
        member = self.side.member() if isinstance(self.side, EpochMember) else None
        return Member(self.group_id) if member is None else member

    # In the application's task

    async def before_poll(self) -> None:
        """Revoke and add partitions as the group has decided. Raises ClientError for errors that a
        retry cannot resolve."""
        self._is_wanted = True
        if self.side is None:
            self.work.bell.ring()
            return
        if self._stays_classic():
            self._choose(CLASSIC)
        await self.side.before_poll()

    def _stays_classic(self) -> bool:
        side, options = self.side, self.work.options
        if not isinstance(side, EpochMember) or options.group_protocol is not None:
            return False
        if self.work.server_pattern is not None or side.membership.epoch or side.rebalances:
            return False
        return side.membership.fatal in _STAYS_CLASSIC

    # In the nursery

    async def run(self) -> None:
        """Join and send heartbeats until cancelled."""
        while True:
            if self.side is not None:
                await self.side.step()
            elif self.is_subscribed and self._is_wanted:
                await self._find_protocol()
            else:
                await self.work.bell.wait(IDLE_SECONDS)

    async def _find_protocol(self) -> None:
        """Choose by the features that the coordinator tells; after a failure, pause."""
        work = self.work
        try:
            connection = await work.coordinator()
        except ClientError as error:
            if isinstance(error, LoginError | Refused):
                work.fetcher.failure = error
            else:
                work.cluster.report(str(error))
                work.forget_coordinator()
            work.fetcher.arrived.ring()
            await trio.sleep(RETRY_BACKOFF_SECONDS)
            return
        if self.side is None:
            level = connection.features.get(Feature.GROUP, 0)
            side = self._choose(CONSUMER if level > 0 else CLASSIC)
            side.membership.polled(now_ms())
            work.wake_all()

    def note_commit(self, code: ErrorCode) -> None:
        """Apply the consequences of a refused commit for the membership."""
        if self.is_subscribed and self.side is not None:
            self.side.note_commit(code)
        self.work.wake_all()

    # Leaving

    async def revoke_all(self) -> None:
        """Revoke all partitions before the consumer leaves: its application may commit a last
        time."""
        await self.work.release(list(self.work.positions), self.work.callbacks.on_revoked)

    async def leave(self, reason: str) -> None:
        """Leave the group, if it is a member or joins; errors are ignored."""
        if self.side is not None:
            await self.side.leave(reason)

    async def unsubscribe(self) -> None:
        """Leave the group, and drop all partitions."""
        await self.revoke_all()
        await self.leave("the consumer unsubscribes")
        self.is_subscribed = self._is_wanted = False
        work = self.work
        work.topics, work.pattern, work.server_pattern = frozenset(), None, None
        if self.side is not None:
            self.side.unsubscribed()
