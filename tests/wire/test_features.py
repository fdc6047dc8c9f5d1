"""Finalized features bring the protocols of Kafka 4, and take them away again.

One broker, whose features are raised and lowered; what it served before it serves after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import SUPPORTED, Feature
from tests.support.processes import BrokerProcess
from tests.support.wire import WireClient, covers
from tests.wire.feature_steps import SAFE_DOWNGRADE, finalize, versions


@pytest.fixture
def kafka(raised_broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(raised_broker.bootstrap) as client:
        yield client


def ranges(answer: Any) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def test_with_nothing_finalized_it_is_a_broker_of_39(kafka: WireClient) -> None:
    before = versions(kafka)
    assert (before.supported_features, before.finalized_features) == ([], [])
    finalize(kafka, {Feature.GROUP: 1, Feature.METADATA: 30})
    raised = versions(kafka)
    assert {(one.name, one.min_version, one.max_version) for one in raised.supported_features} == {
        (name, low, high) for name, (low, high) in SUPPORTED.items()
    }
    assert {(one.name, one.max_version_level) for one in raised.finalized_features} == {
        (Feature.GROUP, 1),
        (Feature.METADATA, 30),
    }
    assert raised.finalized_features_epoch > before.finalized_features_epoch
    # Clients of before version 4 cannot read a least level of 0.
    assert [one.name for one in versions(kafka, 3).supported_features] == [Feature.METADATA]
    expected = {
        int(key): (spec.min_version, spec.highest({Feature.GROUP: 1, Feature.METADATA: 30}))
        for key, spec in API_TABLE.items()
        if spec.highest({Feature.GROUP: 1, Feature.METADATA: 30}) >= spec.min_version
    }
    assert ranges(raised) == expected
    finalize(kafka, {Feature.GROUP: 0, Feature.METADATA: 0}, SAFE_DOWNGRADE)
    after = versions(kafka)
    assert ranges(after) == ranges(before)
    assert (after.supported_features, after.finalized_features) == ([], [])


def test_what_is_not_finalized_is_not_served(raised_broker: BrokerProcess) -> None:
    with WireClient(raised_broker.bootstrap) as client:
        client.post(DescribeTopicPartitionsRequest(), 0)
        assert client.is_closed_by_broker()


@covers(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def test_topics_come_in_pages(finalized: WireClient) -> None:
    first = finalized.create_topic(3, "paged-1").name
    second = finalized.create_topic(4, "paged-2").name
    # More of them than a page has partitions.
    others = [f"paged-0-{number}" for number in range(5)]
    asked = [TopicRequest(name=name) for name in (second, *others, first)]
    pages, cursor = [], None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=asked, response_partition_limit=2, cursor=cursor
        )
        answer = finalized.call(request, 0)
        pages.append(
            [
                (t.name, t.error_code, [p.partition_index for p in t.partitions])
                for t in answer.topics
            ]
        )
        cursor = answer.next_cursor
        if cursor is None:
            break
    missing = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert pages == [
        [*((name, missing, []) for name in others), (first, 0, [0, 1])],
        [(first, 0, [2]), (second, 0, [0])],
        [(second, 0, [1, 2])],
        [(second, 0, [3])],
    ]


def test_partitions_have_what_metadata_has(finalized: WireClient) -> None:
    topic = finalized.create_topic(1, "described")
    answer = finalized.call(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic.name)]), 0
    )
    (described,) = answer.topics
    metadata = finalized.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)]), 12)
    assert (described.topic_id, described.is_internal) == (metadata.topics[0].topic_id, False)
    assert described.topic_authorized_operations > 0
    (partition,) = described.partitions
    me = finalized.me().node_id
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, me, 0)
    assert (partition.replica_nodes, partition.isr_nodes) == ([me], [me])
    # Lists, as Apache Kafka's: Java's admin client of 3.9 cannot have null.
    elr = (partition.eligible_leader_replicas, partition.last_known_elr)
    assert (partition.offline_replicas, *elr) == ([], [], [])
    everything = finalized.call(DescribeTopicPartitionsRequest(), 0)
    assert topic.name in [one.name for one in everything.topics]


@pytest.mark.parametrize(
    ("names", "cursor"),
    [(["t"], Cursor(topic_name="u")), ([], Cursor(topic_name="t", partition_index=-1))],
)
def test_a_cursor_that_makes_no_sense(
    finalized: WireClient, names: list[str], cursor: Cursor
) -> None:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names], cursor=cursor
    )
    answer = finalized.call(request, 0)
    assert [one.error_code for one in answer.topics] == [ErrorCode.INVALID_REQUEST] * len(names)
