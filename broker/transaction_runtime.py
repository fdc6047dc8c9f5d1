"""Drives the transaction coordinator: appends, markers, producer ids, timers, loading, answers.

Job: give the machine its events and perform its effects in the order in which it emits them, which
is also the order of the records in `__transaction_state`. Everything happens on the broker's loop,
except reading the bytes of a partition that is loaded, and parsing them, which is done in a worker
thread, one partition at a time (as Kafka's one-thread transaction-log-manager scheduler).

Invariants: the machine is never called from inside itself: effects go through one queue, which is
drained by whoever finds it idle. Every Append and every AllocateProducerId is reported back once.

Mirrors the scheduling in Kafka's TransactionCoordinator and TransactionStateManager.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import TYPE_CHECKING

import trio

from broker.control_channel import Connect, connect_plaintext
from broker.internal_topics import internal_partition_count, read_partition
from broker.marker_sender import MarkerSender, Results
from broker.replica_shell import ReplicaShell
from broker.topic_creation import TRANSACTIONS_TOPIC
from coordinator.transaction.core import (
    AllocateProducerId,
    Append,
    Effect,
    InitAttempt,
    MarkerJob,
    Reply,
    SendMarkers,
    TransactionConfig,
)
from coordinator.transaction.loader import PartitionLoad
from coordinator.transaction.machine import TransactionCoordinator
from protocol.errors import ErrorCode, KafkaError
from replication.partition import Partition
from replication.types import Done, ProduceResults, RoleChange
from storage.log import AppendOrigin

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from broker.metrics import BrokerMetrics
    from broker.producer_ids import ProducerIds
    from broker.zookeeper_client import ZooKeeperClient

log = logging.getLogger("broker.transactions")

MAX_LOADING_THREADS = 1
CLOCK_STEP_MS = 500
ACKS_ALL = -1

_MS = 1000


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
    )


async def transactions_partition_count(zookeeper: ZooKeeperClient, config: KafkaConfig) -> int:
    """Partitions of the topic of the transactions."""
    configured = config.get_int("transaction.state.log.num.partitions")
    return await internal_partition_count(zookeeper, TRANSACTIONS_TOPIC, configured)


class AppendWaiter:
    """The replica manager's token of an append that waits for replicas."""

    __slots__ = ("append", "runtime")

    def __init__(self, runtime: TransactionRuntime, append: Append) -> None:
        self.runtime = runtime
        self.append = append

    def complete(self, result: ProduceResults) -> None:
        self.runtime.append_completed(self.append, result)


class TransactionRuntime:
    """One broker's transaction coordinator and everything that it needs of the broker."""

    __slots__ = (
        "_clock",
        "_clock_lead_ms",
        "_effects",
        "_is_draining",
        "_load_buffer_bytes",
        "_load_limit",
        "_load_times_ms",
        "_nursery",
        "_producer_ids",
        "_replicas",
        "_sleep_until_ms",
        "_wake",
        "machine",
        "markers",
    )

    def __init__(
        self,
        replicas: ReplicaShell,
        config: TransactionConfig,
        producer_ids: ProducerIds,
        *,
        listener: str,
        clock: Callable[[], int],
        load_buffer_bytes: int,
        connect: Connect = connect_plaintext,
    ) -> None:
        """`listener` is the one on which the other brokers are asked to write markers."""
        self.machine = TransactionCoordinator(config)
        self.markers = MarkerSender(
            replicas.manager.metadata,
            listener,
            self._markers_answered,
            timeout_ms=config.request_timeout_ms,
            connect=connect,
        )
        self._replicas = replicas
        self._producer_ids = producer_ids
        self._clock = clock
        self._load_buffer_bytes = load_buffer_bytes
        self._load_limit = trio.CapacityLimiter(MAX_LOADING_THREADS)
        self._load_times_ms: deque[int] = deque(maxlen=100)
        self._effects: deque[Effect] = deque()
        self._is_draining = False
        self._clock_lead_ms = 0
        self._sleep_until_ms: float = inf
        self._wake = trio.Event()
        self._nursery: trio.Nursery | None = None

    @property
    def now_ms(self) -> int:
        """The wall clock; the machine's own deadlines are moved along when it is set."""
        now_ms = self._clock()
        lead_ms = now_ms - int(trio.current_time() * _MS)
        step_ms = lead_ms - self._clock_lead_ms
        if abs(step_ms) >= CLOCK_STEP_MS:
            self._clock_lead_ms = lead_ms
            self.machine.clock_was_set(step_ms)
        return now_ms

    async def run(
        self,
        partition_count: int,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled; `partition_count` is that of the topic, made or to be."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._clock_lead_ms = self._clock() - int(trio.current_time() * _MS)
            await nursery.start(self.markers.run)
            self.machine.start(partition_count, self.now_ms)
            nursery.start_soon(self._run_timers)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self.machine.stop()

    def register_gauges(self, metrics: BrokerMetrics) -> None:
        """Kafka's TransactionMarkerChannelManager and transaction-coordinator-metrics."""
        machine, times = self.machine, self._load_times_ms
        sender = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
        metrics.gauge(sender + "unknowndestinationqueuesize", lambda: machine.marker_retries)
        metrics.gauge(sender + "logappendretryqueuesize", lambda: machine.log_append_retries)
        coordinator = "kafka_server_transaction_coordinator_metrics_"
        metrics.gauge(coordinator + "partition_load_time_max", lambda: max(times, default=0))
        metrics.gauge(
            coordinator + "partition_load_time_avg", lambda: sum(times) / max(1, len(times))
        )

    # Effects

    def perform(self, effects: Iterable[Effect]) -> None:
        """Perform effects, after all that are queued already."""
        self._effects.extend(effects)
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._effects:
                effect = self._effects.popleft()
                if isinstance(effect, Reply):
                    self._reply(effect)
                elif isinstance(effect, Append):
                    self._append(effect)
                elif isinstance(effect, SendMarkers):
                    self.markers.send(effect.job)
                else:
                    assert isinstance(effect, AllocateProducerId)
                    assert self._nursery is not None, "the transaction runtime does not run"
                    self._nursery.start_soon(self._allocate, effect.attempt)
        finally:
            self._is_draining = False
        self._note_deadline()

    def _reply(self, effect: Reply) -> None:
        call = effect.token
        try:
            call.answer(effect.result)
        except Exception:
            log.exception("Answering %r failed; closing its connection", call)
            call.close()

    def _append(self, append: Append) -> None:
        now_ms = self.now_ms
        outcome = self._replicas.manager.append(
            AppendWaiter(self, append),
            ACKS_ALL,
            append.timeout_ms,
            {(TRANSACTIONS_TOPIC, append.partition): append.batch},
            now_ms,
            origin=AppendOrigin.COORDINATOR,
        )
        if isinstance(outcome, Done):
            self.append_completed(append, outcome.result)
        else:
            self._replicas.parked(append.timeout_ms, now_ms)
        self._replicas.settle()

    def append_completed(self, append: Append, results: ProduceResults) -> None:
        """The outcome of an append, at once or after waiting for replicas."""
        error = results[TRANSACTIONS_TOPIC, append.partition].error_code
        self.perform(self.machine.appended(append.append_id, error, self.now_ms))

    def _markers_answered(self, job: MarkerJob, results: Results) -> None:
        self.perform(self.machine.markers_answered(job, results, self.now_ms))

    async def _allocate(self, attempt: InitAttempt) -> None:
        allocated: int | ErrorCode
        try:
            allocated = await self._producer_ids.next_id()
        except KafkaError as error:
            allocated = error.code
        self.perform(self.machine.producer_id_allocated(attempt, allocated, self.now_ms))

    # Timers

    def _note_deadline(self) -> None:
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is not None and deadline_ms < self._sleep_until_ms:
            self._wake.set()

    async def _run_timers(self) -> None:
        while True:
            now_ms = self.now_ms
            deadline_ms = self.machine.next_deadline_ms()
            self._sleep_until_ms = inf if deadline_ms is None else deadline_ms
            seconds = inf if deadline_ms is None else max(0, deadline_ms - now_ms) / _MS
            with trio.move_on_after(seconds):
                await self._wake.wait()
            self._wake = trio.Event()
            self.perform(self.machine.tick(self.now_ms))

    # Leadership

    def on_leadership_change(
        self, became_leader: Iterable[RoleChange], became_follower: Iterable[RoleChange]
    ) -> None:
        """Partitions whose role changed here; other topics are ignored.

        Load what this broker leads now, unload what it leads no more. A partition whose replica was
        stopped counts as a follower; a negative epoch means that it is not known.
        """
        for change in became_follower:
            if change.topic == TRANSACTIONS_TOPIC:
                epoch = change.leader_epoch if change.leader_epoch >= 0 else None
                self.machine.unload(change.partition, epoch)
                self.markers.queues.unload(change.partition)
        for change in became_leader:
            if change.topic == TRANSACTIONS_TOPIC:
                self._start_load(change.partition, change.leader_epoch)

    def _start_load(self, partition: int, epoch: int) -> None:
        load = self.machine.begin_load(partition, epoch)
        if load is None:
            return
        self.markers.queues.unload(partition)
        replica = self._replicas.manager.partitions.get((TRANSACTIONS_TOPIC, partition))
        if replica is None:
            log.error("%s-%d is led here but has no log", TRANSACTIONS_TOPIC, partition)
            self.machine.abandon_load(load)
            return
        load.next_offset = replica.log.log_start_offset
        if load.next_offset >= replica.log.log_end_offset:
            self.perform(self.machine.finish_load(load, self.now_ms))
        else:
            assert self._nursery is not None, "the transaction runtime does not run"
            self._nursery.start_soon(self._load, load, replica)

    async def _load(self, load: PartitionLoad, replica: Partition) -> None:
        started = trio.current_time()
        try:
            async with self._load_limit:
                await read_partition(load, replica, self._load_buffer_bytes)
        except Exception:
            # Not served rather than served without its ids: zombies would not be fenced.
            log.exception("Loading %s-%d failed", TRANSACTIONS_TOPIC, load.partition)
            self.machine.abandon_load(load)
            return
        self.perform(self.machine.finish_load(load, self.now_ms))
        took_ms = int((trio.current_time() - started) * _MS)
        self._load_times_ms.append(took_ms)
        log.info(
            "Loaded %s-%d in epoch %d: %d records in %d ms, %d skipped",
            TRANSACTIONS_TOPIC,
            load.partition,
            load.epoch,
            load.record_count,
            took_ms,
            load.skipped_count,
        )
