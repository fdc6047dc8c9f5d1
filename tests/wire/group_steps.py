"""Requests of the classic group protocol, in the form that each version has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest
from pybroker_kafka.protocol.apis.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from pybroker_kafka.protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from pybroker_kafka.protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker_kafka.protocol.codec import encode
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from tests.support.wire import WireClient

SESSION_TIMEOUT_MS = 10_000
CONSUMER = "consumer"


def subscription(user_data: bytes, *topics: str) -> bytes:
    """What a consumer says of itself, in version 0.

    It has to be well-formed: Apache Kafka leaves a group of consumers hanging if it is not.
    """
    message = ConsumerProtocolSubscription(topics=list(topics), user_data=user_data)
    return b"\0\0" + encode(message, 0)


METADATA = subscription(b"metadata")


def join_request(
    version: int,
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    protocols: Sequence[tuple[str, bytes]] = (("range", METADATA),),
    protocol_type: str = CONSUMER,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=SESSION_TIMEOUT_MS,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
    )


def join(kafka: WireClient, version: int, group: str, member_id: str = "", **options: Any) -> Any:
    """A join that must succeed; asks again with the id that v4+ gives to a new dynamic member."""
    answer = kafka.call(join_request(version, group, member_id, **options), version)
    if version >= 4 and not member_id and options.get("instance_id") is None:
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert answer.member_id
        request = join_request(version, group, answer.member_id, **options)
        answer = kafka.call(request, version)
    assert answer.error_code == 0, answer
    return answer


def sync(
    kafka: WireClient,
    version: int,
    group: str,
    member_id: str,
    generation: int,
    assignments: dict[str, bytes] | None = None,
    *,
    instance_id: str | None = None,
    protocol_type: str | None = CONSUMER,
    protocol_name: str | None = "range",
) -> Any:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in (assignments or {}).items()
        ],
    )
    return kafka.call(request, version)


def heartbeat(
    kafka: WireClient,
    version: int,
    group: str,
    member_id: str,
    generation: int,
    instance_id: str | None = None,
) -> int:
    request = HeartbeatRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        group_instance_id=instance_id,
    )
    answer = kafka.call(request, version)
    assert answer.throttle_time_ms == 0
    error: int = answer.error_code
    return error


def leave(
    kafka: WireClient, version: int, group: str, *members: str | tuple[str, str]
) -> tuple[int, list[int]]:
    """The top-level error, and the error of each member (v3+); (member id, instance id) pairs."""
    pairs = [(one, None) if isinstance(one, str) else one for one in members]
    if version < 3:
        ((member_id, _),) = pairs
        answer = kafka.call(LeaveGroupRequest(group_id=group, member_id=member_id), version)
        assert answer.members == []
        return answer.error_code, []
    request = LeaveGroupRequest(
        group_id=group,
        members=[MemberIdentity(member_id=m, group_instance_id=i) for m, i in pairs],
    )
    answer = kafka.call(request, version)
    named = [(one.member_id, one.group_instance_id) for one in answer.members]
    assert named == ([] if answer.error_code else pairs)
    return answer.error_code, [member.error_code for member in answer.members]


def stable(
    kafka: WireClient, group: str, assignment: bytes = b"assignment", **options: Any
) -> tuple[str, int]:
    """A group of one member with an assignment; its member id and generation."""
    version = kafka.versions(ApiKey.JOIN_GROUP)[-1]
    joined = join(kafka, version, group, **options)
    member, generation = joined.member_id, joined.generation_id
    synced = sync(
        kafka,
        5,
        group,
        member,
        generation,
        {member: assignment},
        instance_id=options.get("instance_id"),
        protocol_type=options.get("protocol_type", CONSUMER),
        protocol_name=joined.protocol_name,
    )
    assert (synced.error_code, bytes(synced.assignment)) == (0, assignment)
    return member, generation
