"""Share groups (KIP-932): their members, and the offsets from which their queues are read.

Mirrors: describeShareGroups, listShareGroupOffsets, alterShareGroupOffsets and
deleteShareGroupOffsets of KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from ...protocol.api import ApiKey
from ...protocol.apis.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ...protocol.apis.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ...protocol.apis.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
)
from ...protocol.topics import TopicPartition
from ..cluster import Cluster, CoordinatorKind
from ..connection import Connection
from .groups import GroupDescription, described_share_groups
from .results import Results
from .routing import Answer, Purpose, ask_coordinators, by_topic

NEWEST: Final = 1  # of the requests here


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """All records before the offset are done, or were never for the group; so may be some behind
    it: `lag` counts the records that are not done. -1: not known."""

    start_offset: int
    leader_epoch: int
    lag: int


class ShareGroups:
    """`ShareGroups(cluster)`; each method raises ClientError if the group cannot be asked."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, group_ids: Collection[str]) -> Results[str, GroupDescription]:
        """The state and the members of share groups."""
        purpose = Purpose("describe", "cannot describe share group")
        return await ask_coordinators(
            self._cluster, CoordinatorKind.GROUP, group_ids, described_share_groups, purpose
        )

    async def offsets(self, group_id: str) -> Results[TopicPartition, ShareOffset]:
        """The offset of each partition that the group has read from."""
        asked = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=None)
        request = DescribeShareGroupOffsetsRequest(groups=[asked])

        async def ask(
            connection: Connection, mine: list[str]
        ) -> dict[str, Answer[dict[TopicPartition, Answer[ShareOffset]]]]:
            key = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
            answer = await connection.request(
                key, request, DescribeShareGroupOffsetsResponse, newest=NEWEST
            )
            (group,) = answer.groups
            found = {
                (topic.topic_name, part.partition_index): Answer(
                    part.error_code,
                    part.error_message,
                    ShareOffset(part.start_offset, part.leader_epoch, part.lag),
                )
                for topic in group.topics
                for part in topic.partitions
            }
            return {mine[0]: Answer(group.error_code, group.error_message, found)}

        purpose = Purpose("describe", "cannot read the offsets of share group")
        answered = await ask_coordinators(
            self._cluster, CoordinatorKind.GROUP, [group_id], ask, purpose
        )
        results: Results[TopicPartition, ShareOffset] = Results()
        of_partition = Purpose("read", "cannot read the offset of")
        for place, one in answered[group_id].items():
            error = (
                of_partition.error(self._cluster, place, one.code, one.message)
                if one.code
                else None
            )
            results.put(place, one.value, error)
        return results

    async def alter_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> Results[TopicPartition, None]:
        """Have a group without members read from these offsets."""
        request = AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(
                            partition_index=number, start_offset=offsets[topic, number]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(offsets).items()
            ],
        )

        async def ask(
            connection: Connection, mine: list[str]
        ) -> dict[str, Answer[dict[TopicPartition, Answer[None]]]]:
            key = ApiKey.ALTER_SHARE_GROUP_OFFSETS
            answer = await connection.request(
                key, request, AlterShareGroupOffsetsResponse, newest=NEWEST
            )
            found: dict[TopicPartition, Answer[None]] = {
                (topic.topic_name, part.partition_index): Answer(
                    part.error_code, part.error_message, None
                )
                for topic in answer.responses
                for part in topic.partitions
            }
            return {mine[0]: Answer(answer.error_code, answer.error_message, found)}

        purpose = Purpose("read", "cannot alter the offsets of share group")
        answered = await ask_coordinators(
            self._cluster, CoordinatorKind.GROUP, [group_id], ask, purpose
        )
        results: Results[TopicPartition, None] = Results()
        of_partition = Purpose("read", "cannot alter the offset of")
        for place, one in answered[group_id].items():
            error = (
                of_partition.error(self._cluster, place, one.code, one.message)
                if one.code
                else None
            )
            results.put(place, None, error)
        return results

    async def delete_offsets(self, group_id: str, topics: Collection[str]) -> Results[str, None]:
        """Have a group without members forget topics: it begins anew with them."""
        request = DeleteShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics],
        )

        async def ask(
            connection: Connection, mine: list[str]
        ) -> dict[str, Answer[dict[str, Answer[None]]]]:
            key = ApiKey.DELETE_SHARE_GROUP_OFFSETS
            answer = await connection.request(
                key, request, DeleteShareGroupOffsetsResponse, newest=NEWEST
            )
            found: dict[str, Answer[None]] = {
                topic.topic_name: Answer(topic.error_code, topic.error_message, None)
                for topic in answer.responses
            }
            return {mine[0]: Answer(answer.error_code, answer.error_message, found)}

        purpose = Purpose("delete", "cannot delete the offsets of share group")
        answered = await ask_coordinators(
            self._cluster, CoordinatorKind.GROUP, [group_id], ask, purpose
        )
        results: Results[str, None] = Results()
        of_topic = Purpose("read", "cannot delete the offsets of topic")
        for name, one in answered[group_id].items():
            error = of_topic.error(self._cluster, name, one.code, one.message) if one.code else None
            results.put(name, None, error)
        return results
