"""The broker's view of the cluster, as the controller pushes it with UpdateMetadata.

Job: know the live brokers, their endpoints, the topics and the leaders of their partitions.
Invariants: topics and ids map one to one (a topic without id is in no id map); a topic without
partitions is gone; brokers are replaced as a whole by every request that carries any state.

Mirrors kafka.server.metadata.ZkMetadataCache. Leaves out the epoch checks of UpdateMetadata (the
replica manager makes them before it calls `update`) and KRaft's full/incremental types.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..protocol.apis.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from ..protocol.uuids import ZERO_UUID

NO_CONTROLLER = -1
LEADER_DURING_DELETE = -2

SECURITY_PROTOCOLS: Mapping[int, str] = {
    0: "PLAINTEXT",
    1: "SSL",
    2: "SASL_PLAINTEXT",
    3: "SASL_SSL",
}
SECURITY_PROTOCOL_IDS: Mapping[str, int] = {name: key for key, name in SECURITY_PROTOCOLS.items()}


@dataclass(frozen=True, slots=True)
class Endpoint:
    listener: str
    security_protocol: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A live broker: its endpoints by listener name, and its rack."""

    broker_id: int
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None

    def endpoint(self, listener: str) -> Endpoint | None:
        return self.endpoints.get(listener)


@dataclass(frozen=True, slots=True)
class PartitionState:
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    zk_version: int
    controller_epoch: int


@dataclass(slots=True)
class MetadataUpdate:
    """The changes of one UpdateMetadata."""

    changed_topics: set[str] = field(default_factory=set)
    deleted_topics: set[str] = field(default_factory=set)
    deleted_partitions: list[tuple[str, int]] = field(default_factory=list)
    departed_brokers: list[BrokerNode] = field(default_factory=list)


class MetadataCache:
    __slots__ = (
        "_brokers",
        "_names_by_id",
        "_topic_ids",
        "_topics",
        "broker_id",
        "cluster_id",
        "controller_id",
        "version",
    )

    def __init__(self, broker_id: int = -1, cluster_id: str = "") -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.controller_id = NO_CONTROLLER
        self.version = 0  # counts updates, so that derived answers can be cached
        self._brokers: dict[int, BrokerNode] = {}
        self._topics: dict[str, dict[int, PartitionState]] = {}
        self._topic_ids: dict[str, bytes] = {}
        self._names_by_id: dict[bytes, str] = {}

    # Reading

    def contains(self, topic: str) -> bool:
        return topic in self._topics

    def topics(self) -> Iterator[str]:
        return iter(self._topics)

    def partitions(self, topic: str) -> Mapping[int, PartitionState]:
        """The partitions of a topic by index; empty if the topic is unknown."""
        return self._topics.get(topic, {})

    def partition_count(self, topic: str) -> int | None:
        partitions = self._topics.get(topic)
        return None if partitions is None else len(partitions)

    def total_partition_count(self) -> int:
        return sum(map(len, self._topics.values()))

    def partition_state(self, topic: str, partition: int) -> PartitionState | None:
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def topic_id(self, topic: str) -> bytes:
        return self._topic_ids.get(topic, ZERO_UUID)

    def topic_name(self, topic_id: bytes) -> str | None:
        return self._names_by_id.get(bytes(topic_id))

    def alive_brokers(self) -> Mapping[int, BrokerNode]:
        return self._brokers

    def broker(self, broker_id: int) -> BrokerNode | None:
        return self._brokers.get(broker_id)

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self._brokers

    def broker_endpoint(self, broker_id: int, listener: str) -> Endpoint | None:
        broker = self._brokers.get(broker_id)
        return None if broker is None else broker.endpoints.get(listener)

    def has_leaders(self, topic: str, partitions: range) -> bool:
        """True once every one of these partitions is known here with a leader."""
        known = self.partitions(topic)
        return all(
            (state := known.get(index)) is not None and state.leader >= 0 for index in partitions
        )

    # Changing

    def update(self, request: UpdateMetadataRequest) -> MetadataUpdate:
        """Apply a request of the controller, which has already passed the epoch checks."""
        self.version += 1
        self.controller_id = request.controller_id
        before = self._brokers
        self._brokers = {broker.id: _broker_node(broker) for broker in request.live_brokers}
        change = MetadataUpdate()
        change.departed_brokers += [
            node for broker_id, node in before.items() if broker_id not in self._brokers
        ]
        for state in request.ungrouped_partition_states:
            self._apply(state.topic_name, ZERO_UUID, state, change)
        for topic_state in request.topic_states:
            for state in topic_state.partition_states:
                self._apply(topic_state.topic_name, bytes(topic_state.topic_id), state, change)
        return change

    def _apply(
        self,
        topic: str,
        topic_id: bytes,
        state: UpdateMetadataPartitionState,
        change: MetadataUpdate,
    ) -> None:
        if state.leader == LEADER_DURING_DELETE:
            self._remove_partition(topic, state.partition_index, change)
            return
        partitions = self._topics.setdefault(topic, {})
        partitions[state.partition_index] = PartitionState(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=tuple(state.isr),
            replicas=tuple(state.replicas),
            offline_replicas=tuple(state.offline_replicas),
            zk_version=state.zk_version,
            controller_epoch=state.controller_epoch,
        )
        if topic_id != ZERO_UUID and self._topic_ids.get(topic) != topic_id:
            self._forget_id(topic)
            self._topic_ids[topic] = topic_id
            self._names_by_id[topic_id] = topic
        change.changed_topics.add(topic)
        change.deleted_topics.discard(topic)

    def _remove_partition(self, topic: str, partition: int, change: MetadataUpdate) -> None:
        partitions = self._topics.get(topic)
        if partitions is None or partitions.pop(partition, None) is None:
            return
        change.deleted_partitions.append((topic, partition))
        if not partitions:
            del self._topics[topic]
            self._forget_id(topic)
            change.changed_topics.discard(topic)
            change.deleted_topics.add(topic)

    def _forget_id(self, topic: str) -> None:
        topic_id = self._topic_ids.pop(topic, None)
        if topic_id is not None:
            del self._names_by_id[topic_id]


def _broker_node(broker: UpdateMetadataBroker) -> BrokerNode:
    endpoints = {}
    for endpoint in broker.endpoints:
        protocol = SECURITY_PROTOCOLS.get(endpoint.security_protocol, "PLAINTEXT")
        listener = endpoint.listener or protocol  # before v3 a listener is named by its protocol
        endpoints[listener] = Endpoint(listener, protocol, endpoint.host, endpoint.port)
    if not endpoints and broker.v0_host:
        endpoints["PLAINTEXT"] = Endpoint("PLAINTEXT", "PLAINTEXT", broker.v0_host, broker.v0_port)
    return BrokerNode(broker.id, endpoints, broker.rack or None)
