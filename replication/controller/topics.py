"""Topics are created, grow and are deleted.

Job: the controller's reactions to /brokers/topics, the data of each topic node, and
/admin/delete_topics. New partitions go New, then Online, then their replicas Online. A topic
without id gets one, from inter.broker.protocol.version 2.8 on. Partitions that are added to a topic
being deleted are taken out again.

Mirrors KafkaController.processTopicChange, processPartitionModifications, processTopicDeletion.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ...protocol.topics import TopicPartition
from ...protocol.zookeeper.constants import ZkCode
from ...protocol.zookeeper.operations import (
    Delete,
    Flow,
    GetChildren,
    GetData,
    SetData,
    expect,
    run_one,
)
from . import partition_states, replica_states, znodes
from .elections import elect_offline
from .leadership import fenced_writes, refresh_leadership
from .parts import ControllerParts
from .znodes import ReplicaAssignment, TopicAssignment

logger = logging.getLogger("pybroker.replication.controller.topics")


def read_topic_names() -> Flow[tuple[str, ...]]:
    listed = yield from run_one(GetChildren(znodes.TOPICS, watch=True))
    return expect(listed, znodes.TOPICS).children


def read_assignments(topics: Sequence[str]) -> Flow[dict[str, TopicAssignment]]:
    """The topic nodes, watching each; missing and malformed nodes are left out."""
    results = yield [GetData(znodes.topic_path(topic), watch=True) for topic in topics]
    assignments = {}
    for topic, result in zip(topics, results, strict=True):
        if not result.ok:
            continue
        try:
            assignments[topic] = znodes.decode_topic(topic, result.data)
        except znodes.MalformedZnode as error:
            logger.error("ignoring topic %s: %s", topic, error)
    return assignments


class TopicChanges:
    __slots__ = ("_new_topic_id", "_parts")

    def __init__(self, parts: ControllerParts, new_topic_id: Callable[[], bytes]) -> None:
        self._parts = parts
        self._new_topic_id = new_topic_id

    def process_change(self) -> Flow[None]:
        """The children of /brokers/topics have changed."""
        context = self._parts.context
        topics = yield from read_topic_names()
        for topic in context.assignments.keys() - set(topics):
            context.remove_topic(topic)
        fresh = [topic for topic in topics if topic not in context.assignments]
        assignments = yield from read_assignments(fresh)
        yield from self.take_over(assignments)
        created = [p for topic in assignments for p in context.partitions_of(topic)]
        yield from self._on_new_partitions(created)

    def take_over(self, assignments: Mapping[str, TopicAssignment]) -> Flow[None]:
        """Put topics into the context, giving an id to topics without one."""
        context = self._parts.context
        without_id = {
            topic: replace(assignment, topic_id=self._new_topic_id())
            for topic, assignment in assignments.items()
            if assignment.topic_id is None and self._parts.config.protocol.has_topic_ids
        }
        results = yield from fenced_writes(
            context,
            [
                SetData(znodes.topic_path(topic), znodes.encode_topic(assignment))
                for topic, assignment in without_id.items()
            ],
        )
        for topic, result in zip(without_id, results, strict=True):
            expect(result, znodes.topic_path(topic), ZkCode.NO_NODE)
        for topic, assignment in {**assignments, **without_id}.items():
            if not self._parts.config.protocol.has_topic_ids:
                assignment = replace(assignment, topic_id=None)  # no broker is sent the id
            context.put_topic(topic, assignment)
            context.partitions_being_reassigned.update(
                (topic, index)
                for index, replicas in assignment.partitions.items()
                if replicas.is_being_reassigned
            )

    def process_modification(self, topic: str) -> Flow[None]:
        """The assignment of a topic has changed: partitions may have been added."""
        context = self._parts.context
        stored = yield from read_assignments([topic])
        if topic not in stored or topic not in context.assignments:
            return  # new or deleted topics come by the change of /brokers/topics
        known = context.assignments[topic]
        added = {i: a for i, a in stored[topic].partitions.items() if i not in known}
        if not added:
            return
        if context.is_queued_for_deletion(topic):
            logger.warning("not adding partitions to %s, which is being deleted", topic)
            yield from self._restore(topic, known, stored[topic].topic_id)
            return
        partitions = [(topic, index) for index in sorted(added)]
        for partition in partitions:
            context.put_assignment(partition, added[partition[1]])
        yield from self._on_new_partitions(partitions)

    def _restore(
        self, topic: str, known: Mapping[int, ReplicaAssignment], stored_id: bytes | None
    ) -> Flow[None]:
        context = self._parts.context
        path = znodes.topic_path(topic)
        assignment = TopicAssignment(stored_id or context.topic_ids.get(topic), known)
        write = SetData(path, znodes.encode_topic(assignment))
        (result,) = yield from fenced_writes(context, [write])
        expect(result, path, ZkCode.NO_NODE)

    def _on_new_partitions(self, partitions: Sequence[TopicPartition]) -> Flow[None]:
        if not partitions:
            return
        logger.info(
            "new partitions: %s", ", ".join(f"{topic}-{index}" for topic, index in partitions)
        )
        parts = self._parts
        replicas = parts.context.replicas_of(partitions)
        yield from parts.partitions.change(partitions, partition_states.NEW)
        yield from parts.replicas.change(replicas, replica_states.NEW)
        yield from parts.partitions.change(partitions, partition_states.ONLINE, elect_offline)
        yield from parts.replicas.change(replicas, replica_states.ONLINE)

    # Deletion

    def process_deletion(self) -> Flow[None]:
        """The children of /admin/delete_topics have changed."""
        parts, context = self._parts, self._parts.context
        listed = yield from run_one(GetChildren(znodes.DELETE_TOPICS, watch=True))
        requested = set(listed.children)
        unknown = requested - context.assignments.keys()
        yield from parts.deletion.forget_requests(sorted(unknown))
        known = requested - unknown
        if not parts.config.delete_topic_enable:
            yield from parts.deletion.forget_requests(sorted(known))
            return
        fresh = known - context.topics_to_be_deleted
        if fresh:
            logger.info("topics to be deleted: %s", ", ".join(sorted(fresh)))
            context.topics_to_be_deleted |= fresh
            moving = {p[0] for p in context.partitions_being_reassigned} & fresh
            parts.deletion.halt(moving, "a reassignment is in progress")
            yield from parts.deletion.resume_all()

    def read_pending_deletions(self) -> Flow[tuple[Collection[str], Collection[str]]]:
        """At failover: the topics to be deleted, and those whose deletion has to wait."""
        context = self._parts.context
        listed = yield from run_one(GetChildren(znodes.DELETE_TOPICS, watch=True))
        waiting = {p[0] for p in context.partitions_being_reassigned}
        waiting |= {
            replica.topic
            for replica in context.replicas_of(context.all_partitions())
            if not context.is_replica_online(replica.broker_id, replica.topic_partition)
        }
        return set(listed.children), waiting

    # ISR changes by leaders that do not know AlterPartition (inter.broker.protocol.version < 2.7)

    def process_isr_changes(self) -> Flow[None]:
        parts, context = self._parts, self._parts.context
        listed = yield from run_one(GetChildren(znodes.ISR_CHANGES, watch=True))
        paths = [f"{znodes.ISR_CHANGES}/{name}" for name in listed.children]
        results = yield [GetData(path) for path in paths]
        changed: set[TopicPartition] = set()
        for path, result in zip(paths, results, strict=True):
            try:
                pairs = znodes.decode_partition_list(result.data, path)
            except znodes.MalformedZnode as error:
                logger.error("ignoring %s: %s", path, error)
                continue
            changed.update(pairs)
        known = sorted(p for p in changed if p in context.leadership)
        if known:
            yield from refresh_leadership(context, known)
            parts.send_update_metadata(context.brokers, known)
        if paths:
            yield from fenced_writes(context, [Delete(path) for path in paths])

    def delete_notifications(self, parents: Iterable[str]) -> Flow[None]:
        """Delete all notifications at failover: their content is read anyway."""
        for parent in parents:
            listed = yield from run_one(GetChildren(parent, watch=True))
            paths = [f"{parent}/{name}" for name in listed.children]
            if paths:
                yield from fenced_writes(self._parts.context, [Delete(path) for path in paths])
