"""Reads all partitions of a topic from a chosen start, without a group.

Mirrors: Fetcher and OffsetFetcher of the Java client.
Leaves out: groups and commits, fetch sessions, read_committed.
"""

from __future__ import annotations

from typing import NamedTuple

from client.cluster import Cluster, retrying
from client.connection import ClientError
from protocol.api import ApiKey
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from protocol.records.batch import read_records
from protocol.records.record import Record

LATEST = -1
EARLIEST = -2
FETCH_MAX_BYTES = 50 * 1024 * 1024
PARTITION_MAX_BYTES = 1024 * 1024
FETCH_WAIT_MS = 500


class Received(NamedTuple):
    """A record and the partition that it came from."""

    partition: int
    record: Record


class Consumer:
    """Reads `topic`; call `seek` before `poll`."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._topic_id = b""
        self._leaders: dict[int, int] = {}
        self._positions: dict[int, int] = {}

    async def start(self) -> None:
        """Learn the topic's leaders. Raises ClientError when it does not exist."""
        topic = await self._cluster.topic(self._topic)
        self._topic_id = topic.topic_id
        self._leaders = {part.partition_index: part.leader_id for part in topic.partitions}

    async def offsets(self, timestamp: int) -> dict[int, int]:
        """The offset of each partition at a timestamp in ms, or at LATEST or EARLIEST."""
        found: dict[int, int] = {}
        async for _ in retrying():
            for leader in set(self._leaders.values()):
                mine = [p for p, owner in self._leaders.items() if owner == leader]
                asked = [ListOffsetsPartition(partition_index=p, timestamp=timestamp) for p in mine]
                topic = ListOffsetsTopic(name=self._topic, partitions=asked)
                connection = await self._cluster.connection(leader)
                answer = await connection.request(
                    ApiKey.LIST_OFFSETS,
                    ListOffsetsRequest(replica_id=-1, topics=[topic]),
                    ListOffsetsResponse,
                )
                for part in answer.topics[0].partitions:
                    if part.error_code == ErrorCode.NONE:
                        found[part.partition_index] = part.offset
            if found.keys() == self._leaders.keys():
                return found
            await self.start()
        raise ClientError(f"the offsets of topic {self._topic!r} cannot be had")

    async def seek(self, timestamp: int) -> None:
        """Read on from LATEST, EARLIEST, or the first record at or after a timestamp."""
        self._positions = await self.offsets(timestamp)
        if -1 in self._positions.values():
            ends = await self.offsets(LATEST)
            self._positions = {p: o if o >= 0 else ends[p] for p, o in self._positions.items()}

    def seek_partition(self, partition: int, offset: int) -> None:
        """Read only this partition, from `offset`. Raises ClientError."""
        if partition not in self._leaders:
            raise ClientError(f"topic {self._topic!r} has no partition {partition}")
        self._positions = {partition: offset}

    async def poll(self) -> list[Received]:
        """The records of one round of fetches; empty when none came within half a second."""
        received: list[Received] = []
        for leader in {self._leaders[partition] for partition in self._positions}:
            received += await self._poll_broker(leader)
        return received

    async def _poll_broker(self, leader: int) -> list[Received]:
        received: list[Received] = []
        mine = [p for p in self._positions if self._leaders[p] == leader]
        partitions = [
            FetchPartition(
                partition=p,
                fetch_offset=self._positions[p],
                partition_max_bytes=PARTITION_MAX_BYTES,
            )
            for p in mine
        ]
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_MAX_BYTES,
            topics=[FetchTopic(topic=self._topic, topic_id=self._topic_id, partitions=partitions)],
        )
        try:
            connection = await self._cluster.connection(leader)
            answer = await connection.request(ApiKey.FETCH, request, FetchResponse)
        except ClientError:
            await self.start()
            return received
        for part in answer.responses[0].partitions if answer.responses else []:
            index, code = part.partition_index, ErrorCode(part.error_code)
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise ClientError(
                    f"{self._topic}-{index}: there is no offset {self._positions[index]}"
                )
            if code != ErrorCode.NONE:
                await self.start()
                continue
            assert part.records is None or isinstance(part.records, (bytes, memoryview))
            for record in read_records(part.records or b""):
                if record.offset >= self._positions[index]:
                    self._positions[index] = record.offset + 1
                    received.append(Received(index, record))
        return received
