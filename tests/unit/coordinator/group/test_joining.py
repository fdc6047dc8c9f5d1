"""JoinGroup, case by case."""

import pytest

from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.protocol.errors import ErrorCode
from tests.unit.coordinator.group.harness import GROUP, Harness, encoded_size, subscription

DELAY_MS = GroupConfig().initial_rebalance_delay_ms


@pytest.fixture
def h() -> Harness:
    return Harness()


def test_a_dynamic_member_is_given_an_id_and_then_joins(h: Harness) -> None:
    first = h.join()
    assert first.error is ErrorCode.MEMBER_ID_REQUIRED
    assert first.response.member_id == "client-uuid1"
    assert h.state() == "Empty"

    second = h.join("client-uuid1")
    assert second.is_waiting
    assert h.state() == "PreparingRebalance"

    h.advance(DELAY_MS)
    answer = second.response
    assert second.error is ErrorCode.NONE
    assert (answer.generation_id, answer.leader, answer.member_id) == (
        1,
        "client-uuid1",
        "client-uuid1",
    )
    assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert [m.member_id for m in answer.members] == ["client-uuid1"]
    assert answer.members[0].metadata == subscription("topic-1")
    assert not answer.skip_assignment
    assert h.state() == "CompletingRebalance"


def test_before_version_4_a_member_joins_at_once(h: Harness) -> None:
    call = h.join(version=3)
    assert call.is_waiting
    h.advance(DELAY_MS)
    assert call.response.member_id == "client-uuid1"


def test_version_0_has_no_rebalance_timeout_of_its_own(h: Harness) -> None:
    h.join(version=0, session_ms=7_000)
    assert h.group().rebalance_timeout_ms == 7_000


def test_an_unused_member_id_is_forgotten_after_the_session_timeout(h: Harness) -> None:
    member_id = h.join(session_ms=10_000).response.member_id
    h.advance(9_999)
    assert member_id in h.group().pending_members
    h.advance(1)
    assert h.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_id_is_not_for_static_members(h: Harness) -> None:
    member_id = h.join().response.member_id
    call = h.join(member_id, instance="i1")
    assert (call.error, call.response.member_id) == (ErrorCode.UNKNOWN_SERVER_ERROR, "")


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_session_timeout_bounds(h: Harness, session_ms: int) -> None:
    call = h.join(session_ms=session_ms)
    assert call.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert not h.machine.groups


def test_group_id_must_not_be_empty(h: Harness) -> None:
    assert h.join(group="").error is ErrorCode.INVALID_GROUP_ID


def test_an_unknown_member_id_in_an_unknown_group(h: Harness) -> None:
    call = h.join("somebody")
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert call.response.member_id == "somebody"
    assert (call.response.generation_id, call.response.leader) == (-1, "")
    assert not h.machine.groups


def test_errors_have_a_null_protocol_name_from_version_7_on(h: Harness) -> None:
    for version, name in ((6, ""), (7, None)):
        response = h.join("somebody", version=version).response
        assert response.protocol_name == name
        assert encoded_size(response, version)


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("", {"range": b""}), ("consumer", {}), ("connect", {"range": b""}), ("consumer", {"x": b""})],
)
def test_inconsistent_protocols(
    h: Harness, protocol_type: str, protocols: dict[str, bytes]
) -> None:
    if protocol_type and protocols:
        h.join_new()
    call = h.join(protocol_type=protocol_type, protocols=protocols)
    assert call.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert call.response.member_id == ""


def test_the_initial_delay_is_extended_while_members_come(h: Harness) -> None:
    _, first = h.join_new(rebalance_ms=7_000)
    h.advance(2_000)
    _, second = h.join_new(rebalance_ms=7_000)
    h.advance(1_000)  # the first delay ends, but somebody came meanwhile
    assert first.is_waiting
    h.advance(2_000)
    _, third = h.join_new(rebalance_ms=7_000)
    h.advance(1_000)  # 6 s: the rest of the 7 s is 1 s
    assert first.is_waiting
    h.advance(999)
    assert first.is_waiting
    h.advance(1)
    assert [c.response.generation_id for c in (first, second, third)] == [1, 1, 1]


def test_the_initial_delay_never_ends_early(h: Harness) -> None:
    member_id, call = h.join_new()
    h.leave((member_id, None))
    assert call.error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.state() == "PreparingRebalance"
    h.advance(DELAY_MS)
    assert h.state() == "Empty"
    assert h.group().generation_id == 1


def test_without_initial_delay_the_first_rebalance_completes_with_the_next_tick() -> None:
    h = Harness(GroupConfig(initial_rebalance_delay_ms=0))
    _, call = h.join_new()
    h.advance(0)
    assert call.response.generation_id == 1


def test_the_second_member_starts_a_rebalance_that_completes_when_all_have_joined(
    h: Harness,
) -> None:
    (leader,) = h.stable_group()
    follower, joining = h.join_new()
    assert h.state() == "PreparingRebalance"
    assert h.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoining = h.join(leader)
    assert rejoining.response.generation_id == joining.response.generation_id == 2
    assert rejoining.response.leader == joining.response.leader == leader
    assert {m.member_id for m in rejoining.response.members} == {leader, follower}
    assert joining.response.members == []


def test_members_that_do_not_rejoin_are_removed_at_the_rebalance_timeout(h: Harness) -> None:
    old, *_ = h.stable_group(members=2, rebalance_ms=20_000, session_ms=600_000)
    newcomer, joining = h.join_new(rebalance_ms=20_000)
    h.advance(19_999)
    assert joining.is_waiting
    h.advance(1)
    assert joining.response.leader == newcomer  # the leader was removed
    assert [m.member_id for m in joining.response.members] == [newcomer]
    assert h.heartbeat(old, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_is_waited_for(h: Harness) -> None:
    (leader,) = h.stable_group()
    pending = h.join().response.member_id
    rejoining = h.join(leader)
    assert rejoining.is_waiting
    h.join(pending)
    assert rejoining.response.generation_id == 2


def test_a_leaving_pending_member_is_not_waited_for(h: Harness) -> None:
    (leader,) = h.stable_group()
    pending = h.join().response.member_id
    rejoining = h.join(leader)
    result = h.leave((pending, None))
    assert result.members[0].error_code == ErrorCode.NONE
    assert rejoining.response.generation_id == 2


def test_a_known_member_in_a_stable_group(h: Harness) -> None:
    leader, follower = h.stable_group(members=2)
    unchanged = h.join(follower)
    assert unchanged.response.generation_id == 1
    assert unchanged.response.members == []
    assert h.state() == "Stable"

    changed = h.join(follower, protocols={"range": subscription("topic-2")})
    assert changed.is_waiting
    assert h.state() == "PreparingRebalance"
    h.join(leader)
    assert h.group().subscribed_topics == {"topic-1", "topic-2"}


def test_a_rejoining_leader_always_rebalances(h: Harness) -> None:
    leader, follower = h.stable_group(members=2)
    call = h.join(leader)
    assert call.is_waiting
    assert h.state() == "PreparingRebalance"
    h.join(follower)
    assert call.response.generation_id == 2


def test_a_known_member_while_the_assignment_is_awaited(h: Harness) -> None:
    first, joined = h.join_new()
    h.advance(DELAY_MS)
    again = h.join(first)
    assert again.response == joined.response

    changed = h.join(first, protocols={"range": b"", "x": b""})
    assert changed.response.generation_id == 2


def test_the_join_that_is_superseded_is_answered(h: Harness) -> None:
    member_id, lost = h.join_new()
    again = h.join(member_id)
    assert lost.error is ErrorCode.REBALANCE_IN_PROGRESS
    h.advance(DELAY_MS)
    assert again.response.generation_id == 1


def test_a_new_member_that_waits_is_kept_for_five_minutes(h: Harness) -> None:
    h.stable_group(rebalance_ms=1_000_000, session_ms=1_000_000)
    _, joining = h.join_new(session_ms=6_000, rebalance_ms=1_000_000)
    h.advance(299_999)
    assert joining.is_waiting
    h.advance(1)
    assert joining.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_protocol_choice_by_votes_among_what_all_support(h: Harness) -> None:
    meta = subscription("t")
    _, a = h.join_new(protocols={"x": meta, "y": meta, "only-a": meta})
    h.join_new(protocols={"y": meta, "x": meta})
    h.join_new(protocols={"y": meta, "z": meta, "x": meta})
    h.advance(4 * DELAY_MS)
    assert a.response.protocol_name == "y"


def test_a_tie_between_protocols_goes_by_name(h: Harness) -> None:
    _, a = h.join_new(protocols={"x": b"", "w": b""})
    h.join_new(protocols={"w": b"", "x": b""})
    h.advance(3 * DELAY_MS)
    assert a.response.protocol_name == "w"


class TestGroupMaxSize:
    @pytest.fixture
    def h(self) -> Harness:
        return Harness(GroupConfig(max_size=2))

    def test_a_stable_group_takes_no_more(self, h: Harness) -> None:
        ids = h.stable_group(members=2)
        refused = h.join(version=3)
        assert refused.error is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert refused.response.member_id == ""
        assert h.state() == "Stable"
        assert h.join(ids[1]).error is ErrorCode.NONE

    def test_while_joining_the_first_to_come_are_in(self, h: Harness) -> None:
        first, second = h.stable_group(members=2)
        leader = h.join(first)
        newcomer = h.join(version=3)
        assert newcomer.is_waiting
        late = h.join(second)
        assert late.error is ErrorCode.GROUP_MAX_SIZE_REACHED
        assert leader.response.generation_id == newcomer.response.generation_id == 2
        assert second not in h.group().members

    def test_a_loaded_group_that_is_too_large_is_rebalanced(self) -> None:
        h = Harness()
        h.stable_group(members=3)
        h.config = GroupConfig(max_size=2)
        h.restart()
        assert h.state() == "PreparingRebalance"


def test_a_client_id_that_leaves_no_room_for_the_member_id(h: Harness) -> None:
    assert h.join(client_id="c" * 32_767).error is ErrorCode.INVALID_REQUEST
    assert h.join(client_id="c" * 32_730).error is ErrorCode.MEMBER_ID_REQUIRED


def test_the_group_of_a_refused_join_expires(h: Harness) -> None:
    h.join(protocols={})
    assert h.state(GROUP) == "Empty"
    h.advance(h.config.offsets_retention_check_interval_ms)
    assert h.state(GROUP) == "Dead"


def test_an_empty_group_without_offsets_expires_with_the_ids_that_it_gave_out(h: Harness) -> None:
    h.advance(h.config.offsets_retention_check_interval_ms - 1)
    member_id = h.join().response.member_id
    h.advance(1)
    assert h.join(member_id).error is ErrorCode.UNKNOWN_MEMBER_ID
