"""Committed offsets of groups: list, alter and delete.

Mirrors: listConsumerGroupOffsets, alterConsumerGroupOffsets and deleteConsumerGroupOffsets of
KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from ...protocol.api import ApiKey
from ...protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ...protocol.apis.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ...protocol.apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from ...protocol.topics import TopicPartition
from ..cluster import Cluster, CoordinatorKind
from ..connection import Connection
from .results import Results
from .routing import Answer, Purpose, ask_coordinators, by_topic

ALL_PARTITIONS_VERSION = 2  # of OffsetFetch, since 0.10.2
SEVERAL_GROUPS_VERSION = 8  # of OffsetFetch (KIP-709)
V = TypeVar("V")
PartitionAnswers = dict[TopicPartition, Answer[V]]
AskGroup = Callable[[Connection, list[str]], Awaitable[Mapping[str, Answer[V]]]]


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's committed position in a partition: the next record to read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class GroupOffsets:
    """`GroupOffsets(cluster)`; each method raises ClientError if the group cannot be asked."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None
    ) -> Results[TopicPartition, CommittedOffset]:
        """The committed offsets of these partitions (None: all that have one)."""

        async def ask(connection: Connection, mine: list[str]) -> dict[str, Answer[Found]]:
            key = ApiKey.OFFSET_FETCH
            version = connection.version(key)
            is_new = version >= SEVERAL_GROUPS_VERSION
            wanted = partitions
            if wanted is None and version < ALL_PARTITIONS_VERSION:
                wanted = await self._all_partitions()
            request = _fetch_several(mine, wanted) if is_new else _fetch_one(mine, wanted)
            answer = await connection.request(key, request, OffsetFetchResponse)
            if is_new:
                return {
                    group.group_id: Answer(
                        group.error_code,
                        None,
                        {
                            (topic.name, part.partition_index): _committed(part)
                            for topic in group.topics
                            for part in topic.partitions
                        },
                    )
                    for group in answer.groups
                }
            found: Found = {
                (topic.name, part.partition_index): _committed(part)
                for topic in answer.topics
                for part in topic.partitions
            }
            return {mine[0]: Answer(answer.error_code, None, found)}

        answered = await self._of_group(group_id, ask, Purpose("describe", "no offsets of group"))
        there = {place: one for place, one in answered.items() if one.code or one.value.offset >= 0}
        return self._results(there, Purpose("describe", "no committed offset of"))

    async def _all_partitions(self) -> set[TopicPartition]:
        return {
            (topic.name or "", part.partition_index)
            for topic in (await self._cluster.metadata(None)).topics
            for part in topic.partitions
        }

    async def alter(
        self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> Results[TopicPartition, None]:
        """Commit offsets for a group without members; the group is created if it does not exist."""
        request = OffsetCommitRequest(
            group_id=group_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=n,
                            committed_offset=offsets[topic, n].offset,
                            committed_leader_epoch=offsets[topic, n].leader_epoch,
                            committed_metadata=offsets[topic, n].metadata,
                        )
                        for n in numbers
                    ],
                )
                for topic, numbers in by_topic(offsets).items()
            ],
        )

        async def ask(
            connection: Connection, mine: list[str]
        ) -> dict[str, Answer[PartitionAnswers[None]]]:
            answer = await connection.request(ApiKey.OFFSET_COMMIT, request, OffsetCommitResponse)
            found: PartitionAnswers[None] = {
                (topic.name, part.partition_index): Answer(part.error_code, None, None)
                for topic in answer.topics
                for part in topic.partitions
            }
            return {mine[0]: Answer(0, None, found)}

        purpose = Purpose("read", "cannot alter the offsets of group")
        answered = await self._of_group(group_id, ask, purpose)
        return self._results(answered, Purpose("read", "cannot alter the offset of"))

    async def delete(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> Results[TopicPartition, None]:
        """Delete the offsets of partitions to which no member of the group is subscribed."""
        request = OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[OffsetDeleteRequestPartition(partition_index=n) for n in numbers],
                )
                for topic, numbers in by_topic(partitions).items()
            ],
        )

        async def ask(
            connection: Connection, mine: list[str]
        ) -> dict[str, Answer[PartitionAnswers[None]]]:
            answer = await connection.request(ApiKey.OFFSET_DELETE, request, OffsetDeleteResponse)
            found: PartitionAnswers[None] = {
                (topic.name, part.partition_index): Answer(part.error_code, None, None)
                for topic in answer.topics
                for part in topic.partitions
            }
            return {mine[0]: Answer(answer.error_code, None, found)}

        purpose = Purpose("delete", "cannot delete offsets of group")
        answered = await self._of_group(group_id, ask, purpose)
        return self._results(answered, Purpose("read", "cannot delete the offset of"))

    async def _of_group(
        self,
        group_id: str,
        ask: AskGroup[V],
        purpose: Purpose,
    ) -> V:
        """The answer of the group's coordinator. Raises Refused."""
        found = await ask_coordinators(
            self._cluster, CoordinatorKind.GROUP, [group_id], ask, purpose
        )
        return found[group_id]

    def _results(
        self, answered: Mapping[TopicPartition, Answer[V]], purpose: Purpose
    ) -> Results[TopicPartition, V]:
        results: Results[TopicPartition, V] = Results()
        for place, one in answered.items():
            error = purpose.error(self._cluster, place, one.code, one.message) if one.code else None
            results.put(place, one.value, error)
        return results


Found = dict[TopicPartition, Answer[CommittedOffset]]


def _fetch_several(
    groups: list[str], partitions: Collection[TopicPartition] | None
) -> OffsetFetchRequest:
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups]
    )


def _fetch_one(
    groups: list[str], partitions: Collection[TopicPartition] | None
) -> OffsetFetchRequest:
    topics = None
    if partitions is not None:
        topics = [
            OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    return OffsetFetchRequest(group_id=groups[0], topics=topics)


def _committed(
    part: OffsetFetchResponsePartition | OffsetFetchResponsePartitions,
) -> Answer[CommittedOffset]:
    offset = CommittedOffset(
        part.committed_offset, part.committed_leader_epoch, part.metadata or ""
    )
    return Answer(part.error_code, None, offset)
