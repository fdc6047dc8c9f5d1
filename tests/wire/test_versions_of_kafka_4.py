"""The versions that Kafka 4 added to the requests of 3.9, at a broker with a finalized feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pybroker_kafka.protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pybroker_kafka.protocol.apis.describe_cluster import DescribeClusterRequest
from pybroker_kafka.protocol.apis.describe_groups import DescribeGroupsRequest
from pybroker_kafka.protocol.apis.describe_log_dirs import DescribeLogDirsRequest
from pybroker_kafka.protocol.apis.fetch import FetchRequest
from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pybroker_kafka.protocol.apis.list_transactions import ListTransactionsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest, MetadataRequestTopic
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.wire import Topic, WireClient, batch, fetch_request, records_of, unique
from tests.wire.group_steps import join, stable
from tests.wire.transaction_steps import new_name, start

UNKNOWN = b"no such topic id"
UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_ID


def by_id(records: bytes, *ids: bytes, acks: int = -1) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=records)]
    topics = [TopicProduceData(topic_id=one, partition_data=data) for one in ids]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)


def produced(client: WireClient, records: bytes, *ids: bytes, acks: int = -1) -> Any:
    """The error code and the offset by topic id."""
    answer = client.call(by_id(records, *ids, acks=acks), 13)
    return {
        topic.topic_id: (partition.error_code, partition.base_offset)
        for topic in answer.responses
        for partition in topic.partition_responses
    }


def test_produce_by_topic_id(finalized: WireClient) -> None:
    topic = finalized.create_topic()
    for number in range(4):  # from the second on by comparison with the first
        acks = -1 if number % 2 else 1
        found = produced(finalized, batch(b"%d" % number), topic.id, acks=acks)
        assert found == {topic.id: (0, number)}
    other = finalized.create_topic()
    assert produced(finalized, batch(b"x"), topic.id, UNKNOWN, other.id) == {
        topic.id: (0, 4),
        UNKNOWN: (UNKNOWN_ID, -1),
        other.id: (0, 0),
    }
    assert produced(finalized, batch(b"x"), UNKNOWN) == {UNKNOWN: (UNKNOWN_ID, -1)}
    assert produced(finalized, batch(b"x"), bytes(16)) == {bytes(16): (UNKNOWN_ID, -1)}
    values = [record.value for record in finalized.read(topic)]
    assert values == [b"0", b"1", b"2", b"3", b"x"]


def test_versions_of_produce_agree(finalized: WireClient) -> None:
    topic = finalized.create_topic()
    assert finalized.produce(topic.name, batch(b"a"), version=11).base_offset == 0
    assert finalized.produce(topic.name, batch(b"a"), version=12).base_offset == 1
    assert produced(finalized, batch(b"a"), topic.id) == {topic.id: (0, 2)}


def test_a_produce_without_acks_and_with_an_unknown_id(finalized: WireClient) -> None:
    topic = finalized.create_topic()
    finalized.post(by_id(batch(b"a"), topic.id, acks=0), 13)
    finalized.post(by_id(batch(b"b"), topic.id, UNKNOWN, acks=0), 13)
    assert finalized.is_closed_by_broker()
    with finalized.another() as again:
        assert [record.value for record in again.read(topic)] == [b"a", b"b"]


def test_fetch_with_a_high_watermark(finalized: WireClient) -> None:
    topic = finalized.create_topic()
    finalized.append(topic.name, b"a")
    for known in (0x7FFF_FFFF_FFFF_FFFF, 0, -1):
        answer = finalized.fetch(topic, version=18, high_watermark=known)
        assert (answer.error_code, answer.high_watermark) == (0, 1)
        assert [record.value for record in records_of(answer)] == [b"a"]


def test_a_session_of_fetches(finalized: WireClient) -> None:
    topic = finalized.create_topic()
    first = finalized.call(fetch_request(topic, version=18, session=(0, 0)), 18)
    assert first.session_id
    for epoch in range(1, 4):
        assert finalized.append(topic.name, b"a") == epoch - 1
        again = fetch_request(topic, epoch - 1, version=18, session=(first.session_id, epoch))
        ((partition,),) = (one.partitions for one in finalized.call(again, 18).responses)
        assert (partition.error_code, partition.high_watermark) == (0, epoch)
    dropped = FetchRequest(session_id=first.session_id, session_epoch=-1)
    assert finalized.call(dropped, 18).error_code == 0


@pytest.mark.parametrize("version", [10, 11])
def test_offsets_with_a_timeout(finalized: WireClient, version: int) -> None:
    topic = finalized.create_topic()
    finalized.append(topic.name, b"a", b"b")

    def listed(timestamp: int) -> tuple[int, int, int, int]:
        entry = ListOffsetsPartition(timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name=topic.name, partitions=[entry])],
            timeout_ms=1_000,
        )
        ((one,),) = (found.partitions for found in finalized.call(request, version).topics)
        return one.error_code, one.offset, one.timestamp, one.leader_epoch

    assert listed(-1) == (0, 2, -1, 0)
    assert listed(-2) == (0, 0, -1, 0)
    assert listed(1_001) == (0, 1, 1_001, 0)
    pending_upload = listed(-6)
    if version < 11:
        assert pending_upload[0] == ErrorCode.UNSUPPORTED_VERSION
    else:
        assert pending_upload == (0, -1, -1, -1)
    assert listed(-7)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_metadata_with_an_error_for_the_request(finalized: WireClient) -> None:
    topic = finalized.create_topic()
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic.name)])
    answer = finalized.call(request, 13)
    assert answer.error_code == 0
    before = finalized.call(request, 12)
    assert (answer.brokers, answer.topics) == (before.brokers, before.topics)


def commit_request(
    group: str, offsets: dict[bytes, int], generation: int = -1, member: str = ""
) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[
            OffsetCommitRequestTopic(
                topic_id=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=offset, committed_metadata="m"
                    )
                ],
            )
            for topic, offset in offsets.items()
        ],
    )


def committed(client: WireClient, request: OffsetCommitRequest) -> dict[bytes, int]:
    return {
        topic.topic_id: partition.error_code
        for topic in client.call(request, 10).topics
        for partition in topic.partitions
    }


def offsets_of(client: WireClient, group: str, ids: Sequence[bytes] | None) -> dict[bytes, Any]:
    topics = None
    if ids is not None:
        topics = [OffsetFetchRequestTopics(topic_id=one, partition_indexes=[0]) for one in ids]
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics)
    (found,) = client.call(OffsetFetchRequest(groups=[asked]), 10).groups
    assert (found.group_id, found.error_code) == (group, 0)
    return {
        topic.topic_id: (partition.error_code, partition.committed_offset)
        for topic in found.topics
        for partition in topic.partitions
    }


def test_offsets_by_topic_id(finalized: WireClient) -> None:
    group = unique("group")
    finalized.coordinator(group)
    first, second = finalized.create_topic(), finalized.create_topic()
    for offset in range(5):  # by comparison with those before
        request = commit_request(group, {first.id: offset, second.id: offset + 10})
        assert committed(finalized, request) == {first.id: 0, second.id: 0}
    request = commit_request(group, {UNKNOWN: 1, first.id: 7})
    assert committed(finalized, request) == {first.id: 0, UNKNOWN: UNKNOWN_ID}
    request = commit_request(group, {UNKNOWN: 1}, generation=3, member="nobody")
    assert committed(finalized, request) == {UNKNOWN: UNKNOWN_ID}
    for _ in range(3):
        assert offsets_of(finalized, group, [second.id, UNKNOWN, first.id]) == {
            second.id: (0, 14),
            first.id: (0, 7),
            UNKNOWN: (UNKNOWN_ID, -1),
        }
    assert offsets_of(finalized, group, None) == {first.id: (0, 7), second.id: (0, 14)}


def test_a_partition_that_the_topic_does_not_have(finalized: WireClient) -> None:
    group = unique("group")
    finalized.coordinator(group)
    topic = finalized.create_topic()
    request = commit_request(group, {topic.id: 1})
    request.topics[0].partitions[0].partition_index = 9
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert committed(finalized, request) == {topic.id: missing}


def test_members_commit_by_topic_id(finalized: WireClient) -> None:
    group = unique("group")
    finalized.coordinator(group)
    topic = finalized.create_topic()
    member, generation = stable(finalized, group)
    for offset in range(4):
        request = commit_request(group, {topic.id: offset}, generation, member)
        assert committed(finalized, request) == {topic.id: 0}
    fenced = commit_request(group, {topic.id: 9}, generation + 1, member)
    assert committed(finalized, fenced) == {topic.id: ErrorCode.ILLEGAL_GENERATION}
    assert offsets_of(finalized, group, [topic.id]) == {topic.id: (0, 3)}


def test_a_group_that_does_not_exist(finalized: WireClient) -> None:
    group, missing = unique("group"), unique("missing")
    finalized.coordinator(group)
    join(finalized, 9, group)
    request = DescribeGroupsRequest(groups=[group, missing], include_authorized_operations=True)
    found, lacking = finalized.call(request, 6).groups
    assert (found.error_code, found.error_message) == (0, None)
    assert found.authorized_operations > 0
    code = ErrorCode.GROUP_ID_NOT_FOUND
    assert (lacking.error_code, lacking.group_state) == (code, "Dead")
    assert lacking.error_message == f"Group {missing} not found."
    assert lacking.authorized_operations < 0
    _, before = finalized.call(request, 5).groups
    assert (before.error_code, before.group_state) == (0, "Dead")


def test_no_broker_is_fenced(finalized: WireClient) -> None:
    for includes in (False, True):
        request = DescribeClusterRequest(include_fenced_brokers=includes)
        (broker,) = finalized.call(request, 2).brokers
        assert (broker.broker_id, broker.is_fenced) == (finalized.me().node_id, False)


def test_no_directory_is_cordoned(finalized: WireClient) -> None:
    answer = finalized.call(DescribeLogDirsRequest(topics=None), 5)
    assert [one.is_cordoned for one in answer.results] == [False] * len(answer.results)
    assert answer.results


def test_transactions_by_a_pattern_of_their_ids(finalized: WireClient) -> None:
    names = [new_name(finalized) for _ in range(2)]
    for name in names:
        start(finalized, name)

    def listed(pattern: str | None) -> set[str]:
        answer = finalized.call(ListTransactionsRequest(transactional_id_pattern=pattern), 2)
        assert answer.error_code == 0
        return {one.transactional_id for one in answer.transaction_states}

    assert listed(None) >= set(names)
    assert listed("") >= set(names)
    assert listed(names[0]) == {names[0]}
    assert listed(names[0][:-1]) == set()  # the pattern is for the whole id
    assert listed(f"{names[0][:-1]}.|{names[1]}") == set(names)
    bad = finalized.call(ListTransactionsRequest(transactional_id_pattern="("), 2)
    assert bad.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def reassigned(client: WireClient, topic: Topic, replicas: list[int], *, may_differ: bool) -> Any:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_differ,
        topics=[ReassignableTopic(name=topic.name, partitions=[partition])],
    )
    answer = client.call(request, 1)
    assert (answer.error_code, answer.allow_replication_factor_change) == (0, may_differ)
    ((found,),) = (one.partitions for one in answer.responses)
    return found


def test_another_replication_factor_can_be_forbidden(finalized: WireClient) -> None:
    topic = finalized.create_topic()
    me = finalized.me().node_id
    assert reassigned(finalized, topic, [me], may_differ=False).error_code == 0
    assert reassigned(finalized, topic, [me], may_differ=True).error_code == 0
    for replicas in ([me, me + 1], []):
        refused = reassigned(finalized, topic, replicas, may_differ=False)
        assert refused.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
