"""Appends to the partitions that this broker leads.

Invariant: a result is pending only while the replicas or the disk that it waits for can still
answer for it; a partition that is lost with its disk in the middle of an append answers so at once.

The hot path (one partition, acks=1 or a leader without followers) is the append, the HW, and a look
at each purgatory in which operations wait. The caller has looked up the partition, once.

Mirrors ReplicaManager.appendRecords / appendToLocalLog.
"""

from collections.abc import Mapping
from typing import Final

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.topics import TopicPartition
from ..storage.log_producers import RebuildUnderWay
from ..storage.validation import AppendInput
from .delayed_operations import DelayedProduce
from .hosted_partitions import HostedPartitions
from .partition import Partition
from .types import (
    ACKS_ALL,
    UNKNOWN_OFFSET,
    Done,
    FlushNeeded,
    Parked,
    ProduceResult,
    ProduceResults,
    RebuildProducers,
    ReplicatedAppend,
)
from .waiting import WaitingOperations

# Append errors that Kafka answers without the log start offset.
_WITHOUT_OFFSETS: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Appends:
    __slots__ = (
        "_collected",
        "_effects",
        "_hosted",
        "_partitions",
        "_waiting",
        "converted_bytes",
    )

    def __init__(self, hosted: HostedPartitions, waiting: WaitingOperations) -> None:
        self._hosted = hosted
        self._partitions = hosted.partitions
        self._effects = hosted.effects
        self._waiting = waiting
        self._collected = waiting.collected
        # The size of all batches that were built anew for a produce.
        self.converted_bytes = 0

    def append(
        self, token: object, entries: Mapping[TopicPartition, AppendInput], append: ReplicatedAppend
    ) -> Done[ProduceResults] | Parked:
        """Append to partitions."""
        results: ProduceResults = {}
        open_keys: set[TopicPartition] | None = None
        partitions, internal_topics = self._partitions, self._hosted.config.internal_topics
        for key, records in entries.items():
            if not append.internal_topics_allowed and key[0] in internal_topics:
                results[key] = ProduceResult(ErrorCode.INVALID_TOPIC_EXCEPTION)
                continue
            result = self.append_one(key, partitions.get(key), records, append)
            results[key] = result
            if result.is_pending:
                if open_keys is None:
                    open_keys = {key}
                else:
                    open_keys.add(key)
        if open_keys is not None and not partitions.keys() >= open_keys:
            # The disk of one failed while the next one was appended to.
            for key in open_keys - partitions.keys():
                results[key].error_code = ErrorCode.KAFKA_STORAGE_ERROR
                open_keys.discard(key)
        if not open_keys:
            return Done(results)
        return self.wait(token, results, open_keys, append)

    def wait(
        self,
        token: object,
        results: ProduceResults,
        open_keys: set[TopicPartition],
        append: ReplicatedAppend,
    ) -> Parked:
        """Park a produce until its open partitions are complete."""
        operation = DelayedProduce(token, append.required_acks, results, open_keys)
        # With acks=1 only our own disk is waited for, which answers or fails: no deadline.
        deadline_ms = None
        if append.required_acks == ACKS_ALL:
            deadline_ms = append.now_ms + append.timeout_ms
        self._waiting.produces.watch(operation, open_keys, deadline_ms)
        return Parked(operation)

    def append_one(
        self,
        key: TopicPartition,
        partition: Partition | None,
        records: AppendInput,
        append: ReplicatedAppend,
    ) -> ProduceResult:
        """Append to one partition, which the caller has found in `hosted`; None: there is none.
        `is_pending` is set in the result if it has to wait."""
        if partition is None:
            return self._missing(key)
        stats = partition.stats
        stats.produce_requests += 1
        try:
            info = partition.append_as_leader(records, append)
        except KafkaError as error:
            stats.failed_produce_requests += 1
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._waiting.storage_failed(key, error)
            elif isinstance(error, RebuildUnderWay):
                self._effects.append(RebuildProducers(partition.log))
            return _failed_append(error, partition)
        required_offset = info.last_offset + 1
        if info.size_bytes and not info.duplicate:
            stats.bytes_in += info.size_bytes
            stats.messages_in += required_offset - info.first_offset
            if info.flush_needed:
                self._effects.append(FlushNeeded(*key, required_offset, partition.log))
            if info.converted_count:
                stats.produce_message_conversions += info.converted_count
                self.converted_bytes += info.size_bytes
            if partition.maybe_advance_high_watermark(append.now_ms):
                self._waiting.high_watermark_moved(key, partition)
            else:
                self._waiting.appended(key, partition, info.first_offset, append.now_ms)
            if self._collected.operations:
                self._collected.appended(info.size_bytes, self._effects)
        result = ProduceResult(
            ErrorCode.NONE,
            info.first_offset,
            info.log_append_time,
            info.log_start_offset,
            required_offset,
        )
        required_acks = append.required_acks
        if required_acks == ACKS_ALL:
            if partition.log.high_watermark < required_offset:
                result.is_pending = True
            elif len(partition.isr.maximal) < partition.effective_min_isr:
                result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        elif required_acks:
            result.is_pending = not partition.is_durable(required_offset)
        return result

    def _missing(self, key: TopicPartition) -> ProduceResult:
        hosted = self._hosted
        if hosted.metadata.contains(key[0]):
            # Unknown topics are not counted: their counters would grow without a limit.
            hosted.stats_of(key[0]).failed_produce_requests += 1
        return ProduceResult(hosted.missing_error(key))


def _failed_append(error: KafkaError, partition: Partition) -> ProduceResult:
    record_errors = getattr(error, "record_errors", ())
    if record_errors:
        partition.stats.invalid_record_batches += 1
    log_start_offset = partition.log.log_start_offset
    if error.code in _WITHOUT_OFFSETS:
        log_start_offset = UNKNOWN_OFFSET
    return ProduceResult(
        error.code,
        log_start_offset=log_start_offset,
        error_message=error.message,
        record_errors=record_errors,
    )
