"""Request frames that real clients sent, recorded from their sockets.

Each file in tests/golden names its client and version. The clients spoke to a server that
advertised the versions of Kafka 3.9, and then those of 2.3 and 1.0, so that old forms occur too
(Java's kafka-clients spoke only to the first).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.codec import decode_versioned
from pybroker_kafka.protocol.framing import encode_request
from pybroker_kafka.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pybroker_kafka.protocol.schema import Struct
from tests.support.frames import decode_request, joined

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
CLIENTS = {"aiokafka": 36, "confluent-kafka": 85, "kafka-clients": 59, "kafka-python": 100}


class Recorded(NamedTuple):
    client: str
    api: str
    version: int
    frame: bytes


def recorded() -> list[Recorded]:
    found = []
    for client in CLIENTS:
        content = json.loads((GOLDEN / f"{client}.json").read_text())
        assert content["client"] == client
        assert content["version"]
        found += [
            Recorded(client, each["api"], each["version"], bytes.fromhex(each["frame"]))
            for each in content["frames"]
        ]
    return found


RECORDED = recorded()


def body_of(recorded: Recorded) -> Any:
    return decode_request(recorded.frame)[1]


def named(api: str, client: str, version: int) -> Any:
    """The first such request."""
    for each in RECORDED:
        if (each.api, each.client, each.version) == (api, client, version):
            return body_of(each)
    raise AssertionError(f"{client} sent no {api} v{version}")


def test_how_many_frames_there_are() -> None:
    for client, count in CLIENTS.items():
        assert sum(each.client == client for each in RECORDED) == count
    assert len({each.api for each in RECORDED}) >= 50


@pytest.mark.parametrize(
    "each", RECORDED, ids=lambda each: f"{each.client}-{each.api}-v{each.version}"
)
def test_a_frame_is_read_and_written_back_as_it_came(each: Recorded) -> None:
    header, body = decode_request(each.frame)
    spec = API_TABLE[ApiKey(header.api_key)]
    assert (spec.name, header.api_version) == (each.api, each.version)
    assert header.client_id
    assert not unknown_tags(body)

    frame = joined(encode_request(*header, body))
    assert frame[:4] == len(each.frame).to_bytes(4, "big")
    assert frame[4:] == each.frame


def unknown_tags(value: object) -> bool:
    """True if any struct holds tags that our definitions do not know."""
    if isinstance(value, list):
        return any(unknown_tags(item) for item in value)
    if not isinstance(value, Struct):
        return False
    nested = (getattr(value, field.name) for field in value._fields)
    return bool(value.unknown_tagged_fields) or any(unknown_tags(item) for item in nested)


@pytest.mark.parametrize(
    ("client", "version"),
    [
        ("kafka-python", 9),
        ("kafka-python", 5),
        ("confluent-kafka", 10),
        ("aiokafka", 7),
        ("kafka-clients", 11),
    ],
)
def test_produce(client: str, version: int) -> None:
    request = named("Produce", client, version)
    assert request.acks in (1, -1)
    assert request.timeout_ms == 30_000 or client != "confluent-kafka"
    (topic,) = request.topic_data
    assert topic.name == "golden"
    (partition,) = topic.partition_data
    assert partition.index == 0
    assert partition.records[16] == 2  # the magic byte of a record batch
    assert int.from_bytes(partition.records[8:12], "big") == len(partition.records) - 12


def test_fetch_v16_of_librdkafka_names_topics_by_id() -> None:
    request = named("Fetch", "confluent-kafka", 16)
    assert request.isolation_level == 1
    assert request.replica_id == -1
    assert request.replica_state.replica_id == -1
    (topic,) = request.topics
    assert topic.topic_id == b"0123456789abcdef"
    assert topic.topic == ""
    assert topic.partitions[0].partition_max_bytes == 1024 * 1024


def test_subscriptions_and_assignments_inside_group_requests() -> None:
    join = named("JoinGroup", "kafka-python", 7)
    assert join.group_id == "golden-group"
    assert join.protocol_type == "consumer"
    for protocol in join.protocols:
        subscription = decode_versioned(ConsumerProtocolSubscription, protocol.metadata)
        assert subscription.topics == ["golden"]
    sync = next(
        body_of(each) for each in RECORDED if each.api == "SyncGroup" and body_of(each).assignments
    )
    assignment = decode_versioned(ConsumerProtocolAssignment, sync.assignments[0].assignment)
    (assigned,) = assignment.assigned_partitions
    assert (assigned.topic, assigned.partitions) == ("golden", [0])


def test_static_members_of_librdkafka_give_their_instance_id() -> None:
    join = named("JoinGroup", "confluent-kafka", 5)
    assert join.group_instance_id in ("golden-instance", None)
    ids = {
        body_of(each).group_instance_id
        for each in RECORDED
        if each.api == "JoinGroup" and each.client == "confluent-kafka" and each.version == 5
    }
    assert "golden-instance" in ids


def test_create_topics_and_offsets_of_transactions() -> None:
    create = named("CreateTopics", "kafka-python", 7)
    (topic,) = create.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("golden-new", 3, 1)
    assert [(each.name, each.value) for each in topic.configs] == [("retention.ms", "1000")]
    commit = named("TxnOffsetCommit", "kafka-python", 3)
    assert commit.transactional_id == "golden-txn"
    assert (commit.producer_id, commit.producer_epoch) == (1000, 0)
    assert commit.topics[0].partitions[0].committed_offset == 5
    assert commit.topics[0].partitions[0].committed_metadata == "m"


def test_tagged_fields_of_the_java_consumer() -> None:
    fetch = named("Fetch", "kafka-clients", 17)
    assert fetch.rack_id == "rack-1"
    assert fetch.isolation_level == 1
    assert fetch.topics[0].topic_id == b"0123456789abcdef"
    join = named("JoinGroup", "kafka-clients", 9)
    assert join.group_instance_id == "golden-instance"
    subscription = decode_versioned(ConsumerProtocolSubscription, join.protocols[0].metadata)
    assert (subscription.topics, subscription.rack_id) == (["golden"], "rack-1")


def test_admin_requests_of_java() -> None:
    quotas = named("AlterClientQuotas", "kafka-clients", 1)
    (entry,) = quotas.entries
    assert [(each.entity_type, each.entity_name) for each in entry.entity] == [("user", "alice")]
    assert [(each.key, each.value) for each in entry.ops] == [("producer_byte_rate", 1000.0)]
    reassignment = named("AlterPartitionReassignments", "kafka-clients", 0)
    assert reassignment.topics[0].partitions[0].replicas == [1]
    credentials = named("AlterUserScramCredentials", "kafka-clients", 0)
    (upsertion,) = credentials.upsertions
    assert (upsertion.name, upsertion.iterations, upsertion.salt) == ("alice", 4096, b"salt")
