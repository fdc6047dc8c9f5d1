"""What the writer of a table knows of it, for the broker's metrics and for people; it needs none of
the formats' libraries.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..client.admin.tables import TableSnapshot


class SnapshotFacts(NamedTuple):
    told: TableSnapshot
    offsets: Mapping[int, int]  # the first that it lacks; without those of another topic


@dataclass(slots=True, frozen=True)
class TableFacts:
    """The loaded state of a table, as its format counts it."""

    snapshot: str | None = None  # Delta: the version
    committed_ms: int | None = None  # since 1970
    rows: int | None = None
    files: int | None = None
    size_bytes: int | None = None
    generation: int = 0  # of rebuilds upon request
    compaction: int = 0
    snapshots: tuple[SnapshotFacts, ...] = ()  # the newest first, at most SNAPSHOTS_TOLD


@dataclass(slots=True)
class TableState:
    topic: str
    format: str
    offsets: dict[int, int] = field(default_factory=dict)  # before them the table has all records
    ends: dict[int, int] = field(default_factory=dict)  # of the topic, as far as known
    facts: TableFacts = field(default_factory=TableFacts)
    whole_ms: int | None = None  # since 1970: when the table last had all records
    rows: int = 0  # written by this process
    dead_letters: int = 0  # by this process
    commits: int = 0
    error: str | None = None
    advice: str | None = None  # what to do about the error

    # An error stays until records are in the table again, or none is missing: a table that stops
    # before a record is opened well again and again.

    def fail(self, problem: tuple[str, str]) -> None:
        self.error, self.advice = problem

    def recover(self) -> None:
        self.error = self.advice = None


def now_ms() -> int:
    """Since 1970."""
    return int(time.time() * 1000)
