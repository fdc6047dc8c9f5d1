"""The controller's requests about the replicas of this broker: LeaderAndIsr and StopReplica.

Invariants: a request of an older controller, or meant for an earlier life of this broker, changes
nothing; a partition's leader epoch never goes back; operations that wait on a partition are looked
at before a call that changes its role returns. A role that needs file descriptors when there are
none is refused (REPLICA_NOT_AVAILABLE, which a controller does not take for a lost disk) and begun
later by `retry_refused`, unless the controller has sent a newer state of the partition.

A replica without any record or epoch that is to lead a tiered partition, of which another replica
has been the leader before, has lost its disk, or its whole cluster has (`pybroker tier import`).
The role waits until the tier has been looked at (TakeOverTier): the log then begins behind the
records there. No other replica could have them: an election would have preferred it. A leader that
began at offset 0 would write other records at the same offsets. (Apache Kafka does that.)

Mirrors ReplicaManager.becomeLeaderOrFollower / stopReplicas of Kafka in ZooKeeper mode. Leaves out
requests that only a KRaft controller sends in a migration (full requests, stray partitions).
"""

import logging
from collections.abc import Iterator

from ..protocol.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from ..protocol.apis.stop_replica import StopReplicaRequest
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from ..storage.descriptors import OutOfDescriptors
from ..storage.local_log import FlushFirst
from ..storage.log import Log
from .hosted_partitions import HostedPartitions
from .log_dir_moves import LogDirMoves
from .partition import Partition
from .types import (
    ZERO_TOPIC_ID,
    FlushNeeded,
    LeadershipResult,
    RebuildProducers,
    RefusedRole,
    RoleChange,
    StopResult,
    TakeOverTier,
    TierState,
)
from .waiting import WaitingOperations

logger = logging.getLogger("pybroker.replication.leadership")

LEADER_EPOCH_UNKNOWN = -1
EPOCH_DURING_DELETE = -2  # the topic is deleted


class _TierFirst(Exception):
    """The role begins when it is known what the remote tier has."""


class Leadership:
    __slots__ = (
        "_hosted",
        "_moves",
        "_waiting",
        "awaiting_tier",
        "broker_epoch",
        "controller_epoch",
        "refused",
    )

    def __init__(
        self, hosted: HostedPartitions, waiting: WaitingOperations, moves: LogDirMoves
    ) -> None:
        self._hosted = hosted
        self._waiting = waiting
        self._moves = moves
        # Of this life of the broker, as ZooKeeper gave it; -1 before it is registered.
        self.broker_epoch = -1
        # The newest that a controller has spoken with; it never goes back.
        self.controller_epoch = -1
        # Roles that wait for file descriptors, each the latest from the controller.
        self.refused: dict[TopicPartition, RefusedRole] = {}
        # Roles of leaders that wait for `tier_read`, each the latest from the controller.
        self.awaiting_tier: dict[TopicPartition, RefusedRole] = {}

    def check_sender(self, controller_epoch: int, broker_epoch: int) -> ErrorCode:
        """Checks of every request of a controller; remembers the controller's epoch."""
        if 0 <= broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        if controller_epoch < self.controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        self.controller_epoch = controller_epoch
        return ErrorCode.NONE

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, now_ms: int
    ) -> LeadershipResult:
        error = self.check_sender(request.controller_epoch, request.broker_epoch)
        result = LeadershipResult(
            error,
            topic_ids={state.topic_name: bytes(state.topic_id) for state in request.topic_states},
        )
        if error:
            for topic, _, state in _states(request):
                result.partition_errors[topic, state.partition_index] = error
            return result
        for topic, topic_id, state in _states(request):
            self._begin_role((topic, state.partition_index), topic_id, state, now_ms, result)
        self._moves.resume(result.partition_errors, now_ms)
        return result

    def retry_refused(self, now_ms: int) -> LeadershipResult:
        """Begin the roles for which there are descriptors now."""
        result = LeadershipResult(ErrorCode.NONE)
        for key, (topic_id, state) in list(self.refused.items()):
            self._begin_role(key, topic_id, state, now_ms, result)
            if key in self.refused:
                break
        self._moves.resume(result.partition_errors, now_ms)
        return result

    def tier_read(
        self, key: TopicPartition, found: TierState | None, log_start_offset: int, now_ms: int
    ) -> LeadershipResult:
        """Begin a leader's role that has waited for the tier, behind what was found there; None:
        there is nothing. FlushFirst and OutOfDescriptors: nothing has changed, try again."""
        result = LeadershipResult(ErrorCode.NONE)
        waiting = self.awaiting_tier.get(key)
        partition = self._hosted.partitions.get(key)
        if waiting is None or partition is None:
            return result
        try:
            if found is not None:
                partition.log.restart_behind_tier(
                    found.next_offset, log_start_offset, found.epochs, found.snapshot, now_ms
                )
                self._hosted.effects.append(RebuildProducers(partition.log))
        except FlushFirst:
            log = partition.log
            self._hosted.effects.append(FlushNeeded(*key, log.log_end_offset, log))
            raise
        except OutOfDescriptors:
            raise
        except KafkaError as failure:
            del self.awaiting_tier[key]
            result.partition_errors[key] = failure.code
            self._waiting.storage_failed(key)
            return result
        del self.awaiting_tier[key]
        self._begin_role(key, *waiting, now_ms, result, is_tier_known=True)
        self._moves.resume(result.partition_errors, now_ms)
        return result

    def _begin_role(
        self,
        key: TopicPartition,
        topic_id: bytes,
        state: LeaderAndIsrPartitionState,
        now_ms: int,
        result: LeadershipResult,
        *,
        is_tier_known: bool = False,
    ) -> None:
        waiting = self.awaiting_tier.get(key)
        if waiting is not None and state.leader_epoch < waiting.state.leader_epoch:
            result.partition_errors[key] = ErrorCode.STALE_CONTROLLER_EPOCH
            return
        refused = self.refused.pop(key, None)
        if refused is not None and state.leader_epoch < refused.state.leader_epoch:
            self.refused[key] = refused
            result.partition_errors[key] = ErrorCode.STALE_CONTROLLER_EPOCH
            return
        try:
            error = self._change_role(key, topic_id, state, now_ms, result, is_tier_known)
            result.partition_errors[key] = error
            self.awaiting_tier.pop(key, None)
        except _TierFirst:
            if waiting is None:
                topic_id = self._hosted.partitions[key].topic_id
                self._hosted.effects.append(TakeOverTier(key, topic_id))
            self.awaiting_tier[key] = RefusedRole(topic_id, state)
            result.partition_errors[key] = ErrorCode.NONE
        except OutOfDescriptors as failure:
            if not self.refused and refused is None:
                logger.warning("%s-%d and further replicas wait: %s", *key, failure.message)
            self.refused[key] = RefusedRole(topic_id, state)
            result.partition_errors[key] = ErrorCode.REPLICA_NOT_AVAILABLE
        except KafkaError as failure:
            result.partition_errors[key] = failure.code
            if failure.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._waiting.storage_failed(key)

    def _change_role(
        self,
        key: TopicPartition,
        topic_id: bytes,
        state: LeaderAndIsrPartitionState,
        now_ms: int,
        result: LeadershipResult,
        is_tier_known: bool,
    ) -> ErrorCode:
        if key in self._hosted.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._hosted.partitions.get(key)
        if partition is not None:
            if (
                ZERO_TOPIC_ID not in (topic_id, partition.topic_id)
                and topic_id != partition.topic_id
            ):
                return ErrorCode.INCONSISTENT_TOPIC_ID
            if state.leader_epoch < partition.leader_epoch:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            if state.leader_epoch == partition.leader_epoch:
                # The only news at an equal epoch: the topic has an id now.
                if partition.topic_id == ZERO_TOPIC_ID and topic_id != ZERO_TOPIC_ID:
                    partition.log.assign_topic_id(topic_id)
                    partition.topic_id = topic_id
                    return ErrorCode.NONE
                return ErrorCode.STALE_CONTROLLER_EPOCH
        if self._hosted.config.broker_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition is None:
            if self._is_undecided(key, state):
                logger.warning("The topic id of %s-%d cannot be read; it waits for a leader", *key)
                return ErrorCode.NONE
            partition = self._create_partition(key, topic_id, state, now_ms)
        elif partition.topic_id == ZERO_TOPIC_ID and topic_id != ZERO_TOPIC_ID:
            partition.log.assign_topic_id(topic_id)
            partition.topic_id = topic_id
        self._take_role(partition, state, now_ms, result, is_tier_known)
        self._waiting.check(key)
        return ErrorCode.NONE

    def _take_role(
        self,
        partition: Partition,
        state: LeaderAndIsrPartitionState,
        now_ms: int,
        result: LeadershipResult,
        is_tier_known: bool,
    ) -> None:
        key = partition.key
        if not is_tier_known and self._needs_tier(partition, state):
            raise _TierFirst
        if state.leader == self._hosted.config.broker_id:
            if partition.make_leader(state, now_ms):
                result.became_leader.append(RoleChange(*key, state.leader, state.leader_epoch))
                end_offset = partition.log.log_end_offset
                if not partition.is_durable(end_offset):
                    self._hosted.effects.append(FlushNeeded(*key, end_offset, partition.log))
                partition.maybe_advance_high_watermark(now_ms)
        elif partition.make_follower(state):
            result.became_follower.append(RoleChange(*key, state.leader, state.leader_epoch))

    def _needs_tier(self, partition: Partition, state: LeaderAndIsrPartitionState) -> bool:
        log = partition.log
        return (
            self._hosted.has_tier
            and state.leader == self._hosted.config.broker_id
            and (state.leader_epoch > 0 or not state.is_new)
            and log.has_remote_tier
            and log.log_end_offset == 0
            and not log.leader_epochs.entries
            and partition.topic_id != ZERO_TOPIC_ID
        )

    def _create_partition(
        self,
        key: TopicPartition,
        topic_id: bytes,
        state: LeaderAndIsrPartitionState,
        now_ms: int,
    ) -> Partition:
        topic, index = key
        config = self._hosted.config_for(topic)
        known = self._hosted.log_manager.get_log(topic, index)
        if known is not None and known.is_topic_id_lost:
            known = self._claim_log(key, known, state, now_ms)
        if known is not None:
            if ZERO_TOPIC_ID != topic_id != known.topic_id and known.topic_id is not None:
                raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
            known.set_config(config)
        log = self._hosted.log_manager.get_or_create_log(
            topic, index, topic_id, config, now_ms, is_new=state.is_new
        )
        partition = Partition(
            topic,
            index,
            log.topic_id or ZERO_TOPIC_ID,
            log,
            broker_id=self._hosted.config.broker_id,
            max_lag_ms=self._hosted.config.replica_lag_time_max_ms,
            metadata=self._hosted.metadata,
            stats=self._hosted.stats_of(topic),
        )
        self._hosted.partitions[key] = partition
        return partition

    def _is_undecided(self, key: TopicPartition, state: LeaderAndIsrPartitionState) -> bool:
        """Whether to decide later on a log whose topic id cannot be read (`_claim_log`): it may
        belong to an earlier topic, or be needed while there is no leader to copy from."""
        log = self._hosted.log_manager.get_log(*key)
        return (
            log is not None
            and log.is_topic_id_lost
            and state.leader < 0
            and not state.is_new
            and self._hosted.config.broker_id not in state.isr
        )

    def _claim_log(
        self,
        key: TopicPartition,
        log: Log,
        state: LeaderAndIsrPartitionState,
        now_ms: int,
    ) -> Log | None:
        """Whether a log whose topic id cannot be read is of this topic, or of an earlier one.

        A member of the ISR that is not new has this topic's records. The topic of any other replica
        is unknown: it is copied anew, from a leader that has every acknowledged record.
        """
        if self._hosted.config.broker_id in state.isr and not state.is_new:
            return log
        logger.warning("The topic id of %s cannot be read: the log is created anew", log.name)
        self._hosted.log_manager.delete_log(*key, now_ms)
        return None

    def stop_replicas(self, request: StopReplicaRequest, now_ms: int) -> StopResult:
        error = self.check_sender(request.controller_epoch, request.broker_epoch)
        if error:
            return StopResult(error)
        result = StopResult(ErrorCode.NONE)
        for key, leader_epoch, delete in _stops(request):
            result.partition_errors[key] = self._stop(key, leader_epoch, delete, now_ms, result)
        return result

    def _stop(
        self,
        key: TopicPartition,
        leader_epoch: int,
        delete: bool,
        now_ms: int,
        result: StopResult,
    ) -> ErrorCode:
        if delete and leader_epoch == EPOCH_DURING_DELETE:
            self._delete_beside(key, result)
        if delete and self._hosted.log_manager.delete_failed(*key, now_ms):
            self._hosted.offline.discard(key)
            result.deleted.append(key)
            return ErrorCode.NONE
        if key in self._hosted.offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self.refused.pop(key, None)
        self.awaiting_tier.pop(key, None)
        partition = self._hosted.partitions.get(key)
        if partition is not None:
            if 0 <= leader_epoch < partition.leader_epoch:
                return ErrorCode.FENCED_LEADER_EPOCH
            result.stopped.append(RoleChange(*key, partition.leader_id, partition.leader_epoch))
        self._moves.cancel(key)
        if delete:
            self._hosted.partitions.pop(key, None)
            if not any(topic == key[0] for topic, _ in self._hosted.partitions):
                self._hosted.topic_stats.pop(key[0], None)
            try:
                if self._hosted.log_manager.get_log(*key) is not None:
                    self._hosted.log_manager.delete_log(*key, now_ms)
            except KafkaError as error:
                return error.code
            finally:
                self._waiting.check(key)
            result.deleted.append(key)
        else:
            self._waiting.check(key)
        return ErrorCode.NONE

    def _delete_beside(self, key: TopicPartition, result: StopResult) -> None:
        """The topic is deleted: its leader deletes what lies beside the log, the segments in the
        tier and the topic's table. So does every replica without a role: after a restart in the
        midst of the deletion there is no leader. A follower without a leader does it, too; with
        one, it looks whether the leader has deleted the segments, which may never come back."""
        topic_id: bytes | None
        partition = self._hosted.partitions.get(key)
        if partition is not None:
            is_mine, topic_id = partition.is_leader or partition.leader_id < 0, partition.topic_id
            is_tiered = partition.log.has_remote_tier
        else:
            is_mine, topic_id = True, self._hosted.log_manager.topic_id_of(*key)
            is_tiered = self._hosted.config_for(key[0]).remote_storage
        if topic_id is None or topic_id == ZERO_TOPIC_ID:
            return
        if key[1] == 0 and is_mine:
            self._hosted.note_topic_deletion(key, topic_id)
        if is_tiered:
            self._hosted.note_tier_deletion(key, topic_id)
            whose = result.deleted_with_topic if is_mine else result.deleted_by_leader
            whose.append((key, topic_id))


def _states(
    request: LeaderAndIsrRequest,
) -> Iterator[tuple[str, bytes, LeaderAndIsrPartitionState]]:
    for state in request.ungrouped_partition_states:
        yield state.topic_name, ZERO_TOPIC_ID, state
    for topic_state in request.topic_states:
        for state in topic_state.partition_states:
            yield topic_state.topic_name, bytes(topic_state.topic_id), state


def _stops(request: StopReplicaRequest) -> Iterator[tuple[TopicPartition, int, bool]]:
    """(partition, leader epoch, whether to delete) from any version of the request."""
    delete_all = request.delete_partitions
    for partition in request.ungrouped_partitions:
        yield (partition.topic_name, partition.partition_index), LEADER_EPOCH_UNKNOWN, delete_all
    for topic in request.topics:
        for index in topic.partition_indexes:
            yield (topic.name, index), LEADER_EPOCH_UNKNOWN, delete_all
    for topic_state in request.topic_states:
        for state in topic_state.partition_states:
            key = (topic_state.topic_name, state.partition_index)
            yield key, state.leader_epoch, state.delete_partition
