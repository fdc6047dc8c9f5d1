"""ConsumerGroupHeartbeat and -Describe against a broker with group.version finalized."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.list_groups import ListGroupsRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import Feature
from tests.support.patience import until
from tests.support.processes import running_broker
from tests.support.wire import WireClient, unique
from tests.wire.feature_steps import finalize

VERSIONS = (0, 1)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireClient]:
    with (
        running_broker(tmp_path_factory.mktemp("consumer-groups")) as broker,
        WireClient(broker.bootstrap) as client,
    ):
        finalize(client, {Feature.GROUP: 1})
        yield client


@pytest.fixture
def group(kafka: WireClient) -> str:
    name = unique("group")
    kafka.coordinator(name)
    return name


def beat(
    kafka: WireClient,
    version: int,
    group: str,
    member: str,
    epoch: int,
    owned: dict[bytes, list[int]] | None = None,
    **fields: Any,
) -> Any:
    partitions = None
    if owned is not None:
        partitions = [
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=found)
            for topic, found in owned.items()
        ]
    request = ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, topic_partitions=partitions, **fields
    )
    return kafka.call(request, version)


def join(kafka: WireClient, version: int, group: str, member: str, *topics: str) -> Any:
    return beat(
        kafka,
        version,
        group,
        member,
        0,
        {},
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=list(topics),
    )


def assigned(answer: Any) -> dict[bytes, list[int]]:
    return {topic.topic_id: topic.partitions for topic in answer.assignment.topic_partitions}


@pytest.mark.parametrize("version", VERSIONS)
def test_two_members_share_a_topic(kafka: WireClient, group: str, version: int) -> None:
    topic = kafka.create_topic(4)
    first = join(kafka, version, group, "a", topic.name)
    assert (first.error_code, first.member_id) == (ErrorCode.NONE, "a")
    assert assigned(first) == {topic.id: [0, 1, 2, 3]}
    epoch = join(kafka, version, group, "b", topic.name).member_epoch
    told: list[Any] = []

    def is_told() -> bool:
        """The target is computed anew after its interval."""
        nonlocal epoch
        epoch = beat(kafka, version, group, "b", epoch).member_epoch
        told.append(beat(kafka, version, group, "a", first.member_epoch))
        return told[-1].assignment is not None

    until(is_told)
    assert assigned(told[-1]) == {topic.id: [0, 1]}
    given_up = beat(kafka, version, group, "a", first.member_epoch, {topic.id: [0, 1]})
    last = given_up.member_epoch
    second = beat(kafka, version, group, "b", epoch)
    assert (second.member_epoch, assigned(second)) == (last, {topic.id: [2, 3]})
    listed = kafka.call(ListGroupsRequest(types_filter=["Consumer"]), 5).groups
    assert [one.group_state for one in listed if one.group_id == group] == ["Stable"]
    (described,) = kafka.call(ConsumerGroupDescribeRequest(group_ids=[group]), version).groups
    assert (described.group_state, described.group_epoch) == ("Stable", last)
    assert {member.member_id: assigned(member) for member in described.members} == {
        "a": {topic.id: [0, 1]},
        "b": {topic.id: [2, 3]},
    }
    assert {member.client_host for member in described.members} == {"/127.0.0.1"}
    assert beat(kafka, version, group, "a", -1).member_epoch == -1
    assert beat(kafka, version, group, "b", last + 7).error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_that_are_not_there(kafka: WireClient, group: str, version: int) -> None:
    answer = beat(kafka, version, group, "a", 1)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (described,) = kafka.call(ConsumerGroupDescribeRequest(group_ids=[group]), version).groups
    assert described.error_code == ErrorCode.GROUP_ID_NOT_FOUND
