"""Finalized features bring the protocols of Kafka 4, and take them away again.

One broker, whose features are raised and lowered; what it served before it serves after.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.features import SUPPORTED, Feature
from tests.support.patience import until
from tests.support.processes import BrokerProcess, running_broker
from tests.support.wire import WireClient, covers

UPGRADE, SAFE_DOWNGRADE = 1, 2


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("features")) as broker:
        yield broker


@pytest.fixture
def kafka(raised: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(raised.bootstrap) as client:
        yield client


def versions(client: WireClient, version: int = 4) -> Any:
    about = ApiVersionsRequest(client_software_name="wire", client_software_version="1")
    return client.call(about, version)


def ranges(answer: Any) -> dict[int, tuple[int, int]]:
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def finalize(client: WireClient, levels: dict[str, int], kind: int = UPGRADE) -> None:
    """And wait until this connection's broker serves it."""
    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level in levels.items()
    ]
    answer = client.call(UpdateFeaturesRequest(feature_updates=updates), 1)
    told = {result.feature: result.error_code for result in answer.results}
    assert told == dict.fromkeys(levels, ErrorCode.NONE), answer

    def is_known() -> bool:
        now = {one.name: one.max_version_level for one in versions(client).finalized_features}
        return all(now.get(name, 0) == level for name, level in levels.items())

    until(is_known)


@pytest.fixture
def finalized(kafka: WireClient) -> Iterator[WireClient]:
    finalize(kafka, {Feature.GROUP: 1})
    yield kafka
    finalize(kafka, {Feature.GROUP: 0}, SAFE_DOWNGRADE)


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


def test_what_is_not_finalized_is_not_served(raised: BrokerProcess) -> None:
    with WireClient(raised.bootstrap) as client:
        client.post(DescribeTopicPartitionsRequest(), 0)
        assert client.is_closed_by_broker()


@covers(ApiKey.DESCRIBE_TOPIC_PARTITIONS)
def test_topics_come_in_pages(finalized: WireClient) -> None:
    first = finalized.create_topic(3, "paged-1").name
    second = finalized.create_topic(4, "paged-2").name
    asked = [TopicRequest(name=name) for name in (second, "paged-0", first)]
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
        [("paged-0", missing, []), (first, 0, [0, 1])],
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
    assert (partition.offline_replicas, partition.eligible_leader_replicas) == ([], None)
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
