"""Time makes a log begin segments as often as it should, and not as often as a client likes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.roll_pace import FREE_BYTES, MAX_BURST, REFILL_MS, RollPace
from tests.support.appends import append_as_leader
from tests.unit.storage.helpers import batch_of, log_of

DAY_MS = 86_400_000
NOW_MS = 1_700_000_000_000


def count(pace: RollPace, now_ms: int, tries: int = 3 * MAX_BURST, size: int = 100) -> int:
    return sum(pace.allows(size, now_ms) for _ in range(tries))


def test_many_at_once_and_then_one_in_a_while() -> None:
    pace = RollPace()
    assert count(pace, NOW_MS) == MAX_BURST
    assert count(pace, NOW_MS + REFILL_MS // 2) == 0
    assert count(pace, NOW_MS + REFILL_MS) == 1
    assert count(pace, NOW_MS + REFILL_MS + REFILL_MS // 2) == 0
    assert count(pace, NOW_MS + 11 * REFILL_MS) == 10
    assert count(pace, NOW_MS + DAY_MS) == MAX_BURST


def test_whoever_has_written_much_may_always() -> None:
    pace = RollPace()
    count(pace, NOW_MS)
    assert not pace.allows(FREE_BYTES - 1, NOW_MS)
    assert pace.allows(FREE_BYTES, NOW_MS)


def test_a_clock_that_is_set_back() -> None:
    pace = RollPace()
    count(pace, NOW_MS)
    assert count(pace, NOW_MS - DAY_MS) == 0
    assert count(pace, NOW_MS - DAY_MS + 3 * REFILL_MS) == 3


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return log_of(tmp_path, segment_ms=1, segment_bytes=4000)


def append(log: Log, timestamp: int, now_ms: int, size: int = 1) -> None:
    append_as_leader(log, batch_of(bytes(size), timestamp=timestamp), leader_epoch=0, now_ms=now_ms)


@pytest.mark.parametrize("has_timestamps", [True, False])
def test_a_client_begins_no_more_segments(log: Log, has_timestamps: bool) -> None:
    """Whatever its records say; and full segments go on to be rolled."""
    for number in range(MAX_BURST + 200):
        if has_timestamps:
            append(log, number * DAY_MS, NOW_MS)
        else:
            append(log, -1, NOW_MS + 2 * number)
    begun = len(log.segments)
    assert MAX_BURST < begun <= MAX_BURST + 10  # 4000 bytes hold some fifty batches
    assert log.log_end_offset == MAX_BURST + 200
    for number in range(3):
        append(log, -1, NOW_MS + 1000 * DAY_MS, size=3900)
        assert len(log.segments) > begun + number
    log.flush()
    found = log.offset_for_timestamp((MAX_BURST + 100) * DAY_MS) if has_timestamps else None
    assert found is None or found.offset == MAX_BURST + 100


def test_a_follower_begins_no_more_segments(log: Log) -> None:
    for number in range(MAX_BURST + 200):
        batch = batch_of(b"x", timestamp=number * DAY_MS)
        batch[:8] = number.to_bytes(8, "big")
        batch[12:16] = bytes(4)
        log.append_as_follower(bytes(batch), now_ms=NOW_MS)
    assert MAX_BURST < len(log.segments) <= MAX_BURST + 10
