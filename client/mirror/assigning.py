"""The partitions to read: those that exist at both ends, once their positions are known.

Topics are discovered while positions are still being read: whichever ends last begins the copying.
The leaders of all new partitions at the target are looked up at once, before their first records
come.
Mirrors: the tasks' configs of MirrorSourceConnector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...protocol.topics import TopicPartition
from ..cluster import Cluster
from .reader import SourceReader
from .settings import FlowSettings
from .stats import FlowStats


class Assigning:
    """The assignment of one attempt of a flow. `writer` is the cluster of the copying producer."""

    def __init__(self, flow: FlowSettings, writer: Cluster, stats: FlowStats) -> None:
        self._flow = flow
        self._writer = writer
        self._stats = stats
        self._copied: Sequence[TopicPartition] = ()
        self._reader: SourceReader | None = None
        self._positions: Mapping[TopicPartition, int] = {}

    async def take(self, copied: Sequence[TopicPartition]) -> None:
        """Set the partitions that can be copied now. Raises ClientError."""
        topics = {topic for topic, _ in copied}
        news = {topic for topic, _ in set(copied) - set(self._copied)}
        if news:
            await self._writer.metadata([self._flow.remote(topic) for topic in sorted(news)])
        self._copied = copied
        self._stats.topics = len(topics)
        self._stats.partition_count = len(copied)
        self._assign()

    def begin(self, reader: SourceReader, positions: Mapping[TopicPartition, int]) -> None:
        """Read with this reader from now on, from these positions (otherwise from the beginning, or
        as the flow's `auto.offset.reset` says). Raises ClientError."""
        self._reader, self._positions = reader, positions
        self._assign()

    def _assign(self) -> None:
        reader, positions = self._reader, self._positions
        if reader is not None and set(self._copied) != set(reader.assigned):
            reader.assign({place: positions.get(place, -1) for place in self._copied})
