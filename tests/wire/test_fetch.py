"""Fetch, in every version: formats, limits, waiting, leader epochs and errors."""

from __future__ import annotations

import time

import pytest

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.fetch import FetchPartition
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.compression import Compression
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.protocol.schema import ZERO_UUID
from tests.support.wire import Topic, WireClient, covers, fetch_request, records_of, unique

READ_COMMITTED = 1
NEVER_MS = 600_000  # longer than the test's client waits for an answer
DEBUG_REPLICA = -2


def magic_of(version: int) -> int:
    return 0 if version < 2 else 1 if version < 4 else 2


@covers(ApiKey.FETCH)
def test_records_come_back_in_every_version(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"a", b"b", timestamp=1000)
    kafka.append(topic.name, b"c", timestamp=2000, compression=Compression.GZIP)
    kafka.append(topic.name, b"d", b"e", timestamp=3000)
    times = [1000, 1001, 2000, 3000, 3001]
    for version in kafka.versions(ApiKey.FETCH):
        response = kafka.call(fetch_request(topic, 0, version=version), version)
        assert (response.error_code, response.session_id, response.throttle_time_ms) == (0, 0, 0)
        assert response.node_endpoints == []
        (answered,) = response.responses
        assert answered.topic == (topic.name if version <= 12 else "")
        assert answered.topic_id == (topic.id if version >= 13 else ZERO_UUID)
        (answer,) = answered.partitions
        assert (answer.partition_index, answer.error_code, answer.high_watermark) == (0, 0, 5)
        assert answer.last_stable_offset == (5 if version >= 4 else -1)
        assert answer.log_start_offset == (0 if version >= 5 else -1)
        assert answer.preferred_read_replica == -1
        assert not answer.aborted_transactions
        headers = [header for _, header in iter_batch_headers(answer.records)]
        assert {header.magic for header in headers} == {magic_of(version)}
        records = records_of(answer)
        assert [(r.offset, r.value, r.key) for r in records] == [
            (i, b"abcde"[i : i + 1], b"k") for i in range(5)
        ]
        seen = [record.timestamp for record in records]
        assert seen == (times if version >= 2 else [-1] * 5)


def test_headers_are_lost_only_in_old_formats(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    header = ("name", b"value")
    records = build_batch([SimpleRecord(1, None, None, (header,))])
    assert kafka.produce(topic.name, bytes(records)).error_code == 0
    for version in kafka.versions(ApiKey.FETCH):
        (record,) = records_of(kafka.fetch(topic, 0, version))
        assert (record.key, record.value) == (None, None)
        assert [tuple(h) for h in record.headers] == ([header] if version >= 4 else [])


def test_from_the_middle_of_a_batch(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"a", b"b", b"c")
    kafka.append(topic.name, b"d", b"e", b"f", compression=Compression.SNAPPY)
    for version in kafka.versions(ApiKey.FETCH):
        offsets: list[int] = []
        while not offsets or offsets[-1] < 5:
            position = offsets[-1] + 1 if offsets else 1
            records = records_of(kafka.fetch(topic, position, version))
            offsets += [record.offset for record in records]
        # An old format takes more room than was read: what does not fit is asked for again.
        assert offsets == ([0, 1, 2, 3, 4, 5] if version >= 4 else [1, 2, 3, 4, 5])
        # A compressed batch stays whole in every format.
        compressed = [record.offset for record in records_of(kafka.fetch(topic, 4, version))]
        assert compressed == [3, 4, 5]


def test_aborted_transactions_are_a_list_only_for_read_committed(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"value")
    for version in kafka.versions(ApiKey.FETCH, first=4):
        assert kafka.fetch(topic, 0, version).aborted_transactions is None
        answer = kafka.fetch(topic, 0, version, isolation_level=READ_COMMITTED)
        assert answer.aborted_transactions == []
        assert [record.value for record in records_of(answer)] == [b"value"]


def test_offsets_out_of_range(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"a", b"b")
    for version in kafka.versions(ApiKey.FETCH):
        for offset in (3, -1):
            answer = kafka.fetch(topic, offset, version)
            assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert (answer.high_watermark, answer.last_stable_offset) == (-1, -1)
            assert answer.log_start_offset == -1
            assert not answer.records
        end = kafka.fetch(topic, 2, version)
        assert (end.error_code, end.high_watermark, len(end.records or b"")) == (0, 2, 0)


def test_unknown_topics_and_partitions(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"value")
    missing = Topic(unique("missing"), b"\x07" * 16)
    for version in kafka.versions(ApiKey.FETCH):
        request = fetch_request([topic, missing], 0, version=version)
        absent = FetchPartition(partition=9, fetch_offset=0, partition_max_bytes=1000)
        request.topics[0].partitions.append(absent)
        answers = {
            (
                answered.topic == topic.name or answered.topic_id == topic.id,
                part.partition_index,
            ): part
            for answered in kafka.call(request, version).responses
            for part in answered.partitions
        }
        assert len(records_of(answers[True, 0])) == 1
        assert answers[True, 9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if version >= 13:
            unknown = ErrorCode.UNKNOWN_TOPIC_ID
        assert answers[False, 0].error_code == unknown
        assert answers[False, 0].high_watermark == -1


def test_a_newer_leader_epoch_is_unknown(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"value")
    for version in kafka.versions(ApiKey.FETCH, first=9):
        answer = kafka.fetch(topic, 0, version, current_leader_epoch=5)
        assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert not answer.records
        assert len(records_of(kafka.fetch(topic, 0, version, current_leader_epoch=0))) == 1


def test_a_last_fetched_epoch_must_be_in_the_log(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"a", b"b")
    for version in kafka.versions(ApiKey.FETCH, first=12):
        same = kafka.fetch(topic, 1, version, last_fetched_epoch=0)
        assert (same.error_code, len(records_of(same))) == (0, 2)
        assert same.diverging_epoch.epoch == -1
        newer = kafka.fetch(topic, 2, version, last_fetched_epoch=4)
        assert newer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_size_limits(kafka: WireClient) -> None:
    topics = [kafka.create_topic(), kafka.create_topic()]
    for topic in topics:
        kafka.append(topic.name, b"a" * 1000)
        kafka.append(topic.name, b"b" * 1000)
    for version in kafka.versions(ApiKey.FETCH, first=3):
        # The first batch of the first partition comes whatever the limits are.
        request = fetch_request(topics, 0, version=version, max_bytes=1)
        sizes = [
            len(a.partitions[0].records or b"") for a in kafka.call(request, version).responses
        ]
        assert sizes[0] > 1000
        assert sizes[1:] in ([0], [])
        request = fetch_request(topics, 0, version=version, partition_max_bytes=1)
        answers = [a.partitions[0] for a in kafka.call(request, version).responses]
        assert [r.value for r in records_of(answers[0])] == [b"a" * 1000]
        assert [records_of(answer) for answer in answers[1:]] == [[]]
    for version in kafka.versions(ApiKey.FETCH, last=2):
        # These clients raise their limit and ask again.
        answer = kafka.fetch(topics[0], 0, version, partition_max_bytes=100)
        assert answer.error_code == 0
        assert records_of(answer) == []
        answer = kafka.fetch(topics[0], 0, version, partition_max_bytes=1100)
        assert [record.value for record in records_of(answer)] == [b"a" * 1000]


def test_waits_for_the_smallest_size(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    with kafka.another() as producer:
        for version in kafka.versions(ApiKey.FETCH):
            end = version  # one record is appended in each round
            started = time.monotonic()
            answer = kafka.fetch(topic, end, version, max_wait_ms=60, min_bytes=1)
            assert time.monotonic() - started >= 0.05
            assert (answer.error_code, records_of(answer)) == (0, [])
            request = fetch_request(topic, end, version=version, max_wait_ms=NEVER_MS, min_bytes=1)
            kafka.post(request, version)
            producer.append(topic.name, b"value")
            (answered,) = kafka.receive(ApiKey.FETCH, version).responses
            (record,) = records_of(answered.partitions[0])
            assert (record.offset, record.value) == (end, b"value")


def test_an_error_of_the_log_ends_the_wait(kafka: WireClient) -> None:
    quiet, short = kafka.create_topic(), kafka.create_topic()
    for version in kafka.versions(ApiKey.FETCH):
        request = fetch_request(
            [quiet, short],
            0,
            version=version,
            max_wait_ms=NEVER_MS,
            min_bytes=1,
        )
        request.topics[1].partitions[0].fetch_offset = 5
        answers = [answered.partitions[0] for answered in kafka.call(request, version).responses]
        assert [answer.error_code for answer in answers] == [0, ErrorCode.OFFSET_OUT_OF_RANGE]


def test_an_unknown_topic_does_not_end_the_wait_of_others(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    missing = Topic(unique("missing"), b"\x07" * 16)
    for version in kafka.versions(ApiKey.FETCH):
        request = fetch_request([topic, missing], 0, version=version, max_wait_ms=60, min_bytes=1)
        started = time.monotonic()
        assert len(kafka.call(request, version).responses) == 2
        assert time.monotonic() - started >= 0.05
        # Alone it is answered at once.
        request = fetch_request(missing, 0, version=version, max_wait_ms=NEVER_MS, min_bytes=1)
        assert len(kafka.call(request, version).responses) == 1


def test_zstd_needs_version_10(kafka: WireClient) -> None:
    by_topic = kafka.create_topic(compression_type="zstd")
    kafka.append(by_topic.name, b"value")
    by_producer = kafka.create_topic()
    kafka.append(by_producer.name, b"value", compression=Compression.ZSTD)
    for version in kafka.versions(ApiKey.FETCH):
        answer = kafka.fetch(by_topic, 0, version)
        converted = kafka.fetch(by_producer, 0, version)
        if version < 10:
            assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        else:
            assert [record.value for record in records_of(answer)] == [b"value"]
        if version < 4:
            assert converted.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        else:
            assert [record.value for record in records_of(converted)] == [b"value"]


def test_old_consumers_get_what_is_before_zstd(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"plain", b"second")
    kafka.append(topic.name, b"packed", compression=Compression.ZSTD)
    for version in kafka.versions(ApiKey.FETCH, last=3):
        answer = kafka.fetch(topic, 0, version)
        assert answer.error_code == 0
        assert [record.value for record in records_of(answer)] == [b"plain", b"second"]
        answer = kafka.fetch(topic, 2, version)
        assert answer.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


def test_down_conversion_may_be_off(kafka: WireClient) -> None:
    topic = kafka.create_topic(message_downconversion_enable="false")
    kafka.append(topic.name, b"value")
    for version in kafka.versions(ApiKey.FETCH):
        answer = kafka.fetch(topic, 0, version)
        if version < 4:
            assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert not answer.records
        else:
            assert [record.value for record in records_of(answer)] == [b"value"]


def test_a_replica_that_is_not_assigned_is_refused(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"value")
    for version in kafka.versions(ApiKey.FETCH):
        answer = kafka.fetch(topic, 0, version, replica_id=77)
        assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if version >= 9:
            answer = kafka.fetch(topic, 0, version, replica_id=77, current_leader_epoch=0)
            assert answer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert not answer.records


def test_a_debugging_consumer_reads_everything(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    kafka.append(topic.name, b"value")
    for version in kafka.versions(ApiKey.FETCH):
        answer = kafka.fetch(topic, 0, version, replica_id=DEBUG_REPLICA)
        assert [record.value for record in records_of(answer)] == [b"value"]


@pytest.mark.parametrize("count", [1, 40])
def test_many_segments_and_partitions(kafka: WireClient, count: int) -> None:
    topic = kafka.create_topic(partitions=count, segment_bytes="500")
    for partition in range(count):
        for i in range(4):
            kafka.append(topic.name, b"%d" % i, b"x" * 300, partition=partition)
    for version in kafka.versions(ApiKey.FETCH):
        request = fetch_request(topic, 0, version=version)
        request.topics[0].partitions = [
            FetchPartition(partition=p, fetch_offset=6, partition_max_bytes=1 << 16)
            for p in range(count)
        ]
        (answered,) = kafka.call(request, version).responses
        assert [answer.partition_index for answer in answered.partitions] == list(range(count))
        for answer in answered.partitions:
            assert [record.offset for record in records_of(answer)] == [6, 7]


def test_one_fetch_does_not_cross_a_segment(kafka: WireClient) -> None:
    topic = kafka.create_topic(segment_bytes="500")
    for i in range(3):
        kafka.append(topic.name, b"%d" % i * 300)
    offsets: list[int] = []
    while len(offsets) < 3:
        offsets += [record.offset for record in kafka.read(topic, len(offsets))]
    assert offsets == [0, 1, 2]
