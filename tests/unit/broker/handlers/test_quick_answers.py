"""Quick answers are what the codec writes, in every version."""

from __future__ import annotations

from typing import Any

import pytest
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
from tests.support.replication import ReplicaCluster

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
SPEC = API_TABLE[ApiKey.PRODUCE]
TOPIC_ID = bytes(range(16))

# By topic and index, the templates by version.
TEMPLATES: dict[tuple[str, int], dict[int, Any]] = {}


@pytest.fixture(scope="module")
def partition(tmp_path_factory: pytest.TempPathFactory) -> Partition:
    cluster = ReplicaCluster(tmp_path_factory.mktemp("replica"))
    cluster.role()
    return cluster.partition


@given(
    version=st.integers(SPEC.min_version, SPEC.max_version),
    topic=st.sampled_from(["t", "topic-é", "x" * 249]),
    index=st.one_of(st.just(0), INT),
    correlation_id=INT,
    numbers=st.tuples(LONG, LONG, LONG),
)
def test_byte_for_byte(
    partition: Partition,
    version: int,
    topic: str,
    index: int,
    correlation_id: int,
    numbers: tuple[int, int, int],
) -> None:
    base_offset, append_time, start_offset = numbers
    answer = PartitionProduceResponse(
        index=index,
        base_offset=base_offset,
        log_append_time_ms=append_time,
        log_start_offset=start_offset,
    )
    response = ProduceResponse(
        responses=[
            TopicProduceResponse(name=topic, topic_id=TOPIC_ID, partition_responses=[answer])
        ]
    )
    parts = encode_response(ApiKey.PRODUCE, version, correlation_id, response)
    expected = joined(parts)
    result = ProduceResult(ErrorCode.NONE, base_offset, append_time, start_offset)
    partition.key, partition.topic_id = (topic, index), TOPIC_ID
    partition.quick_answers = TEMPLATES.setdefault(partition.key, {})
    assert quick_answer(version, correlation_id, partition, result) == expected
