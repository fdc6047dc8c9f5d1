"""Sends transaction markers: a task and a connection for each broker that leads partitions.

Job: send the markers that wait for a broker as one WriteTxnMarkers, report the answer. Failed
markers are reported as unanswered, and come again from the coordinator, by then perhaps for another
leader. Markers for partitions that this broker leads are written at once, some partitions at a
time, and without a request, so that none can arrive late.

Mirrors kafka.coordinator.transaction.TransactionMarkerChannelManager (the sender thread), which
sends to its own broker over a socket as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial

import trio

from ...coordinator.transaction.core import MarkerJob
from ...coordinator.transaction.markers import (
    NO_BROKER,
    MarkerQueues,
    marker_results,
    markers_request,
)
from ...protocol.apis.write_txn_markers import WriteTxnMarkersResponse
from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant
from ...protocol.topics import TopicPartition
from ...replication.inter_broker import NEWEST
from ...replication.metadata_cache import Endpoint, MetadataCache
from ..cluster.broker_connection import BrokerConnection, ChannelError, Connect, connect_plaintext
from .marker_writer import Marker, MarkerWriter

logger = logging.getLogger("pybroker.broker.transactions")

# Kafka's client id, by which leaders recognise the sender (`handlers.write_txn_markers`).
CLIENT_ID = "broker-{}-txn-marker-sender"
# Partitions of one transaction written at once: about a millisecond.
MAX_OWN_PARTITIONS = 50

Results = Mapping[TopicPartition, ErrorCode]
OnResults = Callable[[MarkerJob, Results], None]


class MarkerSender:
    """Sends the markers of jobs; `on_results` is called once for each of their partitions."""

    def __init__(
        self,
        broker_id: int,
        cache: MetadataCache,
        listener: str,
        on_results: OnResults,
        writer: MarkerWriter,
        *,
        timeout_ms: int,
        connect: Connect = connect_plaintext,
        version: Callable[[], int] = lambda: NEWEST.write_txn_markers,
    ) -> None:
        """`writer` writes into the partitions that this broker leads."""
        self._broker_id = broker_id
        self._client_id = CLIENT_ID.format(broker_id)
        self._cache = cache
        self._listener = listener
        self._on_results = on_results
        self._writer = writer
        self._timeout_ms = timeout_ms
        self._connect = connect
        self._version = version
        self._wakes: dict[int, trio.Event] = {}
        self._nursery: trio.Nursery | None = None
        self.queues = MarkerQueues(self._leader_of)
        self.max_own_partitions = MAX_OWN_PARTITIONS

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            await trio.sleep_forever()

    def send(self, job: MarkerJob) -> None:
        """Send the job's markers to the leaders of this moment."""
        routed = self.queues.add(job)
        for broker_id in routed.brokers:
            if broker_id == self._broker_id:
                self._write_piece()
            if self.queues.waits(broker_id):
                self._wake(broker_id)
        if routed.gone:
            logger.info(
                "%s is complete for deleted partitions %s", job.transactional_id, routed.gone
            )
            self._report(job, routed.gone, ErrorCode.NONE)
        if routed.leaderless:
            self._report(job, routed.leaderless, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _report(
        self, job: MarkerJob, partitions: frozenset[TopicPartition], error: ErrorCode
    ) -> None:
        self._on_results(job._replace(partitions=partitions), dict.fromkeys(partitions, error))

    def _leader_of(self, partition: TopicPartition) -> int | None:
        state = self._cache.partition_state(*partition)
        if state is None:
            return None
        return NO_BROKER if self._endpoint_of(state.leader) is None else state.leader

    def _endpoint_of(self, broker_id: int) -> Endpoint | None:
        return self._cache.broker_endpoint(broker_id, self._listener)

    def _wake(self, broker_id: int) -> None:
        wake = self._wakes.get(broker_id)
        if wake is None:
            assert self._nursery is not None, "the marker sender does not run"
            self._wakes[broker_id] = trio.Event()
            is_own = broker_id == self._broker_id
            self._nursery.start_soon(self._write_rest if is_own else self._send_to, broker_id)
        else:
            wake.set()

    async def _write_rest(self, broker_id: int) -> None:
        """Write the rest of the markers that were too many to be written at once."""
        while True:
            if self.queues.waits(broker_id):
                self._write_piece()
                await trio.lowlevel.checkpoint()
            else:
                self._wakes[broker_id] = trio.Event()
                await self._wakes[broker_id].wait()

    def _write_piece(self) -> None:
        job = self.queues.take_piece(self._broker_id, self.max_own_partitions)
        marker = Marker(
            job.producer_id,
            job.producer_epoch,
            job.coordinator_epoch,
            job.committed,
            job.transaction_version,
        )
        try:
            self._writer.write(marker, job.partitions, partial(self._on_results, job))
        except BrokenInvariant:
            raise
        except Exception:
            logger.exception("Writing markers of %s failed", job.transactional_id)
            self._on_results(job, {})

    async def _send_to(self, broker_id: int) -> None:
        connection: BrokerConnection | None = None
        try:
            while True:
                if not self.queues.waits(broker_id):
                    self._wakes[broker_id] = trio.Event()
                    await self._wakes[broker_id].wait()
                    continue
                endpoint = self._endpoint_of(broker_id)
                if connection is not None and connection.endpoint != endpoint:
                    connection.close()
                    connection = None
                if connection is None and endpoint is not None:
                    connection = BrokerConnection(
                        endpoint,
                        self._client_id,
                        connect=self._connect,
                        timeout_ms=self._timeout_ms,
                    )
                await self._exchange(broker_id, connection)
        finally:
            if connection is not None:
                connection.close()

    async def _exchange(self, broker_id: int, connection: BrokerConnection | None) -> None:
        jobs = self.queues.take(broker_id)
        results: Mapping[int, Results] = {}
        if connection is not None:
            try:
                response = await connection.send(markers_request(jobs), self._version())
            except ChannelError as error:
                logger.info("Broker %d has not got %d markers: %s", broker_id, len(jobs), error)
            else:
                assert isinstance(response, WriteTxnMarkersResponse)
                results = marker_results(response)
        for job in jobs:
            self._on_results(job, results.get(job.producer_id, {}))
