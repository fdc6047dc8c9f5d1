"""OffsetCommit, OffsetFetch and OffsetDelete in every version, with errors at each one's level."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from pybroker_kafka.protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.wire import WireClient, covers, unique
from tests.wire.group_steps import heartbeat, join, stable, subscription

NOTHING = (-1, -1, "", 0)

Committed = tuple[int, int, str | None, int]


@pytest.fixture
def group(kafka: WireClient) -> str:
    name = unique("group")
    kafka.coordinator(name)
    return name


def commit(
    kafka: WireClient,
    version: int,
    group: str,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    member: tuple[str, int] | None = None,
    instance_id: str | None = None,
    metadata: str | None = "note",
    **options: Any,
) -> int:
    """The error of the one partition committed."""
    part = OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset,
        committed_leader_epoch=3,
        committed_metadata=metadata,
    )
    if member is not None:
        options["member_id"], options["generation_id_or_member_epoch"] = member
    request = OffsetCommitRequest(
        group_id=group,
        group_instance_id=instance_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[part])],
        **options,
    )
    response = kafka.call(request, version)
    assert response.throttle_time_ms == 0
    (answered,) = response.topics
    assert answered.name == topic
    (answer,) = answered.partitions
    assert answer.partition_index == partition
    error: int = answer.error_code
    return error


def fetch_request(
    version: int, *groups: str, topics: dict[str, list[int]] | None, **options: Any
) -> OffsetFetchRequest:
    """In the form of the version; `topics` None asks for all."""
    if version >= 8:
        asked = None
        if topics is not None:
            asked = [
                OffsetFetchRequestTopics(name=name, partition_indexes=parts)
                for name, parts in topics.items()
            ]
        each = [OffsetFetchRequestGroup(group_id=group, topics=asked) for group in groups]
        return OffsetFetchRequest(groups=each, **options)
    named = None
    if topics is not None:
        named = [
            OffsetFetchRequestTopic(name=name, partition_indexes=parts)
            for name, parts in topics.items()
        ]
    (group,) = groups
    return OffsetFetchRequest(group_id=group, topics=named, **options)


def offsets_of(topics: list[Any]) -> dict[tuple[str, int], Committed]:
    return {
        (topic.name, part.partition_index): (
            part.committed_offset,
            part.committed_leader_epoch,
            part.metadata,
            part.error_code,
        )
        for topic in topics
        for part in topic.partitions
    }


def fetch(
    kafka: WireClient,
    version: int,
    group: str,
    topics: dict[str, list[int]] | None,
    **options: Any,
) -> tuple[int, dict[tuple[str, int], Committed]]:
    """The group's error (v2+) and what is committed."""
    response = kafka.call(fetch_request(version, group, topics=topics, **options), version)
    assert response.throttle_time_ms == 0
    if version >= 8:
        (answer,) = response.groups
        assert answer.group_id == group
        return answer.error_code, offsets_of(answer.topics)
    return response.error_code, offsets_of(response.topics)


@covers(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)
def test_commits_come_back_in_every_version(kafka: WireClient, group: str) -> None:
    topic = kafka.create_topic(partitions=2).name
    # Version 0 of both keeps offsets in ZooKeeper, which the others do not see.
    for version in kafka.versions(ApiKey.OFFSET_COMMIT):
        offset = 100 + version
        assert commit(kafka, version, group, topic, offset) == 0
        for reading in kafka.versions(ApiKey.OFFSET_FETCH):
            error, seen = fetch(kafka, reading, group, {topic: [0, 1]})
            assert error == 0
            assert set(seen) == {(topic, 0), (topic, 1)}
            if reading == 0:
                assert seen[topic, 0][0] == 100
                assert seen[topic, 1][0] == -1
                continue
            if version == 0:
                continue
            epoch = 3 if version >= 6 and reading >= 5 else -1
            assert seen[topic, 0] == (offset, epoch, "note", 0)
            assert seen[topic, 1] == NOTHING


def test_the_same_commit_again_and_again(kafka: WireClient, group: str) -> None:
    """It is read by its likeness to the last one, and answered from what is kept of it."""
    topic = kafka.create_topic().name
    for version in kafka.versions(ApiKey.OFFSET_COMMIT):
        for offset in (1, 2, 2**40, 0) if version else ():
            assert commit(kafka, version, group, topic, offset) == 0
            _, seen = fetch(kafka, 5, group, {topic: [0]})
            assert seen[topic, 0] == (offset, 3 if version >= 6 else -1, "note", 0)


def test_all_offsets_of_a_group(kafka: WireClient, group: str) -> None:
    one, two = kafka.create_topic().name, kafka.create_topic().name
    for topic in (one, two):
        assert commit(kafka, 9, group, topic, 7) == 0
    for version in kafka.versions(ApiKey.OFFSET_FETCH, first=2):
        error, seen = fetch(kafka, version, group, None)
        assert (error, set(seen)) == (0, {(one, 0), (two, 0)})
        assert fetch(kafka, version, unique("group"), None) == (0, {})


def test_offsets_of_several_groups(kafka: WireClient, group: str) -> None:
    topic, other = kafka.create_topic().name, unique("group")
    assert commit(kafka, 9, group, topic, 7) == 0
    assert commit(kafka, 9, other, topic, 8) == 0
    for version in kafka.versions(ApiKey.OFFSET_FETCH, first=8):
        request = fetch_request(version, group, other, topics={topic: [0]}, require_stable=True)
        answers = {one.group_id: one for one in kafka.call(request, version).groups}
        offsets = {
            name: (answer.error_code, offsets_of(answer.topics)[topic, 0][0])
            for name, answer in answers.items()
        }
        assert offsets == {group: (0, 7), other: (0, 8)}


def test_what_was_not_committed(kafka: WireClient, group: str) -> None:
    topic, missing = kafka.create_topic().name, unique("missing")
    for version in kafka.versions(ApiKey.OFFSET_FETCH, first=1):
        for name in (group, ""):
            error, seen = fetch(kafka, version, name, {topic: [0], missing: [4]})
            assert error == 0
            assert seen == {(topic, 0): NOTHING, (missing, 4): NOTHING}


def test_members_commit_with_their_generation(kafka: WireClient, group: str) -> None:
    topic = kafka.create_topic().name
    member, generation = stable(kafka, group)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    for version in kafka.versions(ApiKey.OFFSET_COMMIT, first=1):
        right = (member, generation)
        assert commit(kafka, version, group, topic, version, member=right) == 0
        cases = [
            (group, (member, generation + 1), ErrorCode.ILLEGAL_GENERATION),
            (group, ("nobody", generation), unknown),
            (group, ("", -1), unknown),
            (unique("group"), (member, generation), ErrorCode.ILLEGAL_GENERATION),
        ]
        for name, claimed, error in cases:
            assert commit(kafka, version, name, topic, 99, member=claimed) == error
        assert fetch(kafka, 9, group, {topic: [0]})[1][topic, 0][0] == version
    assert heartbeat(kafka, 4, group, member, generation) == 0


def test_a_static_member_is_fenced(kafka: WireClient, group: str) -> None:
    topic = kafka.create_topic().name
    old, generation = stable(kafka, group, instance_id="one")
    new = join(kafka, 9, group, instance_id="one").member_id
    for version in kafka.versions(ApiKey.OFFSET_COMMIT, first=7):
        fenced = commit(
            kafka, version, group, topic, 1, member=(old, generation), instance_id="one"
        )
        assert fenced == ErrorCode.FENCED_INSTANCE_ID
        taken = commit(kafka, version, group, topic, 1, member=(new, generation), instance_id="one")
        assert taken == 0
        nobody = commit(
            kafka, version, group, topic, 1, member=(new, generation), instance_id="two"
        )
        assert nobody == ErrorCode.UNKNOWN_MEMBER_ID


def test_no_commits_between_join_and_sync(kafka: WireClient, group: str) -> None:
    topic = kafka.create_topic().name
    joined = join(kafka, 9, group)
    for version in kafka.versions(ApiKey.OFFSET_COMMIT, first=1):
        member = (joined.member_id, joined.generation_id)
        error = commit(kafka, version, group, topic, 1, member=member)
        assert error == ErrorCode.REBALANCE_IN_PROGRESS


def test_commit_errors_of_a_partition(kafka: WireClient, group: str) -> None:
    topic = kafka.create_topic().name
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for version in kafka.versions(ApiKey.OFFSET_COMMIT):
        assert commit(kafka, version, group, unique("missing"), 1) == unknown
        assert commit(kafka, version, group, topic, 1, partition=9) == unknown
        long = commit(kafka, version, group, topic, 1, metadata="x" * 4097)
        assert long == ErrorCode.OFFSET_METADATA_TOO_LARGE
        assert commit(kafka, version, group, topic, 1, metadata="x" * 4096) == 0
        assert commit(kafka, version, group, topic, 1, metadata=None) == 0
    assert fetch(kafka, 9, group, {topic: [0]})[1][topic, 0] == (1, 3, "", 0)


def test_versions_with_times(kafka: WireClient, group: str) -> None:
    topic = kafka.create_topic().name
    for version in kafka.versions(ApiKey.OFFSET_COMMIT, first=2, last=4):
        assert commit(kafka, version, group, topic, version, retention_time_ms=3_600_000) == 0
        assert fetch(kafka, 9, group, {topic: [0]})[1][topic, 0] == (version, -1, "note", 0)


def delete(
    kafka: WireClient, group: str, topic: str, *partitions: int
) -> tuple[int, dict[int, int]]:
    parts = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    request = OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=parts)]
    )
    response = kafka.call(request, 0)
    errors = {p.partition_index: p.error_code for t in response.topics for p in t.partitions}
    return response.error_code, errors


@covers(ApiKey.OFFSET_DELETE)
def test_offsets_are_deleted(kafka: WireClient, group: str) -> None:
    assert list(kafka.versions(ApiKey.OFFSET_DELETE)) == [0]
    topic = kafka.create_topic(partitions=2).name
    for partition in (0, 1):
        assert commit(kafka, 9, group, topic, 5, partition=partition) == 0
    assert delete(kafka, group, topic, 0) == (0, {0: 0})
    seen = fetch(kafka, 9, group, {topic: [0, 1]})[1]
    assert (seen[topic, 0], seen[topic, 1][0]) == (NOTHING, 5)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert delete(kafka, group, unique("missing"), 0) == (0, {0: unknown})
    assert delete(kafka, group, topic, 1, 9) == (0, {1: 0, 9: unknown})
    # With its last offset the group is gone.
    assert delete(kafka, group, topic, 1) == (ErrorCode.GROUP_ID_NOT_FOUND, {})


def test_offsets_in_use_are_kept(kafka: WireClient, group: str) -> None:
    used, other = kafka.create_topic().name, kafka.create_topic().name
    protocols = [("range", subscription(b"", used))]
    member = stable(kafka, group, protocols=protocols)
    for topic in (used, other):
        assert commit(kafka, 9, group, topic, 5, member=member) == 0
    assert delete(kafka, group, used, 0) == (0, {0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC})
    assert delete(kafka, group, other, 0) == (0, {0: 0})
    connect = unique("group")
    stable(kafka, connect, protocol_type="connect")
    assert delete(kafka, connect, used, 0) == (ErrorCode.NON_EMPTY_GROUP, {})
