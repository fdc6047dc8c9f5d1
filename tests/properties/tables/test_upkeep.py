"""Which files are merged: bounded, of one partition, few files in the end, each row a few times."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.tables.upkeep import (
    COMMITS_BETWEEN_COMPACTIONS,
    COMMITS_BETWEEN_EXPIRIES,
    ENOUGH_FILES,
    SmallFile,
    Upkeep,
    files_to_merge,
    tier_of,
)

FILES = st.lists(
    st.builds(SmallFile, st.sampled_from("ab"), st.integers(1, 3000)), min_size=1, max_size=60
)


def merged(files: list[SmallFile], target: int) -> list[SmallFile] | None:
    """As a table would have them; None if there is nothing to merge."""
    chosen = files_to_merge(files, target)
    if not chosen:
        return None
    assert len(chosen) > 1
    assert len({files[place].partition for place in chosen}) == 1
    size = sum(files[place].size for place in chosen)
    assert size <= target
    left = [file for place, file in enumerate(files) if place not in chosen]
    return [*left, SmallFile(files[chosen[0]].partition, size)]


@given(FILES, st.integers(1, 5000))
def test_no_tier_of_a_partition_has_many_small_files_in_the_end(
    files: list[SmallFile], target: int
) -> None:
    while (after := merged(files, target)) is not None:
        files = after
    tiers = Counter((one.partition, tier_of(one.size)) for one in files if 2 * one.size <= target)
    assert all(count < ENOUGH_FILES for count in tiers.values())


def test_each_byte_is_written_a_few_times() -> None:
    """10 000 commits of 1 kB: with one growing file it would be hundreds of times."""
    files: list[SmallFile] = []
    written = 0
    for _ in range(10_000):
        files.append(SmallFile("", 1000))
        while (after := merged(files, 1 << 20)) is not None:
            written += after[-1].size
            files = after
    assert written < 5 * 10_000 * 1000
    assert len(files) < 60


def test_upkeep_is_due_by_commits() -> None:
    upkeep = Upkeep()
    assert not upkeep.takes_compaction()
    for _ in range(COMMITS_BETWEEN_COMPACTIONS):
        upkeep.committed()
    assert (upkeep.takes_compaction(), upkeep.takes_compaction()) == (True, False)
    for _ in range(COMMITS_BETWEEN_EXPIRIES):
        upkeep.committed()
    assert (upkeep.takes_expiry(), upkeep.takes_expiry()) == (True, False)
