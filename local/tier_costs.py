"""What the remote tier has of a partition, and what that costs; pure.

A copy is one write for each file of a segment; a large one is written in parts, with one more write
before them and one behind them (`storage.remote.object_store`). What readers ask for is not in the
metadata, so the cost of reads is left out. Prices are those of S3 Standard in us-east-1 unless
others are given; a sum has two digits, as exact as such a list and such a count can be.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ..storage.remote.object_store import PART_BYTES
from ..storage.remote.segments import RemoteLogSegmentMetadata, RemoteLogSegmentState

FILES: Final = 5  # of a segment without aborted transactions
_GB: Final = 10**9
_CENT: Final = 0.01
_WITH_CENTS: Final = 10


class Prices(NamedTuple):
    """In dollars."""

    gb_month: float = 0.023
    thousand_writes: float = 0.005


class TierPart(NamedTuple):
    """What the tier has of a partition, or the sum of several."""

    segments: int = 0
    bytes: int = 0
    first: int | None = None
    last: int | None = None
    copying: int = 0  # segments
    copying_bytes: int = 0
    deleting: int = 0
    deleting_bytes: int = 0
    writes: int = 0  # requests that have copied the segments that are there

    def plus(self, other: TierPart) -> TierPart:
        """Offsets are of no use in a sum."""
        return TierPart(
            self.segments + other.segments,
            self.bytes + other.bytes,
            None,
            None,
            self.copying + other.copying,
            self.copying_bytes + other.copying_bytes,
            self.deleting + other.deleting,
            self.deleting_bytes + other.deleting_bytes,
            self.writes + other.writes,
        )


def total(parts: Iterable[TierPart]) -> TierPart:
    found = TierPart()
    for part in parts:
        found = found.plus(part)
    return found


def by_partition(
    segments: Iterable[RemoteLogSegmentMetadata], topic_id: bytes
) -> dict[int, TierPart]:
    """What the tier has of a topic; not of an earlier one of the same name."""
    found: dict[int, TierPart] = {}
    for one in segments:
        place = one.topic_id_partition
        if place.topic_id == topic_id:
            part = found.get(place.partition, TierPart())
            found[place.partition] = _with(part, one)
    return found


def _with(part: TierPart, one: RemoteLogSegmentMetadata) -> TierPart:
    size = one.segment_size_bytes
    match one.state:
        case RemoteLogSegmentState.COPY_SEGMENT_FINISHED:
            return part._replace(
                segments=part.segments + 1,
                bytes=part.bytes + size,
                first=one.start_offset if part.first is None else min(part.first, one.start_offset),
                last=one.end_offset if part.last is None else max(part.last, one.end_offset),
                writes=part.writes + _writes_of(size),
            )
        case RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            return part._replace(copying=part.copying + 1, copying_bytes=part.copying_bytes + size)
        case RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            return part._replace(
                deleting=part.deleting + 1, deleting_bytes=part.deleting_bytes + size
            )
        case RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
            return part


def _writes_of(size_bytes: int) -> int:
    parts = -(-size_bytes // PART_BYTES)
    return FILES if parts <= 1 else FILES - 1 + parts + 2


def month_dollars(part: TierPart, prices: Prices) -> float:
    """For what is stored, in a month."""
    return part.bytes / _GB * prices.gb_month


def write_dollars(part: TierPart, prices: Prices) -> float:
    """For having copied what is stored, once."""
    return part.writes / 1000 * prices.thousand_writes


def dollars_text(dollars: float) -> str:
    """`less than $0.01`, `about $0.34`, `about $1,200`: two digits."""
    if dollars < _CENT:
        return f"less than ${_CENT}" if dollars else "nothing"
    rounded = float(f"{dollars:.2g}")
    return f"about ${rounded:,.2f}" if rounded < _WITH_CENTS else f"about ${rounded:,.0f}"
