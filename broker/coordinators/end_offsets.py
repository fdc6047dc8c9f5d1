"""The ends of partitions, for coordinators, which know only where groups are.

A leader knows the end of its partition: those of partitions that this broker does not lead itself
are asked for, all leaders at once, for ASK_SECONDS at most. A partition whose leader did not answer
has none.

Mirrors: NetworkPartitionMetadataClient.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import trio

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

logger = logging.getLogger("pybroker.broker.coordinators.end_offsets")

ASK_SECONDS = 1.0
# Asked of a leader at a time.
MAX_PARTITIONS_A_REQUEST = 1000
# Every broker since 0.11 knows it: the latest offset that a consumer may read.
_VERSION = 2
_LATEST = -1
_CONSUMER = -1


class EndOffsets:
    def __init__(
        self,
        manager: ReplicaManager,
        metadata: MetadataCache,
        listener: str,
        client_id: str,
        *,
        connect: Connect = connect_plaintext,
    ) -> None:
        self._manager = manager
        self._metadata = metadata
        self._listener = listener
        self._client_id = client_id
        self._connect = connect

    def here(self, key: TopicPartition) -> int | None:
        """None: this broker does not lead the partition."""
        partition = self._manager.partitions.get(key)
        if partition is not None and partition.is_leader:
            return partition.log.high_watermark
        return None

    async def elsewhere(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Of those among them that other brokers lead."""
        wanted: dict[int, set[TopicPartition]] = {}
        for key in keys:
            state = self._metadata.partition_state(*key)
            if state is None or not self._metadata.is_alive(state.leader):
                continue
            if self.here(key) is None:
                wanted.setdefault(state.leader, set()).add(key)
        found: dict[TopicPartition, int] = {}
        with trio.move_on_after(ASK_SECONDS):
            async with trio.open_nursery() as nursery:
                for leader, some in wanted.items():
                    nursery.start_soon(self._ask, leader, sorted(some), found)
        return found

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
