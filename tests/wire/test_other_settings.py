"""What a broker answers under settings other than the defaults: switches off, limits low."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.create_topics import CreatableTopic, CreateTopicsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.processes import running_broker
from tests.support.wire import WireClient, batch, fetch_request, records_of, unique
from tests.wire import transaction_steps as transactions
from tests.wire.group_steps import heartbeat, join, join_request, stable
from tests.wire.test_configs import values
from tests.wire.test_fetch_sessions import CREATE
from tests.wire.test_metadata import metadata
from tests.wire.test_topics import delete, partitions_of

WAIT_SECONDS = 120.0
SETTINGS = {
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "false",
    "group.max.size": "1",
    "log.cleanup.policy": "compact",
    "log.retention.hours": "3",
    "max.incremental.fetch.session.cache.slots": "0",
    "message.max.bytes": "1000",
    "num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "transaction.max.timeout.ms": "2000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.segment.bytes": "77777",
    "transactional.id.expiration.ms": "1500",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WireClient]:
    directory = tmp_path_factory.mktemp("settings")
    with running_broker(directory, SETTINGS) as broker, WireClient(broker.bootstrap) as client:
        yield client


def test_no_topic_is_created_by_asking_for_it(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.METADATA):
        name = unique("missing")
        for _ in range(2):
            (answer,) = metadata(kafka, version, name, create=True).topics
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        everything = kafka.call(MetadataRequest(topics=None))
        assert name not in {topic.name for topic in everything.topics}


def test_no_topic_is_deleted(kafka: WireClient) -> None:
    topic = kafka.create_topic().name
    for version in kafka.versions(ApiKey.DELETE_TOPICS):
        (answer,) = delete(kafka, version, topic)
        disabled = ErrorCode.TOPIC_DELETION_DISABLED
        assert answer.error_code == (ErrorCode.INVALID_REQUEST if version < 3 else disabled)
        assert partitions_of(kafka, topic) == 1


def test_topics_inherit_the_brokers_settings(kafka: WireClient) -> None:
    topic = CreatableTopic(name=unique(), num_partitions=-1, replication_factor=-1)
    (result,) = kafka.call(CreateTopicsRequest(topics=[topic])).topics
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert partitions_of(kafka, topic.name) == 3
    keys = ("cleanup.policy", "retention.ms", "max.message.bytes")
    assert values(kafka, topic.name, *keys) == ["compact", "10800000", "1000"]
    too_large = kafka.produce(topic.name, batch(b"x" * 1000))
    assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    keyless = kafka.produce(topic.name, batch(b"x", key=None))
    assert keyless.error_code == ErrorCode.INVALID_RECORD


def test_without_room_there_is_no_fetch_session(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"value")
    for version in kafka.versions(ApiKey.FETCH, first=7):
        response = kafka.call(fetch_request(topic, version=version, session=CREATE), version)
        assert (response.error_code, response.session_id) == (0, 0)
        (answered,) = response.responses
        assert len(records_of(answered.partitions[0])) == 1


def test_a_full_group_takes_nobody(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.JOIN_GROUP):
        group = unique("group")
        kafka.coordinator(group)
        member, generation = stable(kafka, group)
        refused = kafka.call(join_request(version, group), version)
        if version >= 4 and refused.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            refused = kafka.call(join_request(version, group, refused.member_id), version)
        assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert (refused.generation_id, refused.members) == (-1, [])
        assert heartbeat(kafka, 4, group, member, generation) == 0
        again = join(kafka, version, group, member)
        assert again.generation_id == generation + 1


def test_internal_topics_have_settings_of_their_own(kafka: WireClient) -> None:
    kafka.coordinator(unique("group"))
    request = MetadataRequest(topics=[MetadataRequestTopic(name="__consumer_offsets")])
    (topic,) = kafka.call(request).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 50)
    keys = ("cleanup.policy", "segment.bytes", "compression.type")
    assert values(kafka, "__consumer_offsets", *keys) == ["compact", "104857600", "producer"]


@pytest.mark.parametrize("is_open", [False, True])
def test_transactional_ids_expire(kafka: WireClient, is_open: bool) -> None:
    """An open transaction is aborted first, when its time is over."""
    at = (kafka.create_topic(cleanup_policy="delete").name, 0)
    old = transactions.start(kafka, timeout_ms=300)
    if is_open:
        assert transactions.add(kafka, old, at) == {at: 0}
    deadline = time.monotonic() + WAIT_SECONDS
    unknown = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    while transactions.describe(kafka, old.name).error_code != unknown:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    gone = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert transactions.end(kafka, old) == gone
    assert transactions.add(kafka, old, at) == {at: gone}
    new = transactions.start(kafka, old.name, timeout_ms=300)
    assert (new.id != old.id, new.epoch) == (True, 0)


def test_the_longest_transaction(kafka: WireClient) -> None:
    name = transactions.new_name(kafka)
    too_long = transactions.init(kafka, name, timeout_ms=2001)
    assert too_long.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert transactions.start(kafka, name, timeout_ms=2000).epoch == 0


def test_the_topic_of_the_transactions(kafka: WireClient) -> None:
    transactions.new_name(kafka)
    assert partitions_of(kafka, "__transaction_state") == 2
    expected = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "min.insync.replicas": "1",
        "segment.bytes": "77777",
        "unclean.leader.election.enable": "false",
    }
    assert values(kafka, "__transaction_state", *expected) == list(expected.values())
