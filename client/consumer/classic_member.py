"""A consumer's membership by the classic protocol: drives `Membership` in the consumer's nursery.

Visible changes happen in the application's task, when it requests records (`before_poll`):
callbacks, and partitions added or removed. Slow work happens in the background meanwhile:
JoinGroup, SyncGroup and heartbeats. So a cancelled poll cancels no rebalance, and no partition is
revoked while its records are being processed.

    needs_rejoin -> before_poll: commit, revoke -> run: join, assign (as leader), sync
                 -> before_poll: take the assignment

Eager: all partitions are revoked before a join. Cooperative (if all assignors are): only partitions
that go to other members are revoked, after which the member joins again (KIP-429).

Mirrors: ConsumerCoordinator and AbstractCoordinator of the Java client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio

from ...protocol.api import ApiKey
from ...protocol.apis.heartbeat import HeartbeatResponse
from ...protocol.apis.join_group import JoinGroupResponse
from ...protocol.apis.leave_group import LeaveGroupResponse
from ...protocol.apis.sync_group import SyncGroupResponse
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.topics import TopicPartition
from ..cluster import RETRY_BACKOFF_SECONDS
from ..errors import ClientError, LoginError, Refused
from .assignments import (
    Assignor,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from .fetcher import now_ms
from .group_work import SILENCE_SECONDS, GroupWork
from .membership import Membership, Outcome, State
from .offset_requests import Member
from .topics_view import TopicsView

JOIN_GRACE_SECONDS: Final = 5.0  # beyond the rebalance timeout, as in Java
IDLE_SECONDS: Final = 1.0
FIRST_WITH_MEMBERS: Final = 3  # of LeaveGroup


class ClassicMember:
    """See the module."""

    def __init__(self, work: GroupWork, assignors: Sequence[Assignor]) -> None:
        options = work.options
        assert options.group_id is not None
        self.work = work
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._is_cooperative = all(assignor.is_cooperative for assignor in assignors)
        self.membership = Membership(
            options.group_id,
            instance_id=options.group_instance_id,
            session_timeout_ms=int(options.session_timeout_seconds * 1000),
            heartbeat_interval_ms=int(options.heartbeat_interval_seconds * 1000),
            max_poll_interval_ms=int(options.max_poll_interval_seconds * 1000),
        )
        self._is_prepared = False  # partitions to revoke are revoked; `step` may join
        self._has_assignment = False  # `step` has received one that `before_poll` must take
        self._led_counts: dict[str, int] = {}  # of a leader: the partition counts of its assignment
        self._last: tuple[tuple[TopicPartition, ...], int] = ((), -1)  # assignment and generation

    @property
    def generation(self) -> int:
        """Offsets that were read of the application's progress in another one are not committed."""
        return self.membership.generation

    @property
    def rebalances(self) -> int:
        return self.membership.rebalances

    @property
    def led_topics(self) -> set[str]:
        """The topics of all members, whose metadata a leader needs."""
        return set(self._led_counts)

    def subscribed(self) -> None:
        """The subscription has changed."""
        if self.membership.rejoin_reason is None:
            self.membership.rejoin("the subscription has changed")

    def on_metadata(self) -> None:
        """Check for new partitions: they require a new assignment by the group."""
        view = self.work.fetcher.view
        shapes = view.shapes(self._led_counts.keys() - view.errors.keys())
        if any(shape.partition_count != self._led_counts[t] for t, shape in shapes.items()):
            self.membership.rejoin("the number of partitions has changed")

    def member(self) -> Member | None:
        """The member that commits; None while it is in no generation."""
        m = self.membership
        if not m.is_member:
            return None
        return Member(m.group_id, m.member_id, m.generation, m.instance_id)

    # In the application's task

    async def before_poll(self) -> None:
        """Revoke and add partitions as the group has decided. Raises ClientError for errors that a
        retry cannot resolve."""
        m = self.membership
        m.polled(now_ms())
        if m.fatal is not None:
            code, m.fatal = m.fatal, None
            m.rejoin("the application has tried again")
            refusal = self.work.cluster.asks("read", m.group_id).refusal(code)
            text = refusal or f"group {m.group_id!r}: {code.description} ({code.name})"
            raise Refused(text, code)
        if m.has_lost_partitions:  # no join before they are dropped
            work = self.work
            await work.release(list(work.positions), work.callbacks.on_lost, is_lost=True)
            m.take_loss()
        if self._has_assignment and m.state is State.STABLE:
            await self._take_assignment()
        if m.needs_rejoin and not self._is_prepared:
            await self._prepare()
            self._is_prepared = True
        if self._is_prepared:
            self.work.bell.ring()

    async def _prepare(self) -> None:
        if self.membership.is_member:
            await self.work.commit_before_rebalance()
        owned = list(self.work.positions)
        if self._is_cooperative:
            owned = [tp for tp in owned if tp[0] not in self.work.topics]
        await self.work.release(owned, self.work.callbacks.on_revoked)

    async def _take_assignment(self) -> None:
        m = self.membership
        try:
            assigned = decode_assignment(m.assignment)
        except ProtocolError as error:
            raise ClientError(
                f"the leader of {m.group_id!r} has sent no assignment: {error}"
            ) from error
        if any(topic not in self.work.topics for topic, _ in assigned):
            self._has_assignment = False
            m.rejoin("the assignment is of an earlier subscription")
            return
        owned = dict.fromkeys(self.work.positions)
        revoked = [tp for tp in owned if tp not in assigned]
        if revoked:
            await self.work.release(revoked, self.work.callbacks.on_revoked)
            m.rejoin("partitions were revoked")
        added = [tp for tp in assigned if tp not in owned]
        self.work.positions.assign(assigned)
        self._has_assignment = False
        self._last = (tuple(assigned), m.generation)
        self.work.fetcher.bell.ring()
        if self.work.callbacks.on_assigned is not None:
            await self.work.callbacks.on_assigned(added)

    # In the nursery

    async def step(self) -> None:
        """Join, or send the heartbeat that is due, or wait for the next."""
        m = self.membership
        if self._may_join():
            await self._attempt(self._rebalance)
            if m.state is State.STABLE and not m.needs_rejoin:
                self._is_prepared = False
            return
        now = now_ms()
        if m.poll_is_overdue(now):
            self.work.cluster.report(
                "the application has not asked for records for max_poll_interval_seconds: "
                f"the consumer leaves group {m.group_id!r} until it does"
            )
            await self.leave("the application is too slow")
        elif m.session_is_over(now):
            self.work.forget_coordinator()
            m.abandon_attempt("the coordinator has been silent for a session")
            self.work.wake_all()
        elif m.state is State.STABLE and not m.heartbeat_due_ms(now):
            await self._attempt(self._heartbeat)
        wait = m.heartbeat_due_ms(now_ms()) / 1000 if m.state is State.STABLE else IDLE_SECONDS
        await self.work.bell.wait(min(wait, IDLE_SECONDS))

    def _may_join(self) -> bool:
        m = self.membership
        knows_topics = self.work.pattern is None or bool(self.work.fetcher.view.names)
        return self._is_prepared and m.needs_rejoin and knows_topics and not m.has_lost_partitions

    async def _attempt(self, work: Callable[[], Awaitable[Outcome]]) -> None:
        """Run `work`; after a failure, pause before the next attempt."""
        try:
            outcome = await work()
        except (LoginError, Refused) as error:
            self.work.fetcher.failure = error
            outcome = Outcome.RETRY
        except ClientError as error:
            self.work.cluster.report(str(error))
            outcome = Outcome.FIND_COORDINATOR
        m = self.membership
        if outcome is Outcome.FIND_COORDINATOR:
            self.work.forget_coordinator()
        if outcome in (Outcome.RETRY, Outcome.FIND_COORDINATOR):
            if m.state not in (State.STABLE, State.UNJOINED):
                m.abandon_attempt("the coordinator did not answer")
            await trio.sleep(RETRY_BACKOFF_SECONDS)
        self.work.fetcher.arrived.ring()

    async def _rebalance(self) -> Outcome:
        """One attempt, from JoinGroup to SyncGroup."""
        m = self.membership
        connection = await self.work.coordinator()
        if not self._may_join():  # the application has unsubscribed meanwhile
            return Outcome.IGNORED
        self._has_assignment = False
        request = m.join_request(self._protocols(), now_ms())
        timeout = self.work.options.max_poll_interval_seconds + JOIN_GRACE_SECONDS
        key = ApiKey.JOIN_GROUP
        joined = await connection.request(key, request, JoinGroupResponse, timeout_seconds=timeout)
        outcome = m.on_join(joined, now_ms())
        if not m.awaits_sync():
            return outcome
        assignments = await self._lead() if m.is_leading else {}
        if not m.awaits_sync():  # the application has left meanwhile
            return Outcome.IGNORED
        sync = m.sync_request(assignments)
        synced = await connection.request(
            ApiKey.SYNC_GROUP, sync, SyncGroupResponse, timeout_seconds=timeout
        )
        outcome = m.on_sync(synced, now_ms())
        self._has_assignment = m.state is State.STABLE
        return outcome

    def _protocols(self) -> list[tuple[str, bytes]]:
        owned, generation = self._last
        return [
            (
                name,
                encode_subscription(
                    Subscription(
                        topics=tuple(self.work.topics),
                        user_data=assignor.user_data(owned, generation),
                        owned=tuple(self.work.positions),
                        generation=self.membership.generation,
                        rack=self.work.options.rack,
                    )
                ),
            )
            for name, assignor in self._assignors.items()
        ]

    async def _lead(self) -> dict[str, bytes]:
        """The assignments of all members. Raises ClientError."""
        m = self.membership
        assignor = self._assignors.get(m.protocol)
        if assignor is None:
            raise ClientError(
                f"group {m.group_id!r} has chosen {m.protocol!r}, which no member offered"
            )
        try:
            members = {
                member: decode_subscription(data, instance)
                for member, (data, instance) in m.members.items()
            }
        except ProtocolError as error:
            raise ClientError(f"a member of {m.group_id!r} has no subscription: {error}") from error
        topics = sorted({topic for member in members.values() for topic in member.topics})
        view = TopicsView()
        if topics:
            view.take(await self.work.cluster.metadata(topics))
        if view.errors:
            # A broker that has just started knows no topics: `on_metadata` notices when one does.
            self.work.fetcher.refresh_metadata()
        shapes = view.shapes(topics)
        known = {name: shape.partition_count for name, shape in shapes.items()}
        self._led_counts = {name: known.get(name, 0) for name in topics}
        if m.skips_assignment:  # a static leader is back, and nothing has changed (KIP-814)
            return {}
        found = assignor.assign(shapes, members)
        return {member: encode_assignment(partitions) for member, partitions in found.items()}

    async def _heartbeat(self) -> Outcome:
        m = self.membership
        connection = await self.work.coordinator()
        asked = m.heartbeat_request(now_ms())
        if asked is None:
            return Outcome.IGNORED
        with trio.move_on_after(min(self.work.options.session_timeout_seconds, SILENCE_SECONDS)):
            answer = await connection.request(ApiKey.HEARTBEAT, asked, HeartbeatResponse)
            return m.on_heartbeat(answer, asked, now_ms())
        return Outcome.FIND_COORDINATOR

    def note_commit(self, code: ErrorCode) -> None:
        """Apply the consequences of a refused commit for the membership."""
        if self.membership.fail_commit(code) is Outcome.FIND_COORDINATOR:
            self.work.forget_coordinator()

    # Leaving

    async def leave(self, reason: str) -> None:
        """Leave the group, if it is a member or joins; errors are ignored."""
        m = self.membership
        is_joining = m.state is State.JOINING
        was_member = m.is_member
        self._is_prepared = self._has_assignment = False
        if not m.member_id and not is_joining:
            return
        try:
            connection = await self.work.coordinator()
            if is_joining:  # the coordinator answers nothing else before the join
                connection.close()
                connection = await self.work.coordinator()
            version = connection.version(ApiKey.LEAVE_GROUP)
            names = version >= FIRST_WITH_MEMBERS
            request = m.leave_request(reason, version_names_members=names)
            if request is not None:
                await connection.request(ApiKey.LEAVE_GROUP, request, LeaveGroupResponse)
        except ClientError:
            m.leave_request(reason, version_names_members=True)
        if was_member:
            self.work.wake_all()

    def unsubscribed(self) -> None:
        """It has left, and all partitions are dropped."""
        self._led_counts = {}
        self.membership.take_loss()
