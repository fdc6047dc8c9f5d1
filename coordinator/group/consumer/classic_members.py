"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

For the group such a member is one like all others; its generation is its epoch. A JoinGroup is its
step towards its target, answered at once, with no leader; SyncGroup tells the partitions that it
may have, and a Heartbeat that it should join again: for a new target, to give up partitions, or
since those that it waits for are free. It must join within its rebalance timeout then, and sync
within that of its JoinGroup, or it is removed.

A classic member that takes the place of the last static one of the consumer protocol makes the
group a classic one (`migration.py`).

Mirrors classicGroupJoinToConsumerGroup and the like of GroupMetadataManager. Different: where all
members are classic ones and the group may not go back, a Heartbeat lets them join for a target that
is due; in Kafka the partitions of a member that left stay unread until another one joins.
"""

import logging
from collections.abc import Sequence

from ....protocol.apis.heartbeat import HeartbeatRequest
from ....protocol.apis.join_group import JoinGroupResponse
from ....protocol.apis.leave_group import LeaveGroupResponse, MemberIdentity, MemberResponse
from ....protocol.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from ....protocol.errors import ErrorCode, ProtocolError
from ....protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ..core import Core
from ..group import CONSUMER_PROTOCOL_TYPE
from ..join_attempt import JoinAttempt
from ..members import printable_reason
from ..rebalance import Rebalance
from ..timers import TimerKind
from .config import MigrationPolicy
from .consumer_group import ConsumerGroup
from .heartbeats import ConsumerGroups
from .member import ClassicMetadata, ClassicProtocol, Member, MemberState, Owned
from .migration import Migration, assignment_bytes, subscription_of
from .requests import Refused, known_static, unknown_member
from .topics import TopicImage
from .writing import Edit, Writer

logger = logging.getLogger("pybroker.coordinator.group.consumer")

FIRST_MEMBER_ID_REQUIRED_VERSION = 4


class ClassicMembers:
    """The part of the coordinator for the classic members of consumer groups."""

    __slots__ = ("_core", "_groups", "_image", "_migration", "_rebalance", "_writer")

    def __init__(
        self, core: Core, groups: ConsumerGroups, rebalance: Rebalance, image: TopicImage
    ) -> None:
        self._core = core
        self._groups = groups
        self._rebalance = rebalance
        self._image = image
        self._migration: Migration = groups.migration
        self._writer: Writer = groups.writer

    # JoinGroup

    def join(self, group: ConsumerGroup, attempt: JoinAttempt, now_ms: int) -> None:
        try:
            self._join(group, attempt, now_ms)
        except Refused as refused:
            member_id = attempt.request.member_id
            self._rebalance.answer_join_error(attempt.ticket, refused.error, member_id)

    def _join(self, group: ConsumerGroup, attempt: JoinAttempt, now_ms: int) -> None:
        request, ticket, groups = attempt.request, attempt.ticket, self._groups
        if self._migration.config.migration_policy is MigrationPolicy.DISABLED:
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.member_id or self._core.new_uuid()
        groups.check_room(group, member_id)
        names = [protocol.name for protocol in attempt.protocols]
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.supports_classic(names):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        instance_id = request.group_instance_id
        if (
            not request.member_id
            and instance_id is None
            and ticket.api_version >= FIRST_MEMBER_ID_REQUIRED_VERSION
        ):
            self._rebalance.answer_join_error(ticket, ErrorCode.MEMBER_ID_REQUIRED, member_id)
            return
        try:
            told = subscription_of(attempt.protocols[0].metadata)
        except ProtocolError:
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR) from None
        edit = Edit(group)
        try:
            existing = group.static_member(instance_id)
            goes_back = existing is not None and self._migration.goes_back_for(group, existing)
            old = self._member_for(edit, member_id, instance_id, is_new=not request.member_id)
            updated = _updated(attempt, old, told)
            begins_epoch = groups.change_member(edit, old, updated)
            groups.refresh(edit, begins_epoch=begins_epoch)
            is_behind = group.target_epoch < group.epoch
            if not goes_back:
                groups.update_targets(edit, now_ms)
            if not (goes_back and is_behind):
                groups.reconcile(edit, updated, begins_epoch, self._owned(told), now_ms)
        except Refused:
            edit.take_back()
            raise
        response = JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=group.members[member_id].progress.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=names[0],
            leader="",
            member_id=member_id,
        )

        def failed(error: ErrorCode) -> JoinGroupResponse:
            return self._rebalance.join_error(ticket, error, request.member_id)

        if goes_back:
            reason = "it is a classic group again" if is_behind else None
            answer = (ticket.token, response, failed)
            self._migration.go_back(edit, (), reason, now_ms, answer)
            return
        sessions = groups.sessions
        sessions.stop(group, member_id, TimerKind.CONSUMER_JOIN)
        sessions.restart_session(group, member_id, now_ms, request.session_timeout_ms)
        timeout_ms = attempt.rebalance_timeout_ms
        sessions.start(group, member_id, TimerKind.CONSUMER_SYNC, now_ms + timeout_ms)
        self._writer.commit(edit, now_ms, ticket.token, response, failed)

    def _member_for(
        self, edit: Edit, member_id: str, instance_id: str | None, *, is_new: bool
    ) -> Member:
        """The member that joins, as it was before, or a new one."""
        group = edit.group
        existing = group.static_member(instance_id)
        if instance_id is not None and not is_new:
            return known_static(existing, instance_id, member_id)
        if existing is not None:
            return self._groups.replace(edit, existing, member_id)
        logger.info("group %r: classic member %s joins", group.group_id, member_id)
        return group.members.get(member_id) or Member(member_id)

    def _owned(self, told: ConsumerProtocolSubscription) -> Owned:
        named = ((self._image.topic_id(one.topic), one) for one in told.owned_partitions)
        return {
            topic_id: frozenset(one.partitions) for topic_id, one in named if topic_id is not None
        }

    # SyncGroup

    def sync(
        self, group: ConsumerGroup, token: object, request: SyncGroupRequest, now_ms: int
    ) -> None:
        try:
            member = self._known(group, request.member_id, request.group_instance_id)
            self._check_sync(group, member, request, now_ms)
        except Refused as refused:
            self._core.reply(token, SyncGroupResponse(error_code=refused.error))
            return
        assert member.metadata.classic is not None
        sessions, timeout_ms = self._groups.sessions, member.metadata.classic.session_timeout_ms
        sessions.stop(group, member.member_id, TimerKind.CONSUMER_SYNC)
        sessions.restart_session(group, member.member_id, now_ms, timeout_ms)
        told = member.metadata.classic.protocols[0].metadata
        response = SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(member.progress.assigned, self._image, told),
        )
        self._writer.answer(
            group, token, response, lambda error: SyncGroupResponse(error_code=error)
        )

    def _check_sync(
        self, group: ConsumerGroup, member: Member, request: SyncGroupRequest, now_ms: int
    ) -> None:
        classic, progress = member.metadata.classic, member.progress
        assert classic is not None
        if request.generation_id != progress.epoch:
            raise Refused(ErrorCode.ILLEGAL_GENERATION)
        if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or (
            request.protocol_name not in (None, classic.protocols[0].name)
        ):
            raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if (
            group.target_epoch > progress.epoch
            and progress.state is not MemberState.UNREVOKED_PARTITIONS
        ):
            self._await_join(group, member, now_ms)
            raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)

    # Heartbeat

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        try:
            member = self._known(group, request.member_id, request.group_instance_id)
        except Refused as refused:
            return refused.error
        if request.generation_id != member.progress.epoch:
            return ErrorCode.ILLEGAL_GENERATION
        assert member.metadata.classic is not None
        timeout_ms = member.metadata.classic.session_timeout_ms
        self._groups.sessions.restart_session(group, member.member_id, now_ms, timeout_ms)
        state = member.progress.state
        if (
            member.progress.epoch < group.target_epoch
            or state is MemberState.UNREVOKED_PARTITIONS
            or (
                state is MemberState.UNRELEASED_PARTITIONS
                and not group.waits_for_partitions(member)
            )
            or _is_alone_and_behind(group)
        ):
            self._await_join(group, member, now_ms)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _await_join(self, group: ConsumerGroup, member: Member, now_ms: int) -> None:
        if (member.member_id, TimerKind.CONSUMER_JOIN) not in group.classic_timers:
            timeout_ms = member.metadata.rebalance_timeout_ms
            self._groups.sessions.start(
                group, member.member_id, TimerKind.CONSUMER_JOIN, now_ms + timeout_ms
            )

    # LeaveGroup

    def leave(
        self,
        group: ConsumerGroup,
        token: object,
        leaving: Sequence[MemberIdentity],
        *,
        is_batch: bool,
        now_ms: int,
    ) -> None:
        """Members of either protocol may be removed so."""
        found: dict[str, Member] = {}
        results = []
        for identity in leaving:
            error = ErrorCode.NONE
            try:
                member = _leaving(group, identity)
            except Refused as refused:
                error = refused.error
            else:
                reason = printable_reason(identity.reason)
                logger.info(
                    "group %r: member %s left; client reason: %s",
                    group.group_id, member.member_id, reason,
                )  # fmt: skip
                found[member.member_id] = member
            results.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=error,
                )
            )
        response = LeaveGroupResponse()
        if is_batch:
            response.members = results
        elif results:
            response.error_code = results[0].error_code
        if not found:
            self._core.reply(token, response)
            return
        answer = (token, response, lambda error: LeaveGroupResponse(error_code=error))
        self._groups.fence(group, list(found.values()), now_ms, answer)

    # Checks

    @staticmethod
    def _known(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
        """The classic member that sends a request."""
        if instance_id is not None:
            member = known_static(group.static_member(instance_id), instance_id, member_id)
        else:
            found = group.members.get(member_id)
            if found is None:
                raise unknown_member(group, member_id)
            member = found
        if not member.is_classic:
            raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
        return member


def _is_alone_and_behind(group: ConsumerGroup) -> bool:
    """Whether a new target is due, and only classic members are there to ask for it."""
    is_alone = group.classic_count == len(group.members)
    return is_alone and (group.epoch > group.target_epoch or group.is_refresh_due)


def _updated(attempt: JoinAttempt, old: Member, told: ConsumerProtocolSubscription) -> Member:
    request, metadata = attempt.request, old.metadata
    return old._replace(
        metadata=metadata._replace(
            instance_id=metadata.instance_id
            if request.group_instance_id is None
            else request.group_instance_id,
            rack_id=metadata.rack_id if told.rack_id is None else told.rack_id,
            client_id=attempt.client_id,
            client_host=attempt.client_host,
            topic_names=frozenset(told.topics),
            topic_regex="",
            rebalance_timeout_ms=metadata.rebalance_timeout_ms
            if attempt.rebalance_timeout_ms == -1
            else attempt.rebalance_timeout_ms,
            classic=ClassicMetadata(
                request.session_timeout_ms,
                tuple(ClassicProtocol(one.name, one.metadata) for one in attempt.protocols),
            ),
        )
    )


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    instance_id, member_id = identity.group_instance_id, identity.member_id
    if instance_id is None:
        found = group.members.get(member_id)
        if found is None:
            raise unknown_member(group, member_id)
        return found
    existing = group.static_member(instance_id)
    # An administrator knows the instance id only.
    known_id = existing.member_id if existing is not None and not member_id else member_id
    return known_static(existing, instance_id, known_id)
