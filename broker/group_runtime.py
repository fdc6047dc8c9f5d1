"""Drives the group coordinator: appends, timers, loading and unloading, answers.

Job: give the machine its events and perform its effects in the order in which it emits them, which
is also the order of the records in `__consumer_offsets`. Everything happens on the broker's loop,
except reading the bytes of a partition that is loaded, and parsing them, which is done in a worker
thread, one partition at a time (as Kafka's one-thread group-metadata-manager scheduler).

Invariants: the machine is never called from inside itself: effects go through one queue, which is
drained by whoever finds it idle. Every Append with acks is reported back once.

Mirrors the scheduling in Kafka's GroupMetadataManager and `onElection` / `onResignation`.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from math import inf
from typing import TYPE_CHECKING, Any

import trio

from broker.internal_topics import internal_partition_count, read_partition
from broker.replica_shell import ReplicaShell
from coordinator.group.core import ACKS_NONE, Append, Effect, GroupConfig, Reply
from coordinator.group.loader import PartitionLoad
from coordinator.group.machine import GroupCoordinator
from coordinator.group.states import GroupState
from protocol.errors import ErrorCode
from protocol.records.compression import Compression
from replication.partition import Partition
from replication.types import Done, PartitionKey, ProduceResults, RoleChange
from storage.log import AppendOrigin

if TYPE_CHECKING:
    from broker.config.kafka_config import KafkaConfig
    from broker.dispatch import Request
    from broker.metrics import BrokerMetrics
    from broker.zookeeper_client import ZooKeeperClient

log = logging.getLogger("broker.groups")

OFFSETS_TOPIC = "__consumer_offsets"
MAX_LOADING_THREADS = 1
CLOCK_STEP_MS = 500

_MS = 1000
_MS_PER_MINUTE = 60_000


def group_config(config: KafkaConfig) -> GroupConfig:
    """The coordinator's part of the broker's configuration."""
    value = config.value
    return GroupConfig(
        min_session_timeout_ms=value("group.min.session.timeout.ms"),
        max_session_timeout_ms=value("group.max.session.timeout.ms"),
        max_size=value("group.max.size"),
        initial_rebalance_delay_ms=value("group.initial.rebalance.delay.ms"),
        offset_metadata_max_bytes=value("offset.metadata.max.bytes"),
        offsets_retention_ms=value("offsets.retention.minutes") * _MS_PER_MINUTE,
        offsets_retention_check_interval_ms=value("offsets.retention.check.interval.ms"),
        offsets_topic_compression=Compression(value("offsets.topic.compression.codec")),
        commit_required_acks=value("offsets.commit.required.acks"),
    )


async def offsets_partition_count(zookeeper: ZooKeeperClient, config: KafkaConfig) -> int:
    """Partitions of the offsets topic."""
    configured = config.get_int("offsets.topic.num.partitions")
    return await internal_partition_count(zookeeper, OFFSETS_TOPIC, configured)


class AppendWaiter:
    """The replica manager's token of an append that waits for replicas."""

    __slots__ = ("append", "runtime")

    def __init__(self, runtime: GroupRuntime, append: Append) -> None:
        self.runtime = runtime
        self.append = append

    def complete(self, result: ProduceResults) -> None:
        self.runtime.append_completed(self.append, result)


class GroupRuntime:
    """One broker's group coordinator and everything that it needs of the broker."""

    __slots__ = (
        "_clock",
        "_clock_lead_ms",
        "_commit_timeout_ms",
        "_effects",
        "_is_draining",
        "_load_buffer_bytes",
        "_load_limit",
        "_nursery",
        "_replicas",
        "_sleep_until_ms",
        "_wake",
        "machine",
    )

    def __init__(
        self,
        replicas: ReplicaShell,
        config: GroupConfig,
        *,
        clock: Callable[[], int],
        commit_timeout_ms: int,
        load_buffer_bytes: int,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.machine = GroupCoordinator(config, new_uuid)
        self._replicas = replicas
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._load_buffer_bytes = load_buffer_bytes
        self._load_limit = trio.CapacityLimiter(MAX_LOADING_THREADS)
        self._effects: deque[Effect] = deque()
        self._is_draining = False
        self._clock_lead_ms = 0
        self._sleep_until_ms: float = inf
        self._wake = trio.Event()
        self._nursery: trio.Nursery | None = None

    @property
    def now_ms(self) -> int:
        """The wall clock, held against trio's clock: a step of it must not end sessions."""
        now_ms = self._clock()
        lead_ms = now_ms - int(trio.current_time() * _MS)
        step_ms = lead_ms - self._clock_lead_ms
        if abs(step_ms) >= CLOCK_STEP_MS:
            log.warning("The system clock was set by %d ms", step_ms)
            self._clock_lead_ms = lead_ms
            self.machine.clock_was_set(step_ms)
        return now_ms

    async def run(
        self,
        partition_count: int,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until cancelled; `partition_count` is that of the offsets topic, made or to be."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._clock_lead_ms = self._clock() - int(trio.current_time() * _MS)
            self.machine.start(partition_count, self.now_ms)
            nursery.start_soon(self._run_timers)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self.machine.stop()

    def spawn(
        self, handler: Callable[..., Awaitable[None]], request: Request, *arguments: Any
    ) -> None:
        """Answer a request in a task of its own."""
        assert self._nursery is not None, "the group runtime does not run"
        self._nursery.start_soon(self._guarded, handler, request, *arguments)

    async def _guarded(
        self, handler: Callable[..., Awaitable[None]], request: Request, *arguments: Any
    ) -> None:
        try:
            await handler(request, *arguments)
        except Exception:
            log.exception("Handling %r failed; closing its connection", request)
            request.close()

    def register_gauges(self, metrics: BrokerMetrics) -> None:
        """Kafka's GroupMetadataManager and group-coordinator-metrics."""
        groups, stats = self.machine.groups, self.machine.stats
        manager = "kafka_coordinator_group_groupmetadatamanager_"
        metrics.gauge(manager + "numgroups", lambda: len(groups))
        metrics.gauge(manager + "numoffsets", lambda: sum(len(g.offsets) for g in groups))
        for state in GroupState:

            def count(state: GroupState = state) -> int:
                return sum(group.state is state for group in groups)

            metrics.gauge(manager + f"numgroups{state.value.lower()}", count)
        coordinator = "kafka_server_group_coordinator_metrics_"
        for name, read in (
            ("offset_commit_count", lambda: stats.offsets_committed),
            ("offset_deletion_count", lambda: stats.offsets_deleted),
            ("offset_expiration_count", lambda: stats.offsets_expired),
            ("group_completed_rebalance_count", lambda: stats.rebalances_completed),
        ):
            metrics.gauge(coordinator + name, read)

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
                else:
                    self._append(effect)
        finally:
            self._is_draining = False
        self._note_deadline()

    def _reply(self, effect: Reply) -> None:
        request = effect.token
        try:
            request.respond(effect.response)
        except Exception:
            log.exception("Answering %r failed; closing its connection", request)
            request.close()

    def _append(self, append: Append) -> None:
        now_ms = self.now_ms
        waiter = AppendWaiter(self, append)
        key = (OFFSETS_TOPIC, append.partition)
        guard = append.verification
        outcome = self._replicas.manager.append(
            waiter,
            append.required_acks,
            self._commit_timeout_ms,
            {key: append.batch},
            now_ms,
            origin=AppendOrigin.COORDINATOR,
            guards=None if guard is None else {key: guard},
        )
        if isinstance(outcome, Done):
            self.append_completed(append, outcome.result)
        else:
            self._replicas.parked(self._commit_timeout_ms, now_ms)
        self._replicas.settle()

    def append_completed(self, append: Append, results: ProduceResults) -> None:
        """The outcome of an append, at once or after waiting for replicas."""
        result = results[OFFSETS_TOPIC, append.partition]
        if append.required_acks == ACKS_NONE:
            if result.error_code is not ErrorCode.NONE:
                log.warning(
                    "Appending tombstones to %s-%d failed: %s",
                    OFFSETS_TOPIC,
                    append.partition,
                    result.error_code.name,
                )
            return
        base_offset = result.base_offset if result.error_code is ErrorCode.NONE else -1
        self.perform(
            self.machine.appended(append.append_id, result.error_code, base_offset, self.now_ms)
        )

    # Timers

    def _note_deadline(self) -> None:
        deadline_ms = self.machine.next_deadline_ms()
        if deadline_ms is not None and deadline_ms < self._sleep_until_ms:
            self._wake.set()

    async def _run_timers(self) -> None:
        while True:
            deadline_ms = self.machine.next_deadline_ms()
            self._sleep_until_ms = inf if deadline_ms is None else deadline_ms
            seconds = inf if deadline_ms is None else max(0, deadline_ms - self.now_ms) / _MS
            with trio.move_on_after(seconds):
                await self._wake.wait()
            self._wake = trio.Event()
            self.perform(self.machine.tick(self.now_ms))

    # Leadership

    def on_leadership_change(
        self,
        became_leader: Iterable[RoleChange],
        became_follower: Iterable[RoleChange],
        now_ms: int,
    ) -> None:
        """Partitions whose role changed here; topics other than the offsets topic are ignored.

        Load what this broker leads now, unload what it leads no more. A partition whose replica was
        stopped counts as a follower; a negative epoch means that it is not known.
        """
        for change in became_follower:
            if change.topic == OFFSETS_TOPIC:
                epoch = change.leader_epoch if change.leader_epoch >= 0 else None
                self.perform(self.machine.unload(change.partition, epoch, now_ms))
        for change in became_leader:
            if change.topic == OFFSETS_TOPIC:
                self._start_load(change.partition, change.leader_epoch, now_ms)

    def on_markers(self, producer_id: int, partitions: frozenset[int], committed: bool) -> None:
        """A transaction's markers are in these partitions of the offsets topic, and replicated."""
        self.machine.complete_transaction(producer_id, partitions, committed=committed)

    def on_partitions_deleted(self, partitions: Collection[PartitionKey], now_ms: int) -> None:
        """Partitions were deleted with their topics: so are the offsets committed for them."""
        if partitions:
            self.perform(self.machine.partitions_deleted(partitions, now_ms))

    def _start_load(self, partition: int, epoch: int, now_ms: int) -> None:
        load = self.machine.begin_load(partition, epoch)
        if load is None:
            return
        replica = self._replicas.manager.partitions.get((OFFSETS_TOPIC, partition))
        if replica is None:
            log.error("%s-%d is led here but has no log", OFFSETS_TOPIC, partition)
            self.machine.abandon_load(load)
            return
        load.next_offset = replica.log.log_start_offset
        if load.next_offset >= replica.log.log_end_offset:
            self.perform(self.machine.finish_load(load, now_ms))
        else:
            assert self._nursery is not None, "the group runtime does not run"
            self._nursery.start_soon(self._load, load, replica)

    async def _load(self, load: PartitionLoad, replica: Partition) -> None:
        started_ms = self.now_ms
        try:
            async with self._load_limit:
                await read_partition(load, replica, self._load_buffer_bytes)
        except Exception:
            # Not served rather than served without its groups: consumers would start over.
            log.exception("Loading %s-%d failed", OFFSETS_TOPIC, load.partition)
            self.machine.abandon_load(load)
            return
        now_ms = self.now_ms
        self.perform(self.machine.finish_load(load, now_ms))
        log.info(
            "Loaded %s-%d in epoch %d: %d records in %d ms, %d skipped",
            OFFSETS_TOPIC,
            load.partition,
            load.epoch,
            load.record_count,
            now_ms - started_ms,
            load.skipped_count,
        )
