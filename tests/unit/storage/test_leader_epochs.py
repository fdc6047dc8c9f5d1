"""Leader epochs: KIP-101's and KIP-279's rules, case by case."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker_kafka.storage.files import Files
from pybroker_kafka.storage.leader_epochs import LeaderEpochCache


@pytest.fixture
def cache(tmp_path: Path) -> LeaderEpochCache:
    made = LeaderEpochCache(Files(), str(tmp_path))
    for epoch, start in [(2, 10), (4, 20), (7, 40)]:
        made.assign(epoch, start)
    return made


@pytest.mark.parametrize(
    ("epoch", "start", "entries"),
    [
        (7, 45, [(2, 10), (4, 20), (7, 40)]),  # the newest goes on
        (8, 50, [(2, 10), (4, 20), (7, 40), (8, 50)]),
        (8, 40, [(2, 10), (4, 20), (8, 40)]),  # nothing was written in 7
        (8, 15, [(2, 10), (8, 15)]),
        (3, 60, [(2, 10), (3, 60)]),  # an older epoch later: the newer ones were wrong
        (7, 30, [(2, 10), (4, 20), (7, 30)]),
        (-1, 50, [(2, 10), (4, 20), (7, 40)]),
    ],
)
def test_assign(
    cache: LeaderEpochCache, epoch: int, start: int, entries: list[tuple[int, int]]
) -> None:
    cache.assign(epoch, start)
    assert cache.entries == entries


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 10)),  # older than all: it ended where the first known began
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 40)),
        (6, (4, 40)),
        (7, (7, 99)),  # the newest ends at the log end
        (8, (-1, -1)),
    ],
)
def test_end_offset_for(cache: LeaderEpochCache, epoch: int, answer: tuple[int, int]) -> None:
    assert cache.end_offset_for(epoch, 99) == answer


def test_truncate_from_end(cache: LeaderEpochCache) -> None:
    cache.truncate_from_end(41)
    assert cache.latest_epoch == 7
    cache.truncate_from_end(40)
    assert cache.entries == [(2, 10), (4, 20)]
    cache.truncate_from_end(0)
    assert (cache.entries, cache.latest_epoch) == ([], -1)


def test_truncate_from_start(cache: LeaderEpochCache) -> None:
    cache.truncate_from_start(10)
    assert cache.entries == [(2, 10), (4, 20), (7, 40)]
    cache.truncate_from_start(25)
    assert cache.entries == [(4, 25), (7, 40)]
    cache.truncate_from_start(40)
    assert cache.entries == [(7, 40)]


def test_prepend(cache: LeaderEpochCache) -> None:
    cache.truncate_from_start(25)
    known = cache.entries
    cache.prepend([])
    assert cache.entries == known
    first = known[0][0]
    cache.prepend([(first - 1, 3), (first, 7)])
    assert cache.entries == [(first - 1, 3), (first, 7), *known[1:]]


@pytest.mark.parametrize(("offset", "epoch"), [(9, None), (10, 2), (39, 4), (40, 7), (999, 7)])
def test_epoch_for_offset(cache: LeaderEpochCache, offset: int, epoch: int | None) -> None:
    assert cache.epoch_for_offset(offset) == epoch
