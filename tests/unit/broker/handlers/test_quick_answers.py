"""Quick answers are what the codec writes, in every version."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.handlers.quick_answers import quick_answer
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.framing import encode_response
from pybroker_kafka.replication.partition import Partition
from pybroker_kafka.replication.types import ProduceResult
from tests.support.frames import joined

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
SPEC = API_TABLE[ApiKey.PRODUCE]

# By topic and index: a template made in one version may not serve another one.
PARTITIONS: dict[tuple[str, int], Partition] = {}


def partition_of(topic: str, index: int) -> Partition:
    found = PARTITIONS.get((topic, index))
    if found is None:
        found = PARTITIONS[topic, index] = Partition.__new__(Partition)
        found.key, found.quick_answers = (topic, index), {}
    return found


@given(
    version=st.integers(SPEC.min_version, SPEC.max_version),
    topic=st.sampled_from(["t", "topic-é", "x" * 249]),
    index=st.one_of(st.just(0), INT),
    correlation_id=INT,
    numbers=st.tuples(LONG, LONG, LONG),
)
def test_byte_for_byte(
    version: int, topic: str, index: int, correlation_id: int, numbers: tuple[int, int, int]
) -> None:
    base_offset, append_time, start_offset = numbers
    partition = PartitionProduceResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=append_time,
        log_start_offset=start_offset,
    )
    response = ProduceResponse(
        responses=[TopicProduceResponse(name=topic, partition_responses=[partition])]
    )
    parts = encode_response(ApiKey.PRODUCE, version, correlation_id, response)
    expected = joined(parts)
    result = ProduceResult(ErrorCode.NONE, base_offset, append_time, start_offset)
    answer = quick_answer(version, correlation_id, partition_of(topic, index), result)
    assert answer == expected
