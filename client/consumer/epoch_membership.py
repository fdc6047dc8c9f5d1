"""A member of a group by the consumer protocol (KIP-848), as a state machine: its heartbeats.

    OUT -> JOINING -> MEMBER -> OUT          FENCED -> JOINING once lost partitions are dropped
             ^___________|____ FENCED

The coordinator computes the assignment: a heartbeat tells it the subscription and the partitions
owned, and its answer has the partitions to own. The shell sends the results of `heartbeat_request`
and `leave_request`, passes answers back, and calls `reconciled` once partitions that are not in
`target` are revoked and others added: the next heartbeat, due at once, acknowledges it.

Invariants: a fact that the coordinator knows is not sent again, and after a lost answer it knows
none; each target is acknowledged, also one that takes back what was not owned yet; partitions owned
before the membership was lost are *lost*, not revoked; the member id is unique, and stays the same
for the life of the consumer (KIP-1082).

Mirrors: AbstractMembershipManager, ConsumerMembershipManager and ConsumerHeartbeatRequestManager.
In Java an unknown group ends a member; here it joins again, which forms the group anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import Final, NamedTuple

from ...protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant
from .membership import LOST_COORDINATOR, Outcome

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2  # a static member is expected back

_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})

IdPartition = tuple[bytes, int]  # a partition by the id of its topic


class MemberState(Enum):
    OUT = auto()
    JOINING = auto()
    MEMBER = auto()
    FENCED = auto()  # it joins again once its lost partitions are dropped


_LEGAL: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    MemberState.OUT: frozenset({MemberState.JOINING}),
    MemberState.JOINING: frozenset({MemberState.OUT, MemberState.MEMBER, MemberState.FENCED}),
    MemberState.MEMBER: frozenset({MemberState.OUT, MemberState.FENCED}),
    MemberState.FENCED: frozenset({MemberState.OUT, MemberState.JOINING}),
}


class _Told(NamedTuple):
    """The facts of a heartbeat that are sent when they have changed."""

    topics: frozenset[str]
    regex: str | None
    owned: frozenset[IdPartition]


class EpochMembership:
    """Times are in ms of any clock that does not go back."""

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        instance_id: str | None,
        rack: str | None,
        assignor: str | None,
        max_poll_interval_ms: int,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.instance_id = instance_id
        self.rack = rack
        self.assignor = assignor  # of the coordinator; None: its default
        self.max_poll_interval_ms = max_poll_interval_ms
        self.state = MemberState.OUT
        self.epoch = JOIN_EPOCH
        self.topics: frozenset[str] = frozenset()
        self.regex: str | None = None  # in RE2's language; the coordinator evaluates it
        self.owned: frozenset[IdPartition] = frozenset()
        self.target: frozenset[IdPartition] = frozenset()
        self.has_lost_partitions = False
        self.fatal: ErrorCode | None = None  # it is no member any more
        self.refused: ErrorCode | None = None  # it stays a member
        self.message: str | None = None  # the coordinator's, of the last error
        self.rebalances = 0  # reconciled assignments
        self.heartbeat_interval_ms = 0  # the coordinator's; unknown before its first answer
        self._heartbeat_ms = 0  # when the last heartbeat was sent
        self._polled_ms = 0
        self._told: _Told | None = None  # what the coordinator knows; None: nothing for sure
        self._asked: _Told | None = None  # the facts of the last request
        self._may_be_known = False  # a heartbeat was sent since it was OUT

    def _go(self, state: MemberState) -> None:
        if state is not self.state:
            if state not in _LEGAL[self.state]:
                raise BrokenInvariant(f"a member goes from {self.state.name} to {state.name}")
            self.state = state

    @property
    def is_member(self) -> bool:
        """Whether commits may name its epoch."""
        return self.state is MemberState.MEMBER

    @property
    def must_reconcile(self) -> bool:
        return self.is_member and self.target != self.owned

    def subscribe(self, topics: Collection[str], regex: str | None) -> None:
        """The next heartbeat has another subscription."""
        self.topics, self.regex = frozenset(topics), regex

    def join(self) -> None:
        """The application asks for records: join, unless it is a member or fenced."""
        if self.state is MemberState.OUT:
            self._go(MemberState.JOINING)

    # Heartbeats

    def heartbeat_due_ms(self, now_ms: int) -> int | None:
        """The time until the next heartbeat; 0: now; None: it sends none."""
        if self.state in (MemberState.OUT, MemberState.FENCED):
            return None
        if self.state is MemberState.JOINING or self._told != self._facts():
            return 0
        return max(0, self._heartbeat_ms + self.heartbeat_interval_ms - now_ms)

    def _facts(self) -> _Told:
        return _Told(self.topics, self.regex, self.owned)

    def heartbeat_request(self, now_ms: int) -> ConsumerGroupHeartbeatRequest | None:
        """The request; None if it is no member and does not join."""
        if self.heartbeat_due_ms(now_ms) is None:
            return None
        is_joining = self.state is MemberState.JOINING
        told = None if is_joining else self._told
        now = self._asked = self._facts()
        self._heartbeat_ms = now_ms
        self._may_be_known = True
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=JOIN_EPOCH if is_joining else self.epoch,
            instance_id=self.instance_id,
        )
        if told is None:
            request.rack_id = self.rack
            request.rebalance_timeout_ms = self.max_poll_interval_ms
            request.server_assignor = self.assignor
            request.subscribed_topic_regex = now.regex
        elif told.regex != now.regex:
            request.subscribed_topic_regex = now.regex or ""
        if told is None or told.topics != now.topics:
            request.subscribed_topic_names = sorted(now.topics)
        if told is None or told.owned != now.owned:
            request.topic_partitions = _by_topic(now.owned)
        return request

    def on_heartbeat(
        self, answer: ConsumerGroupHeartbeatResponse, asked: ConsumerGroupHeartbeatRequest
    ) -> Outcome:
        """Handle the answer. Afterwards `target` has the partitions to own."""
        is_joining = self.state is MemberState.JOINING
        if self.state is not MemberState.MEMBER and not is_joining:
            return Outcome.IGNORED
        if asked.member_epoch != (JOIN_EPOCH if is_joining else self.epoch):
            return Outcome.IGNORED
        code = ErrorCode(answer.error_code)
        if code != ErrorCode.NONE:
            self.message = answer.error_message
            return self._not_served(code)
        self._told = self._asked
        self.epoch = answer.member_epoch
        self.heartbeat_interval_ms = answer.heartbeat_interval_ms
        if answer.assignment is not None:
            was_behind = self.target != self.owned
            self.target = frozenset(
                (topic.topic_id, partition)
                for topic in answer.assignment.topic_partitions
                for partition in topic.partitions
            )
            if was_behind and self.target == self.owned:
                # Partitions were given and taken back before they were owned: the coordinator waits
                # for a heartbeat that reports the partitions owned.
                self._told = None
        self._go(MemberState.MEMBER)
        return Outcome.GO_ON

    def on_silence(self) -> None:
        """No answer has arrived: the next heartbeat tells all facts."""
        self._told = None

    def _not_served(self, code: ErrorCode) -> Outcome:
        self.on_silence()
        if code in LOST_COORDINATOR:
            return Outcome.FIND_COORDINATOR
        is_gone = code == ErrorCode.GROUP_ID_NOT_FOUND and self.is_member
        if code in _FENCED or is_gone:
            self._lose()
            self._go(MemberState.FENCED if self.has_lost_partitions else MemberState.OUT)
            self.join()
            return Outcome.RETRY
        if code.retriable:
            return Outcome.RETRY
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self.refused = code
            return Outcome.RETRY
        self.fatal = code
        self._lose()
        self._go(MemberState.OUT)
        return Outcome.FATAL

    def fail_commit(self, code: ErrorCode) -> Outcome:
        """The consequence of a commit's error for the membership."""
        if code in LOST_COORDINATOR:
            return Outcome.FIND_COORDINATOR
        if self.is_member and code in _FENCED:
            return self._not_served(code)
        return Outcome.GO_ON

    # Partitions

    def reconciled(self, owned: Collection[IdPartition]) -> None:
        """Partitions are revoked and added: these are owned now."""
        self.owned = frozenset(owned)
        self.rebalances += 1

    def _lose(self) -> None:
        """It is no member any more: its partitions may belong to others."""
        self.has_lost_partitions = self.has_lost_partitions or bool(self.owned)
        self.target = frozenset()
        self.epoch = JOIN_EPOCH
        self._told = None

    def take_loss(self) -> None:
        """The shell has dropped all partitions; a fenced member joins again."""
        self.has_lost_partitions = False
        self.owned = frozenset()
        if self.state is MemberState.FENCED:
            self._go(MemberState.JOINING)

    # The application's pace

    def polled(self, now_ms: int) -> None:
        """The application has requested records."""
        self._polled_ms = now_ms

    def poll_is_overdue(self, now_ms: int) -> bool:
        """Whether the last request is older than max.poll.interval.ms: the member leaves until the
        next."""
        return (
            self.state is not MemberState.OUT
            and now_ms - self._polled_ms > self.max_poll_interval_ms
        )

    # Leaving

    def leave_request(self) -> ConsumerGroupHeartbeatRequest | None:
        """Leave; None if the coordinator does not know it. It is no member afterwards, regardless
        of the answer."""
        is_known = self._may_be_known and self.state in (MemberState.JOINING, MemberState.MEMBER)
        self._lose()
        self._go(MemberState.OUT)
        self._may_be_known = False
        if not is_known:
            return None
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_EPOCH if self.instance_id is None else LEAVE_STATIC_EPOCH,
            instance_id=self.instance_id,
        )


def _by_topic(
    owned: Collection[IdPartition],
) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(owned):
        topics.setdefault(topic_id, []).append(partition)
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in topics.items()
    ]
