"""A consumer's membership by the consumer protocol (KIP-848): drives `EpochMembership`.

Heartbeats run in the consumer's nursery. Partitions are revoked and added in the application's
task, when it requests records (`before_poll`): callbacks, and a commit before partitions are given
up. So no partition is revoked while its records are being processed.

    heartbeat: another target -> before_poll: commit, revoke, add -> heartbeat: acknowledged

Invariant: a partition counts as revoked for the coordinator once its callback has ended and its
records are dropped.

Mirrors: AbstractMembershipManager's reconciliation. In Java it also commits before partitions are
only added.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Collection
from typing import Final
from uuid import uuid4

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..cluster import RETRY_BACKOFF_SECONDS
from ..errors import ClientError, LoginError, Refused
from .epoch_membership import EpochMembership, IdPartition
from .fetcher import now_ms
from .group_work import SILENCE_SECONDS, GroupWork
from .membership import Outcome
from .offset_requests import Member

NEWEST_HEARTBEAT: Final = 1
IDLE_SECONDS: Final = 1.0
SILENT_INTERVALS: Final = 2  # of heartbeats: then the coordinator is looked up again


def new_member_id() -> str:
    """A UUID in Kafka's text form. Not of `random`, which applications may seed."""
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")


class EpochMember:
    """See the module."""

    def __init__(self, work: GroupWork) -> None:
        options = work.options
        self.work = work
        self.membership = EpochMembership(
            work.group_id,
            new_member_id(),
            instance_id=options.group_instance_id,
            rack=options.rack,
            assignor=options.group_remote_assignor,
            max_poll_interval_ms=int(options.max_poll_interval_seconds * 1000),
        )
        self._names: dict[bytes, str] = {}  # of the topics of owned partitions
        self.generation = 0
        self._tell_subscription()

    @property
    def rebalances(self) -> int:
        return self.membership.rebalances

    @property
    def led_topics(self) -> set[str]:
        return set()

    def subscribed(self) -> None:
        """The subscription has changed."""
        self._tell_subscription()

    def _tell_subscription(self) -> None:
        self.membership.subscribe(self.work.topics, self.work.server_pattern)

    def on_metadata(self) -> None:
        """New partitions are the coordinator's affair; names of new topics are looked up again."""

    def member(self) -> Member | None:
        """The member that commits; None while it is none."""
        m = self.membership
        if not m.is_member:
            return None
        return Member(m.group_id, m.member_id, m.epoch, m.instance_id)

    # In the application's task

    async def before_poll(self) -> None:
        """Revoke and add partitions as the coordinator has decided. Raises ClientError for errors
        that a retry cannot resolve."""
        m = self.membership
        m.polled(now_ms())
        code = m.fatal or m.refused
        if code is not None:
            m.fatal = m.refused = None
            raise Refused(self._explained(code), code)
        if m.has_lost_partitions:
            work = self.work
            await work.release(list(work.positions), work.callbacks.on_lost, is_lost=True)
            self.generation += 1
            self._names = {}
            m.take_loss()
        m.join()
        if m.must_reconcile:
            await self._reconcile()
        if m.heartbeat_due_ms(now_ms()) == 0:
            self.work.bell.ring()

    def _explained(self, code: ErrorCode) -> str:
        work = self.work
        name = work.group_id
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            refusal = work.cluster.asks("describe", ", ".join(sorted(work.topics))).refusal(code)
        else:
            refusal = work.cluster.asks("read", name).refusal(code)
        text = self.membership.message or code.description
        return refusal or f"group {name!r}: {text} ({code.name})"

    async def _reconcile(self) -> None:
        m, work = self.membership, self.work
        target, owned = m.target, m.owned
        gone = owned - target
        if gone:
            await work.commit_before_rebalance()
            await work.release(self._named(gone), work.callbacks.on_revoked)
            self.generation += 1
        if not m.is_member or m.has_lost_partitions:  # meanwhile; the next call drops the rest
            return
        known = {topic_id: work.fetcher.view.name_of(topic_id) for topic_id, _ in target - owned}
        if None in known.values():
            work.fetcher.refresh_metadata()
        self._names |= {topic_id: name for topic_id, name in known.items() if name is not None}
        added = {place for place in target - owned if known[place[0]] is not None}
        if not gone and not added:
            return
        kept = owned & target
        work.positions.assign([*self._named(kept), *self._named(added)])
        m.reconciled(kept | added)
        work.fetcher.bell.ring()
        if work.callbacks.on_assigned is not None:
            await work.callbacks.on_assigned(self._named(added))

    def _named(self, places: Collection[IdPartition]) -> list[TopicPartition]:
        return sorted((self._names[topic_id], partition) for topic_id, partition in places)

    # In the nursery

    async def step(self) -> None:
        """Send the heartbeat that is due, or wait for the next."""
        m = self.membership
        now = now_ms()
        if m.poll_is_overdue(now):
            self.work.cluster.report(
                "the application has not asked for records for max_poll_interval_seconds: "
                f"the consumer leaves group {m.group_id!r} until it does"
            )
            await self.leave("the application is too slow")
        elif m.heartbeat_due_ms(now) == 0 and self._knows_topics():
            await self._attempt()
            self.work.fetcher.arrived.ring()
        due = m.heartbeat_due_ms(now_ms()) if self._knows_topics() else None
        await self.work.bell.wait(IDLE_SECONDS if due is None else min(due / 1000, IDLE_SECONDS))

    def _knows_topics(self) -> bool:
        return self.work.pattern is None or bool(self.work.fetcher.view.names)

    async def _attempt(self) -> None:
        """Send a heartbeat; after a failure, pause before the next."""
        work, m = self.work, self.membership
        try:
            outcome = await self._heartbeat()
        except (LoginError, Refused) as error:
            work.fetcher.failure = error
            outcome = Outcome.RETRY
        except ClientError as error:
            work.cluster.report(str(error))
            outcome = Outcome.FIND_COORDINATOR
        if outcome is Outcome.FIND_COORDINATOR:
            m.on_silence()
            work.forget_coordinator()
        if outcome in (Outcome.RETRY, Outcome.FIND_COORDINATOR):
            await trio.sleep(RETRY_BACKOFF_SECONDS)

    async def _heartbeat(self) -> Outcome:
        m = self.membership
        connection = await self.work.coordinator()
        asked = m.heartbeat_request(now_ms())
        if asked is None:
            return Outcome.IGNORED
        silence = SILENT_INTERVALS * m.heartbeat_interval_ms / 1000 or SILENCE_SECONDS
        with trio.move_on_after(min(silence, SILENCE_SECONDS)):
            answer = await connection.request(
                ApiKey.CONSUMER_GROUP_HEARTBEAT, asked, ConsumerGroupHeartbeatResponse,
                newest=NEWEST_HEARTBEAT,
            )  # fmt: skip
            return m.on_heartbeat(answer, asked)
        return Outcome.FIND_COORDINATOR

    def note_commit(self, code: ErrorCode) -> None:
        """Apply the consequences of a refused commit for the membership."""
        if self.membership.fail_commit(code) is Outcome.FIND_COORDINATOR:
            self.work.forget_coordinator()

    # Leaving

    async def leave(self, reason: str) -> None:
        """Leave the group, if it is a member or joins; errors are ignored."""
        request = self.membership.leave_request()
        if request is None:
            return
        try:
            connection = await self.work.coordinator()
            await connection.request(
                ApiKey.CONSUMER_GROUP_HEARTBEAT, request, ConsumerGroupHeartbeatResponse,
                newest=NEWEST_HEARTBEAT,
            )  # fmt: skip
        except ClientError as error:
            self.work.cluster.report(f"{reason}, but its coordinator does not know it: {error}")
        self.work.wake_all()

    def unsubscribed(self) -> None:
        """It has left, and all partitions are dropped."""
        self.generation += 1
        self._names = {}
        self.membership.take_loss()
