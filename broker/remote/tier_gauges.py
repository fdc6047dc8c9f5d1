"""How far the tier is behind, and what it holds, by topic: the gauges of tiered storage.

Numbers are those of the partitions that this broker leads. The lag of copies is computed as it is
asked for; the rest is as the last look of the expiry task found it. A partition that is not led any
more counts no longer.

Mirrors: the gauges of RemoteStorageMetrics in BrokerTopicMetrics, BrokerTopicAggregatedMetric.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter

from ...replication.partition import Partition
from ...replication.remote.expiry import Expiry
from ...storage.remote.segments import RemoteLogSegmentMetadata
from ..observability.metrics import BrokerMetrics, Row

_PREFIX = "kafka_server_brokertopicmetrics_"


@dataclass(slots=True)
class TierNumbers:
    """Of one partition, or the sums of several."""

    copy_lag_bytes: int = 0
    copy_lag_segments: int = 0
    delete_lag_bytes: int = 0
    delete_lag_segments: int = 0
    metadata_count: int = 0
    size_bytes: int = 0
    size_computation_ms: int = 0

    def add(self, other: TierNumbers) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))

    def looked(self, found: Expiry, took_ms: int) -> None:
        """The expiry task has looked at the partition, and begins to delete."""
        self.delete_lag_segments = len(found.expired)
        self.delete_lag_bytes = sum(one.segment_size_bytes for one in found.expired)
        self.metadata_count = found.segment_count
        self.size_bytes = found.size_bytes
        self.size_computation_ms = took_ms

    def deleted(self, metadata: RemoteLogSegmentMetadata) -> None:
        self.delete_lag_segments -= 1
        self.delete_lag_bytes -= metadata.segment_size_bytes
        self.metadata_count -= 1
        self.size_bytes -= metadata.segment_size_bytes

    def measure_copies(self, hosted: Partition) -> None:
        """The segments that are rolled, and not in the tier yet."""
        log = hosted.log
        waiting = [one for one in log.only_local if one is not log.segments.active]
        self.copy_lag_segments = len(waiting)
        self.copy_lag_bytes = sum(one.size for one in waiting)


_COLUMNS = {
    "copy_lag_bytes": "remotecopylagbytes",
    "copy_lag_segments": "remotecopylagsegments",
    "delete_lag_bytes": "remotedeletelagbytes",
    "delete_lag_segments": "remotedeletelagsegments",
    "metadata_count": "remotelogmetadatacount",
    "size_bytes": "remotelogsizebytes",
    "size_computation_ms": "remotelogsizecomputationtime",
}


def rows(led: Iterable[tuple[Partition, TierNumbers]]) -> Iterator[Row]:
    """The sum of all topics first, with an empty label, as with the counters."""
    total, topics = TierNumbers(), dict[str, TierNumbers]()
    for hosted, numbers in led:
        numbers.measure_copies(hosted)
        topics.setdefault(hosted.topic, TierNumbers()).add(numbers)
        total.add(numbers)
    yield ("",), total
    for topic, sums in topics.items():
        yield (topic,), sums


def register(
    metrics: BrokerMetrics, led: Callable[[], Iterable[tuple[Partition, TierNumbers]]]
) -> None:
    columns = {_PREFIX + name: attrgetter(attribute) for attribute, name in _COLUMNS.items()}
    metrics.table(("topic",), lambda: rows(led()), columns)
