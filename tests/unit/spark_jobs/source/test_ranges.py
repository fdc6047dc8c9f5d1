"""Where queries begin and what may be lost in between, on a cluster that is a table."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pybroker_kafka.spark_jobs.source.limits import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimestamps,
    Everywhere,
    NoMatch,
    OptionError,
)
from pybroker_kafka.spark_jobs.source.planning import OffsetRange
from pybroker_kafka.spark_jobs.source.range_reader import DataLossError
from pybroker_kafka.spark_jobs.source.ranges import Ranges

Key = tuple[str, int]
ZERO, ONE = ("t", 0), ("t", 1)


class Table:
    """Partitions from `start` to `end`, whose records have their offsets as times."""

    def __init__(self, **ends: tuple[int, int]) -> None:
        self.logs: dict[Key, tuple[int, int]] = {("t", int(k[1:])): v for k, v in ends.items()}

    def partitions(self) -> set[Key]:
        return set(self.logs)

    def offsets(self, wanted: Mapping[Key, int]) -> dict[Key, int]:
        found = {}
        for key, time in wanted.items():
            if key not in self.logs:
                continue
            start, end = self.logs[key]
            special = {EARLIEST: start, LATEST: end}
            found[key] = special.get(time, max(time, start) if time < end else -1)
        return found


def ranges(fail: bool = True, **ends: tuple[int, int]) -> Ranges:
    return Ranges(Table(**ends), fail_on_data_loss=fail)


def test_limits() -> None:
    some = ranges(p0=(3, 10), p1=(0, 0))
    assert some.at(Everywhere(EARLIEST), option="o") == {ZERO: 3, ONE: 0}
    assert some.at(Everywhere(LATEST), option="o") == {ZERO: 10, ONE: 0}
    at = AtOffsets({ZERO: 7, ONE: LATEST})
    assert some.at(at, option="o") == {ZERO: 7, ONE: 0}
    assert some.at(AtTimestamps(5, NoMatch.LATEST), option="o") == {ZERO: 5, ONE: 0}
    with pytest.raises(OptionError, match="t-1 has no record"):
        some.at(AtTimestamps({ZERO: 5, ONE: 5}), option="o")
    with pytest.raises(OptionError, match=r"o must name all partitions.*t-1 is not among them"):
        some.at(AtOffsets({ZERO: 7}), option="o")
    with pytest.raises(OptionError, match="t-7 is not there"):
        some.at(AtTimestamps({ZERO: 7, ONE: 7, ("t", 7): 7}), option="o")


def test_between() -> None:
    some = ranges(p0=(0, 10), p1=(0, 5))
    assert some.between({ZERO: 2}, {ZERO: 10, ONE: 5}) == [
        OffsetRange("t", 0, 2, 10),
        OffsetRange("t", 1, 0, 5),
    ]


@pytest.mark.parametrize(
    ("start", "end", "words", "rest"),
    [
        ({ZERO: 2, ONE: 1}, {ZERO: 9}, "t-1 was deleted", [OffsetRange("t", 0, 2, 9)]),
        ({}, {ZERO: 9}, "begins at 1, not at 0", [OffsetRange("t", 0, 1, 9)]),
        ({ZERO: 9}, {ZERO: 2}, "now ends at 2", [OffsetRange("t", 0, 9, 9)]),
        ({}, {ONE: 9}, "t-1 has been deleted", []),
    ],
)
def test_what_is_lost(
    start: dict[Key, int], end: dict[Key, int], words: str, rest: list[OffsetRange]
) -> None:
    with pytest.raises(DataLossError, match=words):
        ranges(p0=(1, 10)).between(start, end)
    assert ranges(fail=False, p0=(1, 10)).between(start, end) == rest


def test_partitions_that_came() -> None:
    assert ranges(p0=(0, 10), p1=(0, 5)).with_new_partitions({ZERO: 3}, {ZERO: 10, ONE: 5}) == {
        ZERO: 3,
        ONE: 0,
    }
