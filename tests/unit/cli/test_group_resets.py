"""Where a group is put: times, shifts and durations."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.cli.group_resets import parse_where
from pybroker_kafka.cli.reassigning import spread
from pybroker_kafka.client.admin.resets import Reset

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "ago_ms"),
    [
        ("-PT1H", HOUR_MS), ("-PT1H30M", HOUR_MS * 3 // 2), ("-P7D", 7 * 24 * HOUR_MS),
        ("-P1DT1S", 24 * HOUR_MS + 1000), ("-PT0.5S", 500), ("-1h30m", HOUR_MS * 3 // 2),
        ("-7d", 7 * 24 * HOUR_MS), ("-5s", 5_000),
    ],
)  # fmt: skip
def test_durations(text: str, ago_ms: int) -> None:
    assert parse_where(text).timestamp(10**13) == 10**13 - ago_ms


def test_times() -> None:
    expected = int(datetime(2026, 11, 23, 4).timestamp() * 1000)
    assert parse_where("@2026-11-23T04:00").at_ms == expected
    assert parse_where("@2026-11-23T04:00:00+00:00").at_ms == 1_795_406_400_000
    assert parse_where(f"@{expected}") == Reset(at_ms=expected)
    before_ms = int(time.time() * 1000)
    ago_ms = parse_where("@-1h").at_ms or 0
    assert before_ms <= ago_ms + HOUR_MS <= time.time() * 1000


@pytest.mark.parametrize(
    ("reset", "offset"),
    [
        (Reset(word="earliest"), 3), (Reset(word="latest"), 9), (Reset(word="current"), 5),
        (Reset(absolute=4), 4), (Reset(shift=-2), 3), (Reset(at_ms=7), 8),
    ],
)  # fmt: skip
def test_offsets(reset: Reset, offset: int) -> None:
    assert reset.offset(3, 9, 5, 8 if reset.at_ms else None) == offset


def test_without_a_committed_offset_a_shift_changes_nothing() -> None:
    assert Reset(shift=1).offset(0, 9, None, None) is None
    assert Reset(at_ms=7).offset(0, 9, None, -1) == 9  # nothing is as young as that


@given(
    st.lists(
        st.lists(st.integers(1, 6), min_size=1, max_size=3, unique=True), min_size=1, max_size=30
    ),
    st.lists(st.integers(1, 6), min_size=1, max_size=6, unique=True),
)
def test_replicas_are_spread(now: list[list[int]], brokers: list[int]) -> None:
    """As many as there were, if there are so many brokers; nobody has two more than another."""
    places = {("t", number): replicas for number, replicas in enumerate(now)}
    made = spread(places, brokers)
    assert made.keys() == places.keys()
    for place, replicas in made.items():
        assert len(replicas) == len(set(replicas)) == min(len(places[place]), len(brokers))
        assert set(replicas) <= set(brokers)
    loads = [sum(one in replicas for replicas in made.values()) for one in brokers]
    assert max(loads) - min(loads) <= 1
