"""WriteTxnMarkers v0-2: the end of a transaction, written into the partitions that it touched.

The markers are written by `coordinators.marker_writer`. The answer goes out when all of them are
replicated (or have failed), with an error for each partition. This broker's own coordinator does
not come this way: it asks the writer itself.

A coordinator's request that comes late (`coordinator.connection_order`) is left out and its
connection closed: its markers have been written for a newer one, and would end the producer's next
transaction in the middle.

Mirrors KafkaApis.handleWriteTxnMarkersRequest. Left out: authorization.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ...coordinator.connection_order import ConnectionOrders
from ...protocol.api import ApiKey
from ...protocol.apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ...protocol.errors import ErrorCode
from ...protocol.topics import TopicPartition
from ..coordinators.marker_writer import Errors, Marker, MarkerWriter

if TYPE_CHECKING:
    from ..network.request import Handler, Request

# How coordinators name themselves to the leaders of partitions, Apache Kafka's as ours.
COORDINATOR = re.compile(r"broker-\d{1,10}-txn-marker-sender")
MAX_COORDINATORS = 1_000

logger = logging.getLogger("pybroker.broker.transactions")


class WriteTxnMarkersHandler:
    __slots__ = ("_connections", "_writer")

    def __init__(self, writer: MarkerWriter) -> None:
        self._writer = writer
        self._connections = ConnectionOrders[str](MAX_COORDINATORS)

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
        call = _Call(request)
        for index, entry in enumerate(body.markers):
            marker = Marker(
                entry.producer_id,
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.transaction_result,
                entry.transaction_version,
            )
            self._writer.write(marker, _partitions(entry), partial(call.written, index))
        if not body.markers:
            call.answer()


class _Call:
    """One request: the outcome of each of its markers as it comes."""

    __slots__ = ("_errors", "_missing", "_request")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._missing = len(request.body.markers)
        self._errors: list[Errors] = [{}] * self._missing

    def written(self, index: int, errors: Errors) -> None:
        self._errors[index] = errors
        self._missing -= 1
        if self._missing == 0:
            self.answer()

    def answer(self) -> None:
        markers: list[WritableTxnMarker] = self._request.body.markers
        by_producer: dict[int, Errors] = {}
        for marker, errors in zip(markers, self._errors, strict=True):
            by_producer.setdefault(marker.producer_id, {}).update(errors)
        self._request.respond(
            WriteTxnMarkersResponse(
                markers=[
                    WritableTxnMarkerResult(producer_id=producer_id, topics=_by_topic(errors))
                    for producer_id, errors in by_producer.items()
                ]
            )
        )


def _partitions(marker: WritableTxnMarker) -> Iterator[TopicPartition]:
    for topic in marker.topics:
        for partition in topic.partition_indexes:
            yield topic.name, partition


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
