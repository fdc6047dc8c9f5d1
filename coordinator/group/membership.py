"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol.

Mirrors GroupCoordinator's handle/do methods for them (KIP-62, 345, 559, 800). Every SyncGroup is
answered exactly once, at once or when the assignment is stored or fails.

Differences from Kafka: a SyncGroup that is superseded by another of the same member is answered
REBALANCE_IN_PROGRESS, where Kafka never answers it; a second SyncGroup of a leader while the first
one's assignment is being stored waits for it instead of storing again. In Kafka a group can be seen
Dead for a moment (COORDINATOR_NOT_AVAILABLE); here it is gone by then.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from ...protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...protocol.apis.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ...protocol.apis.sync_group import SyncGroupRequest, SyncGroupResponse
from ...protocol.errors import ErrorCode
from .consumer.classic_members import ClassicMembers
from .core import Core
from .group import Group
from .members import SyncTicket, printable_reason
from .rebalance import Rebalance, store_error
from .states import GroupState

logger = logging.getLogger("pybroker.coordinator.group.membership")

_FIRST_SYNC_PROTOCOL_VERSION: Final = 5
_FIRST_LEAVE_BATCH_VERSION: Final = 3


class Membership:
    """The part of the coordinator that members of a generation talk to."""

    __slots__ = ("_classic_members", "_core", "_rebalance")

    def __init__(self, core: Core, rebalance: Rebalance, classic_members: ClassicMembers) -> None:
        self._core = core
        self._rebalance = rebalance
        self._classic_members = classic_members

    # SyncGroup

    def sync(self, token: object, request: SyncGroupRequest, api_version: int, now_ms: int) -> None:
        group = self._core.groups.get(request.group_id)
        error = self._check_sync(group, request, api_version)
        if error is ErrorCode.NONE and group is not None and group.consumer is not None:
            self._classic_members.sync(group.consumer, token, request, now_ms)
            return
        if error is not ErrorCode.NONE:
            self._core.reply(token, SyncGroupResponse(error_code=error))
            return
        assert group is not None
        member = group.members[request.member_id]
        self._rebalance.member_synced(group, member.member_id)
        if group.state is GroupState.STABLE:
            self._rebalance.answer_sync(token, group, member, ErrorCode.NONE)
            self._rebalance.restart_session(member, now_ms)
            return
        self._rebalance.take_sync(group, member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.awaiting_sync = SyncTicket(token)
        if group.is_leader(member.member_id) and group.storing_generation_id is None:
            self._store_assignment(group, request, now_ms)

    def _check_sync(
        self, group: Group | None, request: SyncGroupRequest, api_version: int
    ) -> ErrorCode:
        protocol = (request.protocol_type, request.protocol_name)
        if api_version >= _FIRST_SYNC_PROTOCOL_VERSION and None in protocol:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        error = self._core.check_group(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if error is not ErrorCode.NONE:
            return error
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.consumer is not None:
            return ErrorCode.NONE if group.has_members else ErrorCode.UNKNOWN_MEMBER_ID
        error = group.validate_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        if request.protocol_type not in (None, group.protocol_type) or (
            request.protocol_name not in (None, group.protocol_name)
        ):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def _store_assignment(self, group: Group, request: SyncGroupRequest, now_ms: int) -> None:
        given = {a.member_id: bytes(a.assignment) for a in request.assignments}
        missing = [member_id for member_id in group.members if member_id not in given]
        if missing:
            logger.warning("group %r: no assignment for %s", group.group_id, ", ".join(missing))
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        group.storing_generation_id = group.generation_id
        self._core.stats.rebalances_completed += 1
        completion = partial(self._assignment_stored, group, group.generation_id, assignments)
        self._rebalance.store(group, assignments, completion, now_ms)

    def _assignment_stored(
        self,
        group: Group,
        generation_id: int,
        assignments: Mapping[str, bytes],
        append_id: int,
        error: ErrorCode,
        base_offset: int,
        now_ms: int,
    ) -> None:
        if not (
            group.state is GroupState.COMPLETING_REBALANCE
            and group.storing_generation_id == generation_id == group.generation_id
        ):
            return  # a rebalance began, or the group is gone: all were answered
        group.storing_generation_id = None
        if error is ErrorCode.NONE:
            self._rebalance.assign(group, assignments, now_ms)
            return
        logger.warning("append %d of an assignment failed: %s", append_id, error.name)
        self._rebalance.fail_assignment(group, store_error(error), now_ms)
        self._rebalance.prepare(group, f"storing the assignment failed: {error.name}", now_ms)

    # Heartbeat

    def heartbeat(self, token: object, request: HeartbeatRequest, now_ms: int) -> None:
        error = self._heartbeat(request, now_ms)
        self._core.reply(token, HeartbeatResponse(error_code=error))

    def _heartbeat(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        error = self._core.check_group(request.group_id)
        if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return error
        group = self._core.groups.get(request.group_id)
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if group.consumer is not None:
            return self._classic_members.heartbeat(group.consumer, request, now_ms)
        error = group.validate_member(request.member_id, request.group_instance_id)
        if error is not ErrorCode.NONE:
            return error
        if request.generation_id != group.generation_id:
            return ErrorCode.ILLEGAL_GENERATION
        self._rebalance.restart_session(group.members[request.member_id], now_ms)
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    # LeaveGroup

    def leave(
        self, token: object, request: LeaveGroupRequest, api_version: int, now_ms: int
    ) -> None:
        is_batch = api_version >= _FIRST_LEAVE_BATCH_VERSION
        leaving = request.members if is_batch else [MemberIdentity(member_id=request.member_id)]
        error = self._core.check_group(request.group_id)
        errors: list[ErrorCode] = []
        group = self._core.groups.get(request.group_id)
        if error is ErrorCode.NONE and group is not None and group.consumer is not None:
            self._classic_members.leave(
                group.consumer, token, leaving, is_batch=is_batch, now_ms=now_ms
            )
            return
        if error is ErrorCode.NONE:
            errors = self._leave_all(request.group_id, leaving, now_ms)
        response = LeaveGroupResponse(error_code=error)
        if is_batch:
            response.members = [
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=member_error,
                )
                for identity, member_error in zip(leaving, errors, strict=False)
            ]
        elif errors:
            response.error_code = errors[0]
        self._core.reply(token, response)

    def _leave_all(
        self, group_id: str, leaving: Sequence[MemberIdentity], now_ms: int
    ) -> list[ErrorCode]:
        group = self._core.groups.get(group_id)
        if group is None:
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        return [self._leave_one(group, identity, now_ms) for identity in leaving]

    def _leave_one(self, group: Group, identity: MemberIdentity, now_ms: int) -> ErrorCode:
        member_id = identity.member_id
        if not member_id:
            # Removal by an administrator, who knows the instance id only.
            static_id = group.static_members.get(identity.group_instance_id or "")
            if static_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id = static_id
        elif member_id in group.pending_members:
            self._rebalance.remove_pending_member(group, member_id)
            self._rebalance.maybe_complete_join(group, now_ms)
            return ErrorCode.NONE
        else:
            error = group.validate_member(member_id, identity.group_instance_id)
            if error is not ErrorCode.NONE:
                return error
        reason = f"member {member_id} left; client reason: {printable_reason(identity.reason)}"
        self._rebalance.remove_member(group, group.members[member_id], reason, now_ms)
        return ErrorCode.NONE
