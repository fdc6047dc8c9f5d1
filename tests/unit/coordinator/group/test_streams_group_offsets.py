"""Streams groups: committed offsets, and the group as lists, descriptions and deletions show it."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.coordinator.group.streams.config import StreamsGroupConfig
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.unit.coordinator.group.harness import GROUP
from tests.unit.coordinator.group.streams_harness import (
    COUNTING,
    StreamsHarness,
    answer,
)


@pytest.fixture
def h() -> StreamsHarness:
    return StreamsHarness()


def commit(h: StreamsHarness, member: str, epoch: int, *partitions: int, topic: str = "in") -> Any:
    call = h._call("commit")
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id=member,
        generation_id_or_member_epoch=epoch,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(partition_index=n, committed_offset=1)
                    for n in partitions
                ],
            )
        ],
    )
    h.machine.commit_offsets(call, request, h.now_ms)
    h.perform()
    (answered,) = call.response.topics
    return [ErrorCode(one.error_code) for one in answered.partitions]


def test_offsets_with_epochs(h: StreamsHarness) -> None:
    h.join_streams("a")
    assert commit(h, "a", 2, 0, 1) == [ErrorCode.NONE] * 2
    assert commit(h, "a", 3, 0) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert commit(h, "b", 2, 0) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert commit(h, "", -1, 0) == [ErrorCode.UNKNOWN_MEMBER_ID]
    h.join_streams("b")
    h.beat("a", 2)
    h.beat("a", 2, active={"0": [0, 1]})
    # In its last epoch, what it has since then.
    assert commit(h, "a", 2, 0, 3) == [ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH]
    assert commit(h, "a", 2, 0, topic="other") == [ErrorCode.STALE_MEMBER_EPOCH]
    h.beat("b", 3)
    assert commit(h, "b", 2, 2) == [ErrorCode.STALE_MEMBER_EPOCH]

    def fetched(member: str | None, epoch: int) -> ErrorCode:
        answered = h.machine.fetch_offsets(GROUP, [("in", [0])], member, epoch)
        return ErrorCode(answered.error_code)

    assert fetched(None, -1) is ErrorCode.NONE
    assert fetched("a", 3) is ErrorCode.NONE
    assert fetched("a", 2) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetched("x", 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_group_in_lists_and_descriptions(h: StreamsHarness) -> None:
    h.join_streams("a", rack_id="r", tags={"zone": "z"}, endpoint="a.example")
    (listed,) = h.machine.list_groups(types=["Streams"]).groups
    assert (listed.protocol_type, listed.group_type, listed.group_state) == (
        "streams", "streams", "Stable",
    )  # fmt: skip
    assert not h.machine.list_groups(types=["consumer"]).groups
    assert h.machine.describe_group(GROUP).group_state == "Dead"
    assert h.machine.describe_consumer_group(GROUP).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    found = h.machine.describe_streams_group(GROUP)
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 2, 2)
    assert found.topology is not None
    [one] = found.topology.subtopologies or []
    assert (one.subtopology_id, one.source_topics) == ("0", ["in"])
    (member,) = found.members
    assert (member.member_id, member.rack_id, member.process_id) == ("a", "r", "process of a")
    assert [(t.key, t.value) for t in member.client_tags] == [("zone", "z")]
    assert member.assignment == member.target_assignment
    assert [(t.subtopology_id, t.partitions) for t in member.assignment.active_tasks] == [
        ("0", [0, 1, 2, 3])
    ]
    other = h.machine.describe_streams_group("other")
    assert (other.error_code, other.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND, "Group other not found.",
    )  # fmt: skip


def test_the_sizes_of_topics_are_told_when_they_are_right(h: StreamsHarness) -> None:
    call = h.join_streams("a", COUNTING)

    def sizes() -> list[int]:
        found = h.machine.describe_streams_group(GROUP).topology
        assert found is not None
        return [
            topic.partitions
            for one in found.subtopologies or ()
            for topic in (*one.repartition_source_topics, *one.state_changelog_topics)
        ]

    assert sizes() == [0, 0]
    h.topics.make("changelog", 4)
    h.topics.make("repartition", 4)
    h.machine.topics_changed({"changelog"})
    h.beat("a", answer(call).member_epoch)
    assert sizes() == [4, 4]


def test_an_empty_group_is_deleted_and_its_offsets_expire(h: StreamsHarness) -> None:
    h.join_streams("a")
    commit(h, "a", 2, 0)
    deleted = h._call("delete")
    h.machine.delete_groups(deleted, [GROUP], h.now_ms)
    h.perform()
    assert deleted.response.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    retention_ms = h.config.offsets_retention_ms
    for _ in range(2 * retention_ms // 40_000_000 + 2):
        h.beat("a", 2)
        h.advance(40_000)
    h.beat("a", -1)
    assert h.streams_group().state.value == "Empty"
    h.advance(retention_ms + h.config.offsets_retention_check_interval_ms)
    assert not list(h.machine.groups)
    h.restart()
    assert not list(h.machine.groups), "nothing is left in the log"


def test_an_empty_group_becomes_a_classic_one_and_back() -> None:
    h = StreamsHarness(streams_config=StreamsGroupConfig())
    h.join_streams("a")
    joined = h.join("x")
    assert joined.response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    h.beat("a", -1)
    joined = h.join()
    assert joined.response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
    assert h.group().streams is None
    h.advance(3_000)  # the delay of the group that is no more
    h.restart()
    assert all(group.streams is None for group in h.machine.groups)
