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


@pytest.mark.parametrize(
    ("epoch", "first", "last", "entries"),
    [
        (2, 12, 19, [(2, 10), (4, 20), (7, 40)]),  # as known
        (7, 50, 99, [(2, 10), (4, 20), (7, 40)]),
        (8, 50, 50, [(2, 10), (4, 20), (7, 40), (8, 50)]),
        (1, 3, 9, [(1, 3), (2, 10), (4, 20), (7, 40)]),
        (4, 35, 45, [(2, 10), (4, 20)]),  # no epoch begins inside of a batch
        (4, 41, 41, [(2, 10), (4, 20)]),
        (6, 40, 41, [(2, 10), (4, 20), (6, 40)]),
        (6, 25, 26, [(2, 10), (4, 20), (6, 25), (7, 40)]),
        (5, 20, 21, [(2, 10), (5, 20), (7, 40)]),  # nothing was written in 4
        (-1, 15, 25, [(7, 40)]),  # of an old format
    ],
)
def test_confirm(
    cache: LeaderEpochCache, epoch: int, first: int, last: int, entries: list[tuple[int, int]]
) -> None:
    cache.confirm(epoch, first, last)
    assert cache.entries == entries


def test_nothing_is_written_before_a_sync(cache: LeaderEpochCache, tmp_path: Path) -> None:
    file = tmp_path / "leader-epoch-checkpoint"
    assert not cache.needs_sync  # recovery would read all batches
    assert not file.exists()
    cache.sync()
    assert file.read_text() == "0\n3\n2 10\n4 20\n7 40\n"
    assert not cache.needs_sync
    cache.assign(8, 50)
    cache.truncate_from_start(25)
    assert cache.needs_sync
    assert cache.checkpointed_start_offset == 10
    assert file.read_text() == "0\n3\n2 10\n4 20\n7 40\n"
    cache.sync()
    assert not cache.needs_sync
    assert cache.checkpointed_start_offset == 25
    assert file.read_text() == "0\n3\n4 25\n7 40\n8 50\n"
