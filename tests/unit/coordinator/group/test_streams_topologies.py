"""Streams groups: topologies, and the topics that they need.

The rules are those of Kafka 4.3's GroupMetadataManager.
"""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.coordinator.group.streams.topic_configuration import Status
from pybroker_kafka.protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequestKeyValue,
    StreamsGroupHeartbeatRequestTopology,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.unit.coordinator.group.streams_harness import (
    COUNTING,
    StreamsHarness,
    TopicInfo,
    active,
    answer,
    error,
    statuses,
    subtopology,
    topology,
)


@pytest.fixture
def h() -> StreamsHarness:
    return StreamsHarness()


def test_missing_source_topics(h: StreamsHarness) -> None:
    call = h.join_streams("a", topology(subtopology("0", "in", "x"), subtopology("1", "y")))
    assert statuses(call) == {Status.MISSING_SOURCE_TOPICS: "Source topics x, y are missing."}
    assert active(call) == {}
    assert h.streams_group().state.value == "NotReady"
    h.topics.make("x", 1)
    h.topics.make("y", 2)
    h.machine.topics_changed({"x", "y"})
    call = h.beat("a", answer(call).member_epoch)
    assert (statuses(call), active(call)) == ({}, {"0": [0, 1, 2, 3], "1": [0, 1]})


def test_missing_internal_topics_are_to_be_created(h: StreamsHarness) -> None:
    call = h.join_streams("a", COUNTING)
    assert statuses(call) == {
        Status.MISSING_INTERNAL_TOPICS: "Internal topics are missing: changelog, repartition"
    }
    wanted = call.response.topics
    assert wanted == {
        "changelog": wanted["changelog"]._replace(partitions=4),
        "repartition": wanted["repartition"]._replace(partitions=4),
    }
    h.topics.make("changelog", 4)
    h.topics.make("repartition", 4)
    h.machine.topics_changed({"changelog", "repartition"})
    call = h.beat("a", answer(call).member_epoch)
    assert call.response.topics == {}
    assert active(call) == {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}


def test_a_topic_that_grows_begins_an_epoch(h: StreamsHarness) -> None:
    h.join_streams("a")
    h.topics.make("in", 5)
    assert active(h.beat("a", 2)) is None, "nobody has told it yet"
    h.machine.topics_changed({"other"})
    assert active(h.beat("a", 2)) is None
    h.machine.topics_changed({"in"})
    call = h.beat("a", 2)
    assert (answer(call).member_epoch, active(call)) == (3, {"0": [0, 1, 2, 3, 4]})


def test_internal_topics_of_another_size(h: StreamsHarness) -> None:
    h.topics.make("repartition", 3)
    call = h.join_streams("a", COUNTING)
    assert statuses(call) == {
        Status.INCORRECTLY_PARTITIONED_TOPICS: "Existing topic repartition has different number of "
        "partitions: expected 4, found 3"
    }
    assert call.response.topics == {}


def test_copartitioned_topics_that_differ(h: StreamsHarness) -> None:
    h.topics.make("other", 3)
    of = topology(subtopology("0", "in", "other", together=[([0, 1], [])]))
    assert statuses(h.join_streams("a", of)) == {
        Status.INCORRECTLY_PARTITIONED_TOPICS: "Following topics do not have the same number of "
        "partitions: [{in=4, other=3}]"
    }


@pytest.mark.parametrize(
    ("of", "code"),
    [
        (topology(subtopology("0")), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (topology(subtopology("0", repartition={"r": 0})), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (
            topology(
                subtopology("0", sinks=["r"], repartition={"s": 0}),
                subtopology("1", sinks=["s"], repartition={"r": 0}),
            ),
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
        ),
        (
            topology(subtopology("0", "in", together=[([1], [])])),
            ErrorCode.UNKNOWN_SERVER_ERROR,
        ),
        (topology(subtopology("0", "in"), subtopology("0", "in")), ErrorCode.UNKNOWN_SERVER_ERROR),
        (topology(subtopology("0", "in"), epoch=-1), ErrorCode.UNKNOWN_SERVER_ERROR),
        (topology(*[subtopology(str(n), "in") for n in range(201)]),
         ErrorCode.STREAMS_INVALID_TOPOLOGY),
    ],
)  # fmt: skip
def test_topologies_that_cannot_be(
    h: StreamsHarness, of: StreamsGroupHeartbeatRequestTopology, code: ErrorCode
) -> None:
    assert error(h.join_streams("a", of)) is code
    assert not list(h.machine.groups)
    assert error(h.join_streams("a")) is ErrorCode.NONE


def test_topologies_and_heartbeats_of_too_many_parts(h: StreamsHarness) -> None:
    part = subtopology("0", "in", changelogs=["c"])
    part.state_changelog_topics[0].topic_configs = [
        StreamsGroupHeartbeatRequestKeyValue(key=str(n), value="") for n in range(5_001)
    ]
    assert error(h.join_streams("a", topology(part))) is ErrorCode.STREAMS_INVALID_TOPOLOGY
    part = subtopology("0", "in", together=[([0], [])] * 2_501)
    assert error(h.join_streams("a", topology(part))) is ErrorCode.STREAMS_INVALID_TOPOLOGY
    h.join_streams("a")
    many: tuple[Any, ...] = ({"0": range(10_001)}, {str(n): [] for n in range(10_001)})
    for tasks in many:
        call = h.beat("a", 2, active=tasks)
        assert answer(call).error_message == "More than 10000 tasks."


def test_a_topology_of_too_many_tasks(h: StreamsHarness) -> None:
    h.topics.make("large", 9_999)
    of = topology(subtopology("0", "large"), subtopology("1", "in"))
    call = h.join_streams("a", of)
    assert (error(call), answer(call).error_message) == (
        ErrorCode.STREAMS_INVALID_TOPOLOGY,
        "The topology has more than 10000 tasks.",
    )


def test_a_changelog_topic_has_no_size_of_its_own(h: StreamsHarness) -> None:
    wrong = subtopology("0", "in")
    wrong.state_changelog_topics = [TopicInfo(name="c", partitions=4)]
    call = h.join_streams("a", topology(wrong))
    assert error(call) is ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert answer(call).error_message == (
        "Changelog topic c must have an undefined partition count, but it is set to 4."
    )


def test_topologies_of_members_that_differ(h: StreamsHarness) -> None:
    h.join_streams("a", topology(subtopology("0", "in"), epoch=3))
    call = h.join_streams("b", topology(subtopology("0", "in"), epoch=2))
    assert statuses(call) == {
        Status.STALE_TOPOLOGY: "The member's topology epoch 2 is behind the group's topology epoch "
        "3."
    }
    call = h.join_streams("c", topology(subtopology("1", "in"), epoch=3))
    assert (error(call), answer(call).error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Topology updates are not supported yet.",
    )
    assert error(h.join_streams("c", topology(subtopology("0", "in"), epoch=4))) is (
        ErrorCode.INVALID_REQUEST
    )
    assert h.streams_group().members.keys() == {"a", "b"}
