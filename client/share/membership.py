"""A member of a share group, as a state machine: its heartbeats (KIP-932).

    OUT -> JOINING -> MEMBER -> OUT          a fenced member joins again, under the same id

Several members may have one partition, so that an assignment takes effect at once, and none is
acknowledged. A coordinator assigns partitions only when their states are there, shortly after the
first member has joined: a member without partitions sends its next heartbeats sooner. Times are in
ms of any clock that does not go back.

Mirrors: ShareMembershipManager and ShareHeartbeatRequestManager of the Java client.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto
from typing import Final

from ...protocol.apis.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from ...protocol.errors import ErrorCode
from ..consumer.membership import LOST_COORDINATOR, Outcome

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
FIRST_PAUSE_MS: Final = 100

IdPartition = tuple[bytes, int]  # a partition by the id of its topic

_FENCED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class ShareState(Enum):
    OUT = auto()
    JOINING = auto()
    MEMBER = auto()


class ShareMembership:
    """See the module."""

    def __init__(self, group_id: str, member_id: str, rack: str | None) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.rack = rack
        self.state = ShareState.OUT
        self.epoch = JOIN_EPOCH
        self.topics: frozenset[str] = frozenset()
        self.assigned: frozenset[IdPartition] = frozenset()
        self.fatal: tuple[ErrorCode, str | None] | None = None  # and the coordinator's message
        self.heartbeat_interval_ms = 0
        self._heartbeat_ms = 0
        self._pause_ms = FIRST_PAUSE_MS  # without partitions; twice as long each time
        self._told: frozenset[str] | None = None  # None: the coordinator may know none

    def subscribe(self, topics: Collection[str]) -> None:
        """Join for these topics, or send them by the next heartbeat."""
        self.topics = frozenset(topics)
        if self.state is ShareState.OUT:
            self.state = ShareState.JOINING

    def heartbeat_due_ms(self, now_ms: int) -> int | None:
        """The time until the next heartbeat; 0: now; None: it sends none."""
        if self.state is ShareState.OUT:
            return None
        if self.state is ShareState.JOINING or self._told != self.topics:
            return 0
        interval_ms = self.heartbeat_interval_ms
        if not self.assigned:
            interval_ms = min(self._pause_ms, interval_ms)
        return max(0, self._heartbeat_ms + interval_ms - now_ms)

    def heartbeat_request(self, now_ms: int) -> ShareGroupHeartbeatRequest | None:
        """The request; None if it is no member and does not join."""
        if self.state is ShareState.OUT:
            return None
        self._heartbeat_ms = now_ms
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )
        if self.state is ShareState.JOINING or self._told is None:
            request.rack_id = self.rack
        if self.state is ShareState.JOINING or self._told != self.topics:
            request.subscribed_topic_names = sorted(self.topics)
        return request

    def on_heartbeat(
        self, answer: ShareGroupHeartbeatResponse, asked: ShareGroupHeartbeatRequest
    ) -> Outcome:
        """Handle the answer. Afterwards `assigned` has the partitions to fetch."""
        if self.state is ShareState.OUT or asked.member_epoch != self.epoch:
            return Outcome.IGNORED
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            self.state = ShareState.MEMBER
            self.epoch = answer.member_epoch
            self.heartbeat_interval_ms = answer.heartbeat_interval_ms
            if asked.subscribed_topic_names is not None:
                self._pause_ms = FIRST_PAUSE_MS
            else:
                self._pause_ms = min(2 * self._pause_ms, self.heartbeat_interval_ms)
            if asked.subscribed_topic_names is not None:
                self._told = frozenset(asked.subscribed_topic_names)
            if answer.assignment is not None:
                self.assigned = frozenset(
                    (topic.topic_id, partition)
                    for topic in answer.assignment.topic_partitions
                    for partition in topic.partitions
                )
            return Outcome.GO_ON
        self._told = None
        if code in LOST_COORDINATOR:
            return Outcome.FIND_COORDINATOR
        if code in _FENCED or (code == ErrorCode.GROUP_ID_NOT_FOUND and self.epoch):
            self._forget(ShareState.JOINING)
            return Outcome.RETRY
        if code.retriable:
            return Outcome.RETRY
        self.fatal = code, answer.error_message
        self._forget(ShareState.OUT)
        return Outcome.FATAL

    def on_silence(self) -> None:
        """No answer has arrived: the next heartbeat tells all facts."""
        self._told = None

    def _forget(self, state: ShareState) -> None:
        self.state = state
        self.epoch = JOIN_EPOCH
        self.assigned = frozenset()
        self._told = None

    def leave_request(self) -> ShareGroupHeartbeatRequest | None:
        """Leave; None if the coordinator does not know it."""
        was_known = self.state is not ShareState.OUT
        self._forget(ShareState.OUT)
        if not was_known:
            return None
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH
        )
