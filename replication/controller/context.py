"""The controller's knowledge: brokers, topics, assignments, leadership, states, deletions.

Job: hold it and answer questions; no rules of its own beyond keeping its indexes consistent.
Invariants: every partition in `leadership` or `partition_states` belongs to a known topic; topic
ids and names map one to one; a replica has a state only while its partition is assigned to it.

Mirrors kafka.controller.ControllerContext.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from ...protocol.topics import TopicPartition
from ...protocol.uuids import ZERO_UUID
from .znodes import (
    BrokerRegistration,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicAssignment,
)

NO_LEADER = -1
UNKNOWN_EPOCH = -1
EPOCH_DURING_DELETE = -2


class Replica(NamedTuple):
    topic: str
    partition: int
    broker_id: int

    @property
    def topic_partition(self) -> TopicPartition:
        return (self.topic, self.partition)


class PartitionStateName(Enum):
    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaStateName(Enum):
    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


class ControllerContext:
    __slots__ = (
        "_names_by_id",
        "assignments",
        "brokers",
        "epoch",
        "epoch_zk_version",
        "has_leader_recovery",
        "leadership",
        "left_behind",
        "offline_dir_replicas",
        "partition_states",
        "partitions_being_reassigned",
        "replica_states",
        "shutting_down",
        "topic_ids",
        "topics_ineligible_for_deletion",
        "topics_to_be_deleted",
        "topics_with_deletion_started",
    )

    def __init__(self, *, has_leader_recovery: bool = True) -> None:
        """`has_leader_recovery` as in `inter_broker`."""
        self.has_leader_recovery = has_leader_recovery
        self.epoch = 0
        self.epoch_zk_version = -1
        self.reset()

    def reset(self) -> None:
        """Forget the cluster (on resignation), but not the epoch that was last ours."""
        self.brokers: dict[int, BrokerRegistration] = {}
        self.shutting_down: set[int] = set()
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.topic_ids: dict[str, bytes] = {}
        self._names_by_id: dict[bytes, str] = {}
        self.leadership: dict[TopicPartition, LeaderAndIsr] = {}
        self.partition_states: dict[TopicPartition, PartitionStateName] = {}
        self.replica_states: dict[Replica, ReplicaStateName] = {}
        self.offline_dir_replicas: dict[int, set[TopicPartition]] = {}
        # Removed replicas whose brokers have not confirmed yet that they have deleted them.
        self.left_behind: dict[int, set[TopicPartition]] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        self.topics_to_be_deleted: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()

    # Brokers

    def is_live(self, broker_id: int) -> bool:
        return broker_id in self.brokers and broker_id not in self.shutting_down

    def broker_epoch(self, broker_id: int) -> int | None:
        broker = self.brokers.get(broker_id)
        return None if broker is None else broker.epoch

    def is_replica_online(
        self, broker_id: int, partition: TopicPartition, *, include_shutting_down: bool = False
    ) -> bool:
        up = broker_id in self.brokers if include_shutting_down else self.is_live(broker_id)
        return up and partition not in self.offline_dir_replicas.get(broker_id, ())

    # Topics and assignments

    @property
    def topics(self) -> Iterable[str]:
        return self.assignments.keys()

    def put_topic(self, topic: str, assignment: TopicAssignment) -> None:
        self.assignments[topic] = dict(assignment.partitions)
        if assignment.topic_id is not None:
            self.topic_ids[topic] = assignment.topic_id
            self._names_by_id[assignment.topic_id] = topic

    def put_assignment(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.assignments.setdefault(partition[0], {})[partition[1]] = assignment

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names_by_id.get(bytes(topic_id))

    def topic_id(self, topic: str) -> bytes:
        return self.topic_ids.get(topic, ZERO_UUID)

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """The full assignment; an empty one if the partition is unknown."""
        topic = self.assignments.get(partition[0])
        found = None if topic is None else topic.get(partition[1])
        return found if found is not None else ReplicaAssignment(())

    def replicas(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.assignment(partition).replicas

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        return [(topic, index) for index in self.assignments.get(topic, ())]

    def all_partitions(self) -> Iterator[TopicPartition]:
        for topic, partitions in self.assignments.items():
            for index in partitions:
                yield (topic, index)

    def replicas_of(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [
            Replica(*partition, broker_id)
            for partition in partitions
            for broker_id in self.replicas(partition)
        ]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        return self.replicas_of(self.partitions_of(topic))

    def replicas_on(self, broker_ids: Iterable[int]) -> list[Replica]:
        wanted = set(broker_ids)
        return [r for r in self.replicas_of(self.all_partitions()) if r.broker_id in wanted]

    def partitions_on(self, broker_id: int) -> list[TopicPartition]:
        return [p for p in self.all_partitions() if broker_id in self.replicas(p)]

    def remove_topic(self, topic: str) -> None:
        """Drop all data about a topic, whether deleted by us or missing in ZooKeeper."""
        for partition in self.partitions_of(topic):
            self.leadership.pop(partition, None)
            self.partition_states.pop(partition, None)
            self.partitions_being_reassigned.discard(partition)
            for replica in self.replicas_of((partition,)):
                self.replica_states.pop(replica, None)
            for offline in self.offline_dir_replicas.values():
                offline.discard(partition)
        self.assignments.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self._names_by_id.pop(topic_id, None)
        self.topics_to_be_deleted.discard(topic)
        self.topics_with_deletion_started.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)

    # Leadership

    def leader_epoch(self, partition: TopicPartition) -> int:
        """The epoch for StopReplica: a special one while the topic is being deleted."""
        if self.is_queued_for_deletion(partition[0]):
            return EPOCH_DURING_DELETE
        state = self.leadership.get(partition)
        return UNKNOWN_EPOCH if state is None else state.leader_epoch

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        return [
            partition
            for partition, state in self.leadership.items()
            if not self.is_replica_online(state.leader, partition) and not self.is_doomed(partition)
        ]

    def partitions_led_by(self, broker_id: int) -> list[TopicPartition]:
        """Partitions led by this broker that others could lead."""
        return [
            partition
            for partition, state in self.leadership.items()
            if state.leader == broker_id
            and len(self.replicas(partition)) > 1
            and not self.is_queued_for_deletion(partition[0])
        ]

    # States

    def partition_state(self, partition: TopicPartition) -> PartitionStateName:
        return self.partition_states.get(partition, PartitionStateName.NON_EXISTENT)

    def partitions_in(
        self, states: tuple[PartitionStateName, ...], topic: str | None = None
    ) -> list[TopicPartition]:
        return [
            partition
            for partition, state in self.partition_states.items()
            if state in states and (topic is None or partition[0] == topic)
        ]

    def replica_state(self, replica: Replica) -> ReplicaStateName:
        return self.replica_states.get(replica, ReplicaStateName.NON_EXISTENT)

    def replicas_in(self, topic: str, state: ReplicaStateName) -> list[Replica]:
        return [r for r in self.replicas_of_topic(topic) if self.replica_state(r) is state]

    # Deletion

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.topics_to_be_deleted

    def is_doomed(self, partition: TopicPartition) -> bool:
        """The topic is being deleted, and no reassignment still needs a leader to finish."""
        queued = self.is_queued_for_deletion(partition[0])
        return queued and partition not in self.partitions_being_reassigned

    def counts(self) -> Mapping[str, int]:
        """Gauges of kafka.controller:type=KafkaController, by their names there."""
        alive = (p for p in self.all_partitions() if not self.is_queued_for_deletion(p[0]))
        offline = imbalanced = partitions = 0
        for partition in alive:
            partitions += 1
            state = self.leadership.get(partition)
            if state is None or not self.is_replica_online(state.leader, partition):
                offline += 1
            if state is not None and self.replicas(partition)[:1] != (state.leader,):
                imbalanced += 1
        return {
            "OfflinePartitionsCount": offline,
            "PreferredReplicaImbalanceCount": imbalanced,
            "GlobalTopicCount": len(self.assignments),
            "GlobalPartitionCount": partitions,
            "TopicsToDeleteCount": len(self.topics_to_be_deleted),
            "TopicsIneligibleToDeleteCount": len(self.topics_ineligible_for_deletion),
            "ActiveBrokerCount": len(self.brokers),
        }
