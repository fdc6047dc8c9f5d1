"""Retention against a dumb twin that knows of every segment only its base, size and newest time."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from pybroker_kafka.storage.retention import delete_old_segments
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, log_of
from tests.unit.storage.tiered import tiered_log

NOW_MS = 1000
appends = st.tuples(
    st.integers(min_value=1, max_value=3),  # records
    st.integers(min_value=0, max_value=80),  # bytes of a value
    st.integers(min_value=1, max_value=NOW_MS),  # timestamp
    st.booleans(),  # roll afterwards
)
policies = st.sampled_from(["delete", "compact", "compact,delete"])


@dataclass(slots=True)
class TwinSegment:
    base: int
    size: int = 0
    newest: int = -1


def kept(
    segments: list[TwinSegment],
    end: int,
    start: int,
    high_watermark: int,
    policy: str,
    retention_ms: int,
    retention_bytes: int,
) -> list[TwinSegment]:
    """What is left, by asking of each segment from the oldest on whether it may go."""
    left = list(segments)

    def ends() -> int:
        return left[1].base if len(left) > 1 else end

    def may_go() -> bool:
        return bool(left[0].size or len(left) > 1) and ends() <= high_watermark

    while len(left) > 1 and may_go() and ends() <= start:
        left.pop(0)
    if "delete" in policy:
        total = sum(segment.size for segment in left)
        while left and may_go() and 0 <= retention_bytes <= total - left[0].size:
            total -= left.pop(0).size
        while left and may_go() and 0 <= retention_ms < NOW_MS - left[0].newest:
            left.pop(0)
    return left or [TwinSegment(end)]


@settings(deadline=None, max_examples=150)
@given(
    st.lists(appends, max_size=12),
    st.floats(min_value=0, max_value=1),
    st.floats(min_value=0, max_value=1),
    policies,
    st.integers(min_value=-1, max_value=NOW_MS),
    st.integers(min_value=-1, max_value=1500),
    st.integers(min_value=1, max_value=4),
)
def test_the_same_segments_stay(
    batches: list[tuple[int, int, int, bool]],
    high_watermark_share: float,
    start_share: float,
    policy: str,
    retention_ms: int,
    retention_bytes: int,
    limit: int,
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = log_of(
            directory,
            cleanup_policy=policy,
            retention_ms=retention_ms,
            retention_bytes=retention_bytes,
        )
        twin = [TwinSegment(0)]
        for count, size, timestamp, roll in batches:
            batch = batch_of(*[b"x" * size] * count, timestamp=timestamp)
            twin[-1].size += len(batch)
            twin[-1].newest = max(twin[-1].newest, timestamp)
            append_as_leader(log, batch, leader_epoch=0, now_ms=0)
            if roll:
                log.roll(0)
                twin.append(TwinSegment(log.log_end_offset))
        end = log.log_end_offset
        high_watermark = log.update_high_watermark(round(high_watermark_share * end))
        start = round(start_share * high_watermark)
        log.maybe_increment_log_start_offset(start)
        left = kept(twin, end, start, high_watermark, policy, retention_ms, retention_bytes)
        while delete_old_segments(log, NOW_MS, limit) == limit:
            continue
        assert log.segments.base_offsets == [segment.base for segment in left]
        assert log.size_bytes == sum(segment.size for segment in left)
        assert log.log_start_offset == max(start, left[0].base)
        assert log.log_end_offset == end
        log.release()


def kept_beside_a_tier(
    segments: list[TwinSegment],
    end: int,
    start: int,
    high_watermark: int,
    in_tier: int,
    limits: tuple[int, int],
) -> list[TwinSegment]:
    """What is left of a log whose records below `in_tier` are in a remote tier: a segment that is
    not there, and is not below the log start, stays; so does the active one, which is rolled."""
    left = list(segments)
    local_ms, local_bytes = limits

    def may_go() -> bool:
        return (
            len(left) > 1
            and left[1].base <= high_watermark
            and (left[1].base <= in_tier or left[1].base <= start)
        )

    while may_go() and left[1].base <= start:
        left.pop(0)
    total = sum(segment.size for segment in left)
    while may_go() and 0 <= local_bytes <= total - left[0].size:
        total -= left.pop(0).size
    while may_go() and 0 <= local_ms < NOW_MS - left[0].newest:
        left.pop(0)
    is_old = 0 <= local_ms < NOW_MS - left[-1].newest
    if left[-1].size and end <= high_watermark and (is_old or local_bytes == 0):
        left.append(TwinSegment(end))
        return kept_beside_a_tier(left, end, start, high_watermark, in_tier, limits)
    return left


@settings(deadline=None, max_examples=150)
@given(
    st.lists(appends, max_size=12),
    st.tuples(*[st.floats(min_value=0, max_value=1)] * 3),
    st.tuples(
        st.integers(min_value=-1, max_value=NOW_MS), st.integers(min_value=-1, max_value=1500)
    ),
    st.integers(min_value=1, max_value=4),
)
def test_the_same_segments_stay_beside_a_tier(
    batches: list[tuple[int, int, int, bool]],
    shares: tuple[float, float, float],
    limits: tuple[int, int],
    limit: int,
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = tiered_log(
            directory,
            local_retention_ms=limits[0],
            local_retention_bytes=limits[1],
            retention_ms=-1,
        )
        twin = [TwinSegment(0)]
        for count, size, timestamp, roll in batches:
            batch = batch_of(*[b"x" * size] * count, timestamp=timestamp)
            twin[-1].size += len(batch)
            twin[-1].newest = max(twin[-1].newest, timestamp)
            append_as_leader(log, batch, leader_epoch=0, now_ms=0)
            if roll:
                log.roll(0)
                twin.append(TwinSegment(log.log_end_offset))
        end = log.log_end_offset
        high_watermark = log.update_high_watermark(round(shares[0] * end))
        in_tier = round(shares[1] * high_watermark)
        start = round(shares[2] * high_watermark)
        log.maybe_increment_log_start_offset(start)
        log.update_highest_offset_in_remote_storage(in_tier - 1)
        log.leader_epochs.ask_for_sync()
        log.flush(0)  # segments go once the epochs are on disk
        left = kept_beside_a_tier(twin, end, start, high_watermark, in_tier, limits)
        rolled = 0
        while (count := delete_old_segments(log, NOW_MS, limit)) or rolled < 2:
            assert count <= limit
            rolled += not count  # the active one may have been, and may go now
        assert log.segments.base_offsets == [segment.base for segment in left]
        assert log.log_start_offset == start
        assert log.local_log_start_offset == max(start, left[0].base)
        assert log.leader_epochs.entries == ([(0, start)] if end > 0 else [])
        log.release()
