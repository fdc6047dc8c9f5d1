"""The simulated cluster with a group of the consumer protocol (KIP-848).

`simulate_groups(seed)` runs the same faults as `cluster.simulate`, over the topic `t` and
`__consumer_offsets`; all that holds for replication is checked for both. Members come, stand still,
go and commit offsets; what the group promises them is checked by its book
(`group_members.GroupBook`).
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from pybroker_kafka.broker.handlers.consumer_groups import ConsumerGroupHandlers
from pybroker_kafka.coordinator.group.consumer.config import ConsumerGroupConfig
from pybroker_kafka.coordinator.group.core import GroupConfig
from pybroker_kafka.protocol.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker_kafka.protocol.apis.offset_commit import OffsetCommitRequest
from pybroker_kafka.protocol.features import Feature
from pybroker_kafka.protocol.topics import OFFSETS_TOPIC, TopicPartition
from pybroker_kafka.replication.metadata_cache import MetadataUpdate
from tests.simulation.cluster import Cluster, Result, run_cluster
from tests.simulation.group_members import SESSION_MS, GroupBook, GroupMember
from tests.simulation.settings import Settings
from tests.simulation.transactions import TransactionalBroker

DATA_PARTITIONS = 3
MEMBERS = 3
ASSIGNMENT_INTERVAL_MS = 200
ISOLATED_COORDINATORS_WEIGHT = 4
RESETS_WEIGHT = 4


class GroupsBroker(TransactionalBroker):
    group_config = GroupConfig()  # no group is removed: the next of its name begins at epoch 1
    consumer_config = ConsumerGroupConfig(
        session_timeout_ms=SESSION_MS, assignment_interval_ms=ASSIGNMENT_INTERVAL_MS
    )

    def _build_coordinators(self) -> None:
        super()._build_coordinators()
        handlers = ConsumerGroupHandlers(self.groups, lambda: {Feature.GROUP: 1})
        self.served[ConsumerGroupHeartbeatRequest] = handlers.heartbeat
        self.served[OffsetCommitRequest] = self.group_offsets.commit

    def build(self) -> None:
        super().build()
        self.orders.on_metadata.append(self._topics_changed)

    def _topics_changed(self, update: MetadataUpdate) -> None:
        self.groups.on_topics_changed(update.changed_topics | update.deleted_topics)


class GroupsCluster(Cluster):
    version = 0  # of transactions

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.book = GroupBook(self)
        self.members: list[GroupMember] = []
        self.faults.add(
            partial(self.faults.isolate_leader, (OFFSETS_TOPIC, 0)), ISOLATED_COORDINATORS_WEIGHT
        )
        self.faults.add(self._reset_a_member, RESETS_WEIGHT)

    def new_settings(self, random: Random) -> Settings:
        settings = Settings(random)
        settings.partition_count = DATA_PARTITIONS
        settings.forbid_unclean_elections()
        return settings

    def new_keys(self) -> list[TopicPartition]:
        return [*super().new_keys(), (OFFSETS_TOPIC, 0)]

    def new_broker(self, broker_id: int) -> Any:
        cluster: Any = self
        return GroupsBroker(cluster, broker_id)

    def _reset_a_member(self) -> None:
        if self.members:
            self.faults.reset(self.kernel.random.choice(self.members).process)

    def start_clients(self) -> None:
        self.members = [GroupMember(self, f"member{number}") for number in range(MEMBERS)]
        for member in self.members:
            member.start()

    def stop_clients(self) -> None:
        for member in self.members:
            member.is_stopping = True

    @property
    def writing_clients(self) -> list[GroupMember]:
        return self.members

    def what_clients_miss(self) -> str:
        owned = sorted(partition for member in self.members for partition in member.owned)
        if owned != list(range(DATA_PARTITIONS)):
            return f"the members have the partitions {owned}"
        epochs = {member.epoch for member in self.members}
        return f"members are in the epochs {sorted(epochs)}" if len(epochs) > 1 else ""

    def check_clients(self) -> None:
        """All is checked as it happens."""


def simulate_groups(seed: int) -> Result:
    """Run one seed to its end; whatever it found is in the result."""
    cluster = GroupsCluster(seed)
    result = run_cluster(cluster)
    result.batches = cluster.book.commits
    return result
