"""The classic group protocol: FindCoordinator, JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

FindCoordinator: 1 serves transactions too; 4 takes several keys at once (KIP-699). JoinGroup: 1
adds the rebalance timeout; 4 hands out member ids first (KIP-394); 5 static members (KIP-345); 7
the protocol type; 8 the reason of a join (KIP-800); 9 lets a leader skip the assignment
(KIP-814). LeaveGroup: 3 takes several members, 5 their reasons. Static members: SyncGroup and
Heartbeat from 3 on.

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from ..primitives import Buffer
from ..schema import (
    Message,
    Struct,
    array,
    binary,
    boolean,
    int8,
    int16,
    int32,
    message,
    string,
)


@message(api_key=10, kind="request", valid="0-6", flexible="3+")
class FindCoordinatorRequest(Message):
    key: str = string("0-3")
    key_type: int = int8("1+")
    coordinator_keys: list[str] = array("string", "4+")


class Coordinator(Struct):
    key: str = string("4+")
    node_id: int = int32("4+")
    host: str = string("4+")
    port: int = int32("4+")
    error_code: int = int16("4+")
    error_message: str | None = string("4+", nullable="4+", ignorable=True)


@message(api_key=10, kind="response", valid="0-6", flexible="3+")
class FindCoordinatorResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("0-3")
    error_message: str | None = string("1-3", nullable="1-3", ignorable=True)
    node_id: int = int32("0-3")
    host: str = string("0-3")
    port: int = int32("0-3")
    coordinators: list[Coordinator] = array(Coordinator, "4+")


class JoinGroupRequestProtocol(Struct):
    name: str = string()
    metadata: Buffer = binary()


@message(api_key=11, kind="request", valid="0-9", flexible="6+")
class JoinGroupRequest(Message):
    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32("1+", default=-1, ignorable=True)
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string("8+", nullable="8+", default=None, ignorable=True)


class JoinGroupResponseMember(Struct):
    member_id: str = string()
    group_instance_id: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    metadata: Buffer = binary()


@message(api_key=11, kind="response", valid="0-9", flexible="6+")
class JoinGroupResponse(Message):
    throttle_time_ms: int = int32("2+", ignorable=True)
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string("7+", nullable="7+", default=None, ignorable=True)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean("9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)


class SyncGroupRequestAssignment(Struct):
    member_id: str = string()
    assignment: Buffer = binary()


@message(api_key=14, kind="request", valid="0-5", flexible="4+")
class SyncGroupRequest(Message):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@message(api_key=14, kind="response", valid="0-5", flexible="4+")
class SyncGroupResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    protocol_type: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    protocol_name: str | None = string("5+", nullable="5+", default=None, ignorable=True)
    assignment: Buffer = binary()


@message(api_key=12, kind="request", valid="0-4", flexible="4+")
class HeartbeatRequest(Message):
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string("3+", nullable="3+", default=None)


@message(api_key=12, kind="response", valid="0-4", flexible="4+")
class HeartbeatResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()


class MemberIdentity(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    reason: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message(api_key=13, kind="request", valid="0-5", flexible="4+")
class LeaveGroupRequest(Message):
    group_id: str = string()
    member_id: str = string("0-2")
    members: list[MemberIdentity] = array(MemberIdentity, "3+")


class MemberResponse(Struct):
    member_id: str = string("3+")
    group_instance_id: str | None = string("3+", nullable="3+")
    error_code: int = int16("3+")


@message(api_key=13, kind="response", valid="0-5", flexible="4+")
class LeaveGroupResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, "3+")
