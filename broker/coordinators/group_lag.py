"""How far groups are behind, as samples under the names of kafka_exporter.

A coordinator knows the committed offsets of its groups, a leader the ends of its partitions: before
a scrape the coordinator asks the leaders of all partitions that it does not lead itself, all at
once, for ASK_SECONDS at most. A partition whose leader did not answer has no lag in that scrape:
none is better than an old one.

Mirrors: the collector of kafka_exporter, which is a process of its own beside Kafka.
Leaves out: the offsets of old consumers in ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

import trio

from ...coordinator.group.group import Group
from ...protocol.apis.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ...replication.metadata_cache import MetadataCache
from ...replication.replica_manager import ReplicaManager
from ..cluster.broker_connection import (
    BrokerConnection,
    ChannelError,
    Connect,
    connect_plaintext,
)
from ..observability.metrics import BrokerMetrics, Row

logger = logging.getLogger("pybroker.broker.coordinators.group_lag")

ASK_SECONDS = 1.0
# Asked of a leader at a time.
MAX_PARTITIONS_A_REQUEST = 1000
# Every broker since 0.11 knows it: the latest offset that a consumer may read.
_VERSION = 2
_LATEST = -1
_CONSUMER = -1


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
        self._manager = manager
        self._metadata = metadata
        self._listener = listener
        self._client_id = client_id
        self._connect = connect
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
        partition = self._manager.partitions.get(key)
        if partition is not None and partition.is_leader:
            return partition.log.high_watermark
        return self._elsewhere.get(key, -1)

    # Asking

    async def refresh(self) -> None:
        """Ask the leaders elsewhere; their answers replace the earlier end offsets."""
        wanted = await self._led_elsewhere()
        found: dict[TopicPartition, int] = {}
        with trio.move_on_after(ASK_SECONDS):
            async with trio.open_nursery() as nursery:
                for leader, keys in wanted.items():
                    nursery.start_soon(self._ask, leader, sorted(keys), found)
        self._elsewhere = found

    async def _led_elsewhere(self) -> dict[int, set[TopicPartition]]:
        wanted: dict[int, set[TopicPartition]] = {}
        for group in list(self._groups):
            await trio.lowlevel.checkpoint()
            for key in group.offsets:
                state = self._metadata.partition_state(*key)
                if state is None or not self._metadata.is_alive(state.leader):
                    continue
                partition = self._manager.partitions.get(key)
                if partition is None or not partition.is_leader:
                    wanted.setdefault(state.leader, set()).add(key)
        return wanted

    async def _ask(
        self, leader: int, keys: list[TopicPartition], found: dict[TopicPartition, int]
    ) -> None:
        endpoint = self._metadata.broker_endpoint(leader, self._listener)
        if endpoint is None:
            return
        connection = BrokerConnection(endpoint, self._client_id, connect=self._connect)
        try:
            for start in range(0, len(keys), MAX_PARTITIONS_A_REQUEST):
                some = keys[start : start + MAX_PARTITIONS_A_REQUEST]
                answer: Any = await connection.request(_question(some), _VERSION)
                for topic in answer.topics:
                    for told in topic.partitions:
                        if told.error_code == ErrorCode.NONE:
                            found[topic.name, told.partition_index] = told.offset
        except ChannelError as problem:
            logger.info("Broker %d returned no end offsets of its partitions: %s", leader, problem)
        finally:
            connection.close()


def _question(keys: Iterable[TopicPartition]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, partition in keys:
        asked = ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
        topics.setdefault(topic, []).append(asked)
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        topics=[ListOffsetsTopic(name=name, partitions=asked) for name, asked in topics.items()],
    )
