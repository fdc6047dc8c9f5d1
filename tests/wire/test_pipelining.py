"""Many requests on one connection at once, and frames of all sizes: answered in order, whole."""

from __future__ import annotations

import time

from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.metadata import MetadataRequest
from pybroker_kafka.protocol.records.compression import Compression
from tests.support.wire import WireClient, batch, fetch_request, produce_request, records_of

ROUNDS = 50


def test_what_is_behind_a_waiting_fetch_waits(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    version = kafka.versions(ApiKey.FETCH)[-1]
    started = time.monotonic()
    fetching = kafka.post(fetch_request(topic, max_wait_ms=300, min_bytes=1), version)
    asking = kafka.post(MetadataRequest(topics=[]), 12)
    (answered,) = kafka.receive(ApiKey.FETCH, version, fetching).responses
    assert time.monotonic() - started >= 0.29
    assert records_of(answered.partitions[0]) == []
    assert len(kafka.receive(ApiKey.METADATA, 12, asking).brokers) == 1


def test_produces_in_a_row(kafka: WireClient) -> None:
    """With and without answers, of one and of all replicas, with other requests between them."""
    topic = kafka.create_topic()
    expected: list[tuple[ApiKey, int, int, int]] = []
    values: list[bytes] = []
    for i in range(ROUNDS):
        for acks in (1, -1, 0):
            value = b"%d with acks %d" % (i, acks)
            posted = kafka.post(produce_request(topic.name, batch(value), acks=acks), 9)
            if acks:
                expected.append((ApiKey.PRODUCE, 9, posted, len(values)))
            values.append(value)
        posted = kafka.post(ApiVersionsRequest(), 0)
        expected.append((ApiKey.API_VERSIONS, 0, posted, 0))
    for key, version, correlation_id, offset in expected:
        answer = kafka.receive(key, version, correlation_id)
        if key is ApiKey.PRODUCE:
            ((part,),) = (answered.partition_responses for answered in answer.responses)
            assert (part.error_code, part.base_offset) == (0, offset)
    assert [record.value for record in kafka.read(topic)] == values


def test_frames_of_all_sizes(kafka: WireClient) -> None:
    topic = kafka.create_topic(max_message_bytes=str(8 << 20))
    sizes = [0, 1, 61, 4095, 4096, 4097, 65_535, 65_536, 1_000_000, 6_000_000]
    for size in sizes:
        kafka.append(topic.name, bytes([size % 251]) * size, timestamp=size)
    offset = 0
    seen = []
    while offset < len(sizes):
        # The last one is larger than the limit: it comes alone.
        answer = kafka.fetch(topic, offset, max_bytes=5_000_000, partition_max_bytes=3_000_000)
        for record in records_of(answer):
            assert record.value == bytes([record.timestamp % 251]) * record.timestamp
            seen.append(record.timestamp)
            offset = record.offset + 1
    assert seen == sizes


def test_a_request_that_arrives_byte_by_byte(kafka: WireClient) -> None:
    topic = kafka.create_topic()
    frame = kafka.frame(produce_request(topic.name, batch(b"slow")), 9)
    for i in range(len(frame)):
        kafka.socket.sendall(frame[i : i + 1])
    ((answer,),) = (a.partition_responses for a in kafka.receive(ApiKey.PRODUCE, 9).responses)
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert [record.value for record in kafka.read(topic)] == [b"slow"]


def test_many_partitions_in_one_request(kafka: WireClient) -> None:
    count = 60
    topic = kafka.create_topic(partitions=count)
    request = produce_request(topic.name, batch(b"0", compression=Compression.GZIP))
    (data,) = request.topic_data
    data.partition_data = [
        produce_request(topic.name, batch(b"%d" % i), i).topic_data[0].partition_data[0]
        for i in range(count)
    ]
    for version in kafka.versions(ApiKey.PRODUCE, first=3):
        (answered,) = kafka.call(request, version).responses
        answers = {p.index: (p.error_code, p.base_offset) for p in answered.partition_responses}
        assert answers == dict.fromkeys(range(count), (0, version - 3))
    for i in (0, 7, count - 1):
        values = {record.value for record in kafka.read(topic, partition=i)}
        assert values == {b"%d" % i}
