"""The membership of a share group, its sessions, and what is unpacked of its fetches."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.client.consumer.membership import Outcome
from pybroker_kafka.client.share.membership import LEAVE_EPOCH, ShareMembership, ShareState
from pybroker_kafka.client.share.records import unpack
from pybroker_kafka.client.share.session import (
    FINAL_EPOCH,
    Acknowledge,
    Run,
    ShareSession,
    runs_of,
)
from pybroker_kafka.protocol.apis.share_fetch import AcquiredRecords
from pybroker_kafka.protocol.apis.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.wire import batch

ID = bytes(range(16))
A, B = (ID, 0), (ID, 1)


def joined() -> ShareMembership:
    member = ShareMembership("g", "me", "r")
    member.subscribe(["t"])
    asked = member.heartbeat_request(0)
    assert asked is not None
    assert (asked.member_epoch, asked.rack_id, asked.subscribed_topic_names) == (0, "r", ["t"])
    assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=ID, partitions=[0, 1])])
    answer = ShareGroupHeartbeatResponse(
        member_epoch=3, heartbeat_interval_ms=500, assignment=assignment
    )
    assert member.on_heartbeat(answer, asked) is Outcome.GO_ON
    return member


def test_a_member_joins_and_leaves() -> None:
    member = joined()
    assert (member.state, member.epoch, member.assigned) == (ShareState.MEMBER, 3, {A, B})
    assert member.heartbeat_due_ms(100) == 400
    asked = member.heartbeat_request(500)
    assert asked is not None
    assert (asked.member_epoch, asked.rack_id, asked.subscribed_topic_names) == (3, None, None)
    member.subscribe(["t", "s"])
    assert member.heartbeat_due_ms(500) == 0
    left = member.leave_request()
    assert left is not None
    assert left.member_epoch == LEAVE_EPOCH
    assert member.leave_request() is None


@pytest.mark.parametrize(
    ("code", "outcome", "state"),
    [
        (ErrorCode.UNKNOWN_MEMBER_ID, Outcome.RETRY, ShareState.JOINING),
        (ErrorCode.FENCED_MEMBER_EPOCH, Outcome.RETRY, ShareState.JOINING),
        (ErrorCode.NOT_COORDINATOR, Outcome.FIND_COORDINATOR, ShareState.MEMBER),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Outcome.RETRY, ShareState.MEMBER),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, Outcome.FATAL, ShareState.OUT),
    ],
)
def test_errors(code: ErrorCode, outcome: Outcome, state: ShareState) -> None:
    member = joined()
    asked = member.heartbeat_request(0)
    assert asked is not None
    answer = ShareGroupHeartbeatResponse(error_code=code, error_message="why")
    assert member.on_heartbeat(answer, asked) is outcome
    assert member.state is state
    assert (member.fatal is not None) == (outcome is Outcome.FATAL)


def test_a_session_names_what_changes() -> None:
    session = ShareSession()
    first = session.fetch_step([A, B])
    assert (first.epoch, first.added, first.forgotten) == (0, [A, B], [])
    assert session.on_answer(ErrorCode.NONE)
    session.acknowledge(A, 4, Acknowledge.ACCEPT)
    second = session.fetch_step([B])
    assert (second.epoch, second.added, second.forgotten) == (1, [], [A])
    assert second.acknowledged == {A: [Run(4, 4, Acknowledge.ACCEPT)]}
    assert session.acknowledge_step() is None, "they are sent once"


def test_results_of_a_lost_session_are_void() -> None:
    session = ShareSession()
    session.fetch_step([A])
    session.on_answer(ErrorCode.NONE)
    session.acknowledge(A, 4, Acknowledge.ACCEPT)
    assert not session.on_answer(ErrorCode.SHARE_SESSION_NOT_FOUND)
    assert session.number == 1
    again = session.fetch_step([A])
    assert (again.epoch, again.added, again.acknowledged) == (0, [A], {})


def test_a_member_without_partitions_sends_its_heartbeats_sooner() -> None:
    """The coordinator assigns partitions once their states are there."""
    member = ShareMembership("g", "me", None)
    member.subscribe(["t"])
    times, now_ms = [], 0
    for _ in range(7):
        asked = member.heartbeat_request(now_ms)
        assert asked is not None
        answer = ShareGroupHeartbeatResponse(
            member_epoch=1,
            heartbeat_interval_ms=2_000,
            assignment=Assignment(topic_partitions=[]) if now_ms == 0 else None,
        )
        member.on_heartbeat(answer, asked)
        due_ms = member.heartbeat_due_ms(now_ms)
        assert due_ms is not None
        times.append(due_ms)
        now_ms += due_ms
    assert times == [100, 200, 400, 800, 1_600, 2_000, 2_000]


def test_results_that_are_not_stored_are_known() -> None:
    """Those under way, those that wait, and those that come too late for their session."""
    session = ShareSession()
    session.fetch_step([A, B])
    session.on_answer(ErrorCode.NONE)
    assert session.take_void() == []
    session.acknowledge(A, 4, Acknowledge.ACCEPT)
    assert session.acknowledge_step() is not None
    session.acknowledge(B, 5, Acknowledge.ACCEPT)
    session.on_lost()
    assert session.take_void() == [A, B]
    assert session.take_void() == []
    session.not_stored(B)
    assert session.take_void() == [B]
    session.fetch_step([A])
    session.on_answer(ErrorCode.NONE)
    session.acknowledge(A, 6, Acknowledge.ACCEPT)
    session.fetch_step([A])
    session.on_answer(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    assert session.take_void() == [A]
    session.acknowledge(A, 7, Acknowledge.ACCEPT)
    assert session.final_step() is not None
    assert session.take_void() == [], "its answer is awaited"


def test_a_result_that_a_later_delivery_replaces_is_not_stored() -> None:
    session = ShareSession()
    session.acknowledge(A, 4, Acknowledge.RENEW)
    session.acknowledge(A, 4, Acknowledge.ACCEPT)
    assert session.take_void() == []
    session.acknowledge(A, 4, Acknowledge.RELEASE)
    assert session.take_void() == [A]


def test_a_session_ends_with_its_last_results() -> None:
    session = ShareSession()
    assert session.final_step() is None
    session.fetch_step([A])
    session.on_answer(ErrorCode.NONE)
    session.acknowledge(A, 1, Acknowledge.RENEW)
    last = session.final_step()
    assert last is not None
    assert (last.epoch, last.is_renewal) == (FINAL_EPOCH, True)
    assert session.final_step() is None


@given(st.dictionaries(st.integers(0, 30), st.sampled_from(Acknowledge)))
def test_runs_say_the_same_as_their_offsets(results: dict[int, Acknowledge]) -> None:
    runs = list(runs_of(results.items()))
    said = {offset: run.kind for run in runs for offset in range(run.first, run.last + 1)}
    assert said == results
    for one, two in pairwise(runs):
        assert one.last < two.first
        assert one.last + 1 < two.first or one.kind is not two.kind


def test_acquired_offsets_are_records_or_gaps() -> None:
    data = batch(b"a", b"b", b"c")
    spans = [
        AcquiredRecords(first_offset=1, last_offset=1, delivery_count=2),
        AcquiredRecords(first_offset=2, last_offset=5, delivery_count=1),
    ]
    found = unpack(("t", 0), data, spans)
    assert [(r.offset, r.value, r.delivery_count) for r in found.records] == [
        (1, b"b", 2),
        (2, b"c", 1),
    ]
    assert found.gaps == [3, 4, 5]
    assert unpack(("t", 0), None, spans[:1]).gaps == [1]
