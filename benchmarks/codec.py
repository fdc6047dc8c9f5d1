"""What reading and writing messages costs on the request path: `python -m benchmarks.codec`.

Prints the best of many short runs in microseconds, which is steady also on a busy machine. The aim
is less than 4 us each for Produce and Fetch with one partition.
"""

from __future__ import annotations

import timeit
from collections.abc import Callable
from functools import partial

from pybroker_kafka.protocol.apis.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
    FetchTopic,
)
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from pybroker_kafka.protocol.codec import decode, encode
from pybroker_kafka.protocol.framing import decode_request_header, encode_request, encode_response
from tests.support.frames import joined

CALLS = 200
RUNS = 1000
TOPIC_ID = b"0123456789abcdef"


def best_us(call: Callable[[], object]) -> float:
    return min(timeit.repeat(call, number=CALLS, repeat=RUNS)) / CALLS * 1e6


def produce_request() -> ProduceRequest:
    partition = PartitionProduceData(index=3, records=bytes(1024))
    topic = TopicProduceData(name="my-topic", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> ProduceResponse:
    partition = PartitionProduceResponse(index=3, base_offset=100, log_start_offset=0)
    return ProduceResponse(
        responses=[TopicProduceResponse(name="my-topic", partition_responses=[partition])]
    )


def fetch_request(version: int) -> FetchRequest:
    partition = FetchPartition(partition=3, fetch_offset=100, partition_max_bytes=1 << 20)
    topic = FetchTopic(partitions=[partition])
    if version < 13:
        topic.topic = "my-topic"
    else:
        topic.topic_id = TOPIC_ID
    return FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=0, topics=[topic])


def fetch_response(version: int) -> FetchResponse:
    partition = FetchResponsePartitionData(
        partition_index=3, high_watermark=100, last_stable_offset=100, records=bytes(100_000)
    )
    topic = FetchableTopicResponse(partitions=[partition])
    if version < 13:
        topic.topic = "my-topic"
    else:
        topic.topic_id = TOPIC_ID
    return FetchResponse(session_id=5, responses=[topic])


def main() -> None:
    measured: dict[str, Callable[[], object]] = {}
    frame = bytearray(joined(encode_request(0, 9, 1, "rdkafka", produce_request()))[4:])
    measured["request header v2, read"] = lambda: decode_request_header(frame)
    answer = produce_response()
    for version in (7, 9, 11):
        body = bytearray(encode(produce_request(), version))
        measured[f"Produce v{version} request, read"] = partial(
            decode, ProduceRequest, version, body
        )
        measured[f"Produce v{version} response, write"] = partial(
            encode_response, 0, version, 1, answer
        )
    for version in (11, 12, 15, 17):
        body = bytearray(encode(fetch_request(version), version))
        fetched = fetch_response(version)
        measured[f"Fetch v{version} request, read"] = partial(decode, FetchRequest, version, body)
        measured[f"Fetch v{version} response, write"] = partial(
            encode_response, 1, version, 1, fetched
        )
    measured["Produce response, constructed"] = produce_response
    for name, call in measured.items():
        print(f"{name:32} {best_us(call):6.2f} us")


if __name__ == "__main__":
    main()
