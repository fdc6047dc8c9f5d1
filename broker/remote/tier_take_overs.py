"""Leaders that begin behind the remote tier: their disks are lost, the records there are not.

Job: the effect TakeOverTier. Read the metadata of the partition to its end; of its finished
segments take the one that ends the log, with the epochs and the producers beside it; have the role
begin. Failures of the store or of the metadata topic are tried again until the controller gives the
role to somebody else: a leader that began without the tier would lose it.

Mirrors: nothing of Apache Kafka's.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

import trio

from ...protocol.errors import KafkaError
from ...protocol.topics import TopicPartition
from ...replication.remote import copying
from ...replication.types import TakeOverTier, TierState
from ...storage.local_log import FlushFirst
from ...storage.remote.metadata_topic import RemoteLogNotReadyError
from ...storage.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
from ...storage.remote.storage_manager import (
    IndexType,
    RemoteStorageError,
    RemoteStorageManager,
)
from .metadata_manager import RemoteLogMetadataManager

logger = logging.getLogger("pybroker.broker.remote.tier_take_overs")

NOT_READY_RETRY_SECONDS: Final = 0.05
FLUSH_RETRY_SECONDS: Final = 0.02
RETRY_SECONDS: Final = 1.0
TOLD_EVERY_SECONDS: Final = 60.0


class WaitingRoles(Protocol):
    """The roles of leaders that wait for the tier."""

    def is_awaiting_tier(self, key: TopicPartition) -> bool: ...

    def tier_read(
        self, key: TopicPartition, found: TierState | None, log_start_offset: int
    ) -> None:
        """Begin the role, if it still waits. KafkaError: not yet."""
        ...


class TierTakeOvers:
    def __init__(self, store: RemoteStorageManager, metadata: RemoteLogMetadataManager) -> None:
        self._store = store
        self._metadata = metadata
        self.roles: WaitingRoles | None = None  # set before any role can wait
        self._under_way: set[TopicPartition] = set()
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    def begin(self, asked: TakeOverTier) -> None:
        assert self._nursery is not None
        if asked.key not in self._under_way:
            self._under_way.add(asked.key)
            self._nursery.start_soon(self._take_over, asked)

    async def _take_over(self, asked: TakeOverTier) -> None:
        roles, name = self.roles, TopicIdPartition(asked.topic_id, *asked.key)
        assert roles is not None
        self._metadata.on_leadership([], [name])
        told_seconds = float("-inf")
        try:
            while roles.is_awaiting_tier(asked.key):
                wait = NOT_READY_RETRY_SECONDS
                try:
                    await self._look(roles, name)
                except RemoteLogNotReadyError as error:
                    reason = str(error)
                except (RemoteStorageError, KafkaError, OSError) as error:
                    reason, wait = str(error), RETRY_SECONDS
                else:
                    return
                if trio.current_time() - told_seconds >= TOLD_EVERY_SECONDS:
                    told_seconds = trio.current_time()
                    logger.warning("%s has no leader until the tier is read: %s", name, reason)
                await trio.sleep(wait)
        finally:
            self._under_way.discard(asked.key)

    async def _look(self, roles: WaitingRoles, name: TopicIdPartition) -> None:
        segments = self._metadata.segments(name)
        last = copying.last_segment(segments)
        if last is None:
            roles.tier_read(name.topic_partition, None, 0)
            return
        try:
            state = await trio.to_thread.run_sync(self._state_behind, last, abandon_on_cancel=True)
        except RemoteStorageError:
            raise
        except Exception as error:
            logger.exception("A storage manager has failed")
            raise RemoteStorageError(f"{type(error).__name__}: {error}") from error
        start = copying.start_of(segments, last, state.epochs)
        logger.info(
            "%s begins at %d, behind the remote tier, which has its records from %d on",
            name, state.next_offset, start,
        )  # fmt: skip
        while roles.is_awaiting_tier(name.topic_partition):
            try:
                roles.tier_read(name.topic_partition, state, start)
            except FlushFirst:
                await trio.sleep(FLUSH_RETRY_SECONDS)

    def _state_behind(self, last: RemoteLogSegmentMetadata) -> TierState:
        """Blocks."""
        checkpoint = bytes(self._store.fetch_index(last, IndexType.LEADER_EPOCH))
        snapshot = bytes(self._store.fetch_index(last, IndexType.PRODUCER_SNAPSHOT))
        producers = copying.producers_of(last, snapshot)
        return TierState(last.end_offset + 1, copying.epochs_of(checkpoint), producers)
