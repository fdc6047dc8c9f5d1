"""The segments of a log in the order of their base offsets.

Invariants: base offsets grow, and no two segments share one; the active segment is the last one;
only an existing segment is removed or replaced.

Mirrors: LogSegments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..protocol.invariants import BrokenInvariant
from .segment import MAX_RELATIVE_OFFSET, Segment


class Segments:
    __slots__ = ("_bases", "_values", "active")

    def __init__(self) -> None:
        # Side by side: base offsets, which grow, and the segments.
        self._bases: list[int] = []
        self._values: list[Segment] = []
        # The last one, at hand for appends and fetches; there is none before the first `add`.
        self.active: Segment

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Segment]:
        return iter(list(self._values))

    def __contains__(self, base_offset: int) -> bool:
        index = bisect_left(self._bases, base_offset)
        return index < len(self._bases) and self._bases[index] == base_offset

    def add(self, segment: Segment) -> None:
        index = bisect_left(self._bases, segment.base_offset)
        if index < len(self._bases) and self._bases[index] == segment.base_offset:
            raise BrokenInvariant(f"{segment} has the base offset of {self._values[index]}")
        self._bases.insert(index, segment.base_offset)
        self._values.insert(index, segment)
        self.active = self._values[-1]

    def remove(self, segment: Segment) -> None:
        index = bisect_left(self._bases, segment.base_offset)
        if index == len(self._values) or self._values[index] is not segment:
            raise BrokenInvariant(f"{segment} is to go, and is not in the log")
        del self._bases[index]
        del self._values[index]
        if self._values:
            self.active = self._values[-1]

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Put one segment into the place of neighbours, in one step for other threads."""
        start = bisect_left(self._bases, old[0].base_offset)
        end = start + len(old)
        if self._values[start:end] != list(old):
            raise BrokenInvariant(f"{old} are to be replaced, the log has {self._values}")
        values = [*self._values[:start], new, *self._values[end:]]
        self._bases = [segment.base_offset for segment in values]
        self._values = values
        self.active = values[-1]

    def check(self, log_start_offset: int, log_end_offset: int, where: str) -> None:
        """Thorough check: the segments are in order, and hold the offsets of the log."""
        bases, values = self._bases, self._values
        if (
            bases != [segment.base_offset for segment in values]
            or any(one >= next_one for one, next_one in pairwise(bases))
            or self.active is not values[-1]
            or [segment for segment in values if segment.is_active] != [self.active]
        ):
            raise BrokenInvariant(f"{where}: base offsets {bases}, active {self.active}: {values}")
        fits = 0 <= log_end_offset - bases[-1] <= MAX_RELATIVE_OFFSET + 1
        if not fits or bases[0] > log_start_offset:
            raise BrokenInvariant(
                f"{where}: segments {bases} of {log_start_offset} to {log_end_offset}"
            )

    @property
    def base_offsets(self) -> list[int]:
        return list(self._bases)

    @property
    def first(self) -> Segment:
        return self._values[0]

    def floor(self, offset: int) -> Segment | None:
        """The last segment that begins at or below `offset`."""
        index = bisect_right(self._bases, offset)
        return self._values[index - 1] if index else None

    def after(self, segment: Segment) -> Segment | None:
        """The next segment."""
        index = bisect_right(self._bases, segment.base_offset)
        return self._values[index] if index < len(self._values) else None

    def covering(self, low: int, high: int) -> list[Segment]:
        """Segments that may hold offsets of [low, high). Any thread may ask."""
        if low >= high:
            return []
        values = list(self._values)
        start = max(bisect_right(values, low, key=_base_offset) - 1, 0)
        return values[start : bisect_left(values, high, key=_base_offset)]

    def from_base(self, offset: int) -> list[Segment]:
        """Segments that begin at or above `offset`."""
        return self._values[bisect_left(self._bases, offset) :]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._values)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
