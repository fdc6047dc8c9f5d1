"""Partition reassignment (KIP-455): replicas are added and removed while the partition serves.

Job: start, continue, finish, cancel and list reassignments. The topic's znode records a running
reassignment as adding and removing replicas, so that any controller can continue it.

For origin O and target T, with RS = T followed by the rest of O:

| step                                                  | replicas | adding | removing |
|-------------------------------------------------------|----------|--------|----------|
| U  write RS, adding and removing                       | RS       | T - O  | O - T    |
| A  T not yet in the ISR: raise the leader epoch, tell  | RS       | T - O  | O - T    |
|    all of RS; adding replicas are New and catch up     |          |        |          |
| B  T in the ISR: adding replicas Online, a leader of T,| T        |        |          |
|    removing replicas out of the ISR, stopped and       |          |        |          |
|    deleted, T written last                             |          |        |          |

The leader epoch at the end is Kafka's: A raises it, the election or the leader's
new epoch of B raises it, and each removed replica that leaves the ISR does. Here B is one write.

A new target replaces a running one, whose adding replicas go if the new one does not want them; a
cancellation is a new target that is the origin.

Invariants:
- T is written to the topic's znode only after the removed replicas are out of the ISR, and
  replicas that a new target drops leave the ISR before U, so that a controller that dies at any
  point leaves no stranger in an ISR. (Kafka drops them after `U`.)
- No reassignment drops the last live copy: where the ISR would hold none of the new replicas, the
  new target is refused (Kafka's ZooKeeper controller would delete the data).
- A broker that was away when its replica was removed is ordered to delete it when it returns, as
  long as the controller stays the same.
- The write of a topic's znode keeps partitions that another broker has added meanwhile.

Mirrors KafkaController.onPartitionReassignment, processApiPartitionReassignment,
processZkPartitionReassignment. Leaves out the watch on partition states that brokers with an
inter.broker.protocol.version below 2.7 need: their ISR notifications do the same.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.scala_texts import buffer_text, set_text
from ...protocol.topics import TopicPartition
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Delete,
    Exists,
    Flow,
    GetData,
    SetData,
    ZkError,
    expect,
    run_one,
)
from . import partition_states, replica_states, znodes
from .context import Replica
from .elections import elect_for_reassignment, elect_offline
from .leadership import fenced_writes, read_states, write_states
from .parts import ControllerParts
from .znodes import LeaderAndIsr, ReplicaAssignment, TopicAssignment

logger = logging.getLogger("pybroker.replication.controller.reassignment")

Targets = Mapping[TopicPartition, tuple[int, ...] | None]


class Reassignments:
    __slots__ = ("_parts",)

    def __init__(self, parts: ControllerParts) -> None:
        self._parts = parts

    # Asked by administrators

    def alter(
        self, targets: Targets, *, allows_other_factor: bool = True
    ) -> Flow[dict[TopicPartition, KafkaError | None]]:
        """AlterPartitionReassignments: a target of None cancels. The outcome of each partition."""
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        wanted: dict[TopicPartition, ReplicaAssignment] = {}
        for partition, target in targets.items():
            try:
                wanted[partition] = self._wanted(partition, target, check_alive=True)
                if target is not None and not allows_other_factor:
                    self._check_factor(partition, target)
            except KafkaError as error:
                wanted.pop(partition, None)
                outcomes[partition] = error
        # The latest request counts: the legacy znode's entries for these partitions are obsolete.
        yield from self._forget_requests(lambda partition, _: partition in wanted)
        outcomes.update((yield from self._start_all(wanted)))
        return outcomes

    def list(
        self, partitions: Iterable[TopicPartition] | None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        """The reassignments under way, of these partitions or of all."""
        context = self._parts.context
        asked = context.partitions_being_reassigned if partitions is None else partitions
        found = {partition: context.assignment(partition) for partition in asked}
        return {p: a for p, a in sorted(found.items()) if a.is_being_reassigned}

    def _wanted(
        self, partition: TopicPartition, target: tuple[int, ...] | None, *, check_alive: bool
    ) -> ReplicaAssignment:
        """The assignment on the way to `target`; KafkaError if there is no such way."""
        current = self._parts.context.assignment(partition)
        if target is None:
            if not current.is_being_reassigned:
                text = "No partition reassignment is in progress."
                raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, text)
            return current.reassign_to(current.origin_replicas)
        problem = None
        wanted = current.reassign_to(target)
        live = [b for b in self._parts.context.brokers if self._parts.context.is_live(b)]
        if not target:
            problem = "Empty replica list specified in partition reassignment."
        elif len(set(target)) != len(target):
            problem = (
                "Duplicate replica ids in partition reassignment replica list: "
                f"{buffer_text(target)}"
            )
        elif min(target) < 0:
            problem = f"Invalid broker id in replica list: {buffer_text(target)}"
        elif check_alive and not set(wanted.adding) <= set(live):
            problem = (
                "Replica assignment has brokers that are not alive. Replica list: "
                f"{buffer_text(wanted.adding)}, live broker list: {set_text(sorted(live))}"
            )
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)
        return wanted

    def _check_factor(self, partition: TopicPartition, target: tuple[int, ...]) -> None:
        """KafkaError if the target has another number of replicas than the partition now has, or
        than the reassignment under way leads to (KIP-860)."""
        before = len(self._parts.context.assignment(partition).target_replicas)
        if before not in (0, len(target)):
            text = f"The replication factor is changed from {before} to {len(target)}"
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, text)

    def _start_all(
        self, wanted: Mapping[TopicPartition, ReplicaAssignment]
    ) -> Flow[dict[TopicPartition, KafkaError | None]]:
        context = self._parts.context
        outcomes: dict[TopicPartition, KafkaError | None] = {}
        for partition, assignment in wanted.items():
            try:
                queued = context.is_queued_for_deletion(partition[0])
                if queued or not context.replicas(partition):
                    raise KafkaError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist."
                    )
                yield from self._go_on(partition, assignment)
            except KafkaError as error:
                outcomes[partition] = error
            except (ZkError, znodes.MalformedZnode):
                logger.exception("the reassignment of %s-%d failed", *partition)
                outcomes[partition] = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            else:
                outcomes[partition] = None
        return outcomes

    # The legacy znode

    def process_requests(self) -> Flow[set[TopicPartition]]:
        """/admin/reassign_partitions may have been written; the partitions that it has started."""
        stored = yield from self._read_requests()
        wanted: dict[TopicPartition, ReplicaAssignment] = {}
        failed: dict[TopicPartition, KafkaError] = {}
        for partition, target in stored.items():
            try:
                wanted[partition] = self._wanted(partition, target, check_alive=False)
            except KafkaError as error:
                failed[partition] = error
        outcomes = yield from self._start_all(wanted)
        failed.update({p: error for p, error in outcomes.items() if error is not None})
        for partition, failure in failed.items():
            logger.warning("cannot reassign %s-%d: %s", *partition, failure.message)
        if failed:
            yield from self._forget_requests(lambda partition, _: partition in failed)
        return outcomes.keys() - failed.keys()

    def _read_requests(self) -> Flow[dict[TopicPartition, tuple[int, ...]]]:
        path = znodes.REASSIGN_PARTITIONS
        _, stored = yield [Exists(path, watch=True), GetData(path)]
        if not expect(stored, path, ZkCode.NO_NODE).ok:
            return {}
        try:
            found = znodes.decode_reassignment(stored.data)
        except znodes.MalformedZnode as error:
            logger.error("ignoring and removing %s", error)
            yield from self._write_requests({})
            return {}
        return found

    def _forget_requests(
        self, is_over: Callable[[TopicPartition, tuple[int, ...]], bool]
    ) -> Flow[None]:
        stored = yield from self._read_requests()
        remaining = {p: replicas for p, replicas in stored.items() if not is_over(p, replicas)}
        if len(remaining) < len(stored):
            yield from self._write_requests(remaining)

    def _write_requests(self, requests: Mapping[TopicPartition, tuple[int, ...]]) -> Flow[None]:
        path = znodes.REASSIGN_PARTITIONS
        write: SetData | Delete = Delete(path)
        if requests:
            targets = dict(requests)
            write = SetData(path, znodes.encode_reassignment(targets))
        (result,) = yield from fenced_writes(self._parts.context, [write])
        expect(result, path, ZkCode.NO_NODE)
        yield [Exists(path, watch=True)]

    # Files of removed replicas

    def delete_left_behind(self, broker_ids: Iterable[int]) -> None:
        """These brokers were away when their replicas were removed (Kafka leaves the files)."""
        context, batch = self._parts.context, self._parts.batch
        for broker_id in broker_ids:
            for partition in sorted(context.left_behind.get(broker_id, ())):
                if broker_id not in context.replicas(partition):
                    batch.add_stop_replica(broker_id, partition, delete=True)
        self._parts.send_batch()

    def confirm_deletion(self, broker_id: int, partitions: Iterable[TopicPartition]) -> None:
        left_behind = self._parts.context.left_behind
        remaining = left_behind.get(broker_id, set()) - set(partitions)
        if remaining:
            left_behind[broker_id] = remaining
        else:
            left_behind.pop(broker_id, None)

    # Continuing

    def resume(self, is_concerned: Callable[[TopicPartition], bool]) -> Flow[None]:
        """After a failover, or when brokers are up that a reassignment has waited for."""
        context = self._parts.context
        for partition in sorted(filter(is_concerned, context.partitions_being_reassigned)):
            yield from self._go_on(partition, context.assignment(partition))

    def complete(self) -> Flow[None]:
        """Finish the reassignments whose targets are in the ISR now."""
        context = self._parts.context
        for partition in sorted(context.partitions_being_reassigned):
            assignment = context.assignment(partition)
            if self._is_complete(assignment, context.leadership.get(partition)):
                yield from self._go_on(partition, assignment)

    def _is_complete(self, assignment: ReplicaAssignment, state: LeaderAndIsr | None) -> bool:
        if not assignment.is_being_reassigned:
            return True
        target = assignment.target_replicas
        alive = any(map(self._parts.context.is_live, target))
        return state is not None and alive and set(target) <= set(state.isr)

    def _go_on(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Flow[None]:
        parts, context = self._parts, self._parts.context
        parts.deletion.halt((partition[0],), "a reassignment is in progress")
        if context.assignment(partition) != assignment:
            yield from self._update(partition, assignment)
        context.partitions_being_reassigned.add(partition)
        if partition not in context.leadership:
            yield from self._lead_first(partition, assignment)
        read = yield from read_states(context, [partition])
        context.leadership.update(read.states)
        if self._is_complete(assignment, read.states.get(partition)):
            yield from self._finish(partition, assignment)
        else:
            yield from self._raise_epoch(partition, assignment)
            yield from self._announce(partition, assignment.adding)

    def _update(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Flow[None]:
        """Phase U: from now on the cluster knows where this is going."""
        parts, context = self._parts, self._parts.context
        current = context.assignment(partition)
        logger.info("reassigning %s-%d from %s to %s", *partition, current, assignment)
        unneeded = [r for r in current.replicas if r not in assignment.replicas]
        dropped = [Replica(*partition, broker_id) for broker_id in unneeded]
        if dropped:
            yield from self._check_data_stays(partition, assignment)
            yield from parts.replicas.change(dropped, replica_states.OFFLINE)
        yield from self._write_assignment(partition, assignment)
        context.put_assignment(partition, assignment)
        yield from self._delete_offline(dropped)
        state = context.leadership.get(partition)
        if dropped and state is not None and state.leader not in assignment.replicas:
            yield from self._announce(partition, assignment.adding)
            yield from parts.partitions.change([partition], partition_states.ONLINE, elect_offline)

    def _check_data_stays(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> Flow[None]:
        read = yield from read_states(self._parts.context, [partition])
        state = read.states.get(partition)
        if state is not None and not set(state.isr) & set(assignment.replicas):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"None of the replicas {[*assignment.replicas]} is in sync, and those that are "
                "would be deleted.",
            )

    def _lead_first(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Flow[None]:
        """None of the origin was ever alive: the partition gets its first leader now."""
        yield from self._announce(partition, assignment.adding)
        yield from self._parts.partitions.change([partition], partition_states.ONLINE)

    def _announce(self, partition: TopicPartition, adding: Sequence[int]) -> Flow[None]:
        replicas = [Replica(*partition, broker_id) for broker_id in adding]
        state = self._parts.context.replica_state
        unborn = [r for r in replicas if state(r) is replica_states.NON_EXISTENT]
        yield from self._parts.replicas.change(unborn, replica_states.NEW)

    def _finish(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Flow[None]:
        """Phase B: the target alone serves the partition."""
        parts, context = self._parts, self._parts.context
        added = [Replica(*partition, broker_id) for broker_id in assignment.adding]
        removed = [Replica(*partition, broker_id) for broker_id in assignment.removing]
        yield from parts.replicas.change(added, replica_states.ONLINE)
        done = ReplicaAssignment(assignment.target_replicas)
        context.put_assignment(partition, done)
        try:
            led = yield from self._lead_by_target(partition, done)
            if removed and not led:
                context.put_assignment(partition, assignment)
                return  # the ISR has just shrunk, and the data is where it would be deleted
            yield from parts.replicas.change(removed, replica_states.OFFLINE)
            yield from self._delete_offline(removed)
            if done != assignment:
                yield from self._write_assignment(partition, done)
        except BaseException:
            context.put_assignment(partition, assignment)
            raise
        yield from self._forget_requests(
            lambda asked, replicas: asked == partition and replicas == done.replicas
        )
        context.partitions_being_reassigned.discard(partition)
        logger.info("%s-%d is on %s now", *partition, done.replicas)
        parts.send_update_metadata(context.brokers, [partition])
        yield from parts.deletion.resume_for((partition[0],))

    def _lead_by_target(self, partition: TopicPartition, done: ReplicaAssignment) -> Flow[bool]:
        """True if a target replica leads now, under a new epoch."""
        context = self._parts.context
        state = context.leadership.get(partition)
        if state is None:
            return False
        leader_stays = state.leader in done.replicas
        if leader_stays and context.is_replica_online(state.leader, partition):
            return (yield from self._raise_epoch(partition, done))
        outcomes = yield from self._parts.partitions.change(
            [partition], partition_states.ONLINE, elect_for_reassignment
        )
        return isinstance(outcomes.get(partition), LeaderAndIsr)

    def _raise_epoch(self, partition: TopicPartition, assignment: ReplicaAssignment) -> Flow[bool]:
        """The same leader and ISR under a new epoch, so that brokers take the new replicas."""
        parts, context = self._parts, self._parts.context
        while True:
            read = yield from read_states(context, [partition])
            state = read.states.get(partition)
            if state is None:
                logger.error("%s-%d has no leader that could apply its reassignment", *partition)
                return False
            # A leader that writes states itself may just have added one that is not wanted.
            isr = tuple(r for r in state.isr if r in assignment.replicas) or state.isr
            # Kafka takes those that leave out afterwards, each under an epoch of its own.
            epoch = state.leader_epoch + 1 + len(state.isr) - len(isr)
            raised = replace(state, leader_epoch=epoch, isr=isr)
            written = yield from write_states(context, {partition: raised})
            if not written.retry:
                break
        for state in written.written.values():
            context.leadership[partition] = state
            batch = parts.batch
            origin = assignment.origin_replicas
            batch.add_leader_and_isr(origin, partition, state, assignment, is_new=False)
            # New replicas may use any working disk, also on a broker that lost one.
            batch.add_leader_and_isr(assignment.adding, partition, state, assignment, is_new=True)
        parts.send_batch()
        return bool(written.written)

    def _delete_offline(self, replicas: Sequence[Replica]) -> Flow[None]:
        """Delete without waiting for the answers; a broker that misses it is ordered on its
        return."""
        machine, left_behind = self._parts.replicas, self._parts.context.left_behind
        for replica in replicas:
            left_behind.setdefault(replica.broker_id, set()).add(replica.topic_partition)
        yield from machine.change(replicas, replica_states.DELETION_STARTED)
        yield from machine.change(replicas, replica_states.DELETION_SUCCESSFUL)
        yield from machine.change(replicas, replica_states.NON_EXISTENT)

    def _write_assignment(
        self, partition: TopicPartition, assignment: ReplicaAssignment
    ) -> Flow[None]:
        context, path = self._parts.context, znodes.topic_path(partition[0])
        while True:
            stored = yield from run_one(GetData(path))
            expect(stored, path)
            before = znodes.decode_topic(partition[0], stored.data)
            partitions = {**before.partitions, **context.assignments[partition[0]]}
            partitions[partition[1]] = assignment
            topic_id = context.topic_ids.get(partition[0], before.topic_id)
            data = znodes.encode_topic(TopicAssignment(topic_id, partitions))
            write = SetData(path, data, stored.version)
            (written,) = yield from fenced_writes(context, [write])
            if expect(written, path, ZkCode.BAD_VERSION).ok:
                return
