"""Resets of a group's offsets: where a partition goes on, within its log.

Mirrors: the reset specifications of ConsumerGroupCommand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ...protocol.topics import TopicPartition
from .group_offsets import CommittedOffset
from .records import EARLIEST, LATEST, Records, all_at


class Reset(NamedTuple):
    """A target; exactly one field is given. `word` is earliest, latest or current."""

    word: str | None = None
    absolute: int | None = None
    shift: int | None = None
    at_ms: int | None = None
    ago_ms: int | None = None

    def timestamp(self, now_ms: int) -> int | None:
        """The time to look for; None if the target is no time."""
        return now_ms - self.ago_ms if self.ago_ms is not None else self.at_ms

    def offset(self, first: int, end: int, now: int | None, at_time: int | None) -> int | None:
        """The new offset of a partition; None: unchanged. `at_time` -1: all records are older."""
        if self.word == "earliest":
            return first
        if self.word == "latest":
            return end
        if self.word == "current":
            return now
        if self.shift is not None:
            return None if now is None else now + self.shift
        if at_time is not None:
            return at_time if at_time >= 0 else end
        return self.absolute


async def new_offsets(
    records: Records,
    target: Reset | Mapping[TopicPartition, int],
    places: Collection[TopicPartition],
    before: Mapping[TopicPartition, CommittedOffset],
    *,
    now_ms: int,
    wait: bool = True,
) -> dict[TopicPartition, int]:
    """The new offsets; `before`: those that the group has. Without `wait` a partition that has no
    leader is an error at once. Raises ClientError if a partition cannot be asked.
    """
    first = (await records.offsets(all_at(places, EARLIEST), wait=wait)).all()
    end = (await records.offsets(all_at(places, LATEST), wait=wait)).all()
    at: dict[TopicPartition, int] = {}
    if isinstance(target, Reset):
        timestamp = target.timestamp(now_ms)
        if timestamp is not None:
            found = (await records.offsets(all_at(places, timestamp), wait=wait)).all()
            at = {place: one.offset for place, one in found.items()}
    new = {}
    for place in places:
        low, high = first[place].offset, end[place].offset
        now = before[place].offset if place in before else None
        if isinstance(target, Reset):
            wanted = target.offset(low, high, now, at.get(place))
        else:
            wanted = target[place]
        if wanted is not None:
            new[place] = min(max(wanted, low), high)
    return new
