"""Quick fetch answers are what the codec writes, in every version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.broker.handlers.quick_fetch_answers import (
    FIRST_VERSION,
    MAX_RECORDS_BYTES,
    MAX_TEMPLATES,
    QuickFetchAnswers,
)
from pybroker_kafka.protocol.api import API_TABLE, ApiKey
from pybroker_kafka.protocol.apis.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    FetchResponseEpochEndOffset,
    FetchResponsePartitionData,
)
from pybroker_kafka.protocol.framing import encode_response
from pybroker_kafka.replication.reader import error_data
from pybroker_kafka.replication.types import FetchEntry
from pybroker_kafka.storage.files import CLOSED_FILE, EMPTY_SLICE, FileSlice
from tests.support.frames import joined

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
SPEC = API_TABLE[ApiKey.FETCH]
ANSWERS = QuickFetchAnswers()
TOPIC_ID = bytes(range(16))


MANY = MAX_RECORDS_BYTES + 1


def data_of(index: int, records: FileSlice | bytes, *numbers: int) -> FetchResponsePartitionData:
    data = error_data(index, 0)  # type: ignore[arg-type]
    if numbers:
        data.high_watermark, data.last_stable_offset, data.log_start_offset = numbers
    data.records = records
    return data


def entry_of(topic: str, index: int) -> FetchEntry:
    return FetchEntry(topic, index, topic_id=TOPIC_ID, fetch_offset=0, max_bytes=1)


@given(
    version=st.integers(FIRST_VERSION, SPEC.max_version),
    topic=st.sampled_from(["t", "topic-é", "x" * 249]),
    index=INT,
    correlation_id=INT,
    session_id=INT,
    numbers=st.tuples(LONG, LONG, LONG),
    size=st.one_of(st.integers(0, 300), st.integers(0, 40_000)),
)
def test_byte_for_byte(
    version: int,
    topic: str,
    index: int,
    correlation_id: int,
    session_id: int,
    numbers: tuple[int, int, int],
    size: int,
) -> None:
    held = bytes(size)
    entry = entry_of(topic, index)
    data = data_of(index, FileSlice(CLOSED_FILE, 0, size, held), *numbers)
    frame = ANSWERS.frame(version, correlation_id, session_id, entry, data)
    answer = FetchableTopicResponse(partitions=[data_of(index, held, *numbers)])
    if version >= 13:
        answer.topic_id = TOPIC_ID
    else:
        answer.topic = topic
    response = FetchResponse(responses=[answer])
    if version >= 7:
        response.session_id = session_id
    assert frame == joined(encode_response(ApiKey.FETCH, version, correlation_id, response))


def test_no_records() -> None:
    for records in (b"", EMPTY_SLICE):
        assert ANSWERS.frame(12, 1, 2, entry_of("t", 0), data_of(0, records)) is not None


def with_aborted() -> FetchResponsePartitionData:
    data = data_of(0, b"")
    data.aborted_transactions = []
    return data


def with_divergence() -> FetchResponsePartitionData:
    data = data_of(0, b"")
    data.diverging_epoch = FetchResponseEpochEndOffset(epoch=3, end_offset=4)
    return data


@pytest.mark.parametrize(
    "data",
    [
        with_aborted(),
        with_divergence(),
        error_data(0, 6),  # type: ignore[arg-type]
        data_of(0, FileSlice(CLOSED_FILE, 0, 9)),
        data_of(0, b"not of a file"),
        data_of(0, FileSlice(CLOSED_FILE, 0, MANY, memoryview(bytes(MANY)))),
    ],
)
def test_all_else_goes_through_the_codec(data: FetchResponsePartitionData) -> None:
    assert ANSWERS.frame(12, 1, 2, entry_of("t", 0), data) is None


def test_old_versions_go_through_the_codec() -> None:
    assert ANSWERS.frame(FIRST_VERSION - 1, 1, 2, entry_of("t", 0), data_of(0, b"")) is None


def test_templates_are_bounded() -> None:
    answers = QuickFetchAnswers()
    for index in range(MAX_TEMPLATES + 5):
        answers.frame(12, 1, 2, entry_of("t", index), data_of(index, b""))
    assert len(answers._templates) == 5
