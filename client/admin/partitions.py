"""The placement of replicas and leaders: elections, and reassignments in progress.

Mirrors: electLeaders, alterPartitionReassignments and listPartitionReassignments of
KafkaAdminClient.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ...protocol.api import ApiKey
from ...protocol.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ...protocol.apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
)
from ...protocol.apis.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..cluster import Cluster
from .results import Results
from .routing import Purpose, by_topic

TIMEOUT_MS = 30_000


class ElectionKind(IntEnum):
    """PREFERRED: the first replica, if it is in sync; UNCLEAN: any replica, and records may be
    lost."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The replicas of a partition: all current ones, those being added, and those being removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Partitions:
    """`Partitions(cluster)`; each method raises ClientError if the cluster does not answer."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def elect(
        self, kind: ElectionKind, partitions: Collection[TopicPartition] | None = None
    ) -> Results[TopicPartition, bool]:
        """Elect leaders of these partitions (None: all); the value is False if no election was
        needed."""
        topics = None
        if partitions is not None:
            topics = [
                ElectLeadersRequestTopicPartitions(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        answer = await self._cluster.ask_controller(
            ApiKey.ELECT_LEADERS,
            ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=TIMEOUT_MS),
            ElectLeadersResponse,
        )
        self._cluster.asks("alter").check(answer.error_code, None, "cannot elect leaders")
        purpose = Purpose("alter", "cannot elect a leader of")
        results: Results[TopicPartition, bool] = Results()
        for topic in answer.replica_election_results:
            for part in topic.partition_result:
                place, code = (topic.topic, part.partition_id), part.error_code
                if code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                    results.values[place] = code == ErrorCode.NONE
                else:
                    results.errors[place] = purpose.error(
                        self._cluster, place, code, part.error_message
                    )
        return results

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None]
    ) -> Results[TopicPartition, None]:
        """Begin to move partitions to these replicas; None cancels a move."""
        topics = [
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=number,
                        replicas=None if (ids := targets[topic, number]) is None else list(ids),
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(targets).items()
        ]
        answer = await self._cluster.ask_controller(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics),
            AlterPartitionReassignmentsResponse,
        )
        asked = self._cluster.asks("alter")
        asked.check(answer.error_code, answer.error_message, "cannot reassign partitions")
        purpose = Purpose("alter", "cannot reassign")
        results: Results[TopicPartition, None] = Results()
        for topic in answer.responses:
            for part in topic.partitions:
                place, code = (topic.name, part.partition_index), part.error_code
                error = (
                    purpose.error(self._cluster, place, code, part.error_message) if code else None
                )
                results.put(place, None, error)
        return results

    async def reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Reassignment]:
        """The reassignments in progress, of these partitions or of all. Raises Refused."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(partitions).items()
            ]
        answer = await self._cluster.ask_controller(
            ApiKey.LIST_PARTITION_REASSIGNMENTS,
            ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics),
            ListPartitionReassignmentsResponse,
        )
        asked = self._cluster.asks("describe")
        asked.check(answer.error_code, answer.error_message, "cannot list reassignments")
        return {
            (topic.name, part.partition_index): Reassignment(
                tuple(part.replicas), tuple(part.adding_replicas), tuple(part.removing_replicas)
            )
            for topic in answer.topics
            for part in topic.partitions
        }
