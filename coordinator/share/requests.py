"""What each request to the share coordinator asks of one share partition.

`ShareRequests` judges it by the partition's entry: the result, and the change that goes to the log.
A write becomes an update; after too many of them a snapshot. A leader that takes over writes its
epoch, so that a coordinator that has lost its own leadership cannot answer it from memory.

Mirrors: ShareCoordinatorShard.
"""

import logging
from typing import Any

from ...protocol.apis.read_share_group_state import StateBatch as ReadBatch
from ...protocol.errors import ErrorCode
from ...protocol.wall_clock import WallClock
from ..group.consumer.topics import TopicImage
from .answers import DELETE, INITIALIZE, READ, SUMMARY, WRITE, Kind
from .batches import StateBatch, combine
from .config import ShareCoordinatorConfig
from .state import UNKNOWN, Change, Entry, Key, State, Update

logger = logging.getLogger("pybroker.coordinator.share")

# The result for a partition, and the change that goes to the log, if any.
Outcome = tuple[Any, list[Change]]


class ShareRequests:
    """See the module."""

    __slots__ = ("_config", "_image", "_wall", "writes")

    def __init__(self, config: ShareCoordinatorConfig, wall: WallClock, image: TopicImage) -> None:
        self._config = config
        self._wall = wall
        self._image = image
        # Share partitions that were to be written since the start; refused ones count.
        self.writes = 0

    def initialize(self, entry: Entry | None, key: Key, asked: Any, now_ms: int) -> Outcome:
        if key.partition < 0:
            return _negative(INITIALIZE, key)
        if entry is not None and _is_fenced(asked.state_epoch, entry.state_epoch):
            return _refused(INITIALIZE, key, ErrorCode.FENCED_STATE_EPOCH)
        if not self._is_known(key):
            return _refused(INITIALIZE, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        stamp_ms = self._wall.stamp_ms(now_ms)
        # Delivery has not begun without a start offset; from a given one on none is complete.
        count = UNKNOWN if asked.start_offset == UNKNOWN else 0
        state = State(
            0 if entry is None else entry.state.snapshot_epoch + 1,
            asked.state_epoch,
            0,
            asked.start_offset,
            count,
            (),
            stamp_ms,
            stamp_ms,
        )
        return _done(INITIALIZE, key), [state]

    def write(self, entry: Entry | None, key: Key, asked: Any, now_ms: int) -> Outcome:
        self.writes += 1
        if key.partition < 0:
            return _negative(WRITE, key)
        if entry is None:
            return _refused(
                WRITE,
                key,
                ErrorCode.INVALID_REQUEST,
                "Write operation on uninitialized share partition not allowed.",
            )
        if _is_fenced(asked.leader_epoch, entry.leader_epoch):
            return _refused(WRITE, key, ErrorCode.FENCED_LEADER_EPOCH)
        if _is_fenced(asked.state_epoch, entry.state_epoch):
            return _refused(WRITE, key, ErrorCode.FENCED_STATE_EPOCH)
        if not self._is_known(key):
            return _refused(WRITE, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        batches = tuple(
            StateBatch(b.first_offset, b.last_offset, b.delivery_count, b.delivery_state)
            for b in asked.state_batches
        )
        update = Update(
            entry.state.snapshot_epoch,
            entry.state.leader_epoch,
            asked.start_offset,
            asked.delivery_complete_count,
            batches,
        )
        return _done(WRITE, key), [self._written(entry, update, now_ms)]

    def _written(self, entry: Entry, update: Update, now_ms: int) -> Change:
        """The update, or a snapshot after too many of them."""
        state, start_offset = entry.state, update.start_offset
        if entry.updates < self._config.snapshot_update_records_per_snapshot:
            return update._replace(batches=combine((), update.batches, start_offset))
        stamp_ms = self._wall.stamp_ms(now_ms)
        if start_offset == UNKNOWN:
            start_offset = state.start_offset
        return State(
            state.snapshot_epoch + 1,
            state.state_epoch,
            update.leader_epoch,
            start_offset,
            update.delivery_complete_count,
            combine(state.batches, update.batches, start_offset),
            stamp_ms,
            stamp_ms,
        )

    def read(self, entry: Entry | None, key: Key, asked: Any, now_ms: int) -> Outcome:
        if key.partition < 0:
            return _negative(READ, key)
        if entry is None:
            return _refused(
                READ,
                key,
                ErrorCode.INVALID_REQUEST,
                "Read operation on uninitialized share partition not allowed.",
            )
        if _is_fenced(asked.leader_epoch, entry.leader_epoch):
            return _refused(READ, key, ErrorCode.FENCED_LEADER_EPOCH)
        if not self._is_known(key):
            return _refused(READ, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state, leader_epoch = entry.state, asked.leader_epoch
        result = READ.partition(
            partition=key.partition,
            state_epoch=state.state_epoch,
            start_offset=state.start_offset,
            state_batches=[
                ReadBatch(
                    first_offset=batch.first_offset,
                    last_offset=batch.last_offset,
                    delivery_state=batch.delivery_state,
                    delivery_count=batch.delivery_count,
                )
                for batch in state.batches
            ],
        )
        if leader_epoch in (UNKNOWN, entry.leader_epoch):
            return result, []
        logger.info("%s has a leader of epoch %d", key.text, leader_epoch)
        self.writes += 1
        update = Update(
            state.snapshot_epoch,
            leader_epoch,
            state.start_offset,
            state.delivery_complete_count,
            (),
        )
        return result, [self._written(entry, update, now_ms)]

    def delete(self, entry: Entry | None, key: Key, asked: Any, now_ms: int) -> Outcome:
        if key.partition < 0:
            return _negative(DELETE, key)
        if not self._is_known(key):
            return _refused(DELETE, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return _done(DELETE, key), [None] if entry is not None else []

    def summary(self, entry: Entry | None, key: Key, asked: Any, now_ms: int) -> Outcome:
        if key.partition < 0:
            return _negative(SUMMARY, key)
        if not self._is_known(key):
            return _refused(SUMMARY, key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        state = State() if entry is None else entry.state
        return SUMMARY.partition(
            partition=key.partition,
            state_epoch=state.state_epoch,
            leader_epoch=state.leader_epoch,
            start_offset=state.start_offset,
            delivery_complete_count=state.delivery_complete_count,
        ), []

    def _is_known(self, key: Key) -> bool:
        """Whether there is such a partition of a topic."""
        return key.partition < (self._image.partition_count(key.topic_id) or 0)


def _is_fenced(asked_epoch: int, known_epoch: int) -> bool:
    return asked_epoch != UNKNOWN and asked_epoch < known_epoch


def _done(kind: Kind, key: Key) -> Any:
    return kind.partition(partition=key.partition)


def _refused(kind: Kind, key: Key, error: ErrorCode, message: str | None = None) -> Outcome:
    return kind.result(key.partition, error, message), []


def _negative(kind: Kind, key: Key) -> Outcome:
    message = "The partition id cannot be a negative number."
    return _refused(kind, key, ErrorCode.INVALID_REQUEST, message)
