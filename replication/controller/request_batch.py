"""Collects the notifications of brokers into as few requests as possible.

Job: LeaderAndIsr to the replicas concerned, UpdateMetadata to all brokers, StopReplica to replicas
that stop; `inter_broker` defines their versions. `take_requests` gives them in Kafka's order:
LeaderAndIsr, then UpdateMetadata, then StopReplica.

Invariants: a broker gets at most one request of each kind a batch, and none if it is not alive;
every partition in a LeaderAndIsr is also in the UpdateMetadata of the batch; each request carries
the epoch of the broker it is meant for.

Mirrors kafka.controller.ControllerBrokerRequestBatch. Leaves out KRaft's `type`.
"""

from collections.abc import Iterable

from ...protocol.apis.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ...protocol.apis.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ...protocol.apis.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from ...protocol.topics import TopicPartition
from ..inter_broker import InterBrokerProtocol
from ..metadata_cache import LEADER_DURING_DELETE, SECURITY_PROTOCOL_IDS
from .context import ControllerContext
from .effects import ControlRequest, SendRequest
from .znodes import LeaderAndIsr, ReplicaAssignment


def request_version(request: ControlRequest, protocol: InterBrokerProtocol) -> int:
    if isinstance(request, LeaderAndIsrRequest):
        return protocol.leader_and_isr
    if isinstance(request, StopReplicaRequest):
        return protocol.stop_replica
    return protocol.update_metadata


class RequestBatch:
    __slots__ = (
        "_context",
        "_controller_id",
        "_leader_and_isr",
        "_listener",
        "_metadata_brokers",
        "_metadata_partitions",
        "_stop_replica",
    )

    def __init__(self, controller_id: int, listener: str, context: ControllerContext) -> None:
        self._controller_id = controller_id
        self._listener = listener
        self._context = context
        self.clear()

    def clear(self) -> None:
        self._leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._stop_replica: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._metadata_brokers: set[int] = set()
        self._metadata_partitions: dict[TopicPartition, UpdateMetadataPartitionState] = {}

    # Collecting

    def add_leader_and_isr(
        self,
        broker_ids: Iterable[int],
        partition: TopicPartition,
        state: LeaderAndIsr,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> None:
        for broker_id in broker_ids:
            states = self._leader_and_isr.setdefault(broker_id, {})
            earlier = states.get(partition)
            states[partition] = LeaderAndIsrPartitionState(
                topic_name=partition[0],
                partition_index=partition[1],
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                partition_epoch=state.partition_epoch,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
                is_new=is_new or (earlier is not None and earlier.is_new),
                leader_recovery_state=state.leader_recovery_state,
            )
        self.add_update_metadata(self._context.brokers, (partition,))

    def add_stop_replica(self, broker_id: int, partition: TopicPartition, *, delete: bool) -> None:
        states = self._stop_replica.setdefault(broker_id, {})
        earlier = states.get(partition)
        states[partition] = StopReplicaPartitionState(
            partition_index=partition[1],
            leader_epoch=self._context.leader_epoch(partition),
            delete_partition=delete or (earlier is not None and earlier.delete_partition),
        )

    def add_update_metadata(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        self._metadata_brokers.update(broker_ids)
        context = self._context
        for partition in partitions:
            state = context.leadership.get(partition)
            if state is None:
                continue  # no leader was ever chosen: nothing to send
            deleted = context.is_queued_for_deletion(partition[0])
            replicas = context.replicas(partition)
            self._metadata_partitions[partition] = UpdateMetadataPartitionState(
                partition_index=partition[1],
                controller_epoch=state.controller_epoch,
                leader=LEADER_DURING_DELETE if deleted else state.leader,
                leader_epoch=0 if deleted else state.leader_epoch,
                isr=list(state.isr),
                zk_version=0 if deleted else state.partition_epoch,
                replicas=list(replicas),
                offline_replicas=[
                    r for r in replicas if not context.is_replica_online(r, partition)
                ],
            )

    # Building

    def take_requests(self) -> list[SendRequest]:
        requests = [
            *self._leader_and_isr_requests(),
            *self._update_metadata_requests(),
            *self._stop_replica_requests(),
        ]
        self.clear()
        return requests

    def _leader_and_isr_requests(self) -> Iterable[SendRequest]:
        for broker_id, states in sorted(self._leader_and_isr.items()):
            epoch = self._context.broker_epoch(broker_id)
            if epoch is None:
                continue
            topics: dict[str, LeaderAndIsrTopicState] = {}
            for partition, state in sorted(states.items()):
                if partition[0] not in topics:
                    topics[partition[0]] = LeaderAndIsrTopicState(
                        topic_name=partition[0],
                        topic_id=self._context.topic_id(partition[0]),
                        partition_states=[],
                    )
                topics[partition[0]].partition_states.append(state)
            request = LeaderAndIsrRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=epoch,
                topic_states=list(topics.values()),
                live_leaders=self._live_leaders({state.leader for state in states.values()}),
            )
            yield SendRequest(broker_id, request)

    def _live_leaders(self, leader_ids: set[int]) -> list[LeaderAndIsrLiveLeader]:
        leaders = []
        for leader_id in sorted(leader_ids):
            broker = self._context.brokers.get(leader_id)
            endpoint = None if broker is None else broker.endpoint(self._listener)
            if endpoint is not None:
                leaders.append(
                    LeaderAndIsrLiveLeader(
                        broker_id=leader_id, host_name=endpoint.host, port=endpoint.port
                    )
                )
        return leaders

    def _update_metadata_requests(self) -> Iterable[SendRequest]:
        if not self._metadata_brokers:
            return
        topics: dict[str, UpdateMetadataTopicState] = {}
        for partition, state in sorted(self._metadata_partitions.items()):
            if partition[0] not in topics:
                topics[partition[0]] = UpdateMetadataTopicState(
                    topic_name=partition[0],
                    topic_id=self._context.topic_id(partition[0]),
                    partition_states=[],
                )
            topics[partition[0]].partition_states.append(state)
        live_brokers = [
            UpdateMetadataBroker(
                id=broker.broker_id,
                endpoints=[
                    UpdateMetadataEndpoint(
                        port=endpoint.port,
                        host=endpoint.host,
                        listener=endpoint.listener,
                        security_protocol=SECURITY_PROTOCOL_IDS.get(endpoint.security_protocol, 0),
                    )
                    for endpoint in broker.endpoints
                ],
                rack=broker.rack,
            )
            for _, broker in sorted(self._context.brokers.items())
        ]
        for broker_id in sorted(self._metadata_brokers):
            epoch = self._context.broker_epoch(broker_id)
            if epoch is None:
                continue
            request = UpdateMetadataRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=epoch,
                topic_states=list(topics.values()),
                live_brokers=live_brokers,
            )
            yield SendRequest(broker_id, request)

    def _stop_replica_requests(self) -> Iterable[SendRequest]:
        for broker_id, states in sorted(self._stop_replica.items()):
            epoch = self._context.broker_epoch(broker_id)
            if epoch is None:
                continue
            topics: dict[str, StopReplicaTopicState] = {}
            for partition, state in sorted(states.items()):
                if partition[0] not in topics:
                    topics[partition[0]] = StopReplicaTopicState(
                        topic_name=partition[0], partition_states=[]
                    )
                topics[partition[0]].partition_states.append(state)
            request = StopReplicaRequest(
                controller_id=self._controller_id,
                controller_epoch=self._context.epoch,
                broker_epoch=epoch,
                topic_states=list(topics.values()),
            )
            yield SendRequest(broker_id, request)
