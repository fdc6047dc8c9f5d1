"""The rebalance of a group: which members it awaits, when it completes, which ones it removes.

Mirrors GroupCoordinator's prepareRebalance / onCompleteJoin / onExpire* and its DelayedJoin,
InitialDelayedJoin, DelayedSync and DelayedHeartbeat operations.

A join phase completes
- case 1, first rebalance of an Empty group: never early; at the end of the initial delay, which is
  extended while new members come, up to the largest rebalance timeout;
- case 2, otherwise: as soon as every member waits in JoinGroup and no member id is pending, or at
  the largest rebalance timeout. Dynamic members that did not rejoin are then removed;
- case 3: no member rejoined, but static members exist: the join phase starts over;
- case 4: no member is left: the group becomes Empty and that is written.
After it, a member that does not send SyncGroup within the rebalance timeout is removed and the next
rebalance begins.

A member that leaves or expires while one of its requests waits is answered UNKNOWN_MEMBER_ID, also
in SyncGroup, where Kafka forgets the request.
"""

import logging
from collections.abc import Mapping
from typing import Final

from ...protocol.apis.join_group import JoinGroupResponse
from ...protocol.apis.sync_group import SyncGroupResponse
from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant
from ..append_errors import STORE_ERRORS
from .core import AppendCompletion, Core
from .group import Group, InitialDelay
from .members import JoinTicket, Member
from .records import group_metadata_record
from .states import GroupState

logger = logging.getLogger("pybroker.coordinator.group.rebalance")

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
# The rebalance timeout is the clients' choice; with 0, a join phase that starts over would spin.
MIN_JOIN_RETRY_MS: Final = 1_000

# JoinGroup v7 may answer a null protocol name; before, it is "".
_FIRST_NULL_PROTOCOL_NAME_VERSION: Final = 7

# The error that a client gets for a failed append of group metadata.
_STORE_ERRORS: Final[Mapping[ErrorCode, ErrorCode]] = {
    **STORE_ERRORS,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS,
}


def store_error(error: ErrorCode) -> ErrorCode:
    """The client's view of an append error of group metadata."""
    return _STORE_ERRORS.get(error, error)


class Rebalance:
    """The part of the coordinator that moves groups from generation to generation."""

    __slots__ = ("_core",)

    def __init__(self, core: Core) -> None:
        self._core = core

    # Answers

    def answer_join_error(self, ticket: JoinTicket, error: ErrorCode, member_id: str) -> None:
        self._core.reply(ticket.token, self.join_error(ticket, error, member_id))

    @staticmethod
    def join_error(ticket: JoinTicket, error: ErrorCode, member_id: str) -> JoinGroupResponse:
        response = JoinGroupResponse(error_code=error, member_id=member_id)
        if ticket.api_version >= _FIRST_NULL_PROTOCOL_NAME_VERSION:
            response.protocol_name = None
        return response

    def answer_join(
        self,
        ticket: JoinTicket,
        group: Group,
        member_id: str,
        *,
        with_members: bool,
        leader_id: str | None = None,
        skip_assignment: bool = False,
    ) -> None:
        """Answer with the group's current generation."""
        protocol_name = group.protocol_name
        if protocol_name is None and ticket.api_version < _FIRST_NULL_PROTOCOL_NAME_VERSION:
            protocol_name = ""
        response = JoinGroupResponse(
            error_code=ErrorCode.NONE,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=protocol_name,
            leader=(group.leader_id if leader_id is None else leader_id) or "",
            skip_assignment=skip_assignment,
            member_id=member_id,
            members=group.join_response_members() if with_members else [],
        )
        self._core.reply(ticket.token, response)

    def take_join(self, group: Group, member: Member, error: ErrorCode, member_id: str) -> None:
        """Answer the member's waiting JoinGroup, if any, with an error."""
        ticket = group.set_awaiting_join(member, None)
        if ticket is not None:
            self.answer_join_error(ticket, error, member_id)

    def take_sync(self, group: Group, member: Member, error: ErrorCode) -> bool:
        """Answer the member's waiting SyncGroup, if any; was there one?"""
        ticket = member.awaiting_sync
        if ticket is None:
            return False
        member.awaiting_sync = None
        self.answer_sync(ticket.token, group, member, error)
        return True

    def answer_sync(
        self, token: object, group: Group, member: Member | None, error: ErrorCode
    ) -> None:
        response = SyncGroupResponse(error_code=error)
        if error is ErrorCode.NONE:
            assert member is not None
            response.protocol_type = group.protocol_type
            response.protocol_name = group.protocol_name
            response.assignment = member.assignment
        self._core.reply(token, response)

    # Sessions

    def restart_session(self, member: Member, now_ms: int) -> None:
        """Restart a member's session timeout; a new member has a limit of its own until its first
        rebalance ends."""
        timeout_ms = NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        self._core.timers.reschedule(member.session_timer, now_ms + timeout_ms)

    def session_expired(self, group: Group, member_id: str, now_ms: int) -> None:
        member = group.members[member_id]
        if member.survives_session_expiry:
            return  # it waits in a rebalance, whose completion restarts the session
        logger.info("group %r: member %s sent no heartbeat", group.group_id, member_id)
        self.remove_member(group, member, f"session of member {member_id} expired", now_ms)

    def pending_member_expired(self, group: Group, member_id: str, now_ms: int) -> None:
        self.remove_pending_member(group, member_id)
        self.maybe_complete_join(group, now_ms)

    def remove_pending_member(self, group: Group, member_id: str) -> None:
        """Forget a member id that was given out but has not joined."""
        self._core.timers.cancel(group.pending_members.pop(member_id))

    def drop_member(self, group: Group, member: Member) -> None:
        """Remove a member from the group and answer its waiting requests."""
        self.take_join(group, member, ErrorCode.UNKNOWN_MEMBER_ID, "")
        self.take_sync(group, member, ErrorCode.UNKNOWN_MEMBER_ID)
        self._core.timers.cancel(member.session_timer)
        group.remove(member)

    def remove_member(self, group: Group, member: Member, reason: str, now_ms: int) -> None:
        """A member left or expired: drop it, and rebalance without it."""
        self.drop_member(group, member)
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group, reason, now_ms)
        else:
            self.maybe_complete_join(group, now_ms)

    # The join phase

    def maybe_prepare(self, group: Group, reason: str, now_ms: int) -> None:
        """Start a rebalance unless one is being joined already."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            self.prepare(group, reason, now_ms)

    def prepare(self, group: Group, reason: str, now_ms: int) -> None:
        """Start a rebalance."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.fail_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms)
        self._stop_waiting_for_sync(group)
        timeout_ms = group.rebalance_timeout_ms
        if group.state is GroupState.EMPTY:
            delay_ms = self._core.config.initial_rebalance_delay_ms
            group.initial_delay = InitialDelay(delay_ms, max(timeout_ms - delay_ms, 0))
            group.new_member_added = False
            timeout_ms = delay_ms
        group.transition_to(GroupState.PREPARING_REBALANCE, now_ms)
        logger.info(
            "group %r: preparing to rebalance generation %d: %s",
            group.group_id,
            group.generation_id,
            reason,
        )
        self._core.timers.reschedule(group.join_timer, now_ms + timeout_ms)
        self.maybe_complete_join(group, now_ms)

    def maybe_complete_join(self, group: Group, now_ms: int) -> None:
        """Complete the join phase if all members have joined and no initial delay is running."""
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and group.initial_delay is None
            and group.all_members_joined
        ):
            self._complete_join(group, now_ms)

    def join_timed_out(self, group: Group, now_ms: int) -> None:
        """The join timer fired: extend the initial delay once more, or complete."""
        _check_state(group, "the join timer goes off", GroupState.PREPARING_REBALANCE)
        delay = group.initial_delay
        if delay is not None and group.new_member_added and delay.remaining_ms > 0:
            group.new_member_added = False
            configured_ms = self._core.config.initial_rebalance_delay_ms
            next_delay_ms = min(configured_ms, delay.remaining_ms)
            remaining_ms = max(delay.remaining_ms - delay.delay_ms, 0)
            group.initial_delay = InitialDelay(next_delay_ms, remaining_ms)
            self._core.timers.reschedule(group.join_timer, now_ms + next_delay_ms)
            return
        self._complete_join(group, now_ms)

    def _complete_join(self, group: Group, now_ms: int) -> None:
        self._core.timers.cancel(group.join_timer)
        group.initial_delay = None
        missing = [
            member
            for member in group.members.values()
            if member.awaiting_join is None and not member.is_static
        ]
        for member in missing:
            logger.info("group %r: member %s did not rejoin", group.group_id, member.member_id)
            self.drop_member(group, member)
        if not group.elect_joined_leader() and group.members:
            retry_ms = max(group.rebalance_timeout_ms, MIN_JOIN_RETRY_MS)
            self._core.timers.reschedule(group.join_timer, now_ms + retry_ms)
            return
        group.next_generation(now_ms)
        if group.state is GroupState.EMPTY:
            logger.info("group %r: empty in generation %d", group.group_id, group.generation_id)
            self.store(group, {}, self._empty_group_stored, now_ms)
            return
        logger.info(
            "group %r: generation %d has %d members",
            group.group_id,
            group.generation_id,
            len(group.members),
        )
        self._start_sync_phase(group, now_ms)

    def _start_sync_phase(self, group: Group, now_ms: int) -> None:
        for member in list(group.members.values()):
            member.is_new = False
            ticket = group.set_awaiting_join(member, None)
            if ticket is not None:
                is_leader = group.is_leader(member.member_id)
                self.answer_join(ticket, group, member.member_id, with_members=is_leader)
            self.restart_session(member, now_ms)
            group.pending_sync_members.add(member.member_id)
        self._core.timers.reschedule(group.sync_timer, now_ms + group.rebalance_timeout_ms)

    # The sync phase

    def member_synced(self, group: Group, member_id: str) -> None:
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self._core.timers.cancel(group.sync_timer)

    def sync_timed_out(self, group: Group, now_ms: int) -> None:
        """Members that have not sent SyncGroup in time are removed."""
        _check_state(
            group, "the sync timer goes off", GroupState.COMPLETING_REBALANCE, GroupState.STABLE
        )
        missing = sorted(group.pending_sync_members)
        for member_id in missing:
            self.drop_member(group, group.members[member_id])
        self.prepare(group, f"members {', '.join(missing)} did not sync in time", now_ms)

    def assign(self, group: Group, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """The assignment is stored: the group is Stable and waiting members get theirs."""
        group.check_assignment(assignments)
        for member in group.members.values():
            member.assignment = assignments[member.member_id]
        group.transition_to(GroupState.STABLE, now_ms)
        self._propagate(group, ErrorCode.NONE, now_ms)

    def fail_assignment(self, group: Group, error: ErrorCode, now_ms: int) -> None:
        """Answer with `error`: this generation gets no assignment."""
        _check_state(group, "its assignment fails", GroupState.COMPLETING_REBALANCE)
        group.storing_generation_id = None
        for member in group.members.values():
            member.assignment = b""
        self._propagate(group, error, now_ms)

    def _propagate(self, group: Group, error: ErrorCode, now_ms: int) -> None:
        for member in group.members.values():
            if self.take_sync(group, member, error):
                self.restart_session(member, now_ms)

    def _stop_waiting_for_sync(self, group: Group) -> None:
        group.pending_sync_members.clear()
        self._core.timers.cancel(group.sync_timer)

    # Going over to the consumer protocol

    def interrupt(self, group: Group) -> None:
        """Tell all that wait in a rebalance to join anew."""
        for member in group.members.values():
            self.take_join(group, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            self.take_sync(group, member, ErrorCode.REBALANCE_IN_PROGRESS)

    def stop_classic(self, group: Group) -> None:
        """No timer of the classic protocol goes off any more."""
        for member_id in list(group.pending_members):
            self.remove_pending_member(group, member_id)
        for timer in (group.join_timer, group.sync_timer):
            self._core.timers.cancel(timer)
        for member in group.members.values():
            self._core.timers.cancel(member.session_timer)

    def resume_classic(self, group: Group, now_ms: int) -> None:
        """The group is a classic one after all, with the members that it has."""
        for member in group.members.values():
            self.restart_session(member, now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            timeout_ms = max(group.rebalance_timeout_ms, MIN_JOIN_RETRY_MS)
            self._core.timers.reschedule(group.join_timer, now_ms + timeout_ms)
        elif group.state is GroupState.COMPLETING_REBALANCE:
            self.prepare(group, "it stays a classic group", now_ms)

    # Storing

    def store(
        self,
        group: Group,
        assignments: Mapping[str, bytes],
        completion: AppendCompletion,
        now_ms: int,
    ) -> None:
        """Append the group's metadata with these assignments."""
        lead_ms = self._core.wall.stamp_lead_ms(now_ms)
        record = group_metadata_record(group, assignments, now_ms, lead_ms)
        self._core.append(group.partition, [record], completion)

    def _empty_group_stored(
        self, append_id: int, error: ErrorCode, base_offset: int, now_ms: int
    ) -> None:
        if error is not ErrorCode.NONE:
            logger.warning(
                "append %d of an empty group's metadata failed: %s", append_id, error.name
            )


def _check_state(group: Group, what: str, *states: GroupState) -> None:
    if group.state not in states:
        raise BrokenInvariant(f"group {group.group_id!r} is {group.state.value}, and {what}")
