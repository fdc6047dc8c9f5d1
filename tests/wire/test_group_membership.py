"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup in every version: the classic protocol."""

from __future__ import annotations

import time

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.patience import until
from tests.support.wire import WireClient, covers, unique
from tests.wire.group_steps import (
    METADATA,
    heartbeat,
    join,
    join_request,
    leave,
    stable,
    subscription,
    sync,
)


@pytest.fixture
def group(kafka: WireClient) -> str:
    """A name whose coordinator is there."""
    name = unique("group")
    kafka.coordinator(name)
    return name


def groups(kafka: WireClient, key: ApiKey, first: int = 0) -> list[tuple[int, str]]:
    """A fresh group for each version of an API."""
    return [(version, unique("group")) for version in kafka.versions(key, first=first)]


@covers(ApiKey.JOIN_GROUP)
def test_the_first_member_leads_in_every_version(kafka: WireClient, group: str) -> None:
    for version, name in groups(kafka, ApiKey.JOIN_GROUP):
        mine = subscription(b"range of v%d" % version)
        protocols = [("range", mine), ("sticky", subscription(b"sticky"))]
        answer = join(kafka, version, name, protocols=protocols)
        assert (answer.generation_id, answer.protocol_name) == (1, "range")
        assert answer.protocol_type == ("consumer" if version >= 7 else None)
        assert answer.leader == answer.member_id
        assert answer.member_id.startswith("wire-test-")
        assert not answer.skip_assignment
        assert answer.throttle_time_ms == 0
        (member,) = answer.members
        assert (member.member_id, member.group_instance_id) == (answer.member_id, None)
        assert bytes(member.metadata) == mine


def test_a_new_member_gets_its_id_first(kafka: WireClient, group: str) -> None:
    for version, name in groups(kafka, ApiKey.JOIN_GROUP, first=4):
        answer = kafka.call(join_request(version, name), version)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert answer.generation_id == -1
        assert (answer.leader, answer.members) == ("", [])
        assert answer.protocol_name == (None if version >= 7 else "")
        joined = kafka.call(join_request(version, name, answer.member_id), version)
        assert (joined.error_code, joined.member_id) == (0, answer.member_id)


def test_join_errors(kafka: WireClient, group: str) -> None:
    stable(kafka, group)
    for version in kafka.versions(ApiKey.JOIN_GROUP):
        cases = [
            (join_request(version, ""), ErrorCode.INVALID_GROUP_ID),
            (join_request(version, group, "nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
            (join_request(version, unique("group"), "nobody"), ErrorCode.UNKNOWN_MEMBER_ID),
            (
                join_request(version, group, session_timeout_ms=10),
                ErrorCode.INVALID_SESSION_TIMEOUT,
            ),
            (
                join_request(version, group, session_timeout_ms=1 << 30),
                ErrorCode.INVALID_SESSION_TIMEOUT,
            ),
            (
                join_request(version, group, protocol_type="connect"),
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            ),
            (
                join_request(version, group, protocols=[("other", METADATA)]),
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            ),
            (
                join_request(version, unique("group"), protocols=[]),
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            ),
        ]
        for request, error in cases:
            answer = kafka.call(request, version)
            assert answer.error_code == error, request
            assert (answer.generation_id, answer.leader, answer.members) == (-1, "", [])
            assert not answer.protocol_name


@covers(ApiKey.SYNC_GROUP)
def test_assignments_are_handed_out_in_every_version(kafka: WireClient, group: str) -> None:
    for version, name in groups(kafka, ApiKey.SYNC_GROUP):
        with kafka.another("follower") as other:
            leading = [("range", subscription(b"leader"))]
            following = [("range", subscription(b"follower"))]
            first = join(kafka, 3, name, protocols=leading)
            other.post(join_request(3, name, protocols=following), 3)
            until_rebalance(kafka, name, first.member_id, 1)
            leader = join(kafka, 3, name, first.member_id, protocols=leading)
            follower = other.receive(ApiKey.JOIN_GROUP, 3)
            assert (follower.error_code, follower.generation_id, follower.members) == (0, 2, [])
            assert leader.generation_id == 2
            assert follower.leader == leader.member_id == leader.leader
            assert {bytes(m.metadata) for m in leader.members} == {
                subscription(b"leader"),
                subscription(b"follower"),
            }
            waiting = SyncGroupRequest(
                group_id=name,
                generation_id=2,
                member_id=follower.member_id,
                protocol_type="consumer",
                protocol_name="range",
            )
            other.post(waiting, version)
            shares = {leader.member_id: b"one", follower.member_id: b"two"}
            mine = sync(kafka, version, name, leader.member_id, 2, shares)
            theirs = other.receive(ApiKey.SYNC_GROUP, version)
            for answer, share in ((mine, b"one"), (theirs, b"two")):
                assert (answer.error_code, bytes(answer.assignment)) == (0, share)
                assert answer.throttle_time_ms == 0
                named = ("consumer", "range") if version >= 5 else (None, None)
                assert (answer.protocol_type, answer.protocol_name) == named
            again = sync(other, version, name, follower.member_id, 2)
            assert (again.error_code, bytes(again.assignment)) == (0, b"two")


def until_rebalance(kafka: WireClient, group: str, member: str, generation: int) -> None:
    until(lambda: heartbeat(kafka, 2, group, member, generation) == ErrorCode.REBALANCE_IN_PROGRESS)


def test_sync_errors(kafka: WireClient, group: str) -> None:
    member, generation = stable(kafka, group)
    for version in kafka.versions(ApiKey.SYNC_GROUP):
        cases = [
            (sync(kafka, version, "", member, 1), ErrorCode.INVALID_GROUP_ID),
            (sync(kafka, version, unique("group"), member, 1), ErrorCode.UNKNOWN_MEMBER_ID),
            (sync(kafka, version, group, "nobody", generation), ErrorCode.UNKNOWN_MEMBER_ID),
            (sync(kafka, version, group, member, generation + 1), ErrorCode.ILLEGAL_GENERATION),
        ]
        if version >= 5:
            inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            for kind, name in (("connect", "range"), ("consumer", "other"), (None, None)):
                answer = sync(
                    kafka, 5, group, member, generation, protocol_type=kind, protocol_name=name
                )
                cases.append((answer, inconsistent))
        for answer, error in cases:
            assert answer.error_code == error
            assert bytes(answer.assignment) == b""
    assert heartbeat(kafka, 4, group, member, generation) == 0


def test_an_assignment_may_be_left_out(kafka: WireClient, group: str) -> None:
    joined = join(kafka, 9, group)
    request = SyncGroupRequest(
        group_id=group,
        generation_id=1,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id="stranger", assignment=b"x")],
    )
    answer = kafka.call(request, 5)
    assert (answer.error_code, bytes(answer.assignment)) == (0, b"")


@covers(ApiKey.HEARTBEAT)
def test_heartbeats_in_every_version(kafka: WireClient, group: str) -> None:
    member, generation = stable(kafka, group)
    joined = join(kafka, 3, other := unique("group"))
    for version in kafka.versions(ApiKey.HEARTBEAT):
        assert heartbeat(kafka, version, group, member, generation) == 0
        cases = [
            (("", member, generation), ErrorCode.INVALID_GROUP_ID),
            ((unique("group"), member, generation), ErrorCode.UNKNOWN_MEMBER_ID),
            ((group, "nobody", generation), ErrorCode.UNKNOWN_MEMBER_ID),
            ((group, member, generation + 1), ErrorCode.ILLEGAL_GENERATION),
            ((group, member, generation - 1), ErrorCode.ILLEGAL_GENERATION),
            ((other, joined.member_id, 1), ErrorCode.NONE),  # joined, not yet synced
        ]
        for arguments, error in cases:
            assert heartbeat(kafka, version, *arguments) == error, arguments


@covers(ApiKey.LEAVE_GROUP)
def test_leaving_in_every_version(kafka: WireClient, group: str) -> None:
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    for version, name in groups(kafka, ApiKey.LEAVE_GROUP):
        expected = (unknown, []) if version < 3 else (0, [unknown])
        assert leave(kafka, version, name, "nobody") == expected
        member, generation = stable(kafka, name)
        assert leave(kafka, version, name, "nobody") == expected
        assert heartbeat(kafka, 0, name, member, generation) == 0
        assert leave(kafka, version, name, member) == (0, [] if version < 3 else [0])
        assert heartbeat(kafka, 0, name, member, generation) == unknown
        assert leave(kafka, version, name, member) == expected
        assert leave(kafka, version, "", "nobody") == (ErrorCode.INVALID_GROUP_ID, [])


def test_several_members_leave_at_once(kafka: WireClient, group: str) -> None:
    for version, name in groups(kafka, ApiKey.LEAVE_GROUP, first=3):
        first = kafka.call(join_request(4, name), 4)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member, generation = stable(kafka, name, instance_id="instance")
        # A member that only got an id may leave; a static one is named by its instance.
        answer = leave(kafka, version, name, first.member_id, "nobody", ("", "instance"))
        assert answer == (0, [0, ErrorCode.UNKNOWN_MEMBER_ID, 0])
        assert heartbeat(kafka, 0, name, member, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_is_replaced_without_a_rebalance(kafka: WireClient, group: str) -> None:
    for version, name in groups(kafka, ApiKey.JOIN_GROUP, first=5):
        member, generation = stable(kafka, name, b"kept", instance_id="instance")
        again = kafka.call(join_request(version, name, instance_id="instance"), version)
        assert (again.error_code, again.generation_id) == (0, generation)
        assert again.member_id != member
        assert again.member_id.startswith("instance-")
        if version >= 9:
            assert (again.leader, again.skip_assignment) == (again.member_id, True)
            assert [m.member_id for m in again.members] == [again.member_id]
        else:
            # The old id is named as leader, so that the new one does not assign.
            assert (again.leader, again.members) == (member, [])
        synced = sync(kafka, 5, name, again.member_id, generation, instance_id="instance")
        assert (synced.error_code, bytes(synced.assignment)) == (0, b"kept")
        fenced = ErrorCode.FENCED_INSTANCE_ID
        for old in kafka.versions(ApiKey.HEARTBEAT, first=3):
            assert heartbeat(kafka, old, name, member, generation, "instance") == fenced
            answer = heartbeat(kafka, old, name, again.member_id, generation, "instance")
            assert answer == 0
        for old in kafka.versions(ApiKey.SYNC_GROUP, first=3):
            answer = sync(kafka, old, name, member, generation, instance_id="instance")
            assert answer.error_code == fenced
        for old in kafka.versions(ApiKey.LEAVE_GROUP, first=3):
            assert leave(kafka, old, name, (member, "instance")) == (0, [fenced])
        refused = kafka.call(join_request(version, name, member, instance_id="instance"), version)
        assert refused.error_code == fenced


def test_a_known_member_may_join_again(kafka: WireClient, group: str) -> None:
    for version, name in groups(kafka, ApiKey.JOIN_GROUP):
        first = join(kafka, version, name)
        # Not yet synced and nothing changed: the same answer.
        again = join(kafka, version, name, first.member_id)
        assert (again.generation_id, again.leader) == (1, first.member_id)
        assert [m.member_id for m in again.members] == [first.member_id]
        shares = {first.member_id: b"mine"}
        assert sync(kafka, 3, name, first.member_id, 1, shares).error_code == 0
        # A leader that joins a stable group wants a new generation.
        third = join(kafka, version, name, first.member_id)
        assert third.generation_id == 2
        assert heartbeat(kafka, 0, name, first.member_id, 1) == ErrorCode.ILLEGAL_GENERATION


def test_a_member_that_is_silent_is_removed(kafka: WireClient, group: str) -> None:
    started = time.monotonic()
    joined = join(kafka, 3, group, session_timeout_ms=6000)
    shares = {joined.member_id: b"mine"}
    assert sync(kafka, 3, group, joined.member_id, 1, shares).error_code == 0
    with kafka.another() as other:
        # The second one waits for the first, which never joins again.
        second = join(other, 3, group)
        assert time.monotonic() - started > 5.5
        assert (second.generation_id, second.leader) == (2, second.member_id)
        assert [m.member_id for m in second.members] == [second.member_id]
    assert heartbeat(kafka, 0, group, joined.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID
