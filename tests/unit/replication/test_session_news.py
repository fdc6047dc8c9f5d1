"""What a fetch session counts as news: a partition without any is left out of the answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pybroker_kafka.protocol.apis.fetch import (
    FetchResponseEpochEndOffset,
    FetchResponsePartitionData,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.replication.fetch_session import FetchSessions, SessionPartition
from pybroker_kafka.replication.reader import error_data
from pybroker_kafka.replication.types import FetchEntry


def quiet() -> FetchResponsePartitionData:
    data = error_data(0, ErrorCode.NONE)
    data.high_watermark, data.log_start_offset = 57, 0
    return data


def diverging() -> FetchResponsePartitionData:
    data = quiet()
    data.diverging_epoch = FetchResponseEpochEndOffset(epoch=3, end_offset=57)
    return data


def failed() -> FetchResponsePartitionData:
    return error_data(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.mark.parametrize("odd", [diverging, failed])
def test_what_comes_after_it_is_news(odd: Callable[[], FetchResponsePartitionData]) -> None:
    """A follower that truncates ignores the HW beside it, and must hear of it once more."""
    partition = SessionPartition(FetchEntry("t", 0, fetch_offset=61, max_bytes=1))
    assert partition.has_news(quiet())
    assert not partition.has_news(quiet())
    assert partition.has_news(odd())
    assert partition.has_news(quiet())
    assert not partition.has_news(quiet())


def test_a_session_that_begins_with_a_divergence() -> None:
    sessions = FetchSessions(lambda _low, _high: 7)
    answer = [(FetchEntry("t", 0, fetch_offset=61, max_bytes=1), diverging())]
    sessions.create(answer, 0, is_privileged=True, uses_topic_ids=False)
    context = sessions.begin(7, 1, {}, [], is_follower=True, uses_topic_ids=False, now_ms=0)
    _, _, sent = context.finish([quiet()])
    assert [data.high_watermark for _, data in sent] == [57]


@pytest.mark.parametrize(
    ("leader_epoch", "fetch_offset", "is_news"),
    [(4, 61, False), (4, 62, False), (5, 61, True), (4, 60, True)],
    ids=["the same", "records taken", "a new epoch", "a log cut"],
)
def test_an_answer_that_was_not_taken(leader_epoch: int, fetch_offset: int, is_news: bool) -> None:
    """Found by simulation: a follower whose epoch changed while an answer was on its way took
    nothing from it, and did not hear of that HW until the next record came."""
    asked = FetchEntry("t", 0, fetch_offset=61, max_bytes=1, current_leader_epoch=4)
    partition = SessionPartition(asked)
    assert partition.has_news(quiet())
    asks = FetchEntry(
        "t", 0, fetch_offset=fetch_offset, max_bytes=1, current_leader_epoch=leader_epoch
    )
    partition.take_over(asks)
    assert partition.has_news(quiet()) == is_news
