"""Answers to commits that are encoded once are what the codec writes, in every version."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pybroker.broker.coordinators.commit_answers import MAX_ANSWERS, CommitAnswers
from pybroker.protocol.api import API_TABLE, ApiKey
from pybroker.protocol.framing import encode_response
from pybroker.protocol.messages.group_offsets import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.support.frames import joined

INT = st.integers(-(2**31), 2**31 - 1)
SPEC = API_TABLE[ApiKey.OFFSET_COMMIT]
ANSWERS = CommitAnswers()


def answer(topic: str, *partitions: tuple[int, int]) -> OffsetCommitResponse:
    entries = [
        OffsetCommitResponsePartition(partition_index=index, error_code=error)
        for index, error in partitions
    ]
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=topic, partitions=entries)])


@given(
    version=st.integers(SPEC.min_version, SPEC.max_version),
    topic=st.sampled_from(["t", "topic-é", "x" * 249]),
    index=INT,
    correlation_id=INT,
)
def test_byte_for_byte(version: int, topic: str, index: int, correlation_id: int) -> None:
    response = answer(topic, (index, 0))
    expected = joined(encode_response(ApiKey.OFFSET_COMMIT, version, correlation_id, response))
    assert ANSWERS.frame(version, correlation_id, response) == expected


def test_all_else_goes_through_the_codec() -> None:
    assert ANSWERS.frame(8, 1, OffsetCommitResponse()) is None
    assert ANSWERS.frame(8, 1, answer("t", (0, 25))) is None
    assert ANSWERS.frame(8, 1, answer("t", (0, 0), (1, 0))) is None
    held = answer("t", (0, 0))
    held.throttle_time_ms = 5
    assert ANSWERS.frame(8, 1, held) is None


def test_they_are_bounded() -> None:
    answers = CommitAnswers()
    for index in range(MAX_ANSWERS + 5):
        answers.frame(8, 1, answer("t", (index, 0)))
    assert len(answers._known) == 5
