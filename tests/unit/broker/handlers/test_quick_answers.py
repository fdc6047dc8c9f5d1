"""Quick answers are what the codec writes, in every version."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.handlers.quick_answers import MAX_TEMPLATES, QuickAnswers
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.framing import encode_response
from pybroker_kafka.replication.types import ProduceResult
from tests.support.frames import joined

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
SPEC = API_TABLE[ApiKey.PRODUCE]
ANSWERS = QuickAnswers()


@given(
    version=st.integers(SPEC.min_version, SPEC.max_version),
    topic=st.sampled_from(["t", "topic-é", "x" * 249]),
    index=INT,
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
    assert ANSWERS.frame(version, correlation_id, (topic, index), result) == expected


def test_templates_are_bounded() -> None:
    answers = QuickAnswers()
    result = ProduceResult(ErrorCode.NONE, 1, 2, 3)
    for index in range(MAX_TEMPLATES + 5):
        answers.frame(9, 1, ("t", index), result)
    assert len(answers._templates) == 5
