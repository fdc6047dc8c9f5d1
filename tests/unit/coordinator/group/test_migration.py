"""Groups with members that change between the classic and the consumer protocol (KIP-848)."""

from __future__ import annotations

import pytest

from pybroker_kafka.coordinator.group.consumer.config import ConsumerGroupConfig, MigrationPolicy
from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.protocol.codec import encode_versioned
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tests.unit.coordinator.group.classic_consumer import (
    COOPERATIVE,
    EAGER,
    REBALANCE_MS,
    SESSION_MS,
    ClassicConsumer,
    owned_of,
)
from tests.unit.coordinator.group.consumer_harness import Consumer, ConsumerHarness, Topics
from tests.unit.coordinator.group.harness import GROUP

INTERVAL_MS = ConsumerGroupConfig().assignment_interval_ms
PARTITIONS = [("t", 0), ("t", 1), ("t", 2), ("t", 3)]
Members = tuple[Consumer | ClassicConsumer, ...]


def harness(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> ConsumerHarness:
    config = ConsumerGroupConfig(migration_policy=policy)
    return ConsumerHarness(Topics(t=4, u=2), GroupConfig(initial_rebalance_delay_ms=0), config)


@pytest.fixture
def h() -> ConsumerHarness:
    return harness()


def settle(h: ConsumerHarness, *members: Consumer | ClassicConsumer) -> None:
    for _ in range(30):
        h.advance(INTERVAL_MS)
        for member in members:
            member.beat()
            check(members)
    assert owned(members) == PARTITIONS


def owned(members: Members) -> list[tuple[str, int]]:
    return sorted((name, p) for one in members for name, found in one.owned.items() for p in found)


def check(members: Members) -> None:
    found = owned(members)
    assert len(found) == len(set(found)), found


def is_classic(h: ConsumerHarness) -> bool:
    return h.group().consumer is None


def classic_group(h: ConsumerHarness, protocol: str = COOPERATIVE) -> list[ClassicConsumer]:
    members = [ClassicConsumer(h, "t", protocol=protocol) for _ in range(2)]
    settle(h, *members)
    assert is_classic(h)
    assert h.state() == "Stable"
    return members


@pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE])
def test_a_group_goes_over_and_back(h: ConsumerHarness, protocol: str) -> None:
    one, other = classic_group(h, protocol)
    h.commit({("t", 0): 7}, member_id=one.member_id, generation_id=one.generation)
    generation = one.generation
    new = Consumer(h, "new", "t")
    assert new.beat().error is ErrorCode.NONE
    assert not is_classic(h)
    view = h.machine.describe_consumer_group(GROUP)
    assert [member.member_type for member in view.members] == [0, 0, 1]
    assert view.group_epoch == generation + 1
    settle(h, one, other, new)
    assert all(member.owned for member in (one, other, new))
    assert h.offset("t", 0) == 7
    h.restart()
    settle(h, one, other, new)
    assert not is_classic(h)
    new.harness.beat("new", -1)
    assert is_classic(h)
    assert h.state() == "PreparingRebalance"
    settle(h, one, other)
    assert h.state() == "Stable"
    assert h.offset("t", 0) == 7
    h.restart()
    settle(h, one, other)
    assert is_classic(h)


def test_all_members_roll_to_the_consumer_protocol(h: ConsumerHarness) -> None:
    one, other = classic_group(h)
    first, second = Consumer(h, "1", "t"), Consumer(h, "2", "t")
    one.leave()
    first.beat()
    settle(h, other, first)
    other.leave()
    second.beat()
    settle(h, first, second)
    assert not is_classic(h)
    third = ClassicConsumer(h, "t")
    h.beat("1", -1)
    settle(h, second, third)
    h.beat("2", -1)
    settle(h, third)
    assert is_classic(h)


def test_who_waits_in_a_rebalance_joins_anew(h: ConsumerHarness) -> None:
    one, other = classic_group(h)
    one.names = ("t", "u")
    one.join()
    assert one.joining is not None
    assert one.joining.is_waiting
    new = Consumer(h, "new", "t")
    new.beat()
    assert one.joining.error is ErrorCode.REBALANCE_IN_PROGRESS
    one.names = ("t",)
    settle(h, one, other, new)


def test_a_group_before_its_first_generation(h: ConsumerHarness) -> None:
    h = ConsumerHarness(Topics(t=4), GroupConfig(initial_rebalance_delay_ms=3_000))
    one = ClassicConsumer(h, "t")
    one.join()
    assert one.joining is not None
    new = Consumer(h, "new", "t")
    assert new.beat().error is ErrorCode.NONE
    assert one.joining.error is ErrorCode.REBALANCE_IN_PROGRESS
    settle(h, one, new)


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_no_policy_to_go_over(policy: MigrationPolicy) -> None:
    h = harness(policy)
    members = classic_group(h)
    call = h.join_consumer("new", "t")
    assert call.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert call.response.error_message == (
        f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is "
        "disabled."
    )
    assert is_classic(h)
    settle(h, *members)


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_no_policy_to_go_back(policy: MigrationPolicy) -> None:
    h = harness(policy)
    new = Consumer(h, "new", "t")
    new.beat()
    classic = ClassicConsumer(h, "t")
    classic.beat()
    if policy is MigrationPolicy.DISABLED:
        assert classic.last_error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        return
    settle(h, new, classic)
    h.beat("new", -1)
    assert not is_classic(h)
    settle(h, classic)


def test_a_group_too_large_for_the_other_protocol(h: ConsumerHarness) -> None:
    h.consumer_config = ConsumerGroupConfig(max_size=1)
    h.config = GroupConfig(initial_rebalance_delay_ms=0)
    h.restart()
    classic_group(h)
    assert h.join_consumer("new", "t").error is ErrorCode.GROUP_ID_NOT_FOUND
    small = ConsumerHarness(Topics(t=4), GroupConfig(max_size=1))
    members = [ClassicConsumer(small, "t"), ClassicConsumer(small, "t")]
    Consumer(small, "new", "t").beat()
    for member in members:
        member.beat()
    small.beat("new", -1)
    assert not is_classic(small)


def test_other_groups_than_those_of_consumers(h: ConsumerHarness) -> None:
    h.stable_group(protocol_type="connect", protocols={"v1": b"x"})
    call = h.join_consumer("new", "t")
    assert call.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "does not use the consumer embedded protocol" in call.response.error_message


def test_an_assignment_of_an_assignor_of_its_own(h: ConsumerHarness) -> None:
    member_id, call = h.join_new(rebalance_ms=1000)
    h.advance(0)
    data = encode_versioned(ConsumerProtocolAssignment(user_data=b"mine"), 1)
    h.sync(member_id, call.response.generation_id, {member_id: data})
    refused = h.join_consumer("new", "t")
    assert refused.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "an unsupported custom assignor is in use" in refused.response.error_message
    assert h.state() == "Stable"


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
def test_the_log_does_not_take_it(h: ConsumerHarness, error: ErrorCode) -> None:
    """Going over."""
    one, other = classic_group(h)
    new = Consumer(h, "new", "t")
    h.is_holding = True
    call = new.beat()
    assert h.heartbeat(one.member_id, one.generation) is ErrorCode.REBALANCE_IN_PROGRESS
    h.release(error)
    h.is_holding = False
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert is_classic(h) is (error is ErrorCode.NOT_ENOUGH_REPLICAS)
    settle(h, one, other, new)
    assert not is_classic(h)


@pytest.mark.parametrize("error", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT])
def test_the_log_does_not_take_the_way_back(h: ConsumerHarness, error: ErrorCode) -> None:
    one, other = classic_group(h)
    new = Consumer(h, "new", "t")
    settle(h, one, other, new)
    h.is_holding = True
    call = h.beat("new", -1)
    h.release(error)
    h.is_holding = False
    assert call.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert is_classic(h) is (error is ErrorCode.REQUEST_TIMED_OUT)
    if error is ErrorCode.NOT_ENOUGH_REPLICAS:
        settle(h, one, other, new)
        h.beat("new", -1)
    settle(h, one, other)
    assert is_classic(h)


def test_a_classic_member_joins_in_time_or_goes(h: ConsumerHarness) -> None:
    one, other = classic_group(h)
    new = Consumer(h, "new", "t")
    new.beat()
    lazy = one.member_id, one.generation
    assert h.heartbeat(*lazy) is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(REBALANCE_MS // (SESSION_MS // 2)):
        h.advance(SESSION_MS // 2)
        error = h.heartbeat(*lazy)
        other.beat()
        new.beat()
    assert error is ErrorCode.UNKNOWN_MEMBER_ID
    settle(h, other, new)


def test_a_classic_member_syncs_in_time_or_goes(h: ConsumerHarness) -> None:
    new = Consumer(h, "new", "t")
    new.beat()
    member_id, joined = h.join_new(session_ms=100_000, rebalance_ms=5_000)
    assert joined.error is ErrorCode.NONE
    assert joined.response.leader == ""
    assert joined.response.protocol_name == "range"
    h.advance(4_999)
    assert member_id in h.consumer_group().members
    h.advance(1)
    assert member_id not in h.consumer_group().members


def test_a_session_of_a_classic_member_is_its_own(h: ConsumerHarness) -> None:
    new = Consumer(h, "new", "t")
    new.beat()
    member_id, joined = h.join_new(session_ms=8_000)
    h.sync(member_id, joined.response.generation_id)
    h.advance(7_999)
    assert member_id in h.consumer_group().members
    h.advance(1)
    assert member_id not in h.consumer_group().members


def test_requests_that_do_not_fit(h: ConsumerHarness) -> None:
    new = Consumer(h, "new", "t")
    new.beat()
    assert h.join(protocols={}).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    malformed = h.join("m", protocols={"range": b"\0"})
    assert malformed.error is ErrorCode.UNKNOWN_SERVER_ERROR
    member_id, joined = h.join_new()
    generation = joined.response.generation_id
    other = h.join(protocols={"roundrobin": b""})
    assert other.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.sync(member_id, generation + 1).error is ErrorCode.ILLEGAL_GENERATION
    assert h.sync("nobody", generation).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.sync("new", new.epoch).error is ErrorCode.UNKNOWN_MEMBER_ID
    inconsistent = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert h.sync(member_id, generation, protocol=("consumer", "x")).error is inconsistent
    assert h.sync(member_id, generation, protocol=("connect", "range")).error is inconsistent
    assert h.heartbeat("new", new.epoch) is ErrorCode.UNKNOWN_MEMBER_ID
    assert h.heartbeat(member_id, generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert h.heartbeat(member_id, generation, instance="i") is ErrorCode.UNKNOWN_MEMBER_ID
    left = h.leave((member_id, None), ("nobody", None), ("", "i"))
    assert [ErrorCode(one.error_code) for one in left.members] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert h.leave(("nobody", None), version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_administrator_removes_members_of_both_protocols(h: ConsumerHarness) -> None:
    static = Consumer(h, "static", "t", instance_id="i")
    static.beat()
    classic = ClassicConsumer(h, "t")
    settle(h, static, classic)
    fenced = h.leave(("another", "i"))
    assert fenced.members[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    left = h.leave(("", "i"))
    assert left.members[0].error_code == ErrorCode.NONE
    assert is_classic(h)
    settle(h, classic)


def test_a_static_member_changes_its_protocol(h: ConsumerHarness) -> None:
    classic = ClassicConsumer(h, "t", instance="i")
    other = ClassicConsumer(h, "t")
    settle(h, classic, other)
    before = classic.owned
    new = Consumer(h, "new", "t", instance_id="i")
    new.beat()
    assert new.owned == before
    settle(h, other, new)
    assert h.sync(classic.member_id, 1, instance="i").error is ErrorCode.FENCED_INSTANCE_ID
    again = ClassicConsumer(h, "t", instance="i")
    again.beat()
    assert is_classic(h)
    assert again.last_error is ErrorCode.NONE
    settle(h, other, again)


def test_a_new_static_member_with_other_topics_goes_back_with_a_rebalance(
    h: ConsumerHarness,
) -> None:
    new = Consumer(h, "new", "t", instance_id="i")
    new.beat()
    other = ClassicConsumer(h, "t")
    settle(h, new, other)
    again = ClassicConsumer(h, "t", "u", instance="i")
    again.beat()
    assert is_classic(h)
    assert h.state() == "PreparingRebalance"
    again.names = ("t",)
    settle(h, other, again)


def test_the_assignment_of_old_clients(h: ConsumerHarness) -> None:
    """Before version 1 they own nothing that they tell; they get what they understand."""
    old = encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 0)
    new = Consumer(h, "new", "t")
    new.beat()
    member_id, joined = h.join_new(protocols={"range": old}, version=5)
    for _ in range(10):
        h.advance(INTERVAL_MS)
        new.beat()
        generation = joined.response.generation_id
        if h.heartbeat(member_id, generation) is ErrorCode.REBALANCE_IN_PROGRESS:
            joined = h.join(member_id, protocols={"range": old}, version=5)
    synced = h.sync(member_id, joined.response.generation_id, protocol=(None, None), version=3)
    data = bytes(synced.response.assignment)
    assert data[:2] == b"\0\0"
    assert len(owned_of(data)["t"]) == 2


def test_commits_of_classic_members(h: ConsumerHarness) -> None:
    one, other = classic_group(h)
    new = Consumer(h, "new", "t")
    settle(h, one, other, new)
    place = ("t", one.owned["t"][0])

    def commit(generation: int) -> int:
        call = h.commit({place: 5}, member_id=one.member_id, generation_id=generation)
        return int(call.response.topics[0].partitions[0].error_code)

    assert commit(one.generation) == ErrorCode.NONE
    assert commit(one.generation + 1) == ErrorCode.ILLEGAL_GENERATION
    assert h.offset(*place) == 5
