"""A member's way through its group, answer by answer."""

from __future__ import annotations

import pytest

from pybroker_kafka.client.consumer.membership import Membership, Outcome, State
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatResponse
from pybroker_kafka.protocol.apis.join_group import JoinGroupResponse, JoinGroupResponseMember
from pybroker_kafka.protocol.apis.sync_group import SyncGroupResponse
from pybroker_kafka.protocol.errors import ErrorCode

SESSION_MS, HEARTBEAT_MS, POLL_MS = 10_000, 3_000, 60_000
PROTOCOLS = [("range", b"subscription")]


def member(instance_id: str | None = None) -> Membership:
    return Membership(
        "g",
        instance_id=instance_id,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=POLL_MS,
    )


def join(m: Membership, *, leader: bool = False, generation: int = 1, now: int = 0) -> Outcome:
    m.join_request(PROTOCOLS, now)
    return m.on_join(
        JoinGroupResponse(
            generation_id=generation,
            protocol_name="range",
            leader="me" if leader else "other",
            member_id="me",
            members=[JoinGroupResponseMember(member_id="me", metadata=b"s")] if leader else [],
        ),
        now,
    )


def stable(instance_id: str | None = None) -> Membership:
    m = member(instance_id)
    join(m)
    m.sync_request({})
    assert m.on_sync(SyncGroupResponse(assignment=b"mine"), 0) is Outcome.GO_ON
    assert m.state is State.STABLE
    return m


def refused_join(code: ErrorCode) -> tuple[Membership, Outcome]:
    m = stable()
    m.rejoin("again")
    m.join_request(PROTOCOLS, 0)
    return m, m.on_join(JoinGroupResponse(error_code=code, protocol_name="", member_id="new"), 0)


def test_a_follower_gets_its_assignment() -> None:
    m = stable()
    assert (m.assignment, m.member_id, m.generation, m.needs_rejoin) == (b"mine", "me", 1, False)


def test_a_leader_is_told_of_all_and_sends_what_they_get() -> None:
    m = member()
    join(m, leader=True)
    assert m.is_leading
    assert m.members == {"me": (b"s", None)}
    request = m.sync_request({"me": b"all"})
    assert [(each.member_id, each.assignment) for each in request.assignments] == [("me", b"all")]


def test_a_new_member_joins_again_with_the_id_it_was_given() -> None:
    m = member()
    assert m.join_request(PROTOCOLS, 0).member_id == ""
    code = ErrorCode.MEMBER_ID_REQUIRED
    answer = JoinGroupResponse(error_code=code, protocol_name="", member_id="given")
    assert m.on_join(answer, 0) is Outcome.GO_ON
    assert m.needs_rejoin
    assert m.join_request(PROTOCOLS, 0).member_id == "given"


@pytest.mark.parametrize(
    ("code", "outcome", "keeps_id", "has_lost"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, Outcome.RETRY, False, True),
        (ErrorCode.NOT_COORDINATOR, Outcome.FIND_COORDINATOR, True, False),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Outcome.FIND_COORDINATOR, True, False),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Outcome.RETRY, True, False),
        (ErrorCode.REBALANCE_IN_PROGRESS, Outcome.RETRY, True, False),
        (ErrorCode.FENCED_INSTANCE_ID, Outcome.FATAL, False, True),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Outcome.FATAL, False, True),
        (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, Outcome.FATAL, False, True),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, Outcome.FATAL, False, True),
    ],
)
def test_a_refused_join(code: ErrorCode, outcome: Outcome, keeps_id: bool, has_lost: bool) -> None:
    m, found = refused_join(code)
    assert found is outcome
    assert m.state is State.UNJOINED
    assert (m.member_id == "me") is keeps_id
    assert m.take_loss() is has_lost
    assert not m.take_loss(), "it is told once"
    assert m.fatal == (code if outcome is Outcome.FATAL else None)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, Outcome.GO_ON),
        (ErrorCode.ILLEGAL_GENERATION, Outcome.RETRY),
        (ErrorCode.UNKNOWN_MEMBER_ID, Outcome.RETRY),
        (ErrorCode.NOT_COORDINATOR, Outcome.FIND_COORDINATOR),
    ],
)
def test_a_refused_sync_begins_again(code: ErrorCode, outcome: Outcome) -> None:
    m = member()
    join(m)
    m.sync_request({})
    assert m.on_sync(SyncGroupResponse(error_code=code), 0) is outcome
    assert m.needs_rejoin
    assert m.state is State.UNJOINED


def test_heartbeats_are_due_in_their_interval() -> None:
    m = stable()
    assert m.heartbeat_due_ms(1_000) == 2_000
    assert m.heartbeat_due_ms(5_000) == 0
    assert m.heartbeat_request(5_000) is not None
    assert m.heartbeat_due_ms(5_000) == HEARTBEAT_MS
    m.join_request(PROTOCOLS, 5_000)
    assert m.heartbeat_request(9_000) is None, "not in a rebalance"


@pytest.mark.parametrize(
    ("code", "outcome", "state", "rejoins"),
    [
        (ErrorCode.NONE, Outcome.GO_ON, State.STABLE, False),
        (ErrorCode.REBALANCE_IN_PROGRESS, Outcome.GO_ON, State.STABLE, True),
        (ErrorCode.NOT_COORDINATOR, Outcome.FIND_COORDINATOR, State.STABLE, False),
        (ErrorCode.ILLEGAL_GENERATION, Outcome.RETRY, State.UNJOINED, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, Outcome.RETRY, State.UNJOINED, True),
        (ErrorCode.FENCED_INSTANCE_ID, Outcome.FATAL, State.UNJOINED, False),
    ],
)
def test_answers_to_heartbeats(
    code: ErrorCode, outcome: Outcome, state: State, rejoins: bool
) -> None:
    m = stable("static")
    asked = m.heartbeat_request(0)
    assert asked is not None
    assert m.on_heartbeat(HeartbeatResponse(error_code=code), asked, 1) is outcome
    assert (m.state, m.needs_rejoin) == (state, rejoins)


def test_answers_to_past_questions_change_nothing() -> None:
    m = stable()
    asked = m.heartbeat_request(0)
    assert asked is not None
    join(m, generation=2)
    unknown = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)
    assert m.on_heartbeat(unknown, asked, 1) is Outcome.IGNORED
    m.sync_request({})
    m.on_sync(SyncGroupResponse(), 1)
    assert m.on_heartbeat(unknown, asked, 1) is Outcome.IGNORED, "of another generation"
    assert m.on_join(JoinGroupResponse(protocol_name=""), 1) is Outcome.IGNORED
    assert m.on_sync(SyncGroupResponse(), 1) is Outcome.IGNORED
    assert (m.state, m.generation) == (State.STABLE, 2)


def test_a_silent_coordinator_ends_the_session_and_a_slow_application_the_membership() -> None:
    m = stable()
    m.polled(0)
    assert not m.session_is_over(SESSION_MS)
    assert m.session_is_over(SESSION_MS + 1)
    assert not m.poll_is_overdue(POLL_MS)
    assert m.poll_is_overdue(POLL_MS + 1)


@pytest.mark.parametrize("names_members", [True, False])
def test_leaving(names_members: bool) -> None:
    m = stable()
    request = m.leave_request("bye", version_names_members=names_members)
    assert request is not None
    named = [each.member_id for each in request.members] if names_members else [request.member_id]
    assert named == ["me"]
    assert not m.is_member
    assert m.leave_request("bye", version_names_members=names_members) is None
    assert stable("static").leave_request("bye", version_names_members=True) is None


def test_a_refused_commit_of_the_member() -> None:
    m = stable()
    assert m.fail_commit(ErrorCode.REBALANCE_IN_PROGRESS) is Outcome.GO_ON
    assert m.needs_rejoin
    assert m.fail_commit(ErrorCode.NOT_COORDINATOR) is Outcome.FIND_COORDINATOR
    assert m.is_member
    assert m.fail_commit(ErrorCode.ILLEGAL_GENERATION) is Outcome.RETRY
    assert not m.is_member
    assert m.take_loss()
