"""JoinGroup of the classic protocol: new, returning and static members.

Mirrors GroupCoordinator's handleJoinGroup and what it calls (KIP-62, 345, 394, 800, 814). Cases:
- no member id, dynamic: v4+ gets an id and must join again with it (MEMBER_ID_REQUIRED; the id is
  kept for a session timeout); before v4 it joins at once;
- no member id, static and known: it takes the old member's place under a new id. In a Stable group
  whose protocol stays the same this needs no rebalance, only a record;
- a pending id joins; a known id rejoins; an unknown id gets UNKNOWN_MEMBER_ID.
Every JoinGroup is answered exactly once, at once or when the rebalance completes.

Difference from Kafka: a JoinGroup that is superseded by another of the same member is answered
REBALANCE_IN_PROGRESS, where Kafka never answers it.
"""

import logging
from functools import partial
from typing import Final

from ...protocol.errors import ErrorCode
from .consumer.classic_members import ClassicMembers
from .core import Core
from .group import Group
from .join_attempt import JoinAttempt
from .members import JoinTicket, Member
from .modern_offsets import end_records
from .rebalance import Rebalance, store_error
from .states import GroupState
from .timers import Timer, TimerKind

logger = logging.getLogger("pybroker.coordinator.group.joining")

_FIRST_MEMBER_ID_REQUIRED_VERSION: Final = 4
_FIRST_SKIP_ASSIGNMENT_VERSION: Final = 9

# "-" and a UUID are appended, and the whole must fit a protocol string.
_MAX_ID_PREFIX_BYTES: Final = 32_767 - 37


class StaticReplacement:
    """The state of a static member before it came back, to restore if the change cannot be
    stored."""

    __slots__ = (
        "group",
        "leader_id",
        "member",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "ticket",
    )

    def __init__(self, group: Group, member: Member, ticket: JoinTicket) -> None:
        self.group = group
        self.member = member
        self.ticket = ticket
        self.leader_id = group.leader_id
        self.member_id = member.member_id
        self.protocols = member.protocols
        self.rebalance_timeout_ms = member.rebalance_timeout_ms
        self.session_timeout_ms = member.session_timeout_ms

    def revert(self) -> None:
        self.group.rename_static(self.member, self.member_id)
        self.group.update(
            self.member, self.protocols, self.rebalance_timeout_ms, self.session_timeout_ms
        )


class Joining:
    """The part of the coordinator that lets members in."""

    __slots__ = ("_classic_members", "_core", "_rebalance")

    def __init__(self, core: Core, rebalance: Rebalance, classic_members: ClassicMembers) -> None:
        self._core = core
        self._rebalance = rebalance
        self._classic_members = classic_members

    def join(self, attempt: JoinAttempt, now_ms: int) -> None:
        request = attempt.request
        config = self._core.config
        error = self._core.check_group(request.group_id)
        if error is ErrorCode.NONE and not (
            config.min_session_timeout_ms
            <= request.session_timeout_ms
            <= config.max_session_timeout_ms
        ):
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        group = self._core.groups.get(request.group_id)
        if error is ErrorCode.NONE and group is None:
            if request.member_id:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            else:
                group = self._core.create_group(request.group_id, now_ms)
        if error is not ErrorCode.NONE:
            self._rebalance.answer_join_error(attempt.ticket, error, request.member_id)
            return
        assert group is not None
        if group.modern is not None:
            if group.has_members and group.consumer is not None and not group.is_share:
                self._classic_members.join(group.consumer, attempt, now_ms)
                return
            if group.has_members:
                inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
                self._rebalance.answer_join_error(attempt.ticket, inconsistent, request.member_id)
                return
            end_modern_group(self._core, group, now_ms)
        if not self._accepts(group, request.member_id):
            self._reject(group, attempt)
        elif request.member_id:
            self._join_with_id(group, attempt, now_ms)
        else:
            self._join_without_id(group, attempt, now_ms)
        self._rebalance.maybe_complete_join(group, now_ms)

    def _accepts(self, group: Group, member_id: str) -> bool:
        """group.max.size: known members are in, others only while there is room."""
        max_size = self._core.config.max_size
        member = group.members.get(member_id)
        if group.state is GroupState.EMPTY:
            return True
        if group.state is GroupState.PREPARING_REBALANCE:
            is_waiting = member is not None and member.awaiting_join is not None
            return is_waiting or group.awaiting_join_count < max_size
        return member is not None or len(group.members) < max_size

    def _reject(self, group: Group, attempt: JoinAttempt) -> None:
        member_id = attempt.request.member_id
        if member_id in group.members:
            self._rebalance.drop_member(group, group.members[member_id])
        elif member_id in group.pending_members:
            self._rebalance.remove_pending_member(group, member_id)
        self._rebalance.answer_join_error(attempt.ticket, ErrorCode.GROUP_MAX_SIZE_REACHED, "")

    def _supports(self, group: Group, attempt: JoinAttempt) -> bool:
        names = [protocol.name for protocol in attempt.protocols]
        return group.supports_protocols(attempt.request.protocol_type, names)

    def _join_without_id(self, group: Group, attempt: JoinAttempt, now_ms: int) -> None:
        request = attempt.request
        instance_id = request.group_instance_id
        if not self._supports(group, attempt):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            self._rebalance.answer_join_error(attempt.ticket, error, "")
            return
        prefix = attempt.client_id if instance_id is None else instance_id
        if len(prefix.encode()) > _MAX_ID_PREFIX_BYTES:
            self._rebalance.answer_join_error(attempt.ticket, ErrorCode.INVALID_REQUEST, "")
            return
        member_id = f"{prefix}-{self._core.new_uuid()}"
        if instance_id is not None and instance_id in group.static_members:
            self._replace_static(group, attempt, member_id, now_ms)
        elif (
            instance_id is None and attempt.ticket.api_version >= _FIRST_MEMBER_ID_REQUIRED_VERSION
        ):
            timer = Timer(TimerKind.PENDING_MEMBER, group, member_id)
            group.pending_members[member_id] = timer
            self._core.timers.reschedule(timer, now_ms + request.session_timeout_ms)
            error = ErrorCode.MEMBER_ID_REQUIRED
            self._rebalance.answer_join_error(attempt.ticket, error, member_id)
        else:
            self._add_and_rebalance(group, attempt, member_id, now_ms)

    def _join_with_id(self, group: Group, attempt: JoinAttempt, now_ms: int) -> None:
        member_id = attempt.request.member_id
        instance_id = attempt.request.group_instance_id
        error = ErrorCode.NONE
        if not self._supports(group, attempt):
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        elif member_id in group.pending_members:
            if instance_id is None:
                self._rebalance.remove_pending_member(group, member_id)
                self._add_and_rebalance(group, attempt, member_id, now_ms)
                return
            # Ids are given in advance to dynamic members only.
            error, member_id = ErrorCode.UNKNOWN_SERVER_ERROR, ""
        else:
            error = group.validate_member(member_id, instance_id)
        if error is not ErrorCode.NONE:
            self._rebalance.answer_join_error(attempt.ticket, error, member_id)
            return
        self._rejoin(group, group.members[member_id], attempt, now_ms)

    def _rejoin(self, group: Group, member: Member, attempt: JoinAttempt, now_ms: int) -> None:
        is_leader = group.is_leader(member.member_id)
        is_unchanged = member.protocols == attempt.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
            # The member has probably not seen the answer to its JoinGroup: give it again.
            self._rebalance.answer_join(
                attempt.ticket, group, member.member_id, with_members=is_leader
            )
            return
        if group.state is GroupState.STABLE and is_unchanged and not is_leader:
            self._rebalance.answer_join(attempt.ticket, group, member.member_id, with_members=False)
            return
        self._update(group, member, attempt)
        reason = f"member {member.member_id} rejoins; client reason: {attempt.reason}"
        self._rebalance.maybe_prepare(group, reason, now_ms)

    def _update(self, group: Group, member: Member, attempt: JoinAttempt) -> None:
        group.update(
            member,
            attempt.protocols,
            attempt.rebalance_timeout_ms,
            attempt.request.session_timeout_ms,
        )
        superseded = group.set_awaiting_join(member, attempt.ticket)
        if superseded is not None:
            self._rebalance.answer_join_error(
                superseded, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id
            )

    def _add_and_rebalance(
        self, group: Group, attempt: JoinAttempt, member_id: str, now_ms: int
    ) -> None:
        request = attempt.request
        member = Member(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=attempt.client_id,
            client_host=attempt.client_host,
            rebalance_timeout_ms=attempt.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=attempt.protocols,
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.generation_id == 0:
            group.new_member_added = True
        group.add(member, attempt.ticket)
        self._rebalance.restart_session(member, now_ms)
        reason = f"member {member_id} joins; client reason: {attempt.reason}"
        self._rebalance.maybe_prepare(group, reason, now_ms)

    # A static member that comes back without its member id

    def _replace_static(
        self, group: Group, attempt: JoinAttempt, new_member_id: str, now_ms: int
    ) -> None:
        instance_id = attempt.request.group_instance_id
        assert instance_id is not None
        assert group.state is not GroupState.EMPTY
        member = group.members[group.static_members[instance_id]]
        before = StaticReplacement(group, member, attempt.ticket)
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self._rebalance.take_join(group, member, fenced, member.member_id)
        self._rebalance.take_sync(group, member, fenced)
        group.rename_static(member, new_member_id)
        self._update(group, member, attempt)
        self._rebalance.restart_session(member, now_ms)
        logger.info(
            "group %r: static member %s is now %s", group.group_id, instance_id, new_member_id
        )
        reason = f"static member {instance_id} rejoins; client reason: {attempt.reason}"
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
            assignments = {m.member_id: m.assignment for m in group.members.values()}
            completion = partial(self._static_replacement_stored, before)
            self._rebalance.store(group, assignments, completion, now_ms)
        else:
            self._rebalance.maybe_prepare(group, reason, now_ms)

    def _static_replacement_stored(
        self,
        before: StaticReplacement,
        append_id: int,
        error: ErrorCode,
        base_offset: int,
        now_ms: int,
    ) -> None:
        group, member = before.group, before.member
        if member.awaiting_join is not before.ticket:
            return  # answered meanwhile: fenced, removed, rebalanced or unloaded
        if group.state is not GroupState.STABLE:
            return  # a rebalance began, and its end answers the member
        group.set_awaiting_join(member, None)
        if error is not ErrorCode.NONE:
            logger.warning(
                "append %d of a static member's new id failed: %s", append_id, error.name
            )
            before.revert()
            self._rebalance.answer_join_error(before.ticket, store_error(error), "")
        elif before.ticket.api_version >= _FIRST_SKIP_ASSIGNMENT_VERSION:
            is_leader = group.is_leader(member.member_id)
            self._rebalance.answer_join(
                before.ticket,
                group,
                member.member_id,
                with_members=is_leader,
                skip_assignment=is_leader,
            )
        else:
            # With the old leader in the answer, an old client computes no assignment of its own.
            self._rebalance.answer_join(
                before.ticket,
                group,
                member.member_id,
                with_members=False,
                leader_id=before.leader_id,
            )
        self._rebalance.restart_session(member, now_ms)


def end_modern_group(core: Core, group: Group, now_ms: int) -> None:
    """A group of another protocol without members is a classic one from now on."""
    assert group.modern is not None
    records = end_records(group.modern, core.wall.stamp_ms(now_ms))
    core.append_and_forget(group.partition, records)
    for timer in list(group.modern.timers()):
        core.timers.cancel(timer)
    group.modern = None
    group.state_since_ms = now_ms
