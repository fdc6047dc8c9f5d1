"""Brokers' requests to the controller: AlterPartition, AllocateProducerIds, leader elections.

Checks of AlterPartition, in this order: broker epoch; topic id (v2+); partition known; epochs not
above ours (NOT_CONTROLLER: we are behind); leader epoch not below ours (FENCED_LEADER_EPOCH); no
change asked (success); partition epoch not below ours (INVALID_UPDATE_VERSION); recovery state
(INVALID_REQUEST); new ISR all live (INELIGIBLE_REPLICA); ISR made of replicas and holding the
leader (INVALID_REQUEST, as KRaft answers; Kafka's ZooKeeper controller does not look). The broker
epochs that v3 names for the ISR (KIP-903) are for a KRaft controller: like Kafka's ZooKeeper
controller, this one ignores them.

Mirrors KafkaController.tryProcessAlterPartition, processAllocateProducerIds,
processReplicaLeaderElection and checkAndTriggerAutoLeaderRebalance (KIP-497, KIP-730, KIP-460).
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...protocol.apis.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ...protocol.apis.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import Create, Flow, GetData, SetData, expect, run_one
from . import partition_states, znodes
from .context import NO_LEADER
from .elections import elect_offline, elect_preferred
from .leadership import refresh_leadership, write_states
from .parts import ControllerParts
from .znodes import RECOVERED, RECOVERING, LeaderAndIsr

logger = logging.getLogger("pybroker.replication.controller.requests")

MAX_PRODUCER_ID = (1 << 63) - 1
TOPIC_IDS_SINCE_VERSION = 2
BROKER_STATES_SINCE_VERSION = 3


@dataclass(frozen=True, slots=True)
class ElectionResult:
    """`leader` is the new leader if there is no error; `message` is for administrators, if there is
    more detail than the error."""

    error: ErrorCode = ErrorCode.NONE
    leader: int = NO_LEADER
    message: str | None = field(default=None, compare=False)


_UNKNOWN = ElectionResult(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message="The partition does not exist."
)
_NOT_NEEDED = ElectionResult(
    ErrorCode.ELECTION_NOT_NEEDED, message="Leader election not needed for topic partition."
)
_BEING_DELETED = ElectionResult(
    ErrorCode.INVALID_TOPIC_EXCEPTION, message="The topic is being deleted"
)


def _failed_election(partition: TopicPartition, *, unclean: bool) -> ElectionResult:
    error = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    strategy = "PreferredReplicaPartitionLeaderElectionStrategy"
    if unclean:
        error = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        strategy = "OfflinePartitionLeaderElectionStrategy(true)"
    name = f"{partition[0]}-{partition[1]}"
    text = f"Failed to elect leader for partition {name} under strategy {strategy}"
    return ElectionResult(error, message=text)


def allocate_producer_ids(broker_id: int) -> Flow[int]:
    """Reserve the next block of producer ids for a broker; its first id."""
    path = znodes.PRODUCER_ID_BLOCK
    while True:
        current = yield from run_one(GetData(path))
        if expect(current, path, ZkCode.NO_NODE).code is ZkCode.NO_NODE:
            yield [Create(path)]
            continue
        first = znodes.decode_producer_id_block_end(current.data) + 1 if current.data else 0
        if first > MAX_PRODUCER_ID - znodes.PRODUCER_ID_BLOCK_SIZE:
            raise znodes.MalformedZnode(f"{path} has no producer ids left")
        block = znodes.encode_producer_id_block(broker_id, first)
        written = yield from run_one(SetData(path, block, current.version))
        if expect(written, path, ZkCode.BAD_VERSION, ZkCode.NO_NODE).ok:
            return first


class ControllerRequests:
    __slots__ = ("_parts",)

    def __init__(self, parts: ControllerParts) -> None:
        self._parts = parts

    # AllocateProducerIds

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> Flow[AllocateProducerIdsResponse]:
        epoch = self._parts.context.broker_epoch(request.broker_id)
        if epoch is None:
            return AllocateProducerIdsResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
        if epoch != request.broker_epoch:
            return AllocateProducerIdsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        first = yield from allocate_producer_ids(request.broker_id)
        return AllocateProducerIdsResponse(
            producer_id_start=first, producer_id_len=znodes.PRODUCER_ID_BLOCK_SIZE
        )

    # AlterPartition

    def alter_partition(
        self, request: AlterPartitionRequest, api_version: int
    ) -> Flow[AlterPartitionResponse]:
        context = self._parts.context
        if context.broker_epoch(request.broker_id) != request.broker_epoch:
            logger.info("AlterPartition of broker %d has a stale epoch", request.broker_id)
            return AlterPartitionResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        by_id = api_version >= TOPIC_IDS_SINCE_VERSION
        outcomes: dict[TopicPartition, LeaderAndIsr | ErrorCode] = {}
        updates: dict[TopicPartition, LeaderAndIsr] = {}
        unknown: list[AlterPartitionResponseTopicData] = []
        for topic in request.topics:
            name = context.topic_name(bytes(topic.topic_id)) if by_id else topic.topic_name
            if name is None:
                unknown.append(_unknown_topic(bytes(topic.topic_id), topic.partitions))
                continue
            for asked in topic.partitions:
                partition = (name, asked.partition_index)
                new = _asked_state(request.broker_id, asked, api_version, context.epoch)
                error = self._check(partition, new, api_version)
                if error is not None:
                    outcomes[partition] = error
                elif _is_same(new, context.leadership[partition]):
                    outcomes[partition] = context.leadership[partition]
                else:
                    updates[partition] = new
        written = yield from write_states(context, updates)
        context.leadership.update(written.written)
        outcomes.update(written.written)
        outcomes.update(dict.fromkeys(written.failed, ErrorCode.UNKNOWN_SERVER_ERROR))
        if written.retry:
            yield from refresh_leadership(context, written.retry)
        for partition in written.retry:
            # Our own write, whose answer was lost with the connection, fails when it is repeated.
            # (Kafka refuses the change then, and the leader waits for its next LeaderAndIsr.)
            stored = context.leadership[partition]
            is_written = _is_same(updates[partition], stored)
            outcomes[partition] = stored if is_written else ErrorCode.INVALID_UPDATE_VERSION
        if updates:
            self._parts.send_update_metadata(context.brokers, list(updates))
        return AlterPartitionResponse(topics=[*unknown, *self._topics(outcomes, by_id=by_id)])

    def _check(
        self, partition: TopicPartition, new: LeaderAndIsr, api_version: int
    ) -> ErrorCode | None:
        context = self._parts.context
        current = context.leadership.get(partition)
        if current is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if new.partition_epoch > current.partition_epoch or new.leader_epoch > current.leader_epoch:
            return ErrorCode.NOT_CONTROLLER
        if new.leader_epoch < current.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if _is_same(new, current):
            return None
        if new.partition_epoch < current.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        recovering = new.leader_recovery_state == RECOVERING
        if recovering and (len(new.isr) > 1 or current.leader_recovery_state == RECOVERED):
            return ErrorCode.INVALID_REQUEST
        if not all(context.is_live(broker_id) for broker_id in new.isr):
            if api_version >= TOPIC_IDS_SINCE_VERSION:
                return ErrorCode.INELIGIBLE_REPLICA
            return ErrorCode.OPERATION_NOT_ATTEMPTED
        replicas = context.replicas(partition)
        if (
            new.leader != current.leader
            or new.leader not in new.isr
            or set(new.isr) - set(replicas)
        ):
            return ErrorCode.INVALID_REQUEST
        return None

    def _topics(
        self, outcomes: Mapping[TopicPartition, LeaderAndIsr | ErrorCode], *, by_id: bool
    ) -> Iterable[AlterPartitionResponseTopicData]:
        topics: dict[str, AlterPartitionResponseTopicData] = {}
        for partition, outcome in outcomes.items():
            topic = topics.get(partition[0])
            if topic is None:
                topic = AlterPartitionResponseTopicData(partitions=[])
                if by_id:
                    topic.topic_id = self._parts.context.topic_id(partition[0])
                else:
                    topic.topic_name = partition[0]
                topics[partition[0]] = topic
            topic.partitions.append(_partition_answer(partition[1], outcome))
        return topics.values()

    # Elections

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, unclean: bool
    ) -> Flow[dict[TopicPartition, ElectionResult]]:
        """Preferred or unclean election, as an administrator asks for it."""
        context = self._parts.context
        results: dict[TopicPartition, ElectionResult] = {}
        electable = []
        for partition in list(context.all_partitions()) if partitions is None else partitions:
            state = context.leadership.get(partition)
            if partition[1] not in context.assignments.get(partition[0], ()):
                results[partition] = _UNKNOWN
            elif context.is_queued_for_deletion(partition[0]):
                results[partition] = _BEING_DELETED
            elif state is not None and not self._is_needed(partition, state, unclean):
                results[partition] = _NOT_NEEDED
            else:
                electable.append(partition)
        outcomes = yield from self._parts.partitions.change(
            electable,
            partition_states.ONLINE,
            elect_offline if unclean else elect_preferred,
            unclean=unclean,
        )
        for partition in electable:
            # A partition that was new has got its first leader, which is no election's outcome.
            first = None if partition in outcomes else context.leadership.get(partition)
            outcome = outcomes.get(partition, first)
            if isinstance(outcome, LeaderAndIsr):
                results[partition] = ElectionResult(leader=outcome.leader)
            else:
                results[partition] = _failed_election(partition, unclean=unclean)
        return results

    def _is_needed(self, partition: TopicPartition, state: LeaderAndIsr, unclean: bool) -> bool:
        if unclean:
            return not self._parts.context.is_live(state.leader)
        return self._parts.context.replicas(partition)[:1] != (state.leader,)

    def rebalance_leaders(self) -> Flow[None]:
        """Give leadership back to preferred replicas where a broker is short of too much of it."""
        parts, context = self._parts, self._parts.context
        by_preferred: dict[int, list[TopicPartition]] = {}
        for partition in context.all_partitions():
            replicas = context.replicas(partition)
            if replicas and not context.is_queued_for_deletion(partition[0]):
                by_preferred.setdefault(replicas[0], []).append(partition)
        for broker_id, partitions in sorted(by_preferred.items()):
            elsewhere = [
                p
                for p in partitions
                if p in context.leadership and context.leadership[p].leader != broker_id
            ]
            limit = parts.config.leader_imbalance_per_broker_percentage / 100
            if len(elsewhere) / len(partitions) <= limit:
                continue
            electable = [
                p
                for p in elsewhere
                if p not in context.partitions_being_reassigned
                and context.is_replica_online(broker_id, p)
                and broker_id in context.leadership[p].isr
            ]
            yield from parts.partitions.change(electable, partition_states.ONLINE, elect_preferred)


def _asked_state(
    broker_id: int,
    asked: AlterPartitionRequestPartitionData,
    api_version: int,
    controller_epoch: int,
) -> LeaderAndIsr:
    if api_version >= BROKER_STATES_SINCE_VERSION:
        isr = tuple(state.broker_id for state in asked.new_isr_with_epochs)
    else:
        isr = tuple(asked.new_isr)
    return LeaderAndIsr(
        leader=broker_id,
        leader_epoch=asked.leader_epoch,
        isr=isr,
        partition_epoch=asked.partition_epoch,
        controller_epoch=controller_epoch,
        leader_recovery_state=asked.leader_recovery_state,
    )


def _is_same(new: LeaderAndIsr, current: LeaderAndIsr) -> bool:
    """Whether the state is already as requested; a repeated request may name an older partition
    epoch."""
    return (
        new.leader == current.leader
        and new.leader_epoch == current.leader_epoch
        and new.isr == current.isr
        and new.leader_recovery_state == current.leader_recovery_state
        and new.partition_epoch <= current.partition_epoch
    )


def _unknown_topic(
    topic_id: bytes, partitions: Iterable[AlterPartitionRequestPartitionData]
) -> AlterPartitionResponseTopicData:
    return AlterPartitionResponseTopicData(
        topic_id=topic_id,
        partitions=[
            AlterPartitionResponsePartitionData(
                partition_index=asked.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
            for asked in partitions
        ],
    )


def _partition_answer(
    index: int, outcome: LeaderAndIsr | ErrorCode
) -> AlterPartitionResponsePartitionData:
    if isinstance(outcome, ErrorCode):
        return AlterPartitionResponsePartitionData(partition_index=index, error_code=outcome)
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        leader_recovery_state=outcome.leader_recovery_state,
        partition_epoch=outcome.partition_epoch,
    )
