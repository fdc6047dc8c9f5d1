"""Streams groups: who joins, has which tasks, is told what, and goes.

The rules are those of Kafka 4.3's GroupMetadataManager; `test_streams_group_answers` has its own
classes as the judge of records, assignments, topics and steps.
"""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.coordinator.group.streams.config import StreamsGroupConfig
from pybroker_kafka.coordinator.group.streams.member import MemberState
from pybroker_kafka.coordinator.group.streams.topic_configuration import Status
from pybroker_kafka.protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatRequestTaskOffset,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.unit.coordinator.group.consumer_harness import ConsumerHarness, Topics
from tests.unit.coordinator.group.harness import GROUP
from tests.unit.coordinator.group.streams_harness import (
    NO_DELAY,
    PLAIN,
    Streams,
    StreamsHarness,
    active,
    answer,
    error,
    standby,
    statuses,
    subtopology,
    topology,
)

STATEFUL = topology(subtopology("0", "in", changelogs=["changelog"]))


@pytest.fixture
def h() -> StreamsHarness:
    return StreamsHarness()


def stateful(**config: int) -> StreamsHarness:
    return StreamsHarness(Topics(**{"in": 4, "changelog": 4}), NO_DELAY._replace(**config))


# Joining


def test_a_member_gets_all_tasks(h: StreamsHarness) -> None:
    call = h.join_streams("a")
    assert error(call) is ErrorCode.NONE
    assert (answer(call).member_id, answer(call).member_epoch) == ("a", 2)
    assert answer(call).heartbeat_interval_ms == 5_000
    assert active(call) == {"0": [0, 1, 2, 3]}
    assert (standby(call), answer(call).warmup_tasks, answer(call).status) == ({}, [], [])
    assert h.streams_group().state.value == "Stable"
    call = h.beat("a", 2)
    assert (active(call), answer(call).member_epoch) == (None, 2)


def test_two_members_share_tasks_step_by_step(h: StreamsHarness) -> None:
    h.join_streams("a")
    second = h.join_streams("b")
    assert (answer(second).member_epoch, active(second)) == (3, {})
    assert h.streams_group().members["b"].progress.state is MemberState.UNRELEASED_TASKS
    told = h.beat("a", 2)
    assert (answer(told).member_epoch, active(told)) == (2, {"0": [0, 1]})
    assert active(h.beat("b", 3)) is None
    given_up = h.beat("a", 2, active={"0": [0, 1]})
    assert (answer(given_up).member_epoch, active(given_up)) == (3, None)
    assert active(h.beat("b", 3)) == {"0": [2, 3]}
    assert h.streams_group().state.value == "Stable"


def test_a_task_is_not_active_where_its_process_has_it_as_standby() -> None:
    h = stateful(num_standby_replicas=1)
    first, second = (Streams(h, name, name, STATEFUL) for name in "ab")
    for _ in range(4):
        first.beat()
        second.beat()
    assert {*first.active["0"], *second.active["0"]} == {0, 1, 2, 3}
    assert first.standby == second.active
    assert second.standby == first.active
    h.beat("a", -1)
    second.beat()
    assert second.active == {"0": sorted(first.standby["0"])}, (
        "its standby tasks are given up first"
    )
    second.beat()
    assert len(second.active["0"]) == 2, "they have just been given up"
    second.beat()
    assert second.active == {"0": [0, 1, 2, 3]}
    assert second.standby == {}


def test_the_first_target_waits_for_more_members() -> None:
    h = StreamsHarness(streams_config=StreamsGroupConfig())
    for name in "ab":
        call = h.join_streams(name)
        assert (answer(call).member_epoch, active(call)) == (1, {})
        assert statuses(call) == {
            Status.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured initial rebalance "
            "delay."
        }
    h.advance(2_999)
    assert Status.ASSIGNMENT_DELAYED in statuses(h.beat("a", 1))
    h.advance(1)
    first, second = h.beat("a", 1), h.beat("b", 1)
    assert (active(first), active(second)) == ({"0": [0, 2]}, {"0": [1, 3]})
    assert statuses(first) == {}
    h.advance(1_000)
    assert statuses(h.join_streams("c")) == {}, "only an empty group waits"


def test_targets_are_not_computed_more_often_than_the_interval() -> None:
    h = StreamsHarness(streams_config=StreamsGroupConfig(initial_rebalance_delay_ms=0))
    h.join_streams("a")
    call = h.join_streams("b")
    assert statuses(call) == {
        Status.ASSIGNMENT_DELAYED: "Assignment delayed due to the configured assignment interval."
    }
    assert answer(call).member_epoch == 2
    h.advance(1_000)
    assert statuses(h.beat("b", 2)) == {}
    assert active(h.beat("a", 2)) == {"0": [0, 1]}


def test_a_group_has_its_own_configs() -> None:
    h = StreamsHarness(Topics(**{"in": 2, "changelog": 2}))
    h.machine.group_config_changed(
        GROUP, {"streams.heartbeat.interval.ms": 7_000, "streams.num.standby.replicas": 1}
    )
    first, second = (Streams(h, name, name, STATEFUL) for name in "ab")
    for _ in range(4):
        call = first.beat()
        second.beat()
    assert answer(call).heartbeat_interval_ms == 7_000
    assert (first.standby, second.standby) == (second.active, first.active)
    epoch = h.streams_group().epoch
    h.machine.group_config_changed(GROUP, {})
    assert answer(first.beat()).heartbeat_interval_ms == 5_000
    assert h.streams_group().epoch == epoch + 1, "fewer standby tasks are another target"
    for _ in range(3):
        second.beat()
        first.beat()
    assert (first.standby, second.standby) == ({}, {})


def test_a_full_group_takes_nobody() -> None:
    h = StreamsHarness(streams_config=NO_DELAY._replace(max_size=1))
    h.join_streams("a")
    assert error(h.join_streams("b")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert error(h.join_streams("a")) is ErrorCode.GROUP_MAX_SIZE_REACHED, "as in Kafka"


def test_members_of_one_process_and_of_another() -> None:
    h = stateful(num_standby_replicas=1)
    for name, process in (("a", "p"), ("b", "p"), ("c", "q")):
        h.join_streams(name, STATEFUL, process=process)
    targets = h.streams_group().targets
    of_p = [*targets["a"].active.get("0", ()), *targets["b"].active.get("0", ())]
    of_p += [*targets["a"].standby.get("0", ()), *targets["b"].standby.get("0", ())]
    assert sorted(of_p) == [0, 1, 2, 3], "each task once in a process"


# Requests that are refused


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"member": " "}, "MemberId can't be empty."),
        ({"group": ""}, "GroupId can't be empty."),
        ({"rack_id": " "}, "RackId can't be empty."),
        ({"epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"instance_id": "i"}, "Static membership is not yet supported."),
        ({"task_offsets": [StreamsGroupHeartbeatRequestTaskOffset()]},
         "TaskOffsets are not supported yet."),
        ({"task_end_offsets": []}, "TaskEndOffsets are not supported yet."),
        ({"epoch": 0}, "RebalanceTimeoutMs must be provided in first request."),
        ({"epoch": 0, "rebalance_timeout_ms": 1}, "Topology must be non-null when (re-)joining."),
        ({"epoch": 0, "rebalance_timeout_ms": 1, "active": {"0": [1]}},
         "ActiveTasks must be empty when (re-)joining."),
        ({"epoch": 0, "rebalance_timeout_ms": 1, "standby": {"0": [1]}},
         "StandbyTasks must be empty when (re-)joining."),
        ({"tags": {str(n): "" for n in range(1_001)}}, "More than 1000 client tags."),
        ({"topology": PLAIN}, "Topology can only be provided when (re-)joining."),
    ],
)  # fmt: skip
def test_wrong_requests(h: StreamsHarness, values: dict[str, Any], problem: str) -> None:
    values = {"member": "a", "epoch": 1, **values}
    call = h.beat(**values)
    assert (error(call), answer(call).error_message) == (ErrorCode.INVALID_REQUEST, problem)


def test_task_lists_come_together(h: StreamsHarness) -> None:
    h.join_streams("a")
    call = h.beat("a", 2, active={})
    assert error(call) is ErrorCode.NONE
    request = StreamsGroupHeartbeatRequestTaskIds(subtopology_id="0", partitions=[0])
    call = h.send(
        StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id="a", member_epoch=2, active_tasks=[request]
        )
    )
    assert answer(call).error_message == "If one task-type is non-null, all must be non-null."
    call = h.send(
        StreamsGroupHeartbeatRequest(
            group_id=GROUP, member_id="a", member_epoch=2, warmup_tasks=[request]
        )
    )
    assert answer(call).error_message == "WarmupTasks are not supported yet."


def test_tasks_that_cannot_be(h: StreamsHarness) -> None:
    h.join_streams("a")
    call = h.beat("a", 2, active={"7": [0]})
    assert answer(call).error_message == "Subtopology 7 does not exist in the topology."
    call = h.beat("a", 2, active={"0": [4]})
    assert answer(call).error_message == (
        "Task 4 for subtopology 0 is invalid. Number of tasks for this subtopology: 4"
    )
    assert error(call) is ErrorCode.INVALID_REQUEST


def test_groups_and_members_that_are_not_there(h: StreamsHarness) -> None:
    call = h.beat("a", 1)
    assert (error(call), answer(call).error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {GROUP} not found.",
    )  # fmt: skip
    assert answer(h.beat("a", -1)).error_message == f"Group {GROUP} not found."
    h.join_streams("a")
    assert error(h.beat("b", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert error(h.beat("b", -1)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_epochs_that_are_not_the_members(h: StreamsHarness) -> None:
    h.join_streams("a")
    h.join_streams("b")
    h.beat("a", 2)
    h.beat("a", 2, active={"0": [0, 1]})
    assert error(h.beat("a", 4)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert error(h.beat("a", 1)) is ErrorCode.FENCED_MEMBER_EPOCH
    # It has not seen the answer with its epoch 3.
    assert error(h.beat("a", 2)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert error(h.beat("a", 2, active={"0": [0, 1, 2]})) is ErrorCode.FENCED_MEMBER_EPOCH
    assert error(h.beat("a", 2, active={"0": [0, 1]})) is ErrorCode.NONE
    assert error(h.beat("a", 2, active={"0": [1]})) is ErrorCode.NONE


def test_a_group_of_another_protocol_is_not_touched() -> None:
    h = StreamsHarness()
    other = ConsumerHarness(Topics(**{"in": 4}))
    other.join_consumer("a", "in")
    h.machine = other.machine
    h.calls = other.calls
    call = h.join_streams("b")
    assert (error(call), answer(call).error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {GROUP} is not a streams group.",
    )  # fmt: skip
    other.beat("a", -1)
    assert error(h.join_streams("b")) is ErrorCode.GROUP_ID_NOT_FOUND, "an empty one neither"
    streams = StreamsHarness()
    streams.join_streams("a")
    other.machine = streams.machine
    assert other.join_consumer("b", "in").error is ErrorCode.GROUP_ID_NOT_FOUND
    streams.beat("a", -1)
    assert other.join_consumer("b", "in").error is ErrorCode.GROUP_ID_NOT_FOUND


# Time, leaving, shutting down


def test_a_silent_member_is_removed(h: StreamsHarness) -> None:
    h.join_streams("a")
    h.advance(44_999)
    h.beat("a", 2)
    h.advance(44_999)
    assert h.streams_group().members.keys() == {"a"}
    h.advance(1)
    assert not h.streams_group().members
    assert h.streams_group().epoch == 3
    assert error(h.beat("a", 2)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_gives_up_nothing_is_removed(h: StreamsHarness) -> None:
    h.join_streams("a", timeout_ms=10_000)
    h.join_streams("b")
    h.beat("a", 2)
    h.advance(9_999)
    h.beat("a", 2)
    assert "a" in h.streams_group().members
    h.advance(1)
    assert "a" not in h.streams_group().members
    assert active(h.beat("b", 3)) == {"0": [0, 1, 2, 3]}


def test_a_member_leaves(h: StreamsHarness) -> None:
    h.join_streams("a")
    h.join_streams("b")
    call = h.beat("a", -1)
    assert (answer(call).member_epoch, answer(call).status) == (-1, [])
    assert active(h.beat("b", 3)) == {"0": [0, 1, 2, 3]}
    h.beat("b", -1)
    assert h.streams_group().state.value == "Empty"


def test_a_shutdown_of_the_application(h: StreamsHarness) -> None:
    h.join_streams("a")
    h.join_streams("b")
    told = {
        Status.SHUTDOWN_APPLICATION: "Streams group member b encountered a fatal error and "
        "requested a shutdown for the entire application."
    }
    assert statuses(h.beat("b", 3, shutdown_application=True)) == told
    assert statuses(h.beat("a", 2, shutdown_application=True)) == told
    h.beat("b", -1)
    assert statuses(h.beat("a", 2)) == told
    h.beat("a", -1)
    assert statuses(h.join_streams("c")) == {}


def test_endpoints_of_all_members() -> None:
    h = StreamsHarness(Topics(**{"in": 2, "other": 1}))
    of = topology(subtopology("0", "in", "other"))
    call = h.join_streams("a", of, endpoint="a.example")
    [one] = answer(call).partitions_by_user_endpoint or []
    assert (one.user_endpoint.host, one.user_endpoint.port) == ("a.example", 7070)
    assert [(p.topic, p.partitions) for p in one.active_partitions] == [
        ("in", [0, 1]), ("other", [0]),
    ]  # fmt: skip
    assert answer(call).endpoint_information_epoch == 0, "of a new group"
    call = h.beat("a", 2)
    assert answer(call).partitions_by_user_endpoint is None
    call = h.join_streams("b", of, endpoint="b.example")
    assert answer(call).endpoint_information_epoch == 1
    told = h.beat("a", 2, endpoint_information_epoch=0)
    assert answer(told).endpoint_information_epoch == 2
    hosts = [one.user_endpoint.host for one in answer(told).partitions_by_user_endpoint or ()]
    assert hosts == ["a.example", "b.example"]


def test_rejoining_keeps_the_tasks(h: StreamsHarness) -> None:
    h.join_streams("a")
    epoch = h.streams_group().epoch
    call = h.join_streams("a")
    assert active(call) == {"0": [0, 1, 2, 3]}
    assert h.streams_group().epoch == epoch, "nothing has changed"
    h.join_streams("a", rack_id="r", tags={"zone": "z"})
    metadata = h.streams_group().members["a"].metadata
    assert (metadata.rack_id, metadata.client_tags) == ("r", (("zone", "z"),))
    assert h.streams_group().epoch == epoch + 1


# The log


def test_a_group_is_loaded_as_it_was() -> None:
    h = stateful(num_standby_replicas=1)
    first, second = (Streams(h, name, name, STATEFUL) for name in "ab")
    for _ in range(3):
        first.beat(endpoint=f"{first.member_id}.example")
        second.beat()
    before = h.streams_group()
    h.restart()
    after = h.streams_group()
    assert after is not before
    assert (after.members, after.targets, after.epoch, after.topology) == (
        before.members, before.targets, before.epoch, before.topology,
    )  # fmt: skip
    assert (after.target_epoch, after.metadata_hash) == (before.target_epoch, before.metadata_hash)
    assert after.state is before.state
    call = first.beat()
    assert (error(call), after.epoch) == (ErrorCode.NONE, before.epoch)
    h.advance(45_000)
    assert not h.streams_group().members, "sessions begin anew"


def test_a_member_in_a_step_has_its_time_after_a_load(h: StreamsHarness) -> None:
    h.join_streams("a", timeout_ms=10_000)
    h.join_streams("b")
    h.beat("a", 2)
    h.restart()
    h.advance(10_000)
    assert h.streams_group().members.keys() == {"b"}


def test_what_is_not_in_the_log_did_not_happen(h: StreamsHarness) -> None:
    h.is_holding = True
    call = h.join_streams("a")
    h.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    h.is_holding = False
    assert error(call) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not list(h.machine.groups)
    h.join_streams("a")
    h.is_holding = True
    call = h.join_streams("b")
    h.release(ErrorCode.MESSAGE_TOO_LARGE)
    h.is_holding = False
    assert error(call) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert h.streams_group().members.keys() == {"a"}
    assert active(h.join_streams("b")) == {}


def test_a_member_that_could_not_be_removed_is_removed_later(h: StreamsHarness) -> None:
    h.join_streams("a")
    h.is_holding = True
    h.advance(45_000)
    assert not h.streams_group().members
    h.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    h.is_holding = False
    assert h.streams_group().members.keys() == {"a"}
    h.advance(45_000)
    assert not h.streams_group().members


def test_an_answer_waits_for_the_log(h: StreamsHarness) -> None:
    h.join_streams("a")
    h.is_holding = True
    second, quiet = h.join_streams("b"), None
    quiet = h.beat("a", 2)
    assert second.is_waiting
    assert quiet.is_waiting
    h.release()
    assert (error(second), error(quiet)) == (ErrorCode.NONE, ErrorCode.NONE)
