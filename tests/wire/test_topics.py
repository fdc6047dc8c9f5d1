"""CreateTopics, CreatePartitions and DeleteTopics in every version, on the controller."""

from __future__ import annotations

import time
from typing import Any

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pybroker_kafka.protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pybroker_kafka.protocol.apis.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.schema import ZERO_UUID
from tests.support.wire import Topic, WireClient, covers, unique

WAIT_SECONDS = 120.0
DEFAULT_CONFIG, TOPIC_CONFIG = 5, 1


def partitions_of(kafka: WireClient, name: str) -> int | None:
    """How many partitions with a leader the broker knows of a topic; None if it is unknown."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
    )
    (topic,) = kafka.call(request).topics
    if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    assert topic.error_code == 0
    assert all(partition.error_code == 0 for partition in topic.partitions)
    return len(topic.partitions)


def my_id(kafka: WireClient) -> int:
    node_id: int = kafka.call(MetadataRequest(topics=[])).brokers[0].node_id
    return node_id


def create(kafka: WireClient, version: int, *topics: CreatableTopic, **options: Any) -> list[Any]:
    response = kafka.call(
        CreateTopicsRequest(topics=list(topics), **{"timeout_ms": 10_000, **options}), version
    )
    assert response.throttle_time_ms == 0
    results: list[Any] = response.topics
    return results


def plain(name: str | None = None, partitions: int = 1, factor: int = 1) -> CreatableTopic:
    return CreatableTopic(
        name=name or unique(), num_partitions=partitions, replication_factor=factor
    )


def assert_failed(result: Any, version: int, error: ErrorCode) -> None:
    assert result.error_code == error, result
    assert bool(result.error_message) == (version >= 1)
    assert result.topic_id == ZERO_UUID
    assert (result.num_partitions, result.replication_factor) == (-1, -1)


@covers(ApiKey.CREATE_TOPICS)
def test_topics_are_created_in_every_version(kafka: WireClient) -> None:
    me = my_id(kafka)
    for version in kafka.versions(ApiKey.CREATE_TOPICS):
        counted = plain(partitions=3)
        counted.configs = [CreatableTopicConfig(name="segment.ms", value="1234567")]
        placed = plain(partitions=-1, factor=-1)
        placed.assignments = [
            CreatableReplicaAssignment(partition_index=i, broker_ids=[me]) for i in range(2)
        ]
        results = {result.name: result for result in create(kafka, version, counted, placed)}
        for topic, count in ((counted, 3), (placed, 2)):
            result = results[topic.name]
            assert (result.error_code, result.error_message or None) == (0, None)
            assert partitions_of(kafka, topic.name) == count
            assert (result.topic_id == ZERO_UUID) == (version < 7)
            if version < 5:
                assert (result.num_partitions, result.replication_factor) == (-1, -1)
                continue
            assert (result.num_partitions, result.replication_factor) == (count, 1)
            assert result.topic_config_error_code == 0
            configs = {config.name: config for config in result.configs}
            rolled = configs["segment.ms"]
            if topic is counted:
                assert (rolled.value, rolled.config_source) == ("1234567", TOPIC_CONFIG)
            else:
                assert (rolled.value, rolled.config_source) == ("604800000", DEFAULT_CONFIG)
            assert not rolled.read_only
            assert not rolled.is_sensitive


def test_default_counts(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.CREATE_TOPICS):
        topic = plain(partitions=-1, factor=-1)
        (result,) = create(kafka, version, topic)
        assert result.error_code == 0
        assert partitions_of(kafka, topic.name) == 1


def test_validate_only_creates_nothing(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.CREATE_TOPICS, first=1):
        topic = plain()
        (result,) = create(kafka, version, topic, validate_only=True)
        assert (result.error_code, result.topic_id) == (0, ZERO_UUID)
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (1, 1)
        assert partitions_of(kafka, topic.name) is None
        (result,) = create(kafka, version, plain(partitions=0), validate_only=True)
        assert_failed(result, version, ErrorCode.INVALID_PARTITIONS)


def wrong_topics(kafka: WireClient) -> list[tuple[CreatableTopic, ErrorCode]]:
    me = my_id(kafka)
    existing = kafka.create_topic(name=f"{unique()}.x").name

    def configured(key: str, value: str | None) -> CreatableTopic:
        topic = plain()
        topic.configs = [CreatableTopicConfig(name=key, value=value)]
        return topic

    def assigned(*lists: list[int], partitions: int = -1, first: int = 0) -> CreatableTopic:
        topic = plain(partitions=partitions, factor=-1)
        topic.assignments = [
            CreatableReplicaAssignment(partition_index=first + i, broker_ids=brokers)
            for i, brokers in enumerate(lists)
        ]
        return topic

    return [
        (plain(existing), ErrorCode.TOPIC_ALREADY_EXISTS),
        (plain(existing.replace(".", "_")), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (plain("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (plain("x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (plain("."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (plain("__cluster_metadata"), ErrorCode.INVALID_REQUEST),
        (plain(partitions=0), ErrorCode.INVALID_PARTITIONS),
        (plain(partitions=-2), ErrorCode.INVALID_PARTITIONS),
        (plain(factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (plain(factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (configured("retention.ms", "soon"), ErrorCode.INVALID_CONFIG),
        (configured("retention.ms", "-2"), ErrorCode.INVALID_CONFIG),
        (configured("no.such.config", "1"), ErrorCode.INVALID_CONFIG),
        (configured("retention.ms", None), ErrorCode.INVALID_CONFIG),
        (configured("cleanup.policy", "forget"), ErrorCode.INVALID_CONFIG),
        (assigned([me], partitions=1), ErrorCode.INVALID_REQUEST),
        (assigned([me, me]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned([me], first=1), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (assigned([me], [me, 99]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ]


def test_wrong_topics_do_not_stop_the_others(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.CREATE_TOPICS):
        cases = wrong_topics(kafka)
        good = plain()
        results = create(kafka, version, *(topic for topic, _ in cases), good)
        answers = {result.name: result for result in results}
        assert len(answers) == len(cases) + 1
        for topic, error in cases:
            assert_failed(answers[topic.name], version, error)
        assert answers[good.name].error_code == 0
        assert partitions_of(kafka, good.name) == 1


def test_a_topic_named_twice_is_refused(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.CREATE_TOPICS):
        topic = plain()
        results = create(kafka, version, topic, topic)
        assert len(results) == 2
        for result in results:
            assert_failed(result, version, ErrorCode.INVALID_REQUEST)
        assert partitions_of(kafka, topic.name) is None


def test_of_many_topics_in_a_request_those_that_collide_with_an_earlier_one_are_refused(
    kafka: WireClient,
) -> None:
    mark = plain().name
    names = [f"{mark}{dot}{number}" for number in range(60) for dot in ("-", ".", "_")]
    created = create(kafka, 7, *map(plain, names), timeout_ms=60_000)
    answers = {one.name: one for one in created}
    for name, answer in answers.items():
        if "_" in name.removeprefix(mark):
            assert_failed(answer, 7, ErrorCode.INVALID_TOPIC_EXCEPTION)
            assert partitions_of(kafka, name) is None
        else:
            assert answer.error_code == 0
    assert partitions_of(kafka, names[-2]) == 1
    assert list(answers) == names


def test_without_time_to_wait_the_topic_is_made_nevertheless(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.CREATE_TOPICS):
        topic = plain()
        (result,) = create(kafka, version, topic, timeout_ms=0)
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        (result,) = create(kafka, version, topic)
        assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def grow(
    kafka: WireClient,
    version: int,
    name: str,
    count: int,
    assignments: list[list[int]] | None = None,
    **options: Any,
) -> Any:
    lists = None
    if assignments is not None:
        lists = [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=lists)
    request = CreatePartitionsRequest(topics=[topic], **{"timeout_ms": 10_000, **options})
    (result,) = kafka.call(request, version).results
    assert result.name == name
    return result


@covers(ApiKey.CREATE_PARTITIONS)
def test_partitions_are_added_in_every_version(kafka: WireClient) -> None:
    me = my_id(kafka)
    for version in kafka.versions(ApiKey.CREATE_PARTITIONS):
        topic = kafka.create_topic()
        result = grow(kafka, version, topic.name, 4, validate_only=True)
        assert (result.error_code, result.error_message) == (0, None)
        assert partitions_of(kafka, topic.name) == 1
        assert grow(kafka, version, topic.name, 3).error_code == 0
        assert partitions_of(kafka, topic.name) == 3
        assert grow(kafka, version, topic.name, 5, [[me], [me]]).error_code == 0
        assert partitions_of(kafka, topic.name) == 5
        assert kafka.append(topic.name, b"value", partition=4) == 0


def test_create_partitions_errors(kafka: WireClient) -> None:
    me = my_id(kafka)
    topic = kafka.create_topic(partitions=2).name
    cases: list[tuple[str, int, list[list[int]] | None, ErrorCode]] = [
        (unique("missing"), 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (topic, 2, None, ErrorCode.INVALID_PARTITIONS),
        (topic, 1, None, ErrorCode.INVALID_PARTITIONS),
        (topic, -1, None, ErrorCode.INVALID_PARTITIONS),
        (topic, 3, [[99]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic, 3, [[me], [me]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic, 3, [[me, me]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic, 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ]
    for version in kafka.versions(ApiKey.CREATE_PARTITIONS):
        for name, count, assignments, error in cases:
            result = grow(kafka, version, name, count, assignments)
            assert result.error_code == error, (count, assignments)
            assert result.error_message
        twice = [CreatePartitionsTopic(name=topic, count=n, assignments=None) for n in (3, 4)]
        request = CreatePartitionsRequest(topics=twice, timeout_ms=10_000)
        for result in kafka.call(request, version).results:
            assert result.error_code == ErrorCode.INVALID_REQUEST
    assert partitions_of(kafka, topic) == 2


def delete(
    kafka: WireClient, version: int, *topics: str | bytes, timeout_ms: int = 10_000
) -> list[Any]:
    """Topics by name, or by id where the version has ids."""
    if version < 6:
        request = DeleteTopicsRequest(
            topic_names=[str(name) for name in topics], timeout_ms=timeout_ms
        )
    else:
        states = [
            DeleteTopicState(topic_id=one) if isinstance(one, bytes) else DeleteTopicState(name=one)
            for one in topics
        ]
        request = DeleteTopicsRequest(topics=states, timeout_ms=timeout_ms)
    response = kafka.call(request, version)
    assert response.throttle_time_ms == 0
    responses: list[Any] = response.responses
    return responses


def create_again(kafka: WireClient, name: str) -> Topic:
    """A deleted topic is gone from the brokers before its name is free."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        (result,) = create(kafka, 7, plain(name))
        if result.error_code == 0:
            return Topic(name, result.topic_id)
        assert result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert time.monotonic() < deadline
        time.sleep(0.02)


@covers(ApiKey.DELETE_TOPICS)
def test_topics_are_deleted_in_every_version(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.DELETE_TOPICS):
        topic = kafka.create_topic(partitions=2)
        kafka.append(topic.name, b"value")
        (result,) = delete(kafka, version, topic.name)
        assert (result.name, result.error_code, result.error_message) == (topic.name, 0, None)
        assert result.topic_id == ZERO_UUID  # Only who asks by id is told one.
        assert partitions_of(kafka, topic.name) is None
        again = create_again(kafka, topic.name)
        assert again.id != topic.id
        assert kafka.read(again) == []
        if version >= 6:
            assert kafka.fetch(topic).error_code == ErrorCode.UNKNOWN_TOPIC_ID
            (result,) = delete(kafka, version, again.id)
            assert (result.name, result.topic_id) == (topic.name, again.id)
            assert result.error_code == 0
            assert partitions_of(kafka, topic.name) is None


def test_delete_topics_errors(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.DELETE_TOPICS):
        topic, missing = kafka.create_topic(), unique("missing")
        results = {result.name: result for result in delete(kafka, version, topic.name, missing)}
        assert results[topic.name].error_code == 0
        assert results[missing].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version < 6:
            continue
        (result,) = delete(kafka, version, b"\x08" * 16)
        assert (result.error_code, result.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)
        assert result.topic_id == b"\x08" * 16


def test_a_topic_to_delete_has_a_name_or_an_id(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    state = DeleteTopicState(name=topic.name, topic_id=topic.id)
    for version in kafka.versions(ApiKey.DELETE_TOPICS, first=6):
        response = kafka.call(DeleteTopicsRequest(topics=[state], timeout_ms=1000), version)
        for result in response.responses:
            assert result.error_code == ErrorCode.INVALID_REQUEST
    assert partitions_of(kafka, topic.name) == 1
