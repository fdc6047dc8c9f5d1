"""SyncGroup, Heartbeat and LeaveGroup, case by case."""

import pytest

from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.coordinator.group.states import (
    LEGAL_PREVIOUS_STATES,
    GroupState,
    check_transition,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.unit.coordinator.group.harness import GROUP, Harness, encoded_size

DELAY_MS = GroupConfig().initial_rebalance_delay_ms


@pytest.fixture
def h() -> Harness:
    return Harness()


def completing(h: Harness, members: int = 2) -> list[str]:
    """A group whose members have joined generation 1 and not yet synced."""
    calls = [h.join_new() for _ in range(members)]
    h.advance(DELAY_MS * (members + 1))
    assert h.state() == "CompletingRebalance"
    return [member_id for member_id, _ in calls]


class TestSync:
    def test_followers_wait_for_the_leaders_assignment(self, h: Harness) -> None:
        leader, follower = completing(h)
        waiting = h.sync(follower, 1)
        assert waiting.is_waiting
        call = h.sync(leader, 1, {leader: b"L", follower: b"F", "stranger": b"S"})
        assert (call.response.assignment, waiting.response.assignment) == (b"L", b"F")
        assert (call.response.protocol_type, call.response.protocol_name) == ("consumer", "range")
        assert h.state() == "Stable"

    def test_nobody_is_answered_before_the_assignment_is_stored(self, h: Harness) -> None:
        leader, follower = completing(h)
        h.is_holding = True
        calls = [h.sync(follower, 1), h.sync(leader, 1, {follower: b"F"})]
        assert all(call.is_waiting for call in calls)
        assert h.state() == "CompletingRebalance"
        h.release()
        assert [call.response.assignment for call in calls] == [b"F", b""]

    def test_a_repeated_sync_of_the_leader_is_stored_once(self, h: Harness) -> None:
        leader, follower = completing(h)
        h.is_holding = True
        lost = h.sync(leader, 1, {leader: b"1", follower: b"1"})
        again = h.sync(leader, 1, {leader: b"2", follower: b"2"})
        assert lost.error is ErrorCode.REBALANCE_IN_PROGRESS
        assert len(h.held) == 1
        h.release()
        assert again.response.assignment == b"1"

    @pytest.mark.parametrize(
        ("append_error", "client_error"),
        [
            (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
            (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
            (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
            (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
            (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
        ],
    )
    def test_an_assignment_that_cannot_be_stored(
        self, h: Harness, append_error: ErrorCode, client_error: ErrorCode
    ) -> None:
        leader, follower = completing(h)
        h.is_holding = True
        calls = [h.sync(follower, 1), h.sync(leader, 1)]
        h.release(append_error)
        assert [call.error for call in calls] == [client_error, client_error]
        assert h.state() == "PreparingRebalance"

    def test_a_rebalance_while_the_assignment_is_stored(self, h: Harness) -> None:
        leader, follower = completing(h)
        h.is_holding = True
        calls = [h.sync(follower, 1), h.sync(leader, 1, {leader: b"old"})]
        h.join_new()
        assert [call.error for call in calls] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
        h.release()
        assert h.state() == "PreparingRebalance"
        assert h.group().members[leader].assignment == b""

    def test_in_a_stable_group_the_assignment_is_given_again(self, h: Harness) -> None:
        _, follower = h.stable_group(members=2)
        assert h.sync(follower, 1).response.assignment == f"assigned to {follower}".encode()

    def test_during_the_join_phase(self, h: Harness) -> None:
        (leader,) = h.stable_group()
        h.join_new()
        assert h.sync(leader, 1).error is ErrorCode.REBALANCE_IN_PROGRESS

    def test_checks_in_their_order(self, h: Harness) -> None:
        assert h.sync("m", 1, group="nobody").error is ErrorCode.UNKNOWN_MEMBER_ID
        (leader,) = h.stable_group()
        assert h.sync("stranger", 9).error is ErrorCode.UNKNOWN_MEMBER_ID
        assert h.sync(leader, 0).error is ErrorCode.ILLEGAL_GENERATION
        for protocol in (("connect", "range"), ("consumer", "x"), (None, "range"), ("", "range")):
            call = h.sync(leader, 1, protocol=protocol)
            assert call.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert h.sync(leader, 1, protocol=(None, None), version=4).error is ErrorCode.NONE

    def test_members_that_do_not_sync_are_removed(self, h: Harness) -> None:
        leader, follower = h.stable_group(members=2, session_ms=600_000, rebalance_ms=20_000)
        h.join(leader, rebalance_ms=20_000, session_ms=600_000)
        h.join(follower, rebalance_ms=20_000, session_ms=600_000)
        h.sync(leader, 2)
        assert h.state() == "Stable"
        h.advance(19_999)
        assert follower in h.group().members
        h.advance(1)
        assert set(h.group().members) == {leader}
        assert h.state() == "PreparingRebalance"

    def test_when_all_have_synced_nobody_is_removed(self, h: Harness) -> None:
        ids = h.stable_group(members=2, session_ms=600_000, rebalance_ms=20_000)
        h.advance(100_000)
        assert set(h.group().members) == set(ids)


class TestHeartbeat:
    def test_in_each_state(self, h: Harness) -> None:
        leader, follower = completing(h)
        assert h.heartbeat(leader, 1) is ErrorCode.NONE
        h.sync(follower, 1)
        h.sync(leader, 1)
        assert h.heartbeat(leader, 1) is ErrorCode.NONE
        h.join(leader)
        assert h.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_checks_in_their_order(self, h: Harness) -> None:
        assert h.heartbeat("m", 1, group="") is ErrorCode.INVALID_GROUP_ID
        assert h.heartbeat("m", 1) is ErrorCode.UNKNOWN_MEMBER_ID
        (leader,) = h.stable_group()
        assert h.heartbeat("stranger", 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert h.heartbeat(leader, 1, instance="i1") is ErrorCode.UNKNOWN_MEMBER_ID
        assert h.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION

    def test_it_keeps_the_session_alive(self, h: Harness) -> None:
        (leader,) = h.stable_group(session_ms=10_000)
        for _ in range(5):
            h.advance(9_999)
            assert h.heartbeat(leader, 1) is ErrorCode.NONE
        h.advance(10_000)
        assert h.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert h.state() == "Empty"

    def test_a_session_does_not_expire_while_the_member_waits(self, h: Harness) -> None:
        leader, follower = h.stable_group(members=2, session_ms=10_000, rebalance_ms=60_000)
        waiting = h.join(follower, protocols={"range": b"x"}, session_ms=10_000)
        for _ in range(5):
            h.advance(9_000)
            h.heartbeat(leader, 1)
        assert waiting.is_waiting
        assert h.join(leader).response.generation_id == 2
        assert waiting.response.generation_id == 2
        h.advance(10_000)  # but from here on it counts again
        assert follower not in h.group().members


class TestLeave:
    def test_the_last_member_leaves(self, h: Harness) -> None:
        (leader,) = h.stable_group()
        response = h.leave((leader, None))
        assert response.members[0].error_code == ErrorCode.NONE
        assert h.state() == "Empty"
        assert h.group().generation_id == 2
        h.restart()
        assert h.state() == "Empty"
        assert h.group().generation_id == 2
        assert h.group().protocol_type == "consumer"

    def test_the_leader_leaves(self, h: Harness) -> None:
        leader, follower = h.stable_group(members=2)
        h.leave((leader, None))
        assert h.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        call = h.join(follower)
        assert call.response.leader == follower
        assert len(call.response.members) == 1

    def test_a_member_leaves_during_the_join_phase(self, h: Harness) -> None:
        leader, follower = h.stable_group(members=2)
        waiting = h.join(leader)
        h.leave((follower, None))
        assert waiting.response.generation_id == 2

    def test_before_version_3_the_members_error_is_the_responses(self, h: Harness) -> None:
        (leader,) = h.stable_group()
        response = h.leave(("stranger", None), version=2)
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert encoded_size(response, 2)
        assert h.leave((leader, None), version=0).error_code == ErrorCode.NONE
        assert h.state() == "Empty"

    def test_an_unknown_group(self, h: Harness) -> None:
        response = h.leave(("m", None))
        assert response.error_code == ErrorCode.NONE
        assert response.members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert h.leave(("m", None), version=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_whole_request_that_fails(self, h: Harness) -> None:
        response = h.leave(("m", None), group="")
        assert response.error_code == ErrorCode.INVALID_GROUP_ID
        assert response.members == []


@pytest.mark.parametrize("old", GroupState)
@pytest.mark.parametrize("new", GroupState)
def test_only_the_tables_transitions_are_legal(old: GroupState, new: GroupState) -> None:
    if old in LEGAL_PREVIOUS_STATES[new]:
        check_transition(old, new)
    else:
        with pytest.raises(AssertionError):
            check_transition(old, new)


def test_a_group_is_removed_with_its_members(h: Harness) -> None:
    """Not by a client: whoever waits is answered, and a loaded log knows nothing of it."""
    (leader, *_) = h.stable_group(members=2)
    h.commit({("topic-1", 0): 5}, generation_id=h.group().generation_id, member_id=leader)
    h.commit({("topic-1", 0): 7}, group="other")
    waiting = h.join(leader, protocols={"range": b"changed"})
    assert waiting.is_waiting
    h.machine.remove_groups([GROUP, "unknown"], h.now_ms)
    h.perform()
    assert waiting.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    for _ in range(2):
        assert [group.group_id for group in h.machine.all_groups()] == ["other"]
        assert h.offset("topic-1", 0) == -1
        assert h.offset("topic-1", 0, group="other") == 7
        h.restart()
