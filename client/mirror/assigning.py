"""Which partitions are read: those that are there at both ends, once it is known from where on.

Topics are looked for while positions are still being read: who comes last begins the copying.
Leaders at the target are asked for all that is new at once, before their first records come.
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
    """Of one attempt of a flow. `writer` is the cluster of the producer that copies."""

    def __init__(self, flow: FlowSettings, writer: Cluster, stats: FlowStats) -> None:
        self._flow = flow
        self._writer = writer
        self._stats = stats
        self._copied: Sequence[TopicPartition] = ()
        self._reader: SourceReader | None = None
        self._positions: Mapping[TopicPartition, int] = {}

    async def take(self, copied: Sequence[TopicPartition]) -> None:
        """What can be copied now. Raises ClientError."""
        topics = {topic for topic, _ in copied}
        news = {topic for topic, _ in set(copied) - set(self._copied)}
        if news:
            await self._writer.metadata([self._flow.remote(topic) for topic in sorted(news)])
        self._copied = copied
        self._stats.topics = len(topics)
        self._stats.partition_count = len(copied)
        self._assign()

    def begin(self, reader: SourceReader, positions: Mapping[TopicPartition, int]) -> None:
        """Read by this one from now on, from these positions on (else from the beginning, or as the
        flow's `auto.offset.reset` says). Raises ClientError."""
        self._reader, self._positions = reader, positions
        self._assign()

    def _assign(self) -> None:
        reader, positions = self._reader, self._positions
        if reader is not None and set(self._copied) != set(reader.assigned):
            reader.assign({place: positions.get(place, -1) for place in self._copied})
