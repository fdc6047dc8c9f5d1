"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords in every version."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pybroker_kafka.protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from pybroker_kafka.protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.wire import WireClient, batch, covers, unique

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -3, -4, -5
CONSUMER = -1
DEBUG_REPLICA = -2


def list_offsets(
    kafka: WireClient,
    version: int,
    topic: str,
    timestamp: int,
    *,
    partition: int = 0,
    replica_id: int = CONSUMER,
    isolation_level: int = 0,
    **options: Any,
) -> Any:
    part = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, **options)
    request = ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[ListOffsetsTopic(name=topic, partitions=[part])],
    )
    response = kafka.call(request, version)
    assert response.throttle_time_ms == 0
    ((answer,),) = (answered.partitions for answered in response.topics)
    assert answer.partition_index == partition
    return answer


def found(answer: Any) -> tuple[int, int, int]:
    return answer.error_code, answer.offset, answer.timestamp


def three_batches(kafka: WireClient) -> str:
    """Offsets 0-1, 2-3, 4-5 at times 1000, 3000, 2000 and 1 ms later."""
    topic = kafka.create_topic().name
    for time in (1000, 3000, 2000):
        kafka.append(topic, b"a", b"b", timestamp=time)
    return topic


@covers(ApiKey.LIST_OFFSETS)
def test_offsets_by_time_in_every_version(kafka: WireClient) -> None:
    topic = three_batches(kafka)
    empty = kafka.create_topic().name
    for version in kafka.versions(ApiKey.LIST_OFFSETS):
        for name, start, end in ((topic, 0, 6), (empty, 0, 0)):
            earliest = list_offsets(kafka, version, name, EARLIEST)
            latest = list_offsets(kafka, version, name, LATEST)
            if version == 0:
                assert (earliest.error_code, earliest.old_style_offsets) == (0, [start])
                assert (latest.error_code, latest.old_style_offsets) == (0, [end])
                continue
            assert found(earliest) == (0, start, -1)
            assert found(latest) == (0, end, -1)
            epoch = 0 if version >= 4 else -1
            assert latest.leader_epoch == epoch
            if end:  # An empty log has no epoch at its start.
                assert earliest.leader_epoch == epoch
        if version == 0:
            continue
        for target, offset, time in (
            (0, 0, 1000),
            (1001, 1, 1001),
            (1002, 2, 3000),
            (3001, 3, 3001),
        ):
            answer = list_offsets(kafka, version, topic, target)
            assert found(answer) == (0, offset, time)
            assert answer.leader_epoch == (0 if version >= 4 else -1)
        assert found(list_offsets(kafka, version, topic, 3002)) == (0, -1, -1)
        assert found(list_offsets(kafka, version, empty, 0)) == (0, -1, -1)


def test_version_0_lists_segments(kafka: WireClient) -> None:
    topic = kafka.create_topic(segment_bytes="500").name
    for _ in range(4):
        kafka.append(topic, b"x" * 300)
    for limit, offsets in ((1, [4]), (3, [4, 3, 2]), (100, [4, 3, 2, 1, 0])):
        answer = list_offsets(kafka, 0, topic, LATEST, max_num_offsets=limit)
        assert (answer.error_code, answer.old_style_offsets) == (0, offsets)
    answer = list_offsets(kafka, 0, topic, EARLIEST, max_num_offsets=10)
    assert (answer.error_code, answer.old_style_offsets) == (0, [0])
    answer = list_offsets(kafka, 0, topic, 1, max_num_offsets=10)
    assert (answer.error_code, answer.old_style_offsets) == (0, [])
    answer = list_offsets(kafka, 0, topic, 1 << 60, max_num_offsets=10)
    assert (answer.error_code, answer.old_style_offsets) == (0, [4, 3, 2, 1, 0])


def test_version_0_knows_no_special_timestamps_but_two(kafka: WireClient) -> None:
    topic = three_batches(kafka)
    for timestamp in (MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, -6):
        answer = list_offsets(kafka, 0, topic, timestamp)
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert answer.old_style_offsets == []


@pytest.mark.parametrize(
    ("timestamp", "since", "offset", "time"),
    [
        (MAX_TIMESTAMP, 7, 3, 3001),
        (EARLIEST_LOCAL, 8, 0, -1),
        (LATEST_TIERED, 9, -1, -1),
        (-6, 1000, -1, -1),
    ],
)
def test_special_timestamps_need_their_version(
    kafka: WireClient, timestamp: int, since: int, offset: int, time: int
) -> None:
    topic = three_batches(kafka)
    for version in kafka.versions(ApiKey.LIST_OFFSETS, first=1):
        answer = list_offsets(kafka, version, topic, timestamp)
        if version < since:
            assert found(answer) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
        else:
            assert found(answer) == (0, offset, time)


def test_max_timestamp_of_an_empty_log(kafka: WireClient) -> None:
    topic = kafka.create_topic().name
    for version in kafka.versions(ApiKey.LIST_OFFSETS, first=7):
        assert found(list_offsets(kafka, version, topic, MAX_TIMESTAMP)) == (0, -1, -1)


def test_isolation_and_replicas(kafka: WireClient) -> None:
    topic = three_batches(kafka)
    for version in kafka.versions(ApiKey.LIST_OFFSETS, first=1):
        if version >= 2:
            answer = list_offsets(kafka, version, topic, LATEST, isolation_level=1)
            assert found(answer) == (0, 6, -1)
        answer = list_offsets(kafka, version, topic, LATEST, replica_id=DEBUG_REPLICA)
        assert found(answer) == (0, 6, -1)


def test_list_offsets_errors(kafka: WireClient) -> None:
    topic = three_batches(kafka)
    for version in kafka.versions(ApiKey.LIST_OFFSETS):
        for name, partition in ((unique("missing"), 0), (topic, 3)):
            answer = list_offsets(kafka, version, name, LATEST, partition=partition)
            assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (answer.offset, answer.old_style_offsets) == (-1, [])
        if version >= 4:
            answer = list_offsets(kafka, version, topic, LATEST, current_leader_epoch=3)
            assert found(answer) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
            answer = list_offsets(kafka, version, topic, LATEST, current_leader_epoch=0)
            assert found(answer) == (0, 6, -1)


def test_a_partition_asked_twice_is_refused(kafka: WireClient) -> None:
    topic = three_batches(kafka)
    for version in kafka.versions(ApiKey.LIST_OFFSETS, first=1):
        twice = [ListOffsetsPartition(partition_index=0, timestamp=t) for t in (LATEST, EARLIEST)]
        request = ListOffsetsRequest(
            replica_id=CONSUMER, topics=[ListOffsetsTopic(name=topic, partitions=twice)]
        )
        (answered,) = kafka.call(request, version).topics
        errors = {answer.error_code for answer in answered.partitions}
        assert errors == {ErrorCode.INVALID_REQUEST}


def end_of_epoch(kafka: WireClient, version: int, topic: str, epoch: int, **options: Any) -> Any:
    part = OffsetForLeaderPartition(partition=0, leader_epoch=epoch, **options)
    request = OffsetForLeaderEpochRequest(
        replica_id=CONSUMER, topics=[OffsetForLeaderTopic(topic=topic, partitions=[part])]
    )
    response = kafka.call(request, version)
    ((answer,),) = (answered.partitions for answered in response.topics)
    assert answer.partition == 0
    return answer


@covers(ApiKey.OFFSET_FOR_LEADER_EPOCH)
def test_ends_of_leader_epochs(kafka: WireClient) -> None:
    topic = three_batches(kafka)
    for version in kafka.versions(ApiKey.OFFSET_FOR_LEADER_EPOCH):
        current = end_of_epoch(kafka, version, topic, 0)
        assert (current.error_code, current.end_offset) == (0, 6)
        assert current.leader_epoch == (0 if version >= 1 else -1)
        unknown = end_of_epoch(kafka, version, topic, 5)
        assert (unknown.error_code, unknown.leader_epoch, unknown.end_offset) == (0, -1, -1)
        missing = end_of_epoch(kafka, version, unique("missing"), 0)
        assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (missing.leader_epoch, missing.end_offset) == (-1, -1)
        if version >= 2:
            answer = end_of_epoch(kafka, version, topic, 0, current_leader_epoch=4)
            assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
            assert (answer.leader_epoch, answer.end_offset) == (-1, -1)


def delete_records(kafka: WireClient, version: int, topic: str, offset: int, index: int = 0) -> Any:
    part = DeleteRecordsPartition(partition_index=index, offset=offset)
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=10_000
    )
    response = kafka.call(request, version)
    assert response.throttle_time_ms == 0
    ((answer,),) = (answered.partitions for answered in response.topics)
    assert answer.partition_index == index
    return answer


@covers(ApiKey.DELETE_RECORDS)
def test_records_are_deleted_up_to_an_offset(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.DELETE_RECORDS):
        topic = kafka.create_topic()
        for _ in range(3):
            kafka.append(topic.name, b"a", b"b")
        answer = delete_records(kafka, version, topic.name, 3)
        assert (answer.error_code, answer.low_watermark) == (0, 3)
        assert kafka.fetch(topic, 2).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        rest = kafka.fetch(topic, 3)
        assert (rest.error_code, rest.log_start_offset, rest.high_watermark) == (0, 3, 6)
        assert found(list_offsets(kafka, 9, topic.name, EARLIEST))[:2] == (0, 3)
        assert kafka.produce(topic.name, batch(b"c")).log_start_offset == 3
        # Going back changes nothing; -1 is the high watermark.
        answer = delete_records(kafka, version, topic.name, 1)
        assert (answer.error_code, answer.low_watermark) == (0, 3)
        answer = delete_records(kafka, version, topic.name, -1)
        assert (answer.error_code, answer.low_watermark) == (0, 7)
        assert kafka.read(topic, 7) == []


def test_delete_records_errors(kafka: WireClient) -> None:
    topic = kafka.create_topic().name
    kafka.append(topic, b"value")
    compacted = kafka.create_topic(cleanup_policy="compact").name
    kafka.coordinator(unique("group"))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    cases = [
        (topic, 2, 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (topic, -2, 0, ErrorCode.OFFSET_OUT_OF_RANGE),
        (topic, 0, 5, unknown),
        (unique("missing"), 0, 0, unknown),
        (compacted, 0, 0, ErrorCode.POLICY_VIOLATION),
        ("__consumer_offsets", 0, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ]
    for version in kafka.versions(ApiKey.DELETE_RECORDS):
        for name, offset, index, error in cases:
            answer = delete_records(kafka, version, name, offset, index)
            assert (answer.error_code, answer.low_watermark) == (error, -1), (name, offset)
