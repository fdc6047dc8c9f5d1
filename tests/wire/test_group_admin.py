"""FindCoordinator, ListGroups, DescribeGroups, DeleteGroups, and what ZooKeeper mode refuses."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.consumer_group_describe import ConsumerGroupDescribeRequest
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker_kafka.protocol.apis.delete_groups import DeleteGroupsRequest
from pybroker_kafka.protocol.apis.describe_groups import DescribeGroupsRequest
from pybroker_kafka.protocol.apis.find_coordinator import FindCoordinatorRequest
from pybroker_kafka.protocol.apis.list_groups import ListGroupsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.wire import WireClient, covers, unique
from tests.wire.group_steps import METADATA, join, leave, stable
from tests.wire.test_group_offsets import commit, fetch

NOT_ASKED = -2_147_483_648
GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8))
GROUP, TRANSACTION = 0, 1


@pytest.fixture
def group(kafka: WireClient) -> str:
    name = unique("group")
    kafka.coordinator(name)
    return name


def java_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


@covers(ApiKey.FIND_COORDINATOR)
def test_the_coordinator_leads_the_groups_partition(kafka: WireClient, group: str) -> None:
    offsets = MetadataRequestTopic(name="__consumer_offsets")
    metadata = kafka.call(MetadataRequest(topics=[offsets]))
    leaders = {p.partition_index: p.leader_id for p in metadata.topics[0].partitions}
    assert len(leaders) == 50
    nodes = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
    names = [group, unique("group"), "ä group", "x"]
    for version in kafka.versions(ApiKey.FIND_COORDINATOR):
        if version >= 4:
            request = FindCoordinatorRequest(coordinator_keys=names)
            answers = kafka.call(request, version).coordinators
            assert [answer.key for answer in answers] == names
        else:
            answers = [kafka.call(FindCoordinatorRequest(key=name), version) for name in names]
        for name, answer in zip(names, answers, strict=True):
            assert answer.error_code == 0
            leader = leaders[abs(java_hash(name)) % 50]
            assert (answer.node_id, (answer.host, answer.port)) == (leader, nodes[leader])


def test_unknown_coordinator_types(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.FIND_COORDINATOR, first=1):
        if version >= 4:
            request = FindCoordinatorRequest(key_type=9, coordinator_keys=["x"])
            response = kafka.call(request, version)
            errors = [answer.error_code for answer in response.coordinators]
        else:
            response = kafka.call(FindCoordinatorRequest(key_type=9, key="x"), version)
            errors = [response.error_code]
            assert response.node_id == -1
        assert errors == [ErrorCode.INVALID_REQUEST]


def test_no_share_coordinator_looks_at_no_key(kafka: WireClient) -> None:
    """As 3.9 answers, which has none."""
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=["g", ""])
    found = kafka.call(request, 6).coordinators
    assert [one.error_code for one in found] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2


def listed(kafka: WireClient, version: int, **options: Any) -> dict[str, Any]:
    response = kafka.call(ListGroupsRequest(**options), version)
    assert (response.error_code, response.throttle_time_ms) == (0, 0)
    return {group.group_id: group for group in response.groups}


@covers(ApiKey.LIST_GROUPS)
def test_groups_are_listed_in_every_version(kafka: WireClient, group: str) -> None:
    stable(kafka, group)
    simple, topic = unique("group"), kafka.create_topic().name
    assert commit(kafka, 9, simple, topic, 1) == 0
    for version in kafka.versions(ApiKey.LIST_GROUPS):
        found = listed(kafka, version)
        states = ("Stable", "Empty") if version >= 4 else ("", "")
        kind = "classic" if version >= 5 else ""
        assert found[group].protocol_type == "consumer"
        assert found[simple].protocol_type == ""
        assert (found[group].group_state, found[simple].group_state) == states
        assert (found[group].group_type, found[simple].group_type) == (kind, kind)


def test_listing_by_state_and_type(kafka: WireClient, group: str) -> None:
    stable(kafka, group)
    for version in kafka.versions(ApiKey.LIST_GROUPS, first=4):
        assert group in listed(kafka, version, states_filter=["stable", "Dead"])
        assert group not in listed(kafka, version, states_filter=["Empty"])
        assert listed(kafka, version, states_filter=["NoSuchState"]) == {}
    for version in kafka.versions(ApiKey.LIST_GROUPS, first=5):
        assert group in listed(kafka, version, types_filter=["Classic"])
        assert listed(kafka, version, types_filter=["consumer"]) == {}


def describe(kafka: WireClient, version: int, *groups: str, **options: Any) -> list[Any]:
    response = kafka.call(DescribeGroupsRequest(groups=list(groups), **options), version)
    assert [described.group_id for described in response.groups] == list(groups)
    groups_found: list[Any] = response.groups
    return groups_found


@covers(ApiKey.DESCRIBE_GROUPS)
def test_groups_are_described_in_every_version(kafka: WireClient, group: str) -> None:
    member, _ = stable(kafka, group, b"assigned", instance_id="instance")
    joining, missing, simple = unique("group"), unique("group"), unique("group")
    joined = join(kafka, 9, joining)
    assert commit(kafka, 9, simple, kafka.create_topic().name, 1) == 0
    for version in kafka.versions(ApiKey.DESCRIBE_GROUPS):
        settled, open_, dead, empty = describe(kafka, version, group, joining, missing, simple)
        assert (settled.error_code, settled.group_state) == (0, "Stable")
        assert (settled.protocol_type, settled.protocol_data) == ("consumer", "range")
        (one,) = settled.members
        assert one.member_id == member
        assert one.group_instance_id == ("instance" if version >= 4 else None)
        assert (one.client_id, one.client_host) == ("wire-test", "/127.0.0.1")
        assert bytes(one.member_metadata) == METADATA
        assert bytes(one.member_assignment) == b"assigned"
        assert (open_.error_code, open_.group_state) == (0, "CompletingRebalance")
        assert (open_.protocol_type, open_.protocol_data) == ("consumer", "")
        (one,) = open_.members
        assert one.member_id == joined.member_id
        assert (bytes(one.member_metadata), bytes(one.member_assignment)) == (b"", b"")
        for described, state in ((dead, "Dead"), (empty, "Empty")):
            assert (described.error_code, described.group_state) == (0, state)
            assert (described.protocol_type, described.members) == ("", [])
        assert settled.authorized_operations == NOT_ASKED
        if version >= 3:
            (asked,) = describe(kafka, version, group, include_authorized_operations=True)
            assert asked.authorized_operations == GROUP_OPERATIONS


def delete(kafka: WireClient, version: int, *groups: str) -> dict[str, int]:
    response = kafka.call(DeleteGroupsRequest(groups_names=list(groups)), version)
    assert response.throttle_time_ms == 0
    return {result.group_id: result.error_code for result in response.results}


@covers(ApiKey.DELETE_GROUPS)
def test_groups_are_deleted_in_every_version(kafka: WireClient, group: str) -> None:
    stable(kafka, group)
    topic = kafka.create_topic().name
    for version in kafka.versions(ApiKey.DELETE_GROUPS):
        left, missing = unique("group"), unique("group")
        member, generation = stable(kafka, left)
        assert commit(kafka, 9, left, topic, 1, member=(member, generation)) == 0
        assert leave(kafka, 5, left, member) == (0, [0])
        assert delete(kafka, version, left, group, missing) == {
            left: 0,
            group: ErrorCode.NON_EMPTY_GROUP,
            missing: ErrorCode.GROUP_ID_NOT_FOUND,
        }
        assert left not in listed(kafka, 5)
        assert fetch(kafka, 9, left, {topic: [0]})[1][topic, 0][0] == -1
        assert delete(kafka, version, left) == {left: ErrorCode.GROUP_ID_NOT_FOUND}
    assert group in listed(kafka, 5)


@covers(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def test_new_consumer_groups_are_refused(kafka: WireClient, group: str) -> None:
    for version in kafka.versions(ApiKey.CONSUMER_GROUP_HEARTBEAT):
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["topic"],
            topic_partitions=[],
        )
        answer = kafka.call(request, version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (answer.member_id, answer.assignment) == (None, None)


@covers(ApiKey.CONSUMER_GROUP_DESCRIBE)
def test_new_consumer_groups_are_not_described(kafka: WireClient, group: str) -> None:
    stable(kafka, group)
    for version in kafka.versions(ApiKey.CONSUMER_GROUP_DESCRIBE):
        asked = [group, unique("group")]
        response = kafka.call(ConsumerGroupDescribeRequest(group_ids=asked), version)
        assert [(g.group_id, g.error_code) for g in response.groups] == [
            (name, ErrorCode.UNSUPPORTED_VERSION) for name in asked
        ]
