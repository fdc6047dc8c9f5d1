"""The input and the result of a cleaning: plain data, for a pipe.

A plan is made on the broker's loop from the log as it is then; the cleaner sees only the plan and
the files. Producers may be very many, so they are sent separately, in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

SourceSegment = tuple[int, int, int]  # base offset, size in bytes, time of modification in ms


class LastRecord(NamedTuple):
    """The last data batch of an active producer, or else its last marker; it must stay."""

    producer_id: int
    last_data_offset: int  # -1: none
    epoch: int


@dataclass(slots=True)
class CleaningPlan:
    name: str
    directory: str
    first_dirty_offset: int
    end_offset: int  # where the cleanable part ends: the base offset of a segment
    wall_ms: int
    segments: list[SourceSegment]  # those below the end offset
    later_bases: list[int]  # the other segments; aborts of cleanable data may be noted there
    producers: Iterable[Sequence[LastRecord]]
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    buffer_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_bytes: int = 1 << 18

    def to_json(self) -> dict[str, Any]:
        """The plan without the producers."""
        names = [each.name for each in fields(self) if each.name != "producers"]
        return {name: getattr(self, name) for name in names}

    @staticmethod
    def from_json(values: dict[str, Any], producers: Iterable[Sequence[Any]]) -> CleaningPlan:
        """The plan from JSON values; `producers` are pieces of rows."""
        known = [[LastRecord(*entry) for entry in piece] for piece in producers]
        plan = CleaningPlan(producers=known, **values)
        plan.segments = [(base, size, modified) for base, size, modified in plan.segments]
        return plan


@dataclass(slots=True)
class CleanedGroup:
    """A new segment that lies ready as `.cleaned` files, and those that it replaces."""

    base_offset: int
    sources: list[int]
    size: int = 0


@dataclass(slots=True)
class CleaningStats:
    bytes_read: int = 0
    bytes_written: int = 0
    messages_read: int = 0
    messages_written: int = 0
    invalid_messages: int = 0
    buffer_utilization: float = 0.0
    elapsed_seconds: float = field(default=0.0)
    index_seconds: float = field(default=0.0)
