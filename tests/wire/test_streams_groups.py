"""StreamsGroupHeartbeat and -Describe against a broker with streams.version finalized."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from pybroker_kafka.protocol.apis.list_groups import ListGroupsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.streams_group_describe import StreamsGroupDescribeRequest
from pybroker_kafka.protocol.apis.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestKeyValue,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import Feature
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient, covers, unique
from tests.wire.feature_steps import finalize, versions

MISSING_INTERNAL_TOPICS = 3
CONFIG = {
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("streams-groups"), CONFIG) as broker:
        yield broker


@pytest.fixture(scope="module")
def kafka(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap) as client:
        served = {one.api_key for one in versions(client).api_keys}
        assert not served & {ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE}
        finalize(client, {Feature.STREAMS: 1})
        served = {one.api_key for one in versions(client).api_keys}
        assert served >= {ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE}
        yield client


@pytest.fixture
def group(kafka: WireClient) -> str:
    name = unique("group")
    kafka.coordinator(name)
    return name


def counting(
    source: str, prefix: str, partitions: int = 0, configs: Mapping[str, str] | None = None
) -> Any:
    """A word count: a topology with a repartition topic and a changelog topic."""
    part, info = StreamsGroupHeartbeatRequestSubtopology, StreamsGroupHeartbeatRequestTopicInfo
    return StreamsGroupHeartbeatRequestTopology(
        subtopologies=[
            part(
                subtopology_id="0",
                source_topics=[source],
                repartition_sink_topics=[f"{prefix}-repartition"],
            ),
            part(
                subtopology_id="1",
                repartition_source_topics=[
                    info(name=f"{prefix}-repartition", partitions=partitions)
                ],
                state_changelog_topics=[
                    info(
                        name=f"{prefix}-changelog",
                        topic_configs=[
                            StreamsGroupHeartbeatRequestKeyValue(key=key, value=value)
                            for key, value in (configs or {}).items()
                        ],
                    )
                ],
            ),
        ]
    )


def beat(kafka: WireClient, group: str, member: str, epoch: int, **fields: Any) -> Any:
    request = StreamsGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, **fields
    )
    return kafka.call(request, 0)


def join(kafka: WireClient, group: str, member: str, topology: Any) -> Any:
    return beat(
        kafka,
        group,
        member,
        0,
        topology=topology,
        process_id=member,
        rebalance_timeout_ms=60_000,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )


def tasks(answer: Any) -> dict[str, list[int]]:
    return {one.subtopology_id: one.partitions for one in answer.active_tasks}


@covers(ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE)
def test_internal_topics_are_created_and_tasks_assigned(kafka: WireClient, group: str) -> None:
    topic = kafka.create_topic(3)
    topology = counting(topic.name, group, configs={"cleanup.policy": "compact"})
    first = join(kafka, group, "a", topology)
    assert (first.error_code, first.heartbeat_interval_ms) == (ErrorCode.NONE, 1_000)
    assert [(one.status_code, one.status_detail) for one in first.status] == [
        (
            MISSING_INTERNAL_TOPICS,
            f"Internal topics are missing: {group}-changelog, {group}-repartition",
        )
    ]
    epoch = first.member_epoch
    answers: list[Any] = []

    def is_assigned() -> bool:
        nonlocal epoch
        answers.append(beat(kafka, group, "a", epoch))
        epoch = answers[-1].member_epoch
        return bool(answers[-1].active_tasks)

    until(is_assigned)
    assert tasks(answers[-1]) == {"0": [0, 1, 2], "1": [0, 1, 2]}
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=f"{group}-changelog")])
    (made,) = kafka.call(asked, 12).topics
    assert len(made.partitions) == 3
    resource = DescribeConfigsResource(
        resource_type=2, resource_name=made.name, configuration_keys=["cleanup.policy"]
    )
    (described,) = kafka.call(DescribeConfigsRequest(resources=[resource]), 4).results
    assert [one.value for one in described.configs] == ["compact"]
    listed = kafka.call(ListGroupsRequest(types_filter=["Streams"]), 5).groups
    assert [one.group_state for one in listed if one.group_id == group] == ["Stable"]
    (found,) = kafka.call(
        StreamsGroupDescribeRequest(group_ids=[group], include_authorized_operations=True), 0
    ).groups
    assert (found.group_state, found.group_epoch) == ("Stable", epoch)
    assert found.authorized_operations > 0
    assert [one.subtopology_id for one in found.topology.subtopologies] == ["0", "1"]
    (member,) = found.members
    assert (member.client_host, member.process_id) == ("/127.0.0.1", "a")
    second = join(kafka, group, "b", topology)
    kept = beat(kafka, group, "a", epoch)
    assert sum(map(len, tasks(kept).values())) == 3
    owned = [
        StreamsGroupHeartbeatRequestTaskIds(subtopology_id=name, partitions=partitions)
        for name, partitions in tasks(kept).items()
    ]
    beat(kafka, group, "a", epoch, active_tasks=owned, standby_tasks=[], warmup_tasks=[])
    given = beat(kafka, group, "b", second.member_epoch)
    assert sum(map(len, tasks(given).values())) == 3
    assert beat(kafka, group, "b", -1).member_epoch == -1


@pytest.mark.parametrize(
    ("partitions", "policy", "problem"),
    [(20_000, "compact", "More than 10000 partitions"), (0, "burn", "cleanup.policy")],
)
def test_topics_that_cannot_be_created_are_told(
    kafka: WireClient, group: str, partitions: int, policy: str, problem: str
) -> None:
    topic = kafka.create_topic(1)
    topology = counting(topic.name, group, partitions, {"cleanup.policy": policy})
    epoch = join(kafka, group, "a", topology).member_epoch

    def is_told() -> bool:
        nonlocal epoch
        answer = beat(kafka, group, "a", epoch)
        epoch = answer.member_epoch
        (detail,) = [
            one.status_detail for one in answer.status if one.status_code == MISSING_INTERNAL_TOPICS
        ]
        return f"; Creation failed: {group}-changelog (" in detail and problem in detail

    until(is_told)


@pytest.mark.parametrize("name", ["__consumer_offsets", "a b", "x" * 250])
def test_names_that_a_topology_may_not_have(kafka: WireClient, group: str, name: str) -> None:
    answer = join(kafka, group, "a", counting(name, group))
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert name in answer.error_message


def test_groups_that_are_not_there(kafka: WireClient, group: str) -> None:
    assert beat(kafka, group, "a", 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (described,) = kafka.call(StreamsGroupDescribeRequest(group_ids=[group]), 0).groups
    assert (described.error_code, described.topology) == (ErrorCode.GROUP_ID_NOT_FOUND, None)


def test_static_members_are_refused(kafka: WireClient, group: str) -> None:
    answer = beat(kafka, group, "a", 1, instance_id="i")
    assert (answer.error_code, answer.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "Static membership is not yet supported.",
    )
