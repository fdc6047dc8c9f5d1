"""Topic deletion: queued, halted while a replica cannot be reached, and finished when all are gone.

Job: all brokers are notified that a topic in /admin/delete_topics is gone (leader -2), its replicas
go Offline, then the brokers are ordered to delete their logs; when all have answered, the topic's
znodes are removed.
- Halted (ineligible): a replica is on a dead broker or failed to delete, or the topic is being
  reassigned. Resumed when the broker comes back or the reassignment ends.
- A topic being deleted gets no leaders and no ISR changes any more, but for partitions whose
  reassignment it waits for.

Invariants: znodes are removed only when all replicas are DeletionSuccessful; the node in
/admin/delete_topics goes last, so that a new controller finds the unfinished deletions.

Mirrors kafka.controller.TopicDeletionManager.
"""

import logging
from collections.abc import Collection, Iterable, Sequence

from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import Delete, Flow, GetChildren, expect
from . import partition_states, replica_states, znodes
from .config import ControllerConfig
from .context import ControllerContext, Replica
from .effects import Effect
from .leadership import fenced_writes
from .partition_states import PartitionStateMachine
from .replica_states import ReplicaStateMachine
from .request_batch import RequestBatch

logger = logging.getLogger("pybroker.replication.controller.deletion")


class TopicDeletion:
    __slots__ = ("_batch", "_config", "_context", "_effects", "_partitions", "_replicas")

    def __init__(
        self,
        config: ControllerConfig,
        context: ControllerContext,
        batch: RequestBatch,
        effects: list[Effect],
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
    ) -> None:
        self._config = config
        self._context = context
        self._batch = batch
        self._effects = effects
        self._partitions = partitions
        self._replicas = replicas

    def initialize(self, topics: Collection[str], ineligible: Collection[str]) -> Flow[None]:
        """Take over the deletions that a former controller has left."""
        if not self._config.delete_topic_enable:
            yield from self.forget_requests(topics)
            return
        self._context.topics_to_be_deleted |= set(topics)
        self._context.topics_ineligible_for_deletion |= set(ineligible) & set(topics)

    def forget_requests(self, topics: Collection[str]) -> Flow[None]:
        """Remove deletion requests without deleting the topics."""
        yield from self._delete([znodes.delete_topic_path(topic) for topic in topics])

    def _delete(self, paths: Sequence[str]) -> Flow[None]:
        results = yield from fenced_writes(self._context, [Delete(path) for path in paths])
        for path, result in zip(paths, results, strict=True):
            expect(result, path, ZkCode.NO_NODE)

    def enqueue(self, topics: Collection[str]) -> Flow[None]:
        self._context.topics_to_be_deleted |= set(topics)
        yield from self.resume_all()

    def resume_for(self, topics: Iterable[str]) -> Flow[None]:
        """Resume the deletion of these topics: the obstacle may be gone."""
        resumed = set(topics) & self._context.topics_to_be_deleted
        resumed -= {partition[0] for partition in self._context.partitions_being_reassigned}
        if resumed:
            self._context.topics_ineligible_for_deletion -= resumed
            yield from self.resume_all()

    def halt(self, topics: Iterable[str], reason: str) -> None:
        halted = set(topics) & self._context.topics_to_be_deleted
        if halted:
            self._context.topics_ineligible_for_deletion |= halted
            logger.info("deletion of %s is halted: %s", ", ".join(sorted(halted)), reason)

    def fail_replicas(self, replicas: Iterable[Replica]) -> Flow[None]:
        """These replicas could not be deleted, or went away with their broker."""
        failed = [
            r
            for r in replicas
            if self._context.is_queued_for_deletion(r.topic)
            and self._context.replica_state(r) is not replica_states.DELETION_SUCCESSFUL
        ]
        if failed:
            yield from self._mark_ineligible(failed)
            self.halt({r.topic for r in failed}, "a replica could not be deleted")
            yield from self.resume_all()

    def complete_replicas(self, replicas: Iterable[Replica]) -> Flow[None]:
        """Brokers have confirmed that these replicas are gone."""
        done = [
            r
            for r in replicas
            if self._context.is_queued_for_deletion(r.topic)
            and self._context.replica_state(r) is replica_states.DELETION_STARTED
        ]
        yield from self._replicas.change(done, replica_states.DELETION_SUCCESSFUL)
        yield from self.resume_all()

    def resume_all(self) -> Flow[None]:
        """Do the next step of every queued topic that can make one."""
        context = self._context
        retry, eligible = [], []
        for topic in sorted(context.topics_to_be_deleted):
            states = {context.replica_state(r) for r in context.replicas_of_topic(topic)}
            if states <= {replica_states.DELETION_SUCCESSFUL}:
                yield from self._finish(topic)
                continue
            if replica_states.DELETION_STARTED in states:
                continue
            if replica_states.DELETION_INELIGIBLE in states:
                retry.append(topic)
            if topic not in context.topics_ineligible_for_deletion:
                eligible.append(topic)
        for topic in retry:
            failed = context.replicas_in(topic, replica_states.DELETION_INELIGIBLE)
            yield from self._replicas.change(failed, replica_states.OFFLINE)
        if eligible:
            yield from self._start(eligible)

    def _start(self, topics: list[str]) -> Flow[None]:
        context = self._context
        unseen = [t for t in topics if t not in context.topics_with_deletion_started]
        partitions = [p for topic in unseen for p in context.partitions_of(topic)]
        yield from self._partitions.change(partitions, partition_states.OFFLINE)
        yield from self._partitions.change(partitions, partition_states.NON_EXISTENT)
        context.topics_with_deletion_started |= set(unseen)
        everything = [p for topic in topics for p in context.partitions_of(topic)]
        self._batch.add_update_metadata(context.brokers, everything)
        self._effects.extend(self._batch.take_requests())
        dead: list[Replica] = []
        alive: list[Replica] = []
        for replica in (r for topic in topics for r in context.replicas_of_topic(topic)):
            if context.replica_state(replica) is replica_states.DELETION_SUCCESSFUL:
                continue
            online = context.is_replica_online(replica.broker_id, replica.topic_partition)
            (alive if online else dead).append(replica)
        yield from self._mark_ineligible(dead)
        yield from self._replicas.change(alive, replica_states.OFFLINE)
        # One whose state cannot be read stays as it is: a newer controller may have removed the
        # topic, and this one learns only at its next write that it has been replaced.
        stopped = [r for r in alive if context.replica_state(r) is replica_states.OFFLINE]
        yield from self._replicas.change(stopped, replica_states.DELETION_STARTED)
        self.halt({replica.topic for replica in dead}, "a replica is offline")

    def _mark_ineligible(self, replicas: Iterable[Replica]) -> Flow[None]:
        state = self._context.replica_state
        waiting = [r for r in replicas if state(r) is not replica_states.DELETION_INELIGIBLE]
        serving = (replica_states.NEW, replica_states.ONLINE)
        still_serving = [r for r in waiting if state(r) in serving]
        yield from self._replicas.change(still_serving, replica_states.OFFLINE)
        yield from self._replicas.change(waiting, replica_states.DELETION_INELIGIBLE)

    def _finish(self, topic: str) -> Flow[None]:
        """All replicas are gone: remove the topic's znodes, the deletion request last."""
        gone = self._context.replicas_in(topic, replica_states.DELETION_SUCCESSFUL)
        yield from self._replicas.change(gone, replica_states.NON_EXISTENT)
        paths = yield from _subtree(znodes.topic_path(topic))
        paths.append(znodes.config_path(f"topics/{topic}"))
        yield from self._delete(paths)
        yield from self._delete([znodes.delete_topic_path(topic)])
        self._context.remove_topic(topic)
        logger.info("topic %s is deleted", topic)


def _subtree(root: str) -> Flow[list[str]]:
    """All paths below and including `root`, children first."""
    levels = [[root]]
    while levels[-1]:
        parents = levels[-1]
        results = yield [GetChildren(path) for path in parents]
        below = [
            f"{path}/{name}"
            for path, result in zip(parents, results, strict=True)
            for name in result.children
        ]
        levels.append(below)
    return [path for level in reversed(levels) for path in level]
