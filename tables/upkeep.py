"""When a table's small files are compacted and its old snapshots expire, and which files; pure.

Files of about the same size, within a factor of 8, are merged once there are 8 of them in a
partition of the table: so each row is rewritten once a factor of 8 in size, however small the
commits are, and a partition has few files. A merged file has at most the topic's
`pybroker.table.file.bytes`, which is also what a compaction reads at once.

Kafka has nothing like it; log-structured merge trees merge by size in the same way.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

ENOUGH_FILES: Final = 8
MAX_SNAPSHOTS: Final = 1000  # kept, whatever their age: each commit of Iceberg writes them all
COMMITS_BETWEEN_COMPACTIONS: Final = 8
COMMITS_BETWEEN_EXPIRIES: Final = 64
COMMITS_BETWEEN_ORPHANS: Final = 1440  # a day's, by default
MIN_AGE_OF_ORPHANS_MS: Final = 86_400_000  # a commit takes seconds


class SmallFile(NamedTuple):
    partition: Hashable
    size: int


def tier_of(size: int) -> int:
    """Files of a tier differ by less than a factor of 8."""
    return size.bit_length() // 3


def files_to_merge(
    files: Sequence[SmallFile], target_bytes: int, *, whole: bool = False
) -> list[int]:
    """The places of the files to make one of, in their order; [] for none. Their sizes together are
    at most `target_bytes`; a file of more than half of that is large enough. `whole`: two small
    files of a partition suffice, whatever their sizes."""
    enough = 2 if whole else ENOUGH_FILES
    tiers: dict[tuple[Hashable, int], list[int]] = defaultdict(list)
    for place, file in enumerate(files):
        if 2 * file.size <= target_bytes:
            tiers[file.partition, 0 if whole else tier_of(file.size)].append(place)
    full = [places for places in tiers.values() if len(places) >= enough]
    if not full:
        return []
    chosen: list[int] = []
    total = 0
    for place in max(full, key=len):
        total += files[place].size
        if total > target_bytes:
            break
        chosen.append(place)
    return chosen


class Upkeep:
    """Counts the commits of a writer; one piece of upkeep is due at a time."""

    __slots__ = ("_since_compaction", "_since_expiry", "_since_orphans")

    def __init__(self) -> None:
        self._since_compaction = 0
        self._since_expiry = 0
        self._since_orphans = COMMITS_BETWEEN_ORPHANS  # the process before may have been killed

    def committed(self) -> None:
        self._since_compaction += 1
        self._since_expiry += 1
        self._since_orphans += 1

    def takes_compaction(self) -> bool:
        """Whether small files are to be looked for; asked once."""
        if self._since_compaction < COMMITS_BETWEEN_COMPACTIONS:
            return False
        self._since_compaction = 0
        return True

    def takes_expiry(self) -> bool:
        if self._since_expiry < COMMITS_BETWEEN_EXPIRIES:
            return False
        self._since_expiry = 0
        return True

    def takes_orphans(self) -> bool:
        """Whether orphans are to be looked for: with the first commit, then now and then."""
        if self._since_orphans < COMMITS_BETWEEN_ORPHANS:
            return False
        self._since_orphans = 0
        return True
