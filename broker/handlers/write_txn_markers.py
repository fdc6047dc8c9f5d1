"""WriteTxnMarkers v0-1: the end of a transaction, written into the partitions that it touched.

Each marker becomes a control batch in each of its partitions, appended with acks=all. The answer
goes out when all of them are replicated (or have failed), with an error for each partition. Markers
in partitions of the offsets topic then complete the offsets that were committed within the
transaction.

A coordinator's request that comes late (`coordinator.connection_order`) is left out and its
connection closed: its markers have been written for a newer one, and would end the producer's next
transaction in the middle.

Mirrors KafkaApis.handleWriteTxnMarkersRequest. Left out: authorization.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ...coordinator.connection_order import ConnectionOrders
from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.messages.transactions import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.records.batch import ControlRecordType, EndTxnMarker
from ...protocol.records.builder import build_end_txn_marker
from ...protocol.topics import OFFSETS_TOPIC, TopicPartition
from ...replication.types import ACKS_ALL, ProduceResults
from ...storage.append_info import AppendOrigin
from ..replicas.settled_replicas import SettledReplicas

if TYPE_CHECKING:
    from ..network.request import Handler, Request

_MAGIC_V2 = 2
# How coordinators name themselves to the leaders of partitions, Apache Kafka's as ours.
COORDINATOR = re.compile(r"broker-\d{1,10}-txn-marker-sender")
MAX_COORDINATORS = 1_000

logger = logging.getLogger("pybroker.broker.transactions")

# (producer id, partitions of the offsets topic, whether the transaction was committed)
OnOffsetsEnded = Callable[[int, frozenset[int], bool], None]


class WriteTxnMarkersHandler:
    __slots__ = ("_connections", "_on_offsets_ended", "_replicas", "_timeout_ms")

    def __init__(
        self, replicas: SettledReplicas, on_offsets_ended: OnOffsetsEnded, timeout_ms: int
    ) -> None:
        """`timeout_ms`: how long followers are waited for (request.timeout.ms)."""
        self._replicas = replicas
        self._connections = ConnectionOrders[str](MAX_COORDINATORS)
        self._on_offsets_ended = on_offsets_ended
        self._timeout_ms = timeout_ms

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.WRITE_TXN_MARKERS: self.write}

    def _is_late(self, request: Request) -> bool:
        sender = request.client_id or ""
        is_coordinator = COORDINATOR.fullmatch(sender) is not None  # else it is an administrator
        return is_coordinator and self._connections.is_late(sender, request.peer.number)

    def write(self, request: Request) -> None:
        body: WriteTxnMarkersRequest = request.body
        if self._is_late(request):
            logger.info("Late markers of %s are left out", request.client_id)
            request.close()
            return
        replicas, partitions = self._replicas, self._replicas.hosted.partitions
        now_ms = replicas.clock()
        write = _Write(request, self._on_offsets_ended, len(body.markers))
        for index, marker in enumerate(body.markers):
            entries: dict[TopicPartition, bytearray] = {}
            errors: dict[TopicPartition, ErrorCode] = {}
            for topic in marker.topics:
                for partition in topic.partition_indexes:
                    key = (topic.name, partition)
                    hosted = partitions.get(key)
                    if hosted is None:
                        errors[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    elif hosted.log.config.record_version < _MAGIC_V2:
                        errors[key] = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
                    else:
                        entries[key] = _control_batch(marker, now_ms)
            write.errors.append(errors)
            results = replicas.append(
                ACKS_ALL,
                self._timeout_ms,
                entries,
                now_ms,
                _MarkerWait,
                write,
                index,
                origin=AppendOrigin.COORDINATOR,
            )
            if results is not None:
                write.appended(index, results)
        write.answer_if_complete()


class _Write:
    """One request: the outcome of each of its markers as it comes."""

    __slots__ = ("_is_answered", "_on_offsets_ended", "_open_count", "_request", "errors")

    def __init__(self, request: Request, on_offsets_ended: OnOffsetsEnded, count: int) -> None:
        self._request = request
        self._on_offsets_ended = on_offsets_ended
        self._open_count = count
        self._is_answered = False
        self.errors: list[dict[TopicPartition, ErrorCode]] = []

    def appended(self, index: int, results: ProduceResults) -> None:
        errors = self.errors[index]
        for key, result in results.items():
            errors[key] = result.error_code
        marker = self._request.body.markers[index]
        offsets_partitions = frozenset(
            partition
            for (topic, partition), error in errors.items()
            if topic == OFFSETS_TOPIC and error is ErrorCode.NONE
        )
        if offsets_partitions:
            self._on_offsets_ended(
                marker.producer_id, offsets_partitions, marker.transaction_result
            )
        self._open_count -= 1

    def answer_if_complete(self) -> None:
        """Not while the request is still being read: a later marker may be done before it."""
        if self._open_count or self._is_answered:
            return
        self._is_answered = True
        markers: list[WritableTxnMarker] = self._request.body.markers
        by_producer: dict[int, dict[TopicPartition, ErrorCode]] = {}
        for marker, errors in zip(markers, self.errors, strict=True):
            by_producer.setdefault(marker.producer_id, {}).update(errors)
        self._request.respond(
            WriteTxnMarkersResponse(
                markers=[
                    WritableTxnMarkerResult(producer_id=producer_id, topics=_by_topic(errors))
                    for producer_id, errors in by_producer.items()
                ]
            )
        )


class _MarkerWait:
    """The replica manager's token of a marker that waits for followers."""

    __slots__ = ("_index", "_write")

    def __init__(self, write: _Write, index: int) -> None:
        self._write = write
        self._index = index

    def complete(self, results: ProduceResults) -> None:
        self._write.appended(self._index, results)
        self._write.answer_if_complete()


def _control_batch(marker: WritableTxnMarker, now_ms: int) -> bytearray:
    kind = ControlRecordType.COMMIT if marker.transaction_result else ControlRecordType.ABORT
    return build_end_txn_marker(
        EndTxnMarker(kind, marker.coordinator_epoch),
        timestamp=now_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )


def _by_topic(errors: Mapping[TopicPartition, ErrorCode]) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, partition), error in errors.items():
        topics.setdefault(topic, []).append(
            WritableTxnMarkerPartitionResult(partition_index=partition, error_code=error)
        )
    return [
        WritableTxnMarkerTopicResult(name=topic, partitions=partitions)
        for topic, partitions in topics.items()
    ]
