"""How far groups are behind, as samples under the names of kafka_exporter.

A coordinator knows the committed offsets of its groups, a leader the ends of its partitions: before
a scrape the coordinator asks the leaders of all partitions that it does not lead itself, all at
once, for ASK_SECONDS at most. A partition whose leader did not answer has no lag in that scrape:
none is better than an old one.

Mirrors: the collector of kafka_exporter, which is a process of its own beside Kafka.
Leaves out: the offsets of old consumers in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby
from typing import NamedTuple

import trio

from ...coordinator.group.group import Group
from ...protocol.topics import TopicPartition
from ...replication.metadata_cache import MetadataCache
from ...replication.replica_manager import ReplicaManager
from ..cluster.broker_connection import Connect, connect_plaintext
from ..observability.metrics import BrokerMetrics, Row
from .end_offsets import EndOffsets


class Committed(NamedTuple):
    """By one group; `end_offset` is what its lag counts up to."""

    offset: int
    end_offset: int = -1

    @property
    def lag(self) -> int:
        return max(0, self.end_offset - self.offset)


class GroupLag:
    """The lag of the groups of one broker. `refresh` comes before a scrape."""

    def __init__(
        self,
        groups: Collection[Group],
        manager: ReplicaManager,
        metadata: MetadataCache,
        listener: str,
        client_id: str,
        *,
        connect: Connect = connect_plaintext,
    ) -> None:
        self._groups = groups
        self._ends = EndOffsets(manager, metadata, listener, client_id, connect=connect)
        self._elsewhere: dict[TopicPartition, int] = {}  # end offsets in the leaders' answers

    def register(self, metrics: BrokerMetrics) -> None:
        metrics.before_scrape.append(self.refresh)
        group, labels = "kafka_consumergroup_", ("consumergroup", "topic", "partition")
        metrics.table(
            labels, self._committed, {group + "current_offset": lambda found: found.offset}
        )
        metrics.table(labels, self._behind, {group + "lag": lambda found: found.lag})
        metrics.table(labels[:2], self._sums, {group + "lag_sum": lambda lag: lag})
        metrics.table(
            labels[:1],
            lambda: (((found.group_id,), found) for found in list(self._groups)),
            {group + "members": lambda found: len((found.consumer or found).members)},
        )

    # Rows

    def _committed(self) -> Iterator[Row]:
        for group in list(self._groups):
            for (topic, partition), value in sorted(group.offsets.snapshot().items()):
                end_offset = self._end_offset((topic, partition))
                committed = Committed(value.offset, end_offset)
                yield (group.group_id, topic, str(partition)), committed

    def _behind(self) -> Iterator[Row]:
        return (row for row in self._committed() if row[1].end_offset >= 0)

    def _sums(self) -> Iterator[Row]:
        for (group, topic), rows in groupby(self._behind(), lambda row: row[0][:2]):
            yield (group, topic), sum(committed.lag for _, committed in rows)

    def _end_offset(self, key: TopicPartition) -> int:
        """-1: not known."""
        found = self._ends.here(key)
        return self._elsewhere.get(key, -1) if found is None else found

    # Asking

    async def refresh(self) -> None:
        """Ask the leaders elsewhere; their answers replace the earlier end offsets."""
        keys: set[TopicPartition] = set()
        for group in list(self._groups):
            await trio.lowlevel.checkpoint()
            keys.update(group.offsets)
        self._elsewhere = await self._ends.elsewhere(keys)
