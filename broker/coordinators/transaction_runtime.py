"""Drives the transaction coordinator: appends, markers, producer ids, answers.

Job: perform the effects of the transactions' machine and give it their outcomes. The rest of its
life (effects in order, timers, loading and unloading) is that of every coordinator:
`coordinator_runtime`.

Invariants: every Append, every job of markers and every AllocateProducerId is reported back once.

Mirrors the scheduling in Kafka's TransactionCoordinator and TransactionStateManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

import trio

from ...coordinator.partition_load import PartitionLoad
from ...coordinator.transaction.core import (
    AllocateProducerId,
    Append,
    Attempt,
    Effect,
    MarkerJob,
    Reply,
    SendMarkers,
    TransactionConfig,
)
from ...coordinator.transaction.metadata import RAISES_EPOCHS
from ...coordinator.transaction.transaction_coordinator import TransactionCoordinator
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.invariants import BrokenInvariant
from ...protocol.topics import TRANSACTIONS_TOPIC, TopicPartition
from ...replication.inter_broker import NEWEST
from ...replication.types import ACKS_ALL, ProduceResult
from ..cluster.broker_connection import Connect, connect_plaintext
from ..replicas.applied_replicas import AppliedReplicas
from .coordinator_runtime import CoordinatorRuntime, internal_partition_count
from .marker_sender import MarkerSender, Results
from .marker_writer import MarkerWriter

if TYPE_CHECKING:
    from ..config.kafka_config import KafkaConfig
    from ..observability.metrics import BrokerMetrics
    from ..zk.zookeeper_client import ZooKeeperClient
    from .producer_ids import ProducerIds

logger = logging.getLogger("pybroker.broker.transactions")


def transaction_config(config: KafkaConfig) -> TransactionConfig:
    """The coordinator's part of the broker's configuration."""
    value = config.value
    return TransactionConfig(
        transactional_id_expiration_ms=value("transactional.id.expiration.ms"),
        max_timeout_ms=value("transaction.max.timeout.ms"),
        abort_timed_out_interval_ms=value(
            "transaction.abort.timed.out.transaction.cleanup.interval.ms"
        ),
        remove_expired_interval_ms=value(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
        request_timeout_ms=value("request.timeout.ms"),
        proves=value("pybroker.coordinator.proof"),
    )


async def transactions_partition_count(zookeeper: ZooKeeperClient, config: KafkaConfig) -> int:
    """Partitions of the topic of the transactions."""
    configured = config.get_int("transaction.state.log.num.partitions")
    return await internal_partition_count(zookeeper, TRANSACTIONS_TOPIC, configured)


class TransactionRuntime(CoordinatorRuntime[TransactionCoordinator, Effect]):
    """One broker's transaction coordinator and everything that it needs of the broker."""

    __slots__ = ("_producer_ids", "markers")

    topic = TRANSACTIONS_TOPIC
    logger = logger

    def __init__(
        self,
        replicas: AppliedReplicas,
        config: TransactionConfig,
        producer_ids: ProducerIds,
        marker_writer: MarkerWriter,
        *,
        listener: str,
        clock: Callable[[], int],
        load_buffer_bytes: int,
        connect: Connect = connect_plaintext,
        markers_version: Callable[[], int] = lambda: NEWEST.write_txn_markers,
        version: Callable[[], int] = lambda: 0,
    ) -> None:
        """`listener` is the one on which the other brokers are asked to write markers; `version`
        gives the finalized transaction.version."""
        super().__init__(
            replicas,
            TransactionCoordinator(config, replicas.wall, version),
            {
                Reply: self._reply,
                Append: self._append,
                SendMarkers: self._send_markers,
                AllocateProducerId: self._start_allocating,
            },
            clock=clock,
            load_buffer_bytes=load_buffer_bytes,
        )
        self.markers = MarkerSender(
            replicas.manager.config.broker_id,
            replicas.manager.metadata,
            listener,
            self._markers_answered,
            marker_writer,
            timeout_ms=config.request_timeout_ms,
            connect=connect,
            version=markers_version,
        )
        self._producer_ids = producer_ids

    async def run(
        self,
        partition_count: int,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled, with the sender of markers."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self.markers.run)
            await nursery.start(super().run, partition_count)
            task_status.started()

    def register_gauges(self, metrics: BrokerMetrics) -> None:
        """Kafka's TransactionMarkerChannelManager and transaction-coordinator-metrics."""
        machine, times = self.machine, self.load_times_ms
        sender = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
        metrics.gauge(sender + "unknowndestinationqueuesize", lambda: machine.marker_retries)
        metrics.gauge(sender + "logappendretryqueuesize", lambda: machine.log_append_retries)
        coordinator = "kafka_server_transaction_coordinator_metrics_"
        metrics.gauge(coordinator + "partition_load_time_max", lambda: max(times, default=0))
        metrics.gauge(
            coordinator + "partition_load_time_avg", lambda: sum(times) / max(1, len(times))
        )

    # For the leaders of this broker

    def add_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Collection[TopicPartition],
        on_answer: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        """Add partitions for a producer of version 2, without a request; `on_answer` gets an error
        for each of them, NONE included."""
        self.machine.add_partitions(
            _OwnQuestion(partitions, on_answer),
            transactional_id,
            producer_id,
            producer_epoch,
            partitions,
            self.now_ms,
            client_version=RAISES_EPOCHS,
        )
        self.perform()

    # Effects

    def _reply(self, effect: Reply) -> None:
        call = effect.token
        try:
            call.answer(effect.result)
        except BrokenInvariant:
            raise
        except Exception:
            logger.exception("Answering %r failed; closing its connection", call)
            call.close()

    def _append(self, append: Append) -> None:
        self._append_batch(append, ACKS_ALL, append.timeout_ms)

    def append_completed(self, append: Append, result: ProduceResult, now_ms: int) -> None:
        """The outcome of an append, at once or after waiting for replicas."""
        self.machine.appended(append.append_id, result.error_code, now_ms)
        self.perform()

    def _send_markers(self, effect: SendMarkers) -> None:
        self.markers.send(effect.job)

    def _markers_answered(self, job: MarkerJob, results: Results) -> None:
        self.machine.markers_answered(job, results, self.now_ms)
        self.perform()

    def _start_allocating(self, effect: AllocateProducerId) -> None:
        self._start(self._allocate, effect.attempt)

    async def _allocate(self, attempt: Attempt) -> None:
        allocated: int | ErrorCode
        try:
            allocated = await self._producer_ids.next_id()
        except KafkaError as error:
            allocated = error.code
        self.machine.producer_id_allocated(attempt, allocated, self.now_ms)
        self.perform()

    # Leadership

    def _unload(self, partition: int, epoch: int | None) -> None:
        self.machine.unload(partition, epoch)
        self.markers.queues.unload(partition)

    def _begin_load(self, partition: int, epoch: int) -> PartitionLoad | None:
        load = super()._begin_load(partition, epoch)
        if load is not None:
            self.markers.queues.unload(partition)
        return load


class _OwnQuestion:
    """The token of partitions that this broker's own leaders add."""

    __slots__ = ("_on_answer", "_partitions")

    def __init__(
        self,
        partitions: Collection[TopicPartition],
        on_answer: Callable[[Mapping[TopicPartition, ErrorCode]], None],
    ) -> None:
        self._partitions = partitions
        self._on_answer = on_answer

    def answer(self, error: ErrorCode) -> None:
        self._on_answer(dict.fromkeys(self._partitions, error))

    def close(self) -> None:
        """There is no connection to close."""
