"""Brokers come, go, bounce, change, lose a disk or ask to be shut down.

Job: the controller's reactions. A new broker gets the whole metadata and its replicas; a dead
one's partitions get other leaders; a bounced one (same id, newer epoch) is dead first and new
then; one that shuts down under control hands over its leaderships before it goes.

Mirrors KafkaController.processBrokerChange, onBrokerStartup, onBrokerFailure,
onReplicasBecomeOffline, doControlledShutdown and the log-directory events.
"""

import logging
from collections.abc import Callable, Iterable, Sequence

from ...protocol.apis.leader_and_isr import LeaderAndIsrResponse
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.topics import TopicPartition
from ...protocol.zookeeper.operations import Delete, Flow, GetChildren, GetData, run_one
from . import partition_states, replica_states, znodes
from .context import Replica
from .effects import CloseChannel, OpenChannel
from .elections import elect_for_shutdown
from .leadership import fenced_writes
from .parts import ControllerParts
from .reassignment import Reassignments
from .znodes import BrokerRegistration, LeaderAndIsr

logger = logging.getLogger("pybroker.replication.controller.brokers")

UNKNOWN_BROKER_EPOCH = -1


def read_live_brokers() -> Flow[dict[int, BrokerRegistration]]:
    """All registered brokers, watching the list and each of them."""
    listed = yield from run_one(GetChildren(znodes.BROKER_IDS, watch=True))
    ids = sorted(int(name) for name in listed.children if name.isdecimal())
    results = yield [GetData(znodes.broker_path(broker_id), watch=True) for broker_id in ids]
    brokers = {}
    for broker_id, result in zip(ids, results, strict=True):
        if not result.ok or result.stat is None:
            continue  # gone between the two reads; the watch on the list will fire
        try:
            brokers[broker_id] = znodes.decode_broker(broker_id, result.data, result.stat.czxid)
        except znodes.MalformedZnode as error:
            logger.error("ignoring broker %d: %s", broker_id, error)
    return brokers


class BrokerChanges:
    __slots__ = ("_parts", "_reassignments")

    def __init__(self, parts: ControllerParts, reassignments: Reassignments) -> None:
        self._parts = parts
        self._reassignments = reassignments

    def process_change(self) -> Flow[None]:
        """The children of /brokers/ids have changed."""
        context, effects = self._parts.context, self._parts.effects
        current = yield from read_live_brokers()
        known = context.brokers
        new = {i: b for i, b in current.items() if i not in known}
        bounced = {i: b for i, b in current.items() if i in known and b.epoch > known[i].epoch}
        dead = sorted(i for i in known if i not in current)
        # Requests queued for a broker that bounced were meant for its former epoch.
        effects.extend(CloseChannel(broker_id) for broker_id in (*dead, *bounced))
        effects.extend(OpenChannel(broker) for broker in (*new.values(), *bounced.values()))
        for broker_id in (*dead, *bounced):
            del context.brokers[broker_id]
        if new:
            logger.info("brokers are up: %s", sorted(new))
            context.brokers.update(new)
            yield from self._on_startup(sorted(new))
        if bounced:
            logger.info("brokers have bounced: %s", sorted(bounced))
            yield from self._on_failure(sorted(bounced))
            context.brokers.update(bounced)
            yield from self._on_startup(sorted(bounced))
        if dead:
            logger.info("brokers have left: %s", dead)
            yield from self._on_failure(dead)

    def process_modification(self, broker_id: int) -> Flow[None]:
        """The registration of a broker has changed, for example its listeners."""
        context = self._parts.context
        path = znodes.broker_path(broker_id)
        result = yield from run_one(GetData(path, watch=True))
        old = context.brokers.get(broker_id)
        if not result.ok or result.stat is None or old is None:
            return
        new = znodes.decode_broker(broker_id, result.data, result.stat.czxid)
        if new.epoch != old.epoch:
            return  # bounced: the change of /brokers/ids handles it
        if (new.endpoints, new.features) != (old.endpoints, old.features):
            context.brokers[broker_id] = new
            self._parts.effects.append(OpenChannel(new))
            self._parts.send_update_metadata(context.brokers)

    def _on_startup(self, new: Sequence[int]) -> Flow[None]:
        parts, context = self._parts, self._parts.context
        for broker_id in new:
            context.offline_dir_replicas.pop(broker_id, None)
        # The other brokers learn of the new ones before the new ones can lead anything.
        parts.send_update_metadata([b for b in context.brokers if b not in new])
        parts.send_update_metadata(new, list(context.leadership))
        replicas = context.replicas_on(new)
        queued = {r.topic for r in replicas if context.is_queued_for_deletion(r.topic)}
        serving = [r for r in replicas if r.topic not in queued]
        yield from parts.replicas.change(serving, replica_states.ONLINE)
        yield from parts.partitions.elect_offline_and_new()
        yield from self._reassignments.resume(
            lambda partition: not set(new).isdisjoint(context.assignment(partition).target_replicas)
        )
        self._reassignments.delete_left_behind(new)
        yield from parts.deletion.resume_for(queued)

    def _on_failure(self, dead: Sequence[int]) -> Flow[None]:
        context = self._parts.context
        for broker_id in dead:
            context.offline_dir_replicas.pop(broker_id, None)
            context.shutting_down.discard(broker_id)
        yield from self.on_replicas_offline(context.replicas_on(dead))

    def on_replicas_offline(self, replicas: Iterable[Replica]) -> Flow[None]:
        """Elect other leaders, shrink ISRs, and halt deletions that need these replicas."""
        parts, context = self._parts, self._parts.context
        deleting: list[Replica] = []
        serving: list[Replica] = []
        for replica in replicas:
            queued = context.is_queued_for_deletion(replica.topic)
            (deleting if queued else serving).append(replica)
        leaderless = context.partitions_with_offline_leader()
        yield from parts.partitions.change(leaderless, partition_states.OFFLINE)
        outcomes = yield from parts.partitions.elect_offline_and_new()
        yield from parts.replicas.change(serving, replica_states.OFFLINE)
        yield from parts.deletion.fail_replicas(deleting)
        elected = any(isinstance(outcome, LeaderAndIsr) for outcome in outcomes.values())
        if not serving and not elected:
            parts.send_update_metadata(context.brokers)  # live brokers have changed

    # Disks

    def process_log_dir_events(self) -> Flow[None]:
        """Brokers have lost a log directory: ask them which replicas they still have."""
        parts, context = self._parts, self._parts.context
        listed = yield from run_one(GetChildren(znodes.LOG_DIR_EVENTS, watch=True))
        paths = [f"{znodes.LOG_DIR_EVENTS}/{name}" for name in listed.children]
        results = yield [GetData(path) for path in paths]
        broker_ids = set()
        for path, result in zip(paths, results, strict=True):
            try:
                broker_ids.add(znodes.decode_log_dir_event(result.data))
            except znodes.MalformedZnode as error:
                logger.error("ignoring %s: %s", path, error)
        online = [
            replica
            for replica in context.replicas_on(broker_ids)
            if context.replica_state(replica) in (replica_states.NEW, replica_states.ONLINE)
        ]
        yield from parts.replicas.change(online, replica_states.ONLINE)
        if paths:
            yield from fenced_writes(context, [Delete(path) for path in paths])

    def process_leader_and_isr_response(
        self, broker_id: int, response: LeaderAndIsrResponse
    ) -> Flow[None]:
        """KAFKA_STORAGE_ERROR for a partition means that its replica there is offline."""
        context = self._parts.context
        if response.error_code != ErrorCode.NONE:
            logger.error("broker %d refused LeaderAndIsr: error %d", broker_id, response.error_code)
            return
        if broker_id not in context.brokers:
            return
        before = context.offline_dir_replicas.get(broker_id, set())
        now = set(before)
        for partition, error_code in _partition_errors(response, context.topic_name):
            if error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                now.add(partition)
            elif error_code == ErrorCode.NONE:
                now.discard(partition)
        if now == before:
            return
        context.offline_dir_replicas[broker_id] = now
        lost = [Replica(*partition, broker_id) for partition in sorted(now - before)]
        if lost:
            logger.warning("broker %d has lost replicas with a log directory: %s", broker_id, lost)
            yield from self.on_replicas_offline(lost)

    # Controlled shutdown

    def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> Flow[list[TopicPartition]]:
        """Move leaderships away; the partitions that the broker still leads afterwards."""
        parts, context = self._parts, self._parts.context
        known_epoch = context.broker_epoch(broker_id)
        if known_epoch is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE)
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < known_epoch:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        logger.info("broker %d shuts down under control", broker_id)
        context.shutting_down.add(broker_id)
        concerned = [
            partition
            for partition in context.partitions_on(broker_id)
            if len(context.replicas(partition)) > 1
            and partition in context.leadership
            and not context.is_queued_for_deletion(partition[0])
        ]
        led = [p for p in concerned if context.leadership[p].leader == broker_id]
        followed = [p for p in concerned if context.leadership[p].leader != broker_id]
        yield from parts.partitions.change(led, partition_states.ONLINE, elect_for_shutdown)
        for partition in followed:
            parts.batch.add_stop_replica(broker_id, partition, delete=False)
        parts.send_batch()
        offline = [Replica(*partition, broker_id) for partition in followed]
        yield from parts.replicas.change(offline, replica_states.OFFLINE)
        return context.partitions_led_by(broker_id)


def _partition_errors(
    response: LeaderAndIsrResponse, topic_name: Callable[[bytes], str | None]
) -> Iterable[tuple[TopicPartition, int]]:
    for error in response.partition_errors:
        yield (error.topic_name, error.partition_index), error.error_code
    for topic in response.topics:
        name = topic_name(bytes(topic.topic_id))
        if name is not None:
            for error in topic.partition_errors:
                yield (name, error.partition_index), error.error_code
