"""Metadata, DescribeCluster and DescribeLogDirs in every version."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.describe_cluster import DescribeClusterRequest
from pybroker_kafka.protocol.apis.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.scala_texts import hash_ordered
from pybroker_kafka.protocol.schema import ZERO_UUID
from tests.support.wire import WireClient, batch, covers, unique

NOT_ASKED = -2_147_483_648
TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
WAIT_SECONDS = 120.0


def metadata(
    kafka: WireClient, version: int, *names: str, create: bool = False, **options: Any
) -> Any:
    if version >= 4:
        options["allow_auto_topic_creation"] = create
    request = MetadataRequest(topics=[MetadataRequestTopic(name=n) for n in names], **options)
    return kafka.call(request, version)


@covers(ApiKey.METADATA)
def test_metadata_of_a_topic_in_every_version(kafka: WireClient) -> None:
    topic = kafka.create_topic(partitions=3)
    host, _, port = kafka.bootstrap.rpartition(":")
    cluster_ids = set()
    for version in kafka.versions(ApiKey.METADATA):
        response = metadata(kafka, version, topic.name)
        assert response.throttle_time_ms == 0
        (broker,) = response.brokers
        assert (broker.host, broker.port, broker.rack) == (host, int(port), None)
        me = broker.node_id
        assert response.controller_id == (me if version >= 1 else -1)
        cluster_ids.add(response.cluster_id if version >= 2 else None)
        (answer,) = response.topics
        assert (answer.error_code, answer.name, answer.is_internal) == (0, topic.name, False)
        assert answer.topic_id == (topic.id if version >= 10 else ZERO_UUID)
        assert answer.topic_authorized_operations == NOT_ASKED
        assert response.cluster_authorized_operations == NOT_ASKED
        partitions = sorted(answer.partitions, key=lambda part: part.partition_index)
        assert [part.partition_index for part in partitions] == [0, 1, 2]
        for part in partitions:
            assert (part.error_code, part.leader_id) == (0, me)
            assert part.leader_epoch == (0 if version >= 7 else -1)
            assert (part.replica_nodes, part.isr_nodes) == ([me], [me])
            assert part.offline_replicas == []
    assert len(cluster_ids) == 2  # None, and one id of 22 characters.
    assert sorted(len(one) for one in cluster_ids if one) == [22]


def test_all_topics_or_none(kafka: WireClient) -> None:
    topics = {kafka.create_topic().name for _ in range(2)}
    for version in kafka.versions(ApiKey.METADATA):
        everything = kafka.call(MetadataRequest(topics=None if version else []), version)
        assert topics <= {topic.name for topic in everything.topics}
        assert len(everything.brokers) == 1
        if version >= 1:
            nothing = kafka.call(MetadataRequest(topics=[]), version)
            assert (nothing.topics, len(nothing.brokers)) == ([], 1)


def test_a_topic_is_created_by_asking_for_it(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.METADATA):
        name = unique("auto")
        (answer,) = metadata(kafka, version, name, create=True).topics
        assert answer.name == name
        assert answer.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert answer.partitions == []
        deadline = time.monotonic() + WAIT_SECONDS
        while answer.error_code or answer.partitions[0].error_code:
            assert time.monotonic() < deadline, answer
            (answer,) = metadata(kafka, version, name, create=True).topics
        assert len(answer.partitions) == 1


def test_a_topic_is_there_once_the_answer_is(kafka: WireClient) -> None:
    """In ZooKeeper: whoever creates it now is told that it exists."""
    for _ in range(10):
        name = unique("auto")
        (answer,) = metadata(kafka, 12, name, create=True).topics
        assert answer.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        (created,) = kafka.call(CreateTopicsRequest(topics=[topic], validate_only=True)).topics
        assert created.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_of_two_names_that_collide_one_is_not_created(kafka: WireClient) -> None:
    """The first in the order of a hash map is."""
    one = unique("x")
    names = hash_ordered([f"{one}.t", f"{one}_t"])
    first = [MetadataRequestTopic(name=name) for name in names]
    codes = {
        topic.name: ErrorCode(topic.error_code)
        for topic in kafka.call(MetadataRequest(topics=first)).topics
    }
    assert codes == dict(
        zip(
            names,
            [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.INVALID_TOPIC_EXCEPTION],
            strict=True,
        )
    )
    (later,) = metadata(kafka, 12, names[1], create=True).topics
    assert later.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_nothing_is_created_unless_allowed(kafka: WireClient) -> None:
    name = unique("missing")
    for version in kafka.versions(ApiKey.METADATA, first=4):
        for _ in range(2):
            (answer,) = metadata(kafka, version, name).topics
            assert (answer.name, answer.partitions) == (name, [])
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["a/b", "..", "x" * 250, "", "ä"])
def test_illegal_names(kafka: WireClient, name: str) -> None:
    for version in kafka.versions(ApiKey.METADATA):
        (answer,) = metadata(kafka, version, name, create=True).topics
        assert (answer.name, answer.error_code) == (name, ErrorCode.INVALID_TOPIC_EXCEPTION)
        if version >= 4:
            (answer,) = metadata(kafka, version, name).topics
            assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def by_id(kafka: WireClient, version: int, topic_id: bytes, name: str | None = None) -> Any:
    topic = MetadataRequestTopic(topic_id=topic_id, name=name)
    return kafka.call(MetadataRequest(topics=[topic]), version)


def test_topics_by_id(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.METADATA, first=12):
        (answer,) = by_id(kafka, version, topic.id).topics
        assert (answer.error_code, answer.name, answer.topic_id) == (0, topic.name, topic.id)
        assert len(answer.partitions) == 1
        (answer,) = by_id(kafka, version, b"\x09" * 16).topics
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (answer.name, answer.topic_id) == (None, b"\x09" * 16)
        assert answer.partitions == []


def test_a_topic_asked_twice_is_answered_once(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.METADATA):
        (answer,) = metadata(kafka, version, topic.name, topic.name).topics
        assert (answer.error_code, answer.name) == (0, topic.name)
        if version >= 12:
            twice = [MetadataRequestTopic(topic_id=topic.id, name=None)] * 2
            (answer,) = kafka.call(MetadataRequest(topics=twice), version).topics
            assert (answer.error_code, answer.name) == (0, topic.name)


def test_ids_come_too_early_in_versions_10_and_11(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.METADATA, first=10, last=11):
        response = by_id(kafka, version, topic.id, topic.name)
        for answer in response.topics:
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        response = kafka.call(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), version)
        for answer in response.topics:
            assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_authorized_operations(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.METADATA, first=8):
        response = metadata(
            kafka,
            version,
            topic.name,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=version <= 10,
        )
        assert response.topics[0].topic_authorized_operations == TOPIC_OPERATIONS
        cluster = CLUSTER_OPERATIONS if version <= 10 else NOT_ASKED
        assert response.cluster_authorized_operations == cluster


def test_internal_topics_are_marked(kafka: WireClient) -> None:
    kafka.coordinator(unique("group"))
    for version in kafka.versions(ApiKey.METADATA):
        (answer,) = metadata(kafka, version, "__consumer_offsets").topics
        assert (answer.error_code, len(answer.partitions)) == (0, 50)
        assert answer.is_internal == (version >= 1)


@covers(ApiKey.DESCRIBE_CLUSTER)
def test_describe_cluster_in_every_version(kafka: WireClient) -> None:
    known = kafka.call(MetadataRequest(topics=[]))
    host, _, port = kafka.bootstrap.rpartition(":")
    for version in kafka.versions(ApiKey.DESCRIBE_CLUSTER):
        for asked in (False, True):
            request = DescribeClusterRequest(include_cluster_authorized_operations=asked)
            answer = kafka.call(request, version)
            assert (answer.error_code, answer.error_message, answer.endpoint_type) == (0, None, 1)
            assert (answer.cluster_id, answer.controller_id) == (
                known.cluster_id,
                known.controller_id,
            )
            (broker,) = answer.brokers
            assert (broker.host, broker.port, broker.rack) == (host, int(port), None)
            assert broker.broker_id == known.brokers[0].node_id
            operations = CLUSTER_OPERATIONS if asked else NOT_ASKED
            assert answer.cluster_authorized_operations == operations


def test_only_brokers_can_be_described(kafka: WireClient) -> None:
    wrong = {2: ErrorCode.MISMATCHED_ENDPOINT_TYPE, 7: ErrorCode.UNSUPPORTED_ENDPOINT_TYPE}
    for version in kafka.versions(ApiKey.DESCRIBE_CLUSTER, first=1):
        for endpoint_type, error in wrong.items():
            answer = kafka.call(DescribeClusterRequest(endpoint_type=endpoint_type), version)
            assert (answer.error_code, answer.brokers) == (error, [])
            assert answer.error_message


@covers(ApiKey.DESCRIBE_LOG_DIRS)
def test_log_dirs_in_every_version(kafka: WireClient) -> None:
    topic = kafka.create_topic(partitions=2)
    records = batch(b"x" * 1000)
    assert kafka.produce(topic.name, records, partition=1).error_code == 0
    for version in kafka.versions(ApiKey.DESCRIBE_LOG_DIRS):
        asked = DescribableLogDirTopic(topic=topic.name, partitions=[0, 1])
        response = kafka.call(DescribeLogDirsRequest(topics=[asked]), version)
        assert (response.error_code, response.throttle_time_ms) == (0, 0)
        (result,) = response.results
        assert result.error_code == 0
        assert result.log_dir.startswith("/")
        if version >= 4:
            assert result.total_bytes > result.usable_bytes > 0
        else:
            assert (result.total_bytes, result.usable_bytes) == (-1, -1)
        (answered,) = result.topics
        assert answered.name == topic.name
        sizes = {part.partition_index: part.partition_size for part in answered.partitions}
        assert sizes == {0: 0, 1: len(records)}
        for part in answered.partitions:
            assert (part.offset_lag, part.is_future_key) == (0, False)
        everything = kafka.call(DescribeLogDirsRequest(topics=None), version)
        names = {one.name for result in everything.results for one in result.topics}
        assert topic.name in names


def test_log_dirs_of_unknown_topics_are_empty(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.DESCRIBE_LOG_DIRS):
        asked = DescribableLogDirTopic(topic=unique("missing"), partitions=[0])
        (result,) = kafka.call(DescribeLogDirsRequest(topics=[asked]), version).results
        assert (result.error_code, result.topics) == (0, [])
