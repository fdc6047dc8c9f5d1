"""Static membership (KIP-345, KIP-814), case by case."""

import pytest

from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.protocol.errors import ErrorCode
from tests.unit.coordinator.group.harness import Call, Harness, subscription

DELAY_MS = GroupConfig().initial_rebalance_delay_ms


@pytest.fixture
def h() -> Harness:
    return Harness()


def stable_static_group(h: Harness, count: int = 2) -> list[str]:
    calls = [h.join(instance=f"i{n}") for n in range(count)]
    h.advance(DELAY_MS * (count + 1))
    ids = [call.response.member_id for call in calls]
    for n, member_id in reversed(list(enumerate(ids))):
        given = {m: m.encode() for m in ids} if n == 0 else {}
        h.sync(member_id, 1, given, instance=f"i{n}")
    assert h.state() == "Stable"
    return ids


def test_a_static_member_needs_no_id_first(h: Harness) -> None:
    call = h.join(instance="i1")
    assert call.is_waiting
    h.advance(DELAY_MS)
    assert call.response.member_id == "i1-uuid1"
    assert call.response.members[0].group_instance_id == "i1"


def test_a_restarted_follower_is_replaced_without_rebalance(h: Harness) -> None:
    leader, old = stable_static_group(h)
    call = h.join(instance="i1")
    new = call.response.member_id
    assert new != old
    assert call.response.generation_id == 1
    assert call.response.leader == leader
    assert (call.response.members, call.response.skip_assignment) == ([], False)
    assert h.state() == "Stable"
    assert h.sync(new, 1, instance="i1").response.assignment == old.encode()
    assert h.heartbeat(old, 1, instance="i1") is ErrorCode.FENCED_INSTANCE_ID
    assert h.sync(old, 1, instance="i1").error is ErrorCode.FENCED_INSTANCE_ID
    assert h.heartbeat(new, 1, instance="i1") is ErrorCode.NONE


def test_a_restarted_leader_from_version_9_on_skips_the_assignment(h: Harness) -> None:
    stable_static_group(h)
    answer = h.join(instance="i0", version=9).response
    assert answer.leader == answer.member_id
    assert answer.skip_assignment
    assert len(answer.members) == 2


def test_a_restarted_leader_before_version_9_is_told_of_its_old_self(h: Harness) -> None:
    old, _ = stable_static_group(h)
    answer = h.join(instance="i0", version=8).response
    assert answer.leader == old
    assert not answer.members
    assert not answer.skip_assignment
    assert h.group().leader_id == answer.member_id


def test_the_replacement_is_persisted(h: Harness) -> None:
    _, old = stable_static_group(h)
    new = h.join(instance="i1").response.member_id
    h.restart()
    assert h.heartbeat(new, 1, instance="i1") is ErrorCode.NONE
    assert h.heartbeat(old, 1, instance="i1") is ErrorCode.FENCED_INSTANCE_ID


def test_a_replacement_that_cannot_be_persisted_is_undone(h: Harness) -> None:
    _, old = stable_static_group(h)
    h.is_holding = True
    call = h.join(instance="i1")
    assert call.is_waiting
    h.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert call.response.member_id == ""
    assert h.heartbeat(old, 1, instance="i1") is ErrorCode.NONE


def test_a_replacement_that_is_replaced_while_it_is_persisted(h: Harness) -> None:
    stable_static_group(h)
    h.is_holding = True
    first = h.join(instance="i1")
    second = h.join(instance="i1")
    assert first.error is ErrorCode.FENCED_INSTANCE_ID
    h.release()
    assert second.response.generation_id == 1
    assert h.group().static_members["i1"] == second.response.member_id


def test_a_rebalance_begins_while_a_replacement_is_persisted(h: Harness) -> None:
    leader, _ = stable_static_group(h)
    h.is_holding = True
    replaced = h.join(instance="i1")
    rejoining = h.join(leader, instance="i0")
    assert rejoining.response.generation_id == replaced.response.generation_id == 2
    h.release()
    assert h.state() == "CompletingRebalance"


@pytest.mark.parametrize("outcome", [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_replacement_is_persisted_after_a_rebalance_began(h: Harness, outcome: ErrorCode) -> None:
    ids = stable_static_group(h, 3)
    h.is_holding = True
    replaced = h.join(instance="i1")
    leader = h.join(ids[0], instance="i0")
    h.release(outcome)
    assert replaced.is_waiting
    h.join(ids[2], instance="i2")
    assert leader.response.generation_id == replaced.response.generation_id == 2
    assert replaced.response.member_id in h.group().members


def test_a_change_of_the_selected_protocol_rebalances(h: Harness) -> None:
    both = {"a": subscription("t"), "b": subscription("t")}
    only_b = {"b": subscription("t")}
    first = h.join(instance="i0", protocols=both)
    h.advance(DELAY_MS)
    assert first.response.protocol_name == "a"
    h.sync(first.response.member_id, 1, instance="i0", protocol=("consumer", "a"))
    assert h.state() == "Stable"
    # The group supports "b" too, but the vote changes.
    again = h.join(instance="i0", protocols=only_b)
    assert again.response.generation_id == 2
    assert again.response.protocol_name == "b"


def test_replacement_during_the_join_phase_fences_the_waiting_member(h: Harness) -> None:
    waiting = h.join(instance="i1")
    again = h.join(instance="i1")
    assert waiting.error is ErrorCode.FENCED_INSTANCE_ID
    h.advance(DELAY_MS)
    assert again.response.generation_id == 1


def test_replacement_while_the_assignment_is_awaited_rebalances(h: Harness) -> None:
    calls = [h.join(instance=f"i{n}") for n in range(2)]
    h.advance(DELAY_MS * 3)
    follower = calls[1].response.member_id
    syncing = h.sync(follower, 1, instance="i1")
    again = h.join(instance="i1")
    assert syncing.error is ErrorCode.FENCED_INSTANCE_ID
    assert h.state() == "PreparingRebalance"
    assert again.is_waiting
    h.join(calls[0].response.member_id, instance="i0")
    assert again.response.generation_id == 2


def test_static_members_that_do_not_rejoin_stay(h: Harness) -> None:
    leader, follower = stable_static_group(h)
    rejoining = h.join(leader, instance="i0", session_ms=600_000)
    keep_alive(h, [(follower, "i1")], 60_000)
    assert rejoining.response.generation_id == 2
    assert {m.group_instance_id for m in rejoining.response.members} == {"i0", "i1"}


def keep_alive(h: Harness, members: list[tuple[str, str]], milliseconds: int) -> None:
    for _ in range(milliseconds // 5_000):
        h.advance(5_000)
        for member_id, instance in members:
            h.heartbeat(member_id, h.group().generation_id, instance=instance)


def test_nobody_rejoins_but_static_members_exist(h: Harness) -> None:
    leader, follower = stable_static_group(h)
    newcomer, joining = h.join_new(rebalance_ms=60_000)
    h.leave((newcomer, None))
    assert joining.error is ErrorCode.UNKNOWN_MEMBER_ID
    keep_alive(h, [(leader, "i0"), (follower, "i1")], 60_000)
    assert h.state() == "PreparingRebalance"
    assert h.group().generation_id == 1
    calls: list[Call] = [h.join(m, instance=i) for m, i in ((leader, "i0"), (follower, "i1"))]
    assert [c.response.generation_id for c in calls] == [2, 2]


def test_a_rebalance_timeout_of_zero_does_not_spin(h: Harness) -> None:
    stable_static_group(h, 1)
    static_id = h.join(instance="i0", rebalance_ms=0).response.member_id
    h.join(version=3, rebalance_ms=0)
    (newcomer,) = set(h.group().members) - {static_id}
    h.leave((newcomer, None))
    h.advance(5_000)
    assert h.state() == "PreparingRebalance"
    assert h.join(static_id, instance="i0").response.generation_id == 2


def test_a_static_member_expires_like_any_other(h: Harness) -> None:
    leader, _ = stable_static_group(h)
    h.advance(9_000)
    h.heartbeat(leader, 1, instance="i0")
    h.advance(1_000)
    assert h.state() == "PreparingRebalance"
    assert set(h.group().static_members) == {"i0"}


class TestAdministrator:
    def test_removes_a_member_by_its_instance_id(self, h: Harness) -> None:
        stable_static_group(h)
        response = h.leave(("", "i1"), ("", "i9"))
        assert response.error_code == ErrorCode.NONE
        assert [(m.group_instance_id, m.error_code) for m in response.members] == [
            ("i1", ErrorCode.NONE),
            ("i9", ErrorCode.UNKNOWN_MEMBER_ID),
        ]
        assert h.state() == "PreparingRebalance"

    def test_a_member_that_waits_for_its_assignment_is_answered(self, h: Harness) -> None:
        calls = [h.join(instance=f"i{n}") for n in range(2)]
        h.advance(DELAY_MS * 3)
        syncing = h.sync(calls[1].response.member_id, 1, instance="i1")
        h.leave(("", "i1"))
        assert syncing.error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_a_wrong_member_id_is_fenced(self, h: Harness) -> None:
        stable_static_group(h)
        response = h.leave(("somebody", "i1"), ("somebody", None))
        assert [m.error_code for m in response.members] == [
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
        ]
        assert h.state() == "Stable"
