"""Questions about offsets: ListOffsets, OffsetForLeaderEpoch, DeleteRecords.

Invariants: no answer names an offset that the client could not fetch; after an election, until the
HW has reached the start of the new epoch, "latest" is not answered (KIP-207), since an earlier
leader may have shown more.

Mirrors Partition.fetchOffsetForTimestamp, lastOffsetForLeaderEpoch and deleteRecordsOnLeader of
Kafka. Leaves out the search by time in the remote tier, which comes first (`Searched`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.records.batch import NO_TIMESTAMP
from ..protocol.topics import TopicPartition
from ..storage.log_lookup import TimestampOffset
from ..storage.segment_reader import BatchToSearch
from .delayed_operations import DelayedDeleteRecords
from .hosted_partitions import HostedPartitions
from .partition import Partition
from .types import (
    NO_EPOCH,
    UNKNOWN_OFFSET,
    DeleteRecordsResult,
    DeleteRecordsResults,
    Done,
    Isolation,
    Parked,
)
from .waiting import WaitingOperations

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6
HIGH_WATERMARK_OFFSET = -1  # in DeleteRecords: up to the high watermark


@dataclass(slots=True, frozen=True)
class OffsetQuery:
    timestamp: int
    isolation: Isolation
    current_leader_epoch: int = NO_EPOCH
    only_leader: bool = True


class Searched(NamedTuple):
    """The batches of a look-up by time have been searched, with this result."""

    found: TimestampOffset | None


class OffsetAnswer(NamedTuple):
    error_code: ErrorCode
    timestamp: int = NO_TIMESTAMP
    offset: int = UNKNOWN_OFFSET
    leader_epoch: int = NO_EPOCH


class Offsets:
    __slots__ = ("_hosted", "_waiting")

    def __init__(self, hosted: HostedPartitions, waiting: WaitingOperations) -> None:
        self._hosted = hosted
        self._waiting = waiting

    def batches_to_search(
        self, key: TopicPartition, query: OffsetQuery
    ) -> tuple[str, Iterator[BatchToSearch]] | None:
        """The log's name and the batches that a look-up by time searches, in order; one may take
        long.

        None if there is nothing to search, or if `list_offset` will answer with an error.
        """
        partition = self._hosted.partitions.get(key)
        if partition is None or not (query.timestamp >= 0 or query.timestamp == MAX_TIMESTAMP):
            return None
        if partition.check_access(query.current_leader_epoch, query.only_leader):
            return None
        log = partition.log
        if log.config.record_version == 0:
            return None
        if query.timestamp == MAX_TIMESTAMP:
            return log.name, log.latest_batches()
        return log.name, log.batches_at_or_after(query.timestamp)

    def list_offset(
        self,
        key: TopicPartition,
        query: OffsetQuery,
        searched: Searched | None = None,
    ) -> OffsetAnswer:
        """Without `searched` a look-up by time looks now."""
        try:
            partition = self._find(key, query.current_leader_epoch, query.only_leader)
            return _list_offset(partition, query, searched)
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._waiting.storage_failed(key, error)
            return OffsetAnswer(error.code)

    def legacy_offsets(
        self,
        key: TopicPartition,
        timestamp: int,
        max_offsets: int,
        now_ms: int,
        *,
        is_consumer: bool,
        only_leader: bool,
    ) -> tuple[ErrorCode, list[int]]:
        """ListOffsets v0: segment base offsets before a time, newest first."""
        try:
            log = self._find(key, NO_EPOCH, only_leader).log
            if timestamp < EARLIEST_TIMESTAMP:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            found = log.legacy_segment_offsets_before(timestamp, max_offsets, now_ms)
        except KafkaError as error:
            return error.code, []
        if is_consumer:
            high_watermark = log.high_watermark
            if any(offset > high_watermark for offset in found):
                found = [high_watermark, *(offset for offset in found if offset < high_watermark)]
        return ErrorCode.NONE, found

    def end_offset_for_epoch(
        self, key: TopicPartition, current_leader_epoch: int, epoch: int
    ) -> tuple[ErrorCode, int, int]:
        """(error, leader epoch, end offset): the largest epoch up to `epoch`, and where it ends."""
        try:
            partition = self._find(key, current_leader_epoch, True)
        except KafkaError as error:
            return error.code, NO_EPOCH, UNKNOWN_OFFSET
        found_epoch, end_offset = partition.log.end_offset_for_epoch(epoch)
        return ErrorCode.NONE, found_epoch, end_offset

    def delete_records(
        self,
        token: object,
        wanted: Mapping[TopicPartition, int],
        timeout_ms: int,
        now_ms: int,
        *,
        is_coordinators: bool = False,
    ) -> Done[DeleteRecordsResults] | Parked:
        """`is_coordinators`: of an internal topic, by its coordinator."""
        results: DeleteRecordsResults = {}
        open_offsets: dict[TopicPartition, int] = {}
        for key, offset in wanted.items():
            try:
                if not is_coordinators and key[0] in self._hosted.config.internal_topics:
                    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
                partition = self._find(key, NO_EPOCH, True)
                target, low_watermark = _delete_up_to(partition, offset)
            except KafkaError as error:
                if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                    self._waiting.storage_failed(key, error)
                results[key] = DeleteRecordsResult(error.code)
                continue
            if low_watermark >= target:
                results[key] = DeleteRecordsResult(ErrorCode.NONE, low_watermark)
            else:
                results[key] = DeleteRecordsResult(ErrorCode.REQUEST_TIMED_OUT, low_watermark)
                open_offsets[key] = target
        if not open_offsets or timeout_ms <= 0:
            return Done(results)
        operation = DelayedDeleteRecords(token, results, open_offsets)
        self._waiting.deletes.watch(operation, open_offsets, now_ms + timeout_ms)
        return Parked(operation)

    def _find(self, key: TopicPartition, current_leader_epoch: int, only_leader: bool) -> Partition:
        partition = self._hosted.partitions.get(key)
        if partition is None:
            raise KafkaError(self._hosted.missing_error(key))
        error = partition.check_access(current_leader_epoch, only_leader)
        if error:
            raise KafkaError(error)
        return partition


def _list_offset(
    partition: Partition, query: OffsetQuery, searched: Searched | None
) -> OffsetAnswer:
    log = partition.log
    timestamp = query.timestamp
    if query.isolation is Isolation.LOG_END:
        end_offset = partition.log.log_end_offset
    else:
        end_offset = partition.readable_end_offset(query.isolation)
    is_behind = (
        query.isolation is not Isolation.LOG_END
        and partition.leader_epoch_start_offset > log.high_watermark
    )
    if timestamp == LATEST_TIMESTAMP:
        if is_behind:
            return OffsetAnswer(ErrorCode.OFFSET_NOT_AVAILABLE)
        return OffsetAnswer(ErrorCode.NONE, NO_TIMESTAMP, end_offset, partition.leader_epoch)
    if timestamp != EARLIEST_TIMESTAMP and log.config.record_version == 0:
        raise KafkaError(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        is_local = timestamp == EARLIEST_LOCAL_TIMESTAMP
        start_offset = log.local_log_start_offset if is_local else log.log_start_offset
        epoch = log.leader_epochs.epoch_for_offset(start_offset)
        return OffsetAnswer(
            ErrorCode.NONE, NO_TIMESTAMP, start_offset, NO_EPOCH if epoch is None else epoch
        )
    if timestamp == LATEST_TIERED_TIMESTAMP:
        highest = log.highest_offset_in_remote_storage
        epoch = log.leader_epochs.epoch_for_offset(highest)
        return OffsetAnswer(
            ErrorCode.NONE, NO_TIMESTAMP, highest, NO_EPOCH if epoch is None else epoch
        )
    if timestamp == EARLIEST_PENDING_UPLOAD_TIMESTAMP:
        return OffsetAnswer(ErrorCode.NONE)
    if searched is not None:
        found = searched.found
    elif timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp()
    else:
        found = log.offset_for_timestamp(timestamp)
    if found is not None and found.offset < end_offset:
        return OffsetAnswer(ErrorCode.NONE, found.timestamp, found.offset, found.leader_epoch)
    if is_behind:
        return OffsetAnswer(ErrorCode.OFFSET_NOT_AVAILABLE)
    return OffsetAnswer(ErrorCode.NONE)


def _delete_up_to(partition: Partition, offset: int) -> tuple[int, int]:
    """Move the leader's log start; (offset that all must reach, low watermark now)."""
    log = partition.log
    if not log.config.delete:
        raise KafkaError(ErrorCode.POLICY_VIOLATION)
    target = log.high_watermark if offset == HIGH_WATERMARK_OFFSET else offset
    if target < 0 or target > log.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    log.maybe_increment_log_start_offset(target)
    return target, partition.low_watermark()
