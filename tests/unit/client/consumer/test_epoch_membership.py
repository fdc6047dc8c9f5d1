"""A member's way through its group by the consumer protocol, answer by answer."""

from __future__ import annotations

import pytest

from pybroker_kafka.client.consumer.epoch_membership import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    EpochMembership,
    IdPartition,
    MemberState,
)
from pybroker_kafka.client.consumer.membership import Outcome
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from pybroker_kafka.protocol.errors import ErrorCode

ID = bytes(range(16))
HEARTBEAT_MS, POLL_MS = 5_000, 60_000
A, B = (ID, 0), (ID, 1)


def outsider(instance_id: str | None = None) -> EpochMembership:
    m = EpochMembership(
        "g",
        "me",
        instance_id=instance_id,
        rack="r",
        assignor="range",
        max_poll_interval_ms=POLL_MS,
    )
    m.subscribe(["t", "s"], None)
    return m


def answer(
    epoch: int = 1, *assigned: IdPartition, code: ErrorCode = ErrorCode.NONE, says: bool = True
) -> ConsumerGroupHeartbeatResponse:
    topics = [
        ConsumerGroupHeartbeatResponseTopicPartitions(
            topic_id=ID, partitions=[partition for _, partition in assigned]
        )
    ]
    assignment = ConsumerGroupHeartbeatResponseAssignment(topic_partitions=topics)
    return ConsumerGroupHeartbeatResponse(
        error_code=code,
        member_id="me",
        member_epoch=epoch,
        heartbeat_interval_ms=HEARTBEAT_MS,
        assignment=assignment if says else None,
    )


def beat(m: EpochMembership, told: ConsumerGroupHeartbeatResponse, now: int = 0) -> Outcome:
    asked = m.heartbeat_request(now)
    assert asked is not None
    return m.on_heartbeat(told, asked)


def joined(*owned: IdPartition, instance_id: str | None = None) -> EpochMembership:
    m = outsider(instance_id)
    m.join()
    assert beat(m, answer(1, *owned)) is Outcome.GO_ON
    if owned:
        m.reconciled(owned)
        assert beat(m, answer(1, says=False)) is Outcome.GO_ON
    return m


def test_a_join_tells_everything_and_owns_nothing() -> None:
    m = outsider()
    assert m.heartbeat_due_ms(0) is None
    assert m.heartbeat_request(0) is None
    m.join()
    assert m.heartbeat_due_ms(0) == 0
    asked = m.heartbeat_request(0)
    assert asked is not None
    assert (asked.member_id, asked.member_epoch, asked.rebalance_timeout_ms) == ("me", 0, POLL_MS)
    assert (asked.rack_id, asked.server_assignor) == ("r", "range")
    assert asked.subscribed_topic_names == ["s", "t"]
    assert asked.topic_partitions == []


def test_facts_are_told_once_and_again_after_silence() -> None:
    m = joined(A)
    assert m.heartbeat_due_ms(0) == HEARTBEAT_MS
    asked = m.heartbeat_request(10)
    assert asked is not None
    assert (asked.member_epoch, asked.subscribed_topic_names, asked.topic_partitions) == (
        1,
        None,
        None,
    )
    m.on_silence()
    assert m.heartbeat_due_ms(10) == 0
    asked = m.heartbeat_request(10)
    assert asked is not None
    assert asked.subscribed_topic_names == ["s", "t"]
    assert asked.topic_partitions is not None
    assert [(one.topic_id, one.partitions) for one in asked.topic_partitions] == [(ID, [0])]


def test_an_assignment_is_acknowledged_once_it_is_reconciled() -> None:
    m = joined(A)
    assert not m.must_reconcile
    beat(m, answer(2, B))
    assert m.must_reconcile
    assert m.heartbeat_due_ms(0) == HEARTBEAT_MS, "nothing is revoked yet"
    m.reconciled([])
    assert m.heartbeat_due_ms(0) == 0
    asked = m.heartbeat_request(0)
    assert asked is not None
    assert (asked.member_epoch, asked.topic_partitions) == (2, [])
    assert m.must_reconcile, "a partition is still to be added"


def test_a_partition_that_is_taken_back_before_it_was_owned_is_acknowledged() -> None:
    """The coordinator waits for it: it gives the partition to nobody else before."""
    m = joined(A)
    beat(m, answer(2, A, B))
    beat(m, answer(3, A))
    assert not m.must_reconcile
    assert m.heartbeat_due_ms(0) == 0
    asked = m.heartbeat_request(0)
    assert asked is not None
    assert asked.topic_partitions is not None
    assert [(one.topic_id, one.partitions) for one in asked.topic_partitions] == [(ID, [0])]
    m.on_heartbeat(answer(3, A), asked)
    assert m.heartbeat_due_ms(0) == HEARTBEAT_MS, "once"


def test_another_subscription_is_told_at_once() -> None:
    m = joined()
    m.subscribe([], "t.*")
    assert m.heartbeat_due_ms(0) == 0
    asked = m.heartbeat_request(0)
    assert asked is not None
    assert (asked.subscribed_topic_names, asked.subscribed_topic_regex) == ([], "t.*")
    m.on_heartbeat(answer(2), asked)
    m.subscribe(["t"], None)
    asked = m.heartbeat_request(0)
    assert asked is not None
    assert (asked.subscribed_topic_names, asked.subscribed_topic_regex) == (["t"], "")


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ],
)
def test_a_fenced_member_joins_again_once_its_partitions_are_dropped(code: ErrorCode) -> None:
    m = joined(A)
    assert beat(m, answer(code=code)) is Outcome.RETRY
    assert (m.state, m.has_lost_partitions, m.is_member) == (MemberState.FENCED, True, False)
    assert m.heartbeat_due_ms(0) is None
    m.take_loss()
    asked = m.heartbeat_request(0)
    assert asked is not None
    assert (asked.member_id, asked.member_epoch, asked.topic_partitions) == ("me", 0, [])


def test_a_fenced_member_without_partitions_joins_at_once() -> None:
    m = joined()
    beat(m, answer(code=ErrorCode.FENCED_MEMBER_EPOCH))
    assert (m.state, m.has_lost_partitions) == (MemberState.JOINING, False)


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.NOT_COORDINATOR, Outcome.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Outcome.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Outcome.RETRY),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Outcome.RETRY),
    ],
)
def test_errors_that_leave_it_a_member(code: ErrorCode, outcome: Outcome) -> None:
    m = joined(A)
    assert beat(m, answer(code=code)) is outcome
    assert (m.is_member, m.owned, m.has_lost_partitions) == (True, {A}, False)
    assert m.heartbeat_due_ms(0) == 0


def test_a_fatal_error_ends_it() -> None:
    m = joined(A)
    assert beat(m, answer(code=ErrorCode.FENCED_INSTANCE_ID)) is Outcome.FATAL
    assert (m.fatal, m.state) == (ErrorCode.FENCED_INSTANCE_ID, MemberState.OUT)
    assert m.has_lost_partitions


def test_an_unknown_group_refuses_a_join() -> None:
    m = outsider()
    m.join()
    assert beat(m, answer(code=ErrorCode.GROUP_ID_NOT_FOUND)) is Outcome.FATAL


def test_an_answer_to_an_earlier_heartbeat_changes_nothing() -> None:
    m = joined(A)
    asked = m.heartbeat_request(0)
    assert asked is not None
    m.leave_request()
    assert m.on_heartbeat(answer(2, B), asked) is Outcome.IGNORED
    m.take_loss()
    m.join()
    assert m.on_heartbeat(answer(2, B), asked) is Outcome.IGNORED
    assert m.target == frozenset()


@pytest.mark.parametrize(("instance", "epoch"), [(None, LEAVE_EPOCH), ("i", LEAVE_STATIC_EPOCH)])
def test_it_leaves(instance: str | None, epoch: int) -> None:
    m = joined(A, instance_id=instance)
    request = m.leave_request()
    assert request is not None
    assert (request.member_epoch, request.instance_id) == (epoch, instance)
    assert (m.state, m.has_lost_partitions) == (MemberState.OUT, True)
    assert m.leave_request() is None


def test_who_never_joined_does_not_leave() -> None:
    m = outsider()
    assert m.leave_request() is None
    m.join()
    assert m.leave_request() is None
    m.join()
    m.heartbeat_request(0)  # its answer may be on the way
    assert m.leave_request() is not None


def test_an_application_that_does_not_poll() -> None:
    m = joined()
    m.polled(10)
    assert not m.poll_is_overdue(10 + POLL_MS)
    assert m.poll_is_overdue(11 + POLL_MS)
    m.leave_request()
    assert not m.poll_is_overdue(11 + POLL_MS)


def test_commits_that_are_refused() -> None:
    m = joined(A)
    assert m.fail_commit(ErrorCode.STALE_MEMBER_EPOCH) is Outcome.GO_ON
    assert m.fail_commit(ErrorCode.NOT_COORDINATOR) is Outcome.FIND_COORDINATOR
    assert m.is_member
    assert m.fail_commit(ErrorCode.UNKNOWN_MEMBER_ID) is Outcome.RETRY
    assert m.state is MemberState.FENCED
    assert m.fail_commit(ErrorCode.UNKNOWN_MEMBER_ID) is Outcome.GO_ON
