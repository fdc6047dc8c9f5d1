"""Topics: create, list, delete, and add partitions.

Mirrors: createTopics, listTopics, describeTopics, deleteTopics and createPartitions of
KafkaAdminClient.
Leaves out: topics by their ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ...protocol.api import ApiKey
from ...protocol.apis.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ...protocol.apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ...protocol.apis.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ...protocol.apis.metadata import MetadataResponseTopic
from ...protocol.errors import ErrorCode
from ..cluster import Cluster, retrying
from ..errors import ClientError, Unsupported
from ..releases import too_old
from .config_types import ConfigResource, ResourceKind
from .configs import Configs
from .results import Results, refused

ADMIN_TIMEOUT_MS = 30_000
FIRST_WITH_DEFAULTS = 4  # of CreateTopics (KIP-464)
FIRST_WITH_STATES = 6  # of DeleteTopics: before it, topics have no ids

# Broker configs: the default numbers of partitions and replicas of a topic.
_DEFAULTS = ("num.partitions", "default.replication.factor")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; -1 leaves a number to the broker's config.

    `assignments` has the replicas of each partition, the preferred leader first; the two numbers
    are then -1.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was created; -1 if an old broker does not send a number."""

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
        """Create topics, or only check whether they could be created."""

        def question(version: int) -> CreateTopicsRequest:
            if version < FIRST_WITH_DEFAULTS and any(map(_leaves_numbers, topics)):
                raise too_old("topics with numbers of its own choice", "2.4")
            return CreateTopicsRequest(
                topics=list(map(_creatable, topics)),
                timeout_ms=ADMIN_TIMEOUT_MS,
                validate_only=validate_only,
            )

        key = ApiKey.CREATE_TOPICS
        try:
            answer = await self._cluster.ask_controller(key, question, CreateTopicsResponse)
        except Unsupported:
            if not any(map(_leaves_numbers, topics)):
                raise
            topics = await self._with_numbers(topics)
            answer = await self._cluster.ask_controller(key, question, CreateTopicsResponse)
        results: Results[str, CreatedTopic] = Results()
        for one in answer.topics:
            what = f"cannot create topic {one.name!r}"
            asked = self._cluster.asks("create", one.name)
            made = CreatedTopic(one.name, one.topic_id, one.num_partitions, one.replication_factor)
            results.put(one.name, made, refused(asked, one.error_code, one.error_message, what))
        return results

    async def _with_numbers(self, topics: Sequence[NewTopic]) -> list[NewTopic]:
        """The topics with the controller's default numbers; a broker this old cannot fill them in
        itself."""
        resource = ConfigResource(ResourceKind.BROKER, str(self._cluster.controller_id))
        try:
            described = await Configs(self._cluster).describe([resource], names=_DEFAULTS)
        except Unsupported:
            raise Unsupported(
                "brokers before 0.11 do not return their defaults: give the numbers of "
                "partitions and replicas (-p and -r)"
            ) from None
        found = {entry.name: int(entry.value or 1) for entry in described[resource]}
        return [
            replace(
                topic,
                partitions=found[_DEFAULTS[0]] if topic.partitions < 0 else topic.partitions,
                replication_factor=(
                    found[_DEFAULTS[1]]
                    if topic.replication_factor < 0
                    else topic.replication_factor
                ),
            )
            if _leaves_numbers(topic)
            else topic
            for topic in topics
        ]

    async def list(self) -> list[MetadataResponseTopic]:
        """All topics that we may see, by name."""
        answer = await self._cluster.metadata(None)
        return sorted(answer.topics, key=lambda topic: topic.name or "")

    async def delete(self, names: Sequence[str]) -> Results[str, None]:
        """Delete topics; they may remain for a moment."""

        def question(version: int) -> DeleteTopicsRequest:
            if version < FIRST_WITH_STATES:
                return DeleteTopicsRequest(topic_names=list(names), timeout_ms=ADMIN_TIMEOUT_MS)
            states = [DeleteTopicState(name=name) for name in names]
            return DeleteTopicsRequest(topics=states, timeout_ms=ADMIN_TIMEOUT_MS)

        answer = await self._cluster.ask_controller(
            ApiKey.DELETE_TOPICS, question, DeleteTopicsResponse
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
        """Raise topics to these numbers of partitions; `assignments`: the replicas of each new
        partition."""
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


def _leaves_numbers(topic: NewTopic) -> bool:
    """Whether a number is left to the broker."""
    return not topic.assignments and min(topic.partitions, topic.replication_factor) < 0


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(ids))
            for index, ids in sorted(topic.assignments.items())
        ],
        configs=[
            CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()
        ],
    )


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
    """Delete a topic and wait until it no longer exists. Raises ClientError."""
    (await Topics(cluster).delete([name])).all()
    async for _ in retrying():
        code = (await cluster.metadata([name])).topics[0].error_code
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return
    raise ClientError(f"topic {name!r} is marked for deletion, and not deleted yet")


async def list_topics(cluster: Cluster) -> list[MetadataResponseTopic]:
    """All topics, by name."""
    return await Topics(cluster).list()
