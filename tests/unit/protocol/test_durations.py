"""Durations in Java's form."""

import pytest

from pybroker_kafka.protocol.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT0S", 0),
        ("PT1H30M", 5_400_000),
        ("P1DT2H3M4.5S", 93_784_500),
        ("pt1.001s", 1_001),
        ("PT-1H", -3_600_000),
        ("-PT1H", -3_600_000),
        ("-PT-1H", 3_600_000),
        ("PT-1.5S", -1_500),
        ("PT1.S", 1_000),
        ("PT0.0009S", 0),
        ("P+2D", 172_800_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1", "1H", "PT1H ", "PT1M1H", "P1DT", "PTS", "PT1.0000000001S", "P1W"]
)
def test_none(text: str) -> None:
    assert duration_ms(text) is None


def test_more_than_a_machine_has() -> None:
    assert duration_ms("P1" + "0" * 100 + "D") is None
