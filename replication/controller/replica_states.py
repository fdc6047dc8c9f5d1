"""The replica state machine.

Job: move replicas between states, take failed ones out of the ISR, and collect the requests.

| target              | what happens                                                            |
|---------------------|-------------------------------------------------------------------------|
| New                 | LeaderAndIsr to it (is_new) if the partition has a leader                |
| Online              | from New: nothing more; else LeaderAndIsr with the current state to it   |
| Offline             | StopReplica(delete=false) to it; out of the ISR (kept if it is the only  |
|                     | member; leader -1 if it led), LeaderAndIsr to the other replicas         |
| DeletionStarted     | StopReplica(delete=true) to it                                           |
| DeletionSuccessful, | state only                                                               |
| DeletionIneligible  |                                                                         |
| NonExistent         | dropped from the assignment in memory                                    |

Invariants: VALID_PREVIOUS_STATES is the only list of legal transitions; an illegal one is logged
and counted and changes nothing.

Mirrors kafka.controller.ZkReplicaStateMachine.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...protocol.topics import TopicPartition
from ...protocol.zookeeper.operations import Flow
from .config import ControllerConfig
from .context import NO_LEADER, ControllerContext, Replica, ReplicaStateName
from .effects import Effect
from .leadership import read_states, write_states
from .request_batch import RequestBatch
from .znodes import LeaderAndIsr

logger = logging.getLogger("pybroker.replication.controller.replica_states")

NON_EXISTENT = ReplicaStateName.NON_EXISTENT
NEW = ReplicaStateName.NEW
ONLINE = ReplicaStateName.ONLINE
OFFLINE = ReplicaStateName.OFFLINE
DELETION_STARTED = ReplicaStateName.DELETION_STARTED
DELETION_SUCCESSFUL = ReplicaStateName.DELETION_SUCCESSFUL
DELETION_INELIGIBLE = ReplicaStateName.DELETION_INELIGIBLE

VALID_PREVIOUS_STATES: Mapping[ReplicaStateName, frozenset[ReplicaStateName]] = {
    NEW: frozenset({NON_EXISTENT}),
    ONLINE: frozenset({NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE}),
    OFFLINE: frozenset({NEW, ONLINE, OFFLINE, DELETION_INELIGIBLE}),
    DELETION_STARTED: frozenset({OFFLINE}),
    DELETION_SUCCESSFUL: frozenset({DELETION_STARTED}),
    DELETION_INELIGIBLE: frozenset({OFFLINE, DELETION_STARTED}),
    NON_EXISTENT: frozenset({DELETION_SUCCESSFUL}),
}


class ReplicaStateMachine:
    __slots__ = ("_batch", "_context", "_effects", "illegal_transitions")

    def __init__(
        self,
        config: ControllerConfig,
        context: ControllerContext,
        batch: RequestBatch,
        effects: list[Effect],
    ) -> None:
        self._context = context
        self._batch = batch
        self._effects = effects
        self.illegal_transitions = 0

    def startup(self) -> Flow[None]:
        """Set the states of all known replicas at the start of a controller; notify the online
        ones.

        Each broker learns of all its replicas at once: before that, it does not checkpoint HWs.
        Replicas on dead brokers begin as ineligible, so that the deletion of their topic waits.
        """
        context = self._context
        online = []
        for replica in context.replicas_of(context.all_partitions()):
            if context.is_replica_online(replica.broker_id, replica.topic_partition):
                context.replica_states[replica] = ONLINE
                online.append(replica)
            else:
                context.replica_states[replica] = DELETION_INELIGIBLE
        yield from self.change(online, ONLINE)

    def take_absent_offline(self) -> Flow[None]:
        """The end of `startup`: absent replicas leave their ISRs."""
        states = self._context.replica_states
        absent = [replica for replica, state in states.items() if state is DELETION_INELIGIBLE]
        yield from self.change(absent, OFFLINE)

    def change(self, replicas: Sequence[Replica], target: ReplicaStateName) -> Flow[None]:
        if not replicas:
            return
        valid = [replica for replica in replicas if self._is_legal(replica, target)]
        if target is OFFLINE:
            yield from self._take_offline(valid)
        else:
            for replica in valid:
                self._enter(replica, target)
        self._effects.extend(self._batch.take_requests())

    def _is_legal(self, replica: Replica, target: ReplicaStateName) -> bool:
        current = self._context.replica_state(replica)
        if current in VALID_PREVIOUS_STATES[target]:
            return True
        self.illegal_transitions += 1
        logger.error(
            "replica %d of %s-%d cannot go from %s to %s",
            replica.broker_id,
            replica.topic,
            replica.partition,
            current.value,
            target.value,
        )
        return False

    def _enter(self, replica: Replica, target: ReplicaStateName) -> None:
        context = self._context
        partition = replica.topic_partition
        current = context.replica_state(replica)
        if target is NEW and not self._announce_new(replica):
            return
        if target is ONLINE and current is not NEW:
            state = context.leadership.get(partition)
            if state is not None:
                self._batch.add_leader_and_isr(
                    (replica.broker_id,),
                    partition,
                    state,
                    context.assignment(partition),
                    is_new=False,
                )
        if target is DELETION_STARTED:
            self._batch.add_stop_replica(replica.broker_id, partition, delete=True)
        if target is NON_EXISTENT:
            remaining = context.assignment(partition).without(replica.broker_id)
            context.put_assignment(partition, remaining)
            del context.replica_states[replica]
        else:
            context.replica_states[replica] = target

    def _announce_new(self, replica: Replica) -> bool:
        """Notify a replica that is added to a partition that already has a leader."""
        partition = replica.topic_partition
        state = self._context.leadership.get(partition)
        if state is None:
            return True
        if state.leader == replica.broker_id:
            logger.error("replica %d of %s-%d is new but leads", replica.broker_id, *partition)
            return False
        assignment = self._context.assignment(partition)
        self._batch.add_leader_and_isr(
            (replica.broker_id,), partition, state, assignment, is_new=True
        )
        return True

    # Offline

    def _take_offline(self, replicas: Sequence[Replica]) -> Flow[None]:
        context = self._context
        by_broker: dict[int, list[TopicPartition]] = {}
        for replica in replicas:
            self._batch.add_stop_replica(replica.broker_id, replica.topic_partition, delete=False)
            by_broker.setdefault(replica.broker_id, []).append(replica.topic_partition)
        for broker_id, partitions in sorted(by_broker.items()):
            led = [p for p in partitions if p in context.leadership]
            states = yield from self._remove_from_isr(broker_id, led)
            for partition, state in states.items():
                if not context.is_doomed(partition):
                    others = [r for r in context.replicas(partition) if r != broker_id]
                    self._batch.add_leader_and_isr(
                        others, partition, state, context.assignment(partition), is_new=False
                    )
                context.replica_states[Replica(*partition, broker_id)] = OFFLINE
            for partition in partitions:
                if partition not in context.leadership:
                    self._batch.add_update_metadata(context.brokers, (partition,))
                    context.replica_states[Replica(*partition, broker_id)] = OFFLINE

    def _remove_from_isr(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> Flow[dict[TopicPartition, LeaderAndIsr]]:
        """The resulting state of each partition, changed or not; failed ones are left out."""
        results: dict[TopicPartition, LeaderAndIsr] = {}
        remaining = list(partitions)
        while remaining:  # again for those whose ISR changed meanwhile
            read = yield from read_states(self._context, remaining)
            for partition, failure in read.failed.items():
                logger.error("replica %d of %s-%d: %s", broker_id, *partition, failure.reason)
            updates = {}
            for partition, state in read.states.items():
                if broker_id in state.isr:
                    replicas = self._context.replicas(partition)
                    updates[partition] = _without(state, broker_id, replicas)
                else:
                    results[partition] = state
                    self._context.leadership[partition] = state
            written = yield from write_states(self._context, updates)
            for partition, failure in written.failed.items():
                logger.error("replica %d of %s-%d: %s", broker_id, *partition, failure.reason)
            self._context.leadership.update(written.written)
            results.update(written.written)
            remaining = written.retry
        return results


def _without(state: LeaderAndIsr, broker_id: int, replicas: Sequence[int]) -> LeaderAndIsr:
    """The last ISR member of the replicas stays: the ISR locates the data, even while no replica
    serves it. A member that is no replica does not count: the controller died between the write of
    an assignment and that of the ISR (Kafka keeps such a member, and the partition stays offline).
    """
    isr = tuple(r for r in state.isr if r != broker_id)
    if broker_id in replicas and not any(r in replicas for r in isr):
        isr = (broker_id,)
    return replace(
        state,
        leader=NO_LEADER if state.leader == broker_id else state.leader,
        leader_epoch=state.leader_epoch + 1,
        isr=isr or state.isr,
    )
