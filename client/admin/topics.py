"""Topics: create, list, delete, and add partitions.

Mirrors: createTopics, listTopics, describeTopics, deleteTopics and createPartitions of
KafkaAdminClient.
Leaves out: topics by their ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.metadata import MetadataResponseTopic
from ...protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ..cluster import Cluster, retrying
from ..errors import ClientError
from .results import Results, refused

ADMIN_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """What to create; -1 leaves a number to the broker's config.

    `assignments` has the replicas of each partition, the preferred leader first; the numbers are
    then -1.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was made; -1 where an old broker does not tell."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


class Topics:
    """`Topics(cluster)`; each method raises ClientError if the cluster does not answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> Results[str, CreatedTopic]:
        """Create topics, or only say whether they could be."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
                        for index, ids in sorted(topic.assignments.items())
                    ],
                    configs=[
                        CreatableTopicConfig(name=key, value=value)
                        for key, value in topic.configs.items()
                    ],
                )
                for topic in topics
            ],
            timeout_ms=ADMIN_TIMEOUT_MS,
            validate_only=validate_only,
        )
        answer = await self._cluster.ask_controller(
            ApiKey.CREATE_TOPICS, request, CreateTopicsResponse
        )
        results: Results[str, CreatedTopic] = Results()
        for one in answer.topics:
            what = f"cannot create topic {one.name!r}"
            asked = self._cluster.asks("create", one.name)
            made = CreatedTopic(one.name, one.topic_id, one.num_partitions, one.replication_factor)
            results.put(one.name, made, refused(asked, one.error_code, one.error_message, what))
        return results

    async def list(self) -> list[MetadataResponseTopic]:
        """All topics that we may see, by name."""
        answer = await self._cluster.metadata(None)
        return sorted(answer.topics, key=lambda topic: topic.name or "")

    async def delete(self, names: Sequence[str]) -> Results[str, None]:
        """Delete topics; they may be there for a moment longer."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name) for name in names],
            topic_names=list(names),
            timeout_ms=ADMIN_TIMEOUT_MS,
        )
        answer = await self._cluster.ask_controller(
            ApiKey.DELETE_TOPICS, request, DeleteTopicsResponse
        )
        results: Results[str, None] = Results()
        for one in answer.responses:
            name = one.name or ""
            what = f"cannot delete topic {name!r}"
            asked = self._cluster.asks("delete", name)
            results.put(name, None, refused(asked, one.error_code, one.error_message, what))
        return results

    async def add_partitions(
        self,
        totals: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> Results[str, None]:
        """Give topics this many partitions in all; `assignments`: the replicas of each new one."""
        chosen = assignments or {}
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=[
                        CreatePartitionsAssignment(broker_ids=list(ids)) for ids in chosen[name]
                    ]
                    if name in chosen
                    else None,
                )
                for name, count in totals.items()
            ],
            timeout_ms=ADMIN_TIMEOUT_MS,
            validate_only=validate_only,
        )
        answer = await self._cluster.ask_controller(
            ApiKey.CREATE_PARTITIONS, request, CreatePartitionsResponse
        )
        results: Results[str, None] = Results()
        for one in answer.results:
            what = f"cannot add partitions to topic {one.name!r}"
            asked = self._cluster.asks("alter", one.name)
            results.put(one.name, None, refused(asked, one.error_code, one.error_message, what))
        return results


async def create_topic(
    cluster: Cluster,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Create one topic; -1 leaves a number to the broker's config. Raises ClientError."""
    topic = NewTopic(name, partitions, replication_factor, configs=configs or {})
    (await Topics(cluster).create([topic])).all()


async def delete_topic(cluster: Cluster, name: str) -> None:
    """Delete a topic and wait until it is gone."""
    (await Topics(cluster).delete([name])).all()
    async for _ in retrying():
        code = (await cluster.metadata([name])).topics[0].error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
    raise ClientError(f"topic {name!r} is marked for deletion, but not gone yet")


async def list_topics(cluster: Cluster) -> list[MetadataResponseTopic]:
    """All topics, by name."""
    return await Topics(cluster).list()
