"""Writes the end of transactions into the partitions that this broker leads.

Job: a marker becomes a control batch in each of its partitions, appended with acks=all. The caller
is notified once, when all of them are replicated or have failed. Markers in partitions of the
offsets topic then complete the offsets that were committed within the transaction.

Mirrors the appends of KafkaApis.handleWriteTxnMarkersRequest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...protocol.records.batch import ControlRecordType, EndTxnMarker
from ...protocol.records.builder import build_end_txn_marker
from ...protocol.topics import OFFSETS_TOPIC, TopicPartition
from ...replication.types import ACKS_ALL, ProduceResults, ReplicatedAppend
from ...storage.append_info import AppendOrigin
from ..replicas.applied_replicas import AppliedReplicas

_MAGIC_V2 = 2

Errors = dict[TopicPartition, ErrorCode]
OnWritten = Callable[[Errors], None]
# (producer id, partitions of the offsets topic, whether the transaction was committed)
OnOffsetsEnded = Callable[[int, frozenset[int], bool], None]


class Marker(NamedTuple):
    """The end of a producer's transaction, and the coordinator that reports it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int = 0


class MarkerWriter:
    __slots__ = ("_on_offsets_ended", "_replicas", "_timeout_ms")

    def __init__(
        self, replicas: AppliedReplicas, on_offsets_ended: OnOffsetsEnded, timeout_ms: int
    ) -> None:
        """`timeout_ms`: how long followers are waited for (request.timeout.ms)."""
        self._replicas = replicas
        self._on_offsets_ended = on_offsets_ended
        self._timeout_ms = timeout_ms

    def write(
        self, marker: Marker, partitions: Iterable[TopicPartition], on_written: OnWritten
    ) -> None:
        """`on_written` gets an error for each of the partitions once, NONE included: perhaps before
        this returns, and after `timeout_ms` at the latest."""
        hosted = self._replicas.hosted.partitions
        now_ms = self._replicas.clock()
        batch = _control_batch(marker, self._replicas.wall.stamp_ms(now_ms))
        entries: dict[TopicPartition, bytearray] = {}
        errors: Errors = {}
        for key in partitions:
            partition = hosted.get(key)
            if partition is None:
                errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif partition.log.config.record_version < _MAGIC_V2:
                errors[key] = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
            else:
                entries[key] = bytearray(batch)  # its offset is written into it
        write = _Write(marker, errors, on_written, self._on_offsets_ended)
        append = ReplicatedAppend(
            ACKS_ALL,
            self._timeout_ms,
            now_ms,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=marker.transaction_version,
        )
        results = self._replicas.append(entries, append, _the_write, (write,))
        if results is not None:
            write.complete(results)


class _Write:
    """One marker in progress; the replica manager's token while it waits for followers."""

    __slots__ = ("_errors", "_marker", "_on_offsets_ended", "_on_written")

    def __init__(
        self,
        marker: Marker,
        errors: Errors,
        on_written: OnWritten,
        on_offsets_ended: OnOffsetsEnded,
    ) -> None:
        self._marker = marker
        self._errors = errors
        self._on_written = on_written
        self._on_offsets_ended = on_offsets_ended

    def complete(self, results: ProduceResults) -> None:
        errors = self._errors
        for key, result in results.items():
            errors[key] = result.error_code
        offsets_partitions = frozenset(
            partition
            for (topic, partition), error in errors.items()
            if topic == OFFSETS_TOPIC and error is ErrorCode.NONE
        )
        if offsets_partitions:
            self._on_offsets_ended(
                self._marker.producer_id, offsets_partitions, self._marker.committed
            )
        self._on_written(errors)


def _the_write(write: _Write) -> _Write:
    return write


def _control_batch(marker: Marker, stamp_ms: int) -> bytearray:
    kind = ControlRecordType.COMMIT if marker.committed else ControlRecordType.ABORT
    return build_end_txn_marker(
        EndTxnMarker(kind, marker.coordinator_epoch),
        timestamp=stamp_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )
