"""Produce, in every version: what is appended, what is refused, and at which level it is said."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.record import SimpleRecord, TimestampType
from tests.support.conversions import build_message_set
from tests.support.wire import WireClient, batch, covers, records_of, unique

NOW_MS = 1_700_000_000_000


def in_format_of(
    version: int, *values: bytes, compression: Compression = Compression.NONE
) -> bytes:
    """Records as a client of that Produce version sends them."""
    records = [SimpleRecord(NOW_MS + i, b"k", value) for i, value in enumerate(values)]
    if version >= 3:
        return bytes(build_batch(records, compression=compression))
    magic = 1 if version == 2 else 0
    return bytes(build_message_set(records, magic=magic, compression=compression))


def assert_refused(answer: Any, error: ErrorCode, version: int) -> None:
    assert answer.error_code == error, f"v{version}: {answer}"
    assert answer.base_offset == -1
    if version >= 2:
        assert answer.log_append_time_ms == -1


@covers(ApiKey.PRODUCE)
def test_records_are_appended_in_every_version(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    expected: list[tuple[int, int, bytes]] = []
    for version in kafka.versions(ApiKey.PRODUCE):
        for acks in (1, -1):
            values = [b"v%d acks %d first" % (version, acks), b"second"]
            records = in_format_of(version, *values)
            answer = kafka.produce(topic.name, records, version=version, acks=acks)
            assert (answer.error_code, answer.base_offset) == (0, len(expected))
            assert answer.log_append_time_ms == -1
            assert answer.log_start_offset == (0 if version >= 5 else -1)
            assert answer.record_errors == []
            assert answer.error_message is None
            assert answer.current_leader.leader_id == -1
            for i, value in enumerate(values):
                timestamp = NOW_MS + i if version >= 2 else -1
                expected.append((len(expected), timestamp, value))
    answer = kafka.fetch(topic)
    assert [(r.offset, r.timestamp, r.value) for r in records_of(answer)] == expected
    assert {header.magic for _, header in iter_batch_headers(answer.records)} == {2}


def test_compressed_message_sets_are_converted(kafka: WireClient) -> None:
    codecs = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4]
    topic = kafka.create_topic()
    expected: list[tuple[Compression, bytes]] = []
    for version in kafka.versions(ApiKey.PRODUCE, last=2):
        for codec in codecs:
            values = [b"%d %s %d" % (version, codec.name.encode(), i) for i in range(5)]
            records = in_format_of(version, *values, compression=codec)
            answer = kafka.produce(topic.name, records, version=version)
            assert (answer.error_code, answer.base_offset) == (0, len(expected))
            expected += [(codec, value) for value in values]
    answer = kafka.fetch(topic)
    headers = [header for _, header in iter_batch_headers(answer.records)]
    assert [(h.magic, h.compression, h.record_count) for h in headers] == [
        (2, codec, 5) for _ in range(3) for codec in codecs
    ]
    assert [record.value for record in records_of(answer)] == [value for _, value in expected]


def test_every_codec_in_v2_batches(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for codec in Compression:
        records = in_format_of(7, codec.name.encode(), b"x" * 1000, compression=codec)
        answer = kafka.produce(topic.name, records, version=7)
        assert (answer.error_code, answer.base_offset) == (0, 2 * codec)
    answer = kafka.fetch(topic)
    headers = [header for _, header in iter_batch_headers(answer.records)]
    assert [header.compression for header in headers] == list(Compression)
    assert [r.value for r in records_of(answer)][::2] == [c.name.encode() for c in Compression]


def test_zstd_needs_version_7(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    records = in_format_of(7, b"value", compression=Compression.ZSTD)
    for version in kafka.versions(ApiKey.PRODUCE, first=3):
        answer = kafka.produce(topic.name, records, version=version)
        if version < 7:
            assert_refused(answer, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, version)
        else:
            assert (answer.error_code, answer.base_offset) == (0, version - 7)


def test_the_topic_decides_codec_and_timestamp(kafka: WireClient) -> None:
    topic = kafka.create_topic(compression_type="gzip", message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000) - 1000
    for version in kafka.versions(ApiKey.PRODUCE):
        answer = kafka.produce(topic.name, in_format_of(version, b"value"), version=version)
        assert (answer.error_code, answer.base_offset) == (0, version)
        if version >= 2:
            assert before < answer.log_append_time_ms < before + 60_000
    fetched = kafka.fetch(topic)
    for _, header in iter_batch_headers(fetched.records):
        assert header.compression is Compression.GZIP
        assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert all(before < record.timestamp < before + 60_000 for record in records_of(fetched))


def test_unknown_partitions_do_not_stop_the_others(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.PRODUCE):
        records = in_format_of(version, b"value")
        request = ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=topic.name,
                    partition_data=[
                        PartitionProduceData(index=7, records=records),
                        PartitionProduceData(index=0, records=records),
                    ],
                ),
                TopicProduceData(
                    name=unique("missing"),
                    partition_data=[PartitionProduceData(index=0, records=records)],
                ),
            ],
        )
        response = kafka.call(request, version)
        answers = {
            (answered.name == topic.name, part.index): part
            for answered in response.responses
            for part in answered.partition_responses
        }
        assert len(answers) == 3
        assert (answers[True, 0].error_code, answers[True, 0].base_offset) == (0, version)
        for missing in ((True, 7), (False, 0)):
            assert_refused(answers[missing], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, version)
        assert response.throttle_time_ms == 0


def test_acks_must_be_known(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.PRODUCE):
        for acks in (2, -2):
            records = in_format_of(version, b"value")
            answer = kafka.produce(topic.name, records, version=version, acks=acks)
            assert_refused(answer, ErrorCode.INVALID_REQUIRED_ACKS, version)
    assert kafka.read(topic) == []


def test_more_replicas_are_not_waited_for_than_there_are(kafka: WireClient) -> None:
    topic = kafka.create_topic(min_insync_replicas="2")
    for version in kafka.versions(ApiKey.PRODUCE):
        answer = kafka.produce(topic.name, in_format_of(version, b"value"), version=version)
        assert (answer.error_code, answer.base_offset) == (0, version)


def test_acks_0_is_not_answered(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.PRODUCE):
        kafka.produce(topic.name, in_format_of(version, b"value"), version=version, acks=0)
        assert kafka.call(ApiVersionsRequest(), 0).error_code == 0
    assert len(kafka.read(topic)) == len(kafka.versions(ApiKey.PRODUCE))


def test_a_failed_acks_0_closes_the_connection(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.PRODUCE):
        with kafka.another() as other:
            records = in_format_of(version, b"value")
            other.produce(unique("missing"), records, version=version, acks=0)
            assert other.is_closed_by_broker(), version


def test_corrupt_records_are_refused(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.PRODUCE):
        records = bytearray(in_format_of(version, b"value"))
        records[-2] ^= 0x40
        answer = kafka.produce(topic.name, bytes(records), version=version)
        assert_refused(answer, ErrorCode.CORRUPT_MESSAGE, version)
    assert kafka.read(topic) == []


def test_sizes_are_limited(kafka: WireClient) -> None:
    small_messages = kafka.create_topic(max_message_bytes="500")
    small_segments = kafka.create_topic(segment_bytes="500")
    for version in kafka.versions(ApiKey.PRODUCE):
        records = in_format_of(version, b"x" * 1000)
        answer = kafka.produce(small_messages.name, records, version=version)
        assert_refused(answer, ErrorCode.MESSAGE_TOO_LARGE, version)
        answer = kafka.produce(small_segments.name, records, version=version)
        assert_refused(answer, ErrorCode.RECORD_LIST_TOO_LARGE, version)
        for topic in (small_messages, small_segments):
            answer = kafka.produce(topic.name, in_format_of(version, b"x"), version=version)
            assert (answer.error_code, answer.base_offset) == (0, version)


def test_timestamps_are_limited(kafka: WireClient) -> None:
    topic = kafka.create_topic(message_timestamp_before_max_ms="60000")
    now = int(time.time() * 1000)
    for version in kafka.versions(ApiKey.PRODUCE, first=3):
        records = [SimpleRecord(t, None, b"value") for t in (now, NOW_MS, now, NOW_MS)]
        answer = kafka.produce(topic.name, bytes(build_batch(records)), version=version)
        assert_refused(answer, ErrorCode.INVALID_TIMESTAMP, version)
        if version >= 8:
            assert [error.batch_index for error in answer.record_errors] == [1, 3]
            assert answer.error_message
    assert kafka.read(topic) == []


def test_a_compacted_topic_needs_keys(kafka: WireClient) -> None:
    topic = kafka.create_topic(cleanup_policy="compact")
    for version in kafka.versions(ApiKey.PRODUCE):
        kinds = [SimpleRecord(NOW_MS, key, b"value") for key in (b"k", None, b"k")]
        if version >= 3:
            records = bytes(build_batch(kinds))
        else:
            records = bytes(build_message_set(kinds, magic=version // 2))
        answer = kafka.produce(topic.name, records, version=version)
        assert_refused(answer, ErrorCode.INVALID_RECORD, version)
        if version >= 8:
            assert [error.batch_index for error in answer.record_errors] == [1]
            assert answer.error_message
    assert kafka.read(topic) == []


def control_batch(_: int) -> bytes:
    records = [SimpleRecord(NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")]
    return bytes(build_batch(records, producer_id=1, producer_epoch=0, is_control=True))


WRONG_SHAPES = {
    "two batches": lambda version: in_format_of(version, b"a") + in_format_of(version, b"b"),
    "message set": lambda _: in_format_of(2, b"value"),
    "no batch": lambda _: b"",
    "control batch": control_batch,
}


@pytest.mark.parametrize("shape", WRONG_SHAPES)
def test_a_partition_takes_one_client_batch(kafka: WireClient, shape: str) -> None:
    topic = kafka.create_topic()
    for version in kafka.versions(ApiKey.PRODUCE, first=3):
        answer = kafka.produce(topic.name, WRONG_SHAPES[shape](version), version=version)
        assert_refused(answer, ErrorCode.INVALID_RECORD, version)
    assert kafka.read(topic) == []


def test_transactional_batches_need_a_transactional_id(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    records = batch(
        b"value", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    for version in kafka.versions(ApiKey.PRODUCE, first=3):
        answer = kafka.produce(topic.name, records, version=version)
        assert_refused(answer, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, version)
    assert kafka.read(topic) == []


def test_internal_topics_are_not_for_clients(kafka: WireClient) -> None:
    kafka.coordinator(unique("group"))
    for version in kafka.versions(ApiKey.PRODUCE):
        answer = kafka.produce("__consumer_offsets", in_format_of(version, b"v"), version=version)
        assert_refused(answer, ErrorCode.INVALID_TOPIC_EXCEPTION, version)
