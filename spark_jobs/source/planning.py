"""The offset ranges that a batch reads, cut for tasks, and the end of a limited trigger.

Invariants: the ranges that a plan returns hold each offset between start and end exactly once, in
order a partition; a limited end is never below its start nor above the latest offset. Pure.
Mirrors: KafkaOffsetRangeCalculator (SPARK-23541) and KafkaMicroBatchStream.rateLimit of Spark's
connector. Leaves out: preferred executors, which Python's interface does not offer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...protocol.topics import TopicPartition
from .limits import Offsets


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets of one partition from `start` up to, and without, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Offsets, not records: compaction and transactions leave gaps."""
        return self.end - self.start


def cut(
    ranges: Sequence[OffsetRange],
    min_partitions: int | None = None,
    max_records_per_partition: int | None = None,
) -> list[OffsetRange]:
    """One range per task: empty ranges are left out, large ones cut in about equal parts.

    With fewer ranges than `min_partitions` the largest ones are cut, so that there are about as
    many.
    """
    found = [offsets for offsets in ranges if offsets.size > 0]
    if max_records_per_partition is not None:
        found = [
            part
            for offsets in found
            for part in _equal_parts(offsets, -(-offsets.size // max_records_per_partition))
        ]
    if min_partitions is None or len(found) >= min_partitions:
        return found
    total = sum(offsets.size for offsets in found)
    small = [o for o in found if _part_count(o.size, total, min_partitions) == 1]
    large_total = total - sum(offsets.size for offsets in small)
    wanted = max(min_partitions - len(small), 1)
    parts: list[OffsetRange] = []
    for offsets in found:
        whole = offsets in small
        count = 1 if whole else _part_count(offsets.size, large_total, wanted)
        parts += _equal_parts(offsets, count)
    return parts


def _part_count(size: int, total: int, wanted: int) -> int:
    return max(math.floor(size / total * wanted + 0.5), 1)


def _equal_parts(offsets: OffsetRange, count: int) -> list[OffsetRange]:
    start, parts = offsets.start, []
    for left in range(count, 0, -1):
        end = start + (offsets.end - start) // left
        if end > start:
            parts.append(OffsetRange(offsets.topic, offsets.partition, start, end))
        start = end
    return parts


def limited(
    max_offsets: int,
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
) -> Offsets:
    """The end of a trigger of about `max_offsets`: each partition in proportion to its new offsets.

    A small partition gets at least one offset, so that it is not starved. Partitions missing in
    `start` end as in `latest`.
    """
    sizes = {key: end - start[key] for key, end in latest.items() if end > start.get(key, end)}
    total = sum(sizes.values())
    if total < 1:
        return dict(latest)
    return {
        key: min(end, start[key] + _share(max_offsets, sizes[key], total)) if key in sizes else end
        for key, end in latest.items()
    }


def _share(max_offsets: int, size: int, total: int) -> int:
    share = max_offsets * size / total
    return math.ceil(share) if share < 1 else math.floor(share)
