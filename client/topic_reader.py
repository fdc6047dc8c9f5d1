"""Reads all partitions of a topic from a chosen start, without a group.

Mirrors: Fetcher and OffsetFetcher of the Java client.
Leaves out: groups and commits, fetch sessions, read_committed.
"""

from __future__ import annotations

from typing import NamedTuple

import trio

from ..protocol.api import ApiKey
from ..protocol.errors import ErrorCode
from ..protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ..protocol.messages.metadata import MetadataResponseTopic
from ..protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ..protocol.records.columns import decode_columns
from ..protocol.records.record import Record
from .cluster import (
    RETRY_BACKOFF_SECONDS,
    Cluster,
    partitions_without_leader,
    retrying,
    why_leaderless,
)
from .errors import ClientError
from .refusals import NotAllowed

LATEST = -1
EARLIEST = -2
NEWEST = -3  # the record with the largest timestamp (KIP-734)
FETCH_MAX_BYTES = 50 * 1024 * 1024
PARTITION_MAX_BYTES = 1024 * 1024
FETCH_WAIT_MS = 500


class Place(NamedTuple):
    """An offset, and the timestamp of the record there if a record was asked for."""

    offset: int
    timestamp: int


class Read(NamedTuple):
    """A record and the partition that it came from."""

    partition: int
    record: Record


class TopicReader:
    """Reads `topic`; call `seek` before `poll`.

    A broker that dies is only a delay. Partitions without a leader are left out, which is told,
    and taken in again once they have one.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._found = MetadataResponseTopic()
        self._leaders: dict[int, int] = {}
        self._leaderless: set[int] = set()
        self._positions: dict[int, int] = {}
        self._start_at = LATEST
        self._unplaced: set[int] = set()  # no leader has been there to ask for a position

    async def start(self, *, wait_for_leader: bool = True) -> None:
        """Learn the topic's leaders. Raises ClientError when it does not exist, or has none."""
        if wait_for_leader:
            self._take(await self._cluster.led_topic(self._topic, any_partition=True))
        else:
            await self._refresh()

    async def _refresh(self) -> None:
        """Learn the leaders again: some answer has shown that they are not as they were."""
        self._take(await self._cluster.topic(self._topic))

    def _take(self, topic: MetadataResponseTopic) -> None:
        self._found = topic
        self._leaders = {
            part.partition_index: part.leader_id for part in topic.partitions if part.leader_id >= 0
        }
        leaderless = partitions_without_leader(topic)
        if leaderless - self._leaderless:
            self._cluster.tell(why_leaderless(topic, leaderless))
        self._leaderless = leaderless

    async def offsets(self, timestamp: int) -> dict[int, int]:
        """The offset of each partition at a timestamp in ms, or at LATEST or EARLIEST."""
        found = await self.find(timestamp)
        return {partition: place.offset for partition, place in found.items()}

    async def find(self, timestamp: int) -> dict[int, Place]:
        """Offset and timestamp found in each partition that has a leader, -1 for none.

        `timestamp` is in ms, or LATEST, EARLIEST or NEWEST. Raises ClientError.
        """
        found: dict[int, Place] = {}
        async for _ in retrying():
            missing = self._leaders.keys() - found.keys()
            for leader in {self._leaders[partition] for partition in missing}:
                mine = [p for p in missing if self._leaders[p] == leader]
                found.update(await self._ask_offsets(leader, mine, timestamp))
            if found.keys() >= self._leaders.keys():
                return found
            await self._refresh()
        raise ClientError(f"the offsets of topic {self._topic!r} cannot be had")

    async def _ask_offsets(
        self, leader: int, partitions: list[int], timestamp: int
    ) -> dict[int, Place]:
        """Of those that could be asked."""
        asked = [ListOffsetsPartition(partition_index=p, timestamp=timestamp) for p in partitions]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=self._topic, partitions=asked)]
        )
        try:
            connection = await self._cluster.connection(leader)
            answer = await connection.request(ApiKey.LIST_OFFSETS, request, ListOffsetsResponse)
        except ClientError:
            return {}
        return {
            part.partition_index: Place(part.offset, part.timestamp)
            for part in answer.topics[0].partitions
            if part.error_code == ErrorCode.NONE
        }

    async def seek(self, timestamp: int) -> None:
        """Read on from LATEST, EARLIEST, or the first record at or after a timestamp."""
        self._start_at = timestamp
        self._positions = {}
        self._unplaced = {part.partition_index for part in self._found.partitions}
        await self._place()

    async def _place(self) -> None:
        """Give the partitions that have a leader now, and no position yet, theirs."""
        places = await self.offsets(self._start_at)
        if -1 in places.values():
            ends = await self.offsets(LATEST)
            places = {p: o if o >= 0 else ends.get(p, o) for p, o in places.items()}
        for partition, offset in places.items():
            if partition in self._unplaced and offset >= 0:
                self._positions[partition] = offset
                self._unplaced.discard(partition)

    def seek_partition(self, partition: int, offset: int) -> None:
        """Read only this partition, from `offset`. Raises ClientError."""
        if partition not in {part.partition_index for part in self._found.partitions}:
            raise ClientError(f"topic {self._topic!r} has no partition {partition}")
        self._positions = {partition: offset}
        self._unplaced = set()

    async def poll(self) -> list[Read]:
        """The records of one round of fetches; empty when none came within half a second."""
        wanted = self._positions.keys() | self._unplaced
        if wanted - self._leaders.keys():
            await trio.sleep(RETRY_BACKOFF_SECONDS)
            await self._refresh()
        if self._unplaced & self._leaders.keys():
            await self._place()
        received: list[Read] = []
        for leader in {self._leaders[p] for p in self._positions if p in self._leaders}:
            received += await self._poll_broker(leader)
        return received

    async def _poll_broker(self, leader: int) -> list[Read]:
        mine = [p for p in self._positions if self._leaders.get(p) == leader]
        partitions = [
            FetchPartition(
                partition=p,
                fetch_offset=self._positions[p],
                partition_max_bytes=PARTITION_MAX_BYTES,
            )
            for p in mine
        ]
        topic = FetchTopic(topic=self._topic, topic_id=self._found.topic_id, partitions=partitions)
        request = FetchRequest(
            max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_MAX_BYTES, topics=[topic]
        )
        try:
            connection = await self._cluster.connection(leader)
            answer = await connection.request(ApiKey.FETCH, request, FetchResponse)
        except ClientError:
            await trio.sleep(RETRY_BACKOFF_SECONDS)
            await self._refresh()
            return []
        received: list[Read] = []
        for part in answer.responses[0].partitions if answer.responses else []:
            index, code = part.partition_index, ErrorCode(part.error_code)
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                raise ClientError(
                    f"{self._topic}-{index}: there is no offset {self._positions[index]}"
                )
            if code != ErrorCode.NONE:
                refusal = self._cluster.asks("read", self._topic).refusal(code)
                if refusal is not None:
                    raise NotAllowed(refusal, code)
                await trio.sleep(RETRY_BACKOFF_SECONDS)
                await self._refresh()
                continue
            assert part.records is None or isinstance(part.records, (bytes, memoryview))
            records = part.records or b""
            columns = decode_columns(records)
            first = columns.first_row(self._positions[index])
            received += [Read(index, record) for record in columns.records(first)]
            # Also past batches that compaction has emptied, and control batches.
            for batch in columns.batches:
                self._positions[index] = max(self._positions[index], batch.header.next_offset)
        return received
