"""The tasks of tiered storage on one broker: copies and expiry on leaders, looks on followers.

Each leader of a tiered partition has two tasks, each follower one; a task does its work and then
sleeps for `remote.log.manager.task.interval.ms`. A change of the role cancels the tasks of the old
one. Calls of the storage manager block: they run in worker threads, under a limit for each kind of
task, and are abandoned at a cancellation.

Invariants: `highest_offset_in_remote_storage` of a log, on which local deletion depends, moves
after the metadata of the finished copy is written, never before; the log start moves before a
remote segment is deleted; an id is used for one copy only.

A copy that fails is removed again, as far as that is possible; the rest of it is an orphan, which a
later look of the expiry removes (`replication.remote.expiry`). So is a copy that was abandoned, and
one whose last record of metadata is refused because another leader has deleted it meanwhile.

Mirrors: RemoteLogManager. Leaves out: `remote.log.copy.disable`, which needs KRaft. Reads are in
`remote_reads`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import trio

from ...protocol.errors import KafkaError
from ...protocol.topics import TopicPartition
from ...replication.partition import Partition
from ...replication.remote import copying, expiry
from ...replication.remote.copying import Candidate
from ...replication.throttle import ReplicationQuota
from ...replication.types import (
    ZERO_TOPIC_ID,
    LeadershipResult,
    RebuildFromTier,
    StopResult,
    TierState,
)
from ...storage.log import Log
from ...storage.remote.deletions import TierDeletions
from ...storage.remote.index_cache import RemoteIndexCache
from ...storage.remote.metadata_topic import RemoteLogNotReadyError
from ...storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from ...storage.remote.storage_manager import (
    IndexType,
    RemoteStorageError,
    RemoteStorageManager,
)
from ..replicas.applied_replicas import AppliedReplicas
from ..resources.steps import in_turns
from .metadata_manager import RemoteLogMetadataManager
from .segment_copy import SegmentCopy
from .tier_gauges import TierNumbers

logger = logging.getLogger("pybroker.broker.remote.remote_log_manager")

ResultT = TypeVar("ResultT")

_MS = 1000
NOT_READY_RETRY_SECONDS = 0.1
NOT_READY_SECONDS = 30
# How long a follower leaves the segments of a deleted topic to the leader.
LEADER_SECONDS = 600.0
LEADER_LOOK_SECONDS = 10.0
QUOTA_RETRY_SECONDS = 1  # Kafka's quotaTimeout


class CustomMetadataTooLarge(Exception):
    """A storage manager's custom metadata exceeds remote.log.metadata.custom.metadata.max.bytes."""


def _nobody_waits(_asked: RebuildFromTier, _found: TierState | None) -> None:
    pass


@dataclass(slots=True, frozen=True)
class RemoteSettings:
    """The broker's keys for the tasks."""

    broker_id: int
    task_interval_ms: int = 30_000
    copier_threads: int = 10
    expiration_threads: int = 10
    custom_metadata_max_bytes: int = 128


@dataclass(slots=True)
class _Tasks:
    """The tasks of one partition in its present role."""

    id: TopicIdPartition
    is_leader: bool
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    is_stopped: bool = False  # the replica is; it may be deleted next, or begin anew
    directory: str = ""  # of the log that the next two fields are of
    is_log_start_found: bool = False
    copied_offset: int | None = None  # the last offset in the tier; None: not looked up yet
    numbers: TierNumbers = field(default_factory=TierNumbers)


class RemoteLogManager:
    def __init__(
        self,
        replicas: AppliedReplicas,
        store: RemoteStorageManager,
        metadata: RemoteLogMetadataManager,
        indexes: RemoteIndexCache,
        settings: RemoteSettings,
        new_id: Callable[[], bytes],
        deletions: TierDeletions,
    ) -> None:
        self._replicas = replicas
        self._manager = replicas.manager
        self.store = store
        self.metadata = metadata
        self.indexes = indexes
        self._settings = settings
        self._new_id = new_id
        self._deletions = deletions
        self.copy_quota = ReplicationQuota(settings.broker_id)
        self._copiers = trio.CapacityLimiter(settings.copier_threads)
        self._expirers = trio.CapacityLimiter(settings.expiration_threads)
        self._tasks: dict[TopicPartition, _Tasks] = {}
        self._being_deleted: set[TopicIdPartition] = set()  # with their topics
        self._being_copied: set[RemoteLogSegmentId] = set()
        self._abandoned: list[SegmentCopy] = []  # in threads of their own
        self._nursery: trio.Nursery | None = None
        self.on_rebuilt: Callable[[RebuildFromTier, TierState | None], None] = _nobody_waits

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """The tasks of all partitions, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            self._delete_partitions(self._deletions.under_way)
            try:
                await trio.sleep_forever()
            finally:
                self.store.close()

    @property
    def idle_share(self) -> float:
        """Of the threads that copy."""
        return self._copiers.available_tokens / self._copiers.total_tokens

    def led(self) -> Iterator[tuple[Partition, TierNumbers]]:
        """The tiered partitions that this broker leads."""
        for key, tasks in list(self._tasks.items()):
            hosted = self._manager.partitions.get(key)
            if tasks.is_leader and not tasks.is_stopped and hosted is not None:
                yield hosted, tasks.numbers

    # Changes of roles

    def on_leadership(self, result: LeadershipResult) -> None:
        roles = [*result.became_leader, *result.became_follower]
        self._begin([(role.topic, role.partition) for role in roles])

    def on_config(self, topic: str) -> None:
        """A topic's config has changed: it may be tiered from now on."""
        self._begin([key for key in self._manager.partitions if key[0] == topic])

    def _begin(self, keys: Iterable[TopicPartition]) -> None:
        """Begin the tasks of tiered partitions that have none of their role."""
        leaders: list[_Tasks] = []
        followers: list[_Tasks] = []
        for key in keys:
            hosted = self._manager.partitions.get(key)
            if hosted is None or not hosted.log.has_remote_tier or hosted.leader_epoch < 0:
                continue
            if hosted.topic_id == ZERO_TOPIC_ID:
                logger.error("%s-%d has no topic id, and is not copied to the remote tier", *key)
                continue
            known = self._tasks.get(key)
            name = TopicIdPartition(hosted.topic_id, *key)
            if (
                known is not None
                and not known.is_stopped
                and (known.id, known.is_leader) == (name, hosted.is_leader)
            ):
                continue
            if known is not None:
                known.scope.cancel()
            tasks = self._tasks[key] = _Tasks(name, hosted.is_leader)
            (leaders if hosted.is_leader else followers).append(tasks)
        if leaders or followers:
            self.metadata.on_leadership(
                [tasks.id for tasks in leaders], [tasks.id for tasks in followers]
            )
        assert self._nursery is not None or not (leaders or followers)
        for tasks in leaders:
            self._start(tasks, self._lead)
        for tasks in followers:
            self._start(tasks, self._follow)

    def _start(self, tasks: _Tasks, run: Callable[[_Tasks], Awaitable[None]]) -> None:
        assert self._nursery is not None
        self._nursery.start_soon(run, tasks)

    def on_stopped(self, result: StopResult) -> None:
        stopped = {(role.topic, role.partition) for role in result.stopped} | set(result.deleted)
        gone = []
        with_topic = [TopicIdPartition(id_, *key) for key, id_ in result.deleted_with_topic]
        by_leader = [TopicIdPartition(id_, *key) for key, id_ in result.deleted_by_leader]
        for key in stopped:
            tasks = self._tasks.get(key)
            if tasks is None:
                continue
            tasks.scope.cancel()
            tasks.is_stopped = True
            if key in result.deleted:
                del self._tasks[key]
                # A follower may end beside the deletion that a restart has found noted.
                if tasks.id not in {*with_topic, *by_leader, *self._being_deleted}:
                    gone.append(tasks.id)
        if gone:
            self.metadata.on_stopped(gone)
        self._delete_partitions(with_topic)
        self._delete_partitions(by_leader, LEADER_SECONDS)

    def note_deletion(self, key: TopicPartition, topic_id: bytes) -> None:
        """Remember it over a restart."""
        self._deletions.begin(TopicIdPartition(topic_id, *key))

    def _delete_partitions(
        self, partitions: Iterable[TopicIdPartition], leader_seconds: float = 0
    ) -> None:
        """Of deleted topics. A controller may ask twice."""
        more = [partition for partition in partitions if partition not in self._being_deleted]
        if more:
            assert self._nursery is not None
            self._being_deleted.update(more)
            self.metadata.on_leadership([], more)
            for partition in more:
                self._nursery.start_soon(self._delete_partition, partition, leader_seconds)

    # One task

    async def _lead(self, tasks: _Tasks) -> None:
        with tasks.scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._repeat, tasks, self._copy)
                nursery.start_soon(self._repeat, tasks, self._expire)

    async def _follow(self, tasks: _Tasks) -> None:
        with tasks.scope:
            await self._repeat(tasks, self._look)

    async def _repeat(
        self, tasks: _Tasks, work: Callable[[_Tasks, Partition], Awaitable[None]]
    ) -> None:
        while True:
            wait = self._settings.task_interval_ms / _MS
            hosted = self._manager.partitions.get(tasks.id.topic_partition)
            try:
                if hosted is not None and hosted.log.has_remote_tier:
                    await work(tasks, hosted)
            except RemoteLogNotReadyError:
                wait = min(wait, NOT_READY_RETRY_SECONDS)
            except CustomMetadataTooLarge as error:
                logger.error("%s is not copied any more: %s", tasks.id, error)
                return
            except (RemoteStorageError, KafkaError, OSError) as error:
                logger.warning("A task of %s failed, and is tried again: %s", tasks.id, error)
            await trio.sleep(wait)

    async def _look(self, tasks: _Tasks, hosted: Partition) -> None:
        """A follower deletes locally what the tier has, too."""
        await self._begin_unremoved_again(tasks)
        log = hosted.log
        offset = copying.highest_copied_offset(log, tasks.id, self.metadata)
        log.update_highest_offset_in_remote_storage(offset)

    # A follower that restarts behind the tier

    def rebuild(self, asked: RebuildFromTier) -> None:
        """The effect RebuildFromTier: `on_rebuilt` gets the state, or None."""
        assert self._nursery is not None
        self._nursery.start_soon(self._rebuild, asked)

    async def _rebuild(self, asked: RebuildFromTier) -> None:
        hosted = self._manager.partitions.get(asked.key)
        found = None
        if hosted is not None:
            hosted.stats.build_remote_aux_requests += 1
            name = TopicIdPartition(asked.topic_id, *asked.key)
            try:
                found = await self._state_before(name, asked.epoch, asked.local_start_offset)
            except RemoteStorageError as error:
                hosted.stats.failed_build_remote_aux_requests += 1
                logger.warning("%s cannot restart behind the remote tier yet: %s", name, error)
        self.on_rebuilt(asked, found)

    async def _state_before(self, name: TopicIdPartition, epoch: int, offset: int) -> TierState:
        begun = trio.current_time()
        while True:
            try:
                metadata = self.metadata.segment(name, epoch, offset - 1)
                break
            except RemoteLogNotReadyError:  # of a new replica, whose metadata is read right now
                if trio.current_time() - begun > NOT_READY_SECONDS:
                    raise
            await trio.sleep(NOT_READY_RETRY_SECONDS)
        if metadata is None:
            raise RemoteStorageError(f"no segment holds offset {offset - 1} of epoch {epoch}")
        return await self._in_thread(partial(self._state_behind, metadata), self._copiers)

    def _state_behind(self, metadata: RemoteLogSegmentMetadata) -> TierState:
        """Blocks."""
        epochs = bytes(self.store.fetch_index(metadata, IndexType.LEADER_EPOCH))
        snapshot = bytes(self.store.fetch_index(metadata, IndexType.PRODUCER_SNAPSHOT))
        producers = copying.producers_of(metadata, snapshot)
        return TierState(metadata.end_offset + 1, copying.epochs_of(epochs), producers)

    # Copies

    async def _copy(self, tasks: _Tasks, hosted: Partition) -> None:
        log = hosted.log
        if tasks.directory != log.health.path:
            tasks.directory = log.health.path
            tasks.is_log_start_found, tasks.copied_offset = False, None
        if not tasks.is_log_start_found:
            start = copying.log_start_in_tier(log, tasks.id, self.metadata)
            self._move_log_start(hosted, start)
            tasks.is_log_start_found = True
        if tasks.copied_offset is None:
            tasks.copied_offset = copying.highest_copied_offset(log, tasks.id, self.metadata)
            log.update_highest_offset_in_remote_storage(tasks.copied_offset)
        # Found anew each time: records, and their segments, may have been deleted meanwhile.
        while (candidate := next(copying.candidates(log, tasks.copied_offset), None)) is not None:
            if self.copy_quota.is_exceeded(self._replicas.clock()):
                await trio.sleep(QUOTA_RETRY_SECONDS)
                continue
            self.copy_quota.record(candidate.segment.size, self._replicas.clock())
            try:
                await self._copy_segment(tasks, hosted, log, candidate)
            except Exception:
                hosted.stats.failed_remote_copy_requests += 1
                raise
            tasks.copied_offset = candidate.next_offset - 1

    async def _copy_segment(
        self, tasks: _Tasks, hosted: Partition, log: Log, candidate: Candidate
    ) -> None:
        segment_id = RemoteLogSegmentId(tasks.id, self._new_id())
        broker_id = self._settings.broker_id
        metadata = copying.metadata_of(log, candidate, segment_id, broker_id, self._wall_ms())
        data = copying.data_of(log, candidate)
        self._being_copied.add(segment_id)
        try:
            await self.metadata.add(metadata)
            hosted.stats.remote_copy_requests += 1
            copy = SegmentCopy(self.store, metadata, data)
            try:
                custom = await self._copy_in_thread(copy)
            except RemoteStorageError:
                await self._remove_failed(metadata)
                raise
            update = self._update_of(metadata, RemoteLogSegmentState.COPY_SEGMENT_FINISHED, custom)
            limit = self._settings.custom_metadata_max_bytes
            if custom is not None and len(custom) > limit:
                await self._remove_failed(metadata.updated(update))
                raise CustomMetadataTooLarge(f"{len(custom)} bytes of custom metadata")
            await self._finish(metadata, update)
        finally:
            self._being_copied.discard(segment_id)
        hosted.stats.remote_copy_bytes += metadata.segment_size_bytes
        log.update_highest_offset_in_remote_storage(metadata.end_offset)
        logger.info("Copied %s from %d to %d", tasks.id, metadata.start_offset, metadata.end_offset)

    async def _copy_in_thread(self, copy: SegmentCopy) -> bytes | None:
        try:
            return await self._in_thread(copy.run, self._copiers)
        except trio.Cancelled:
            copy.is_abandoned = True
            self._abandoned = [
                one for one in (*self._abandoned, copy) if one.is_under_way or one.is_unremoved
            ]
            raise

    async def _finish(
        self, metadata: RemoteLogSegmentMetadata, update: RemoteLogSegmentMetadataUpdate
    ) -> None:
        try:
            await self.metadata.update(update)
        except RemoteStorageError:
            if not self._is_known(metadata):  # it was deleted before it was finished
                await self._remove_failed(metadata)
            raise

    async def _remove_failed(self, metadata: RemoteLogSegmentMetadata) -> None:
        """What is not removed has metadata: it is an orphan, which the expiry deletes."""
        remove = partial(self.store.delete_log_segment_data, metadata)
        try:
            await self._in_thread(remove, self._copiers)
        except RemoteStorageError as error:
            logger.error("%s is not removed after its copy failed: %s", metadata.segment_id, error)
            if not self._is_known(metadata):
                await self.metadata.add(metadata)

    async def _begin_unremoved_again(self, tasks: _Tasks) -> None:
        """Abandoned copies that could not be removed become orphans, as in `_remove_failed`."""
        for copy in [one for one in self._abandoned if one.is_unremoved and one.is_of(tasks.id)]:
            if not self._is_known(copy.metadata):
                await self.metadata.add(copy.metadata)
            copy.is_unremoved = False

    def _is_known(self, metadata: RemoteLogSegmentMetadata) -> bool:
        known = self.metadata.segments(metadata.topic_id_partition)
        return any(one.segment_id == metadata.segment_id for one in known)

    # Expiry

    async def _expire(self, tasks: _Tasks, hosted: Partition) -> None:
        await self._begin_unremoved_again(tasks)
        clock, wall = self._replicas.clock(), self._replicas.wall
        begun = trio.current_time()
        looking = expiry.look(
            hosted.log,
            tasks.id,
            self.metadata,
            self._being_copied,
            self._wall_ms(),
            by_age=not wall.rests(clock, self._settings.task_interval_ms),
        )
        found = await in_turns(looking)
        tasks.numbers.looked(found, round(_MS * (trio.current_time() - begun)))
        if found.log_start_offset is not None:
            self._move_log_start(hosted, found.log_start_offset)
        for metadata in found.expired:
            hosted.stats.remote_delete_requests += 1
            try:
                await self._delete(metadata)
            except Exception:
                hosted.stats.failed_remote_delete_requests += 1
                raise
            tasks.numbers.deleted(metadata)

    async def _delete(self, metadata: RemoteLogSegmentMetadata) -> None:
        state = RemoteLogSegmentState
        custom = metadata.custom_metadata
        await self.metadata.update(self._update_of(metadata, state.DELETE_SEGMENT_STARTED, custom))
        delete = partial(self.store.delete_log_segment_data, metadata)
        await self._in_thread(delete, self._expirers)
        self.indexes.remove([metadata.segment_id])
        await self.metadata.update(self._update_of(metadata, state.DELETE_SEGMENT_FINISHED, custom))
        logger.info("Deleted %s", metadata.segment_id)

    async def _delete_partition(self, partition: TopicIdPartition, leader_seconds: float) -> None:
        """The topic is deleted: so are its segments. Kafka's brokers try once. A copy that goes on
        in its thread must not store anything behind that: nothing would know of it any more.

        For `leader_seconds` that is left to the leader. By then the topic may be back with its id
        (`pybroker tier import`), and its segments stay."""
        is_mine_from = trio.current_time() + leader_seconds
        while True:
            try:
                if any(one.is_under_way and one.is_of(partition) for one in self._abandoned):
                    raise RemoteLogNotReadyError(f"a copy of {partition} is not over yet")
                segments = self.metadata.segments(partition)
                if segments and trio.current_time() < is_mine_from:
                    await trio.sleep(min(LEADER_LOOK_SECONDS, leader_seconds))
                    continue
                if leader_seconds and self._manager.metadata.topic_name(partition.topic_id):
                    segments = []
                for metadata in segments:
                    await self._delete(metadata)
                known = self._tasks.get(partition.topic_partition)
                if known is None or known.id != partition:
                    self.metadata.on_stopped([partition])
                self._deletions.end(partition)
                self._being_deleted.discard(partition)
                return
            except RemoteLogNotReadyError:
                await trio.sleep(NOT_READY_RETRY_SECONDS)
                continue
            except RemoteStorageError as error:
                logger.warning("Deleting %s failed, and is tried again: %s", partition, error)
            await trio.sleep(self._settings.task_interval_ms / _MS)

    # Small parts

    def _move_log_start(self, hosted: Partition, offset: int) -> None:
        with self._replicas.applying as manager:
            if hosted.log.maybe_increment_log_start_offset(offset):
                manager.waiting.check(hosted.key)

    def _update_of(
        self,
        metadata: RemoteLogSegmentMetadata,
        state: RemoteLogSegmentState,
        custom: bytes | None,
    ) -> RemoteLogSegmentMetadataUpdate:
        return RemoteLogSegmentMetadataUpdate(
            metadata.segment_id, self._wall_ms(), custom, state, self._settings.broker_id
        )

    def _wall_ms(self) -> int:
        return self._replicas.wall.at_ms(self._replicas.clock())

    async def _in_thread(
        self, call: Callable[[], ResultT], limiter: trio.CapacityLimiter
    ) -> ResultT:
        """Any error but RemoteStorageError is a defect of the storage manager, treated alike."""
        try:
            return await trio.to_thread.run_sync(call, limiter=limiter, abandon_on_cancel=True)
        except RemoteStorageError:
            raise
        except Exception as error:
            logger.exception("A storage manager has failed")
            raise RemoteStorageError(f"{type(error).__name__}: {error}") from error
