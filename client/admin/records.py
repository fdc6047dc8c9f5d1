"""Records: first and last offsets, offsets by time, and deletion of the oldest records.

Mirrors: listOffsets and deleteRecords of KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...protocol.api import ApiKey
from ...protocol.apis.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ...protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..cluster import Cluster
from ..connection import Connection
from ..offsets import offset_of
from .results import Results
from .routing import Answer, Purpose, ask_leaders, by_topic

LATEST, EARLIEST, NEWEST = -1, -2, -3  # NEWEST: the largest timestamp (KIP-734)
EARLIEST_LOCAL = -4  # on the leader's disk (KIP-405)
HIGH_WATERMARK = -1  # as the offset of `delete_before`: all records
TIMEOUT_MS = 30_000
FIRST_WITH_NEWEST = 7  # of ListOffsets


@dataclass(frozen=True, slots=True)
class OffsetFound:
    """An offset, -1 for none, and the timestamp in ms of its record if a time was asked for."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class Records:
    """`Records(cluster)`; each method raises ClientError if the cluster does not answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        read_committed: bool = False,
        wait: bool = True,
    ) -> Results[TopicPartition, OffsetFound]:
        """The first offset at or after a time in ms, or at EARLIEST, LATEST or NEWEST.

        `read_committed`: LATEST ends before the first open transaction. Without `wait` partitions
        that have no leader fail at once. For brokers before 3.0 NEWEST is refused; brokers before
        0.10.1 compare times with those of log segments.
        """

        async def ask(
            connection: Connection, mine: list[TopicPartition]
        ) -> dict[TopicPartition, Answer[OffsetFound]]:
            topics = [
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=n, timestamp=wanted[topic, n])
                        for n in numbers
                    ],
                )
                for topic, numbers in by_topic(mine).items()
            ]
            request = ListOffsetsRequest(
                replica_id=-1, isolation_level=int(read_committed), topics=topics
            )
            knows_newest = connection.version(ApiKey.LIST_OFFSETS) >= FIRST_WITH_NEWEST
            if not knows_newest and NEWEST in wanted.values():
                why = "Kafka knows the newest record since 3.0"
                nothing = OffsetFound(-1, -1, -1)
                return dict.fromkeys(mine, Answer(ErrorCode.UNSUPPORTED_VERSION, why, nothing))
            answer = await connection.request(ApiKey.LIST_OFFSETS, request, ListOffsetsResponse)
            return {
                (topic.name, part.partition_index): Answer(
                    part.error_code,
                    None,
                    OffsetFound(offset_of(part), part.timestamp, part.leader_epoch),
                )
                for topic in answer.topics
                for part in topic.partitions
            }

        purpose = Purpose("describe", "there are no offsets of")
        return await ask_leaders(self._cluster, wanted.keys(), ask, purpose, wait=wait)

    async def delete_before(
        self, offsets: Mapping[TopicPartition, int]
    ) -> Results[TopicPartition, int]:
        """Delete the records below an offset, or up to HIGH_WATERMARK; returns the first offset
        left."""

        async def ask(
            connection: Connection, mine: list[TopicPartition]
        ) -> dict[TopicPartition, Answer[int]]:
            topics = [
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[
                        DeleteRecordsPartition(partition_index=n, offset=offsets[topic, n])
                        for n in numbers
                    ],
                )
                for topic, numbers in by_topic(mine).items()
            ]
            request = DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)
            answer = await connection.request(ApiKey.DELETE_RECORDS, request, DeleteRecordsResponse)
            return {
                (topic.name, part.partition_index): Answer(
                    part.error_code, None, part.low_watermark
                )
                for topic in answer.topics
                for part in topic.partitions
            }

        purpose = Purpose("delete", "cannot delete records of")
        return await ask_leaders(self._cluster, offsets.keys(), ask, purpose)


def all_at(partitions: Collection[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    """The same time for all partitions, for `Records.offsets`."""
    return dict.fromkeys(partitions, timestamp)
