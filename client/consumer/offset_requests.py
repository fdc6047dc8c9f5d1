"""Requests about offsets: of logs (ListOffsets, OffsetForLeaderEpoch) and of groups.

Each function sends one request and returns its results, which contain the error codes of
partitions; callers retry.

Mirrors: OffsetFetcher and the offset part of ConsumerCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, TypeVar

from ...protocol.api import ApiKey
from ...protocol.apis.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ...protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ...protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ...protocol.apis.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..connection import Connection
from ..offsets import offset_of
from .positions import Position
from .topics_view import Leader

FIRST_OF_MANY_GROUPS: Final = 8  # of OffsetFetch
FIRST_WITH_STABLE: Final = 7
CONSUMER_REPLICA_ID: Final = -1
READ_COMMITTED: Final = 1

V = TypeVar("V")


class Found(NamedTuple):
    """An offset of a log (-1: none), the timestamp of its record (-1), and its leader's epoch."""

    offset: int
    timestamp: int
    epoch: int


class Committed(NamedTuple):
    """A group's committed position in a partition: the next offset, and metadata of its own."""

    offset: int
    metadata: str = ""
    epoch: int = -1


class Member(NamedTuple):
    """The member that commits or reads offsets; the defaults are for none."""

    group_id: str
    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


def by_topic(values: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    topics: dict[str, dict[int, V]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, {})[partition] = value
    return topics


def by_leader(
    partitions: Collection[TopicPartition], leader_of: Callable[[TopicPartition], Leader | None]
) -> dict[int, dict[TopicPartition, Leader]]:
    """The partitions that have a leader, by its node."""
    nodes: dict[int, dict[TopicPartition, Leader]] = {}
    for partition in partitions:
        leader = leader_of(partition)
        if leader is not None and leader.node >= 0:
            nodes.setdefault(leader.node, {})[partition] = leader
    return nodes


async def list_offsets(
    connection: Connection,
    wanted: Mapping[TopicPartition, tuple[int, Leader]],
    *,
    reads_committed: bool = False,
) -> dict[TopicPartition, Found | ErrorCode]:
    """Offsets at timestamps, of partitions that this broker leads. Raises ClientError."""
    request = ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=READ_COMMITTED if reads_committed else 0,
        topics=[
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(
                        partition_index=partition,
                        timestamp=timestamp,
                        current_leader_epoch=leader.epoch,
                    )
                    for partition, (timestamp, leader) in partitions.items()
                ],
            )
            for topic, partitions in by_topic(wanted).items()
        ],
    )
    answer = await connection.request(ApiKey.LIST_OFFSETS, request, ListOffsetsResponse)
    return {
        (topic.name, part.partition_index): ErrorCode(part.error_code)
        if part.error_code
        else Found(offset_of(part), part.timestamp, part.leader_epoch)
        for topic in answer.topics
        for part in topic.partitions
    }


async def leader_epoch_ends(
    connection: Connection, wanted: Mapping[TopicPartition, tuple[int, Leader]]
) -> dict[TopicPartition, Position | ErrorCode]:
    """The end of each epoch in the log; the epoch is the last one at or before it (KIP-320)."""
    request = OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID,
        topics=[
            OffsetForLeaderTopic(
                topic=topic,
                partitions=[
                    OffsetForLeaderPartition(
                        partition=partition, leader_epoch=epoch, current_leader_epoch=leader.epoch
                    )
                    for partition, (epoch, leader) in partitions.items()
                ],
            )
            for topic, partitions in by_topic(wanted).items()
        ],
    )
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    answer = await connection.request(key, request, OffsetForLeaderEpochResponse)
    return {
        (topic.topic, part.partition): ErrorCode(part.error_code)
        if part.error_code
        else Position(part.end_offset, part.leader_epoch)
        for topic in answer.topics
        for part in topic.partitions
    }


async def commit(
    connection: Connection, member: Member, offsets: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, ErrorCode]:
    """Commit once; the codes of all partitions. Raises ClientError."""
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=each.offset,
                        committed_leader_epoch=each.epoch,
                        committed_metadata=each.metadata,
                    )
                    for partition, each in partitions.items()
                ],
            )
            for topic, partitions in by_topic(offsets).items()
        ],
    )
    answer = await connection.request(ApiKey.OFFSET_COMMIT, request, OffsetCommitResponse)
    return {
        (topic.name, part.partition_index): ErrorCode(part.error_code)
        for topic in answer.topics
        for part in topic.partitions
    }


async def fetch_committed(
    connection: Connection, member: Member, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, Committed], ErrorCode]:
    """The committed offsets of partitions that have one, and an error of the group or of a
    partition.

    A member of the consumer protocol is checked as in a commit, in the newer versions. Offsets of
    pending transactions yield a retriable error (KIP-447).
    """
    names = by_topic(dict.fromkeys(partitions))

    def question(version: int) -> OffsetFetchRequest:
        stable = version >= FIRST_WITH_STABLE
        if version >= FIRST_OF_MANY_GROUPS:
            many = [
                OffsetFetchRequestTopics(name=t, partition_indexes=list(p))
                for t, p in names.items()
            ]
            group = OffsetFetchRequestGroup(
                group_id=member.group_id,
                member_id=member.member_id or None,
                member_epoch=member.generation,
                topics=many,
            )
            return OffsetFetchRequest(groups=[group], topics=[], require_stable=stable)
        one = [OffsetFetchRequestTopic(name=t, partition_indexes=list(p)) for t, p in names.items()]
        return OffsetFetchRequest(group_id=member.group_id, topics=one, require_stable=stable)

    answer = await connection.request(ApiKey.OFFSET_FETCH, question, OffsetFetchResponse)
    group = answer.groups[0] if answer.groups else answer
    code = ErrorCode(group.error_code)
    found = {}
    for topic in group.topics:
        for part in topic.partitions:
            if part.error_code:
                code = ErrorCode(part.error_code)
            elif part.committed_offset >= 0:
                found[topic.name, part.partition_index] = Committed(
                    part.committed_offset, part.metadata or "", part.committed_leader_epoch
                )
    return found, code
