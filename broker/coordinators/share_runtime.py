"""Drives the share coordinator: answers, appends to `__share_group_state`, pruning.

Job: perform the effects of its machine, give it the outcomes of its appends, and time writes. The
rest of its life (effects in order, timers, loading and unloading) is that of every coordinator:
`coordinator_runtime`.

Invariant: every Append is reported back once.

Mirrors the scheduling in Kafka's ShareCoordinatorService.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...coordinator.group.consumer.topics import TopicImage
from ...coordinator.share.config import ShareCoordinatorConfig
from ...coordinator.share.effects import Append, Effect, Prune, Reply
from ...coordinator.share.share_coordinator import ShareCoordinator
from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant
from ...protocol.records.compression import Compression
from ...protocol.topics import SHARE_STATE_TOPIC
from ...replication.types import ACKS_ALL, ProduceResult
from ..replicas.applied_replicas import AppliedReplicas
from .coordinator_runtime import CoordinatorRuntime, internal_partition_count

if TYPE_CHECKING:
    from ...protocol.apis.write_share_group_state import WriteShareGroupStateRequest
    from ..config.kafka_config import KafkaConfig
    from ..observability.metrics import BrokerMetrics
    from ..zk.zookeeper_client import ZooKeeperClient

logger = logging.getLogger("pybroker.broker.share")

WINDOW_MS: Final = 30_000


def share_config(config: KafkaConfig) -> ShareCoordinatorConfig:
    """The coordinator's part of the broker's configuration."""
    value = config.value
    return ShareCoordinatorConfig(
        snapshot_update_records_per_snapshot=value(
            "share.coordinator.snapshot.update.records.per.snapshot"
        ),
        write_timeout_ms=value("share.coordinator.write.timeout.ms"),
        compression=Compression(value("share.coordinator.state.topic.compression.codec")),
        prune_interval_ms=value("share.coordinator.state.topic.prune.interval.ms"),
        cold_partition_snapshot_interval_ms=value(
            "share.coordinator.cold.partition.snapshot.interval.ms"
        ),
    )


async def share_partition_count(zookeeper: ZooKeeperClient, config: KafkaConfig) -> int:
    """Partitions of the topic of states."""
    configured = config.get_int("share.coordinator.state.topic.num.partitions")
    return await internal_partition_count(zookeeper, SHARE_STATE_TOPIC, configured)


class WriteTimes:
    """How many states were written, and how long writes took, in ms: in this window and the one
    before."""

    __slots__ = ("_before", "_now", "_window")

    def __init__(self) -> None:
        self._window = 0
        self._now = self._before = _NO_WRITES

    def record(self, took_ms: int, now_ms: int) -> None:
        self._look_at(now_ms)
        now = self._now
        self._now = now._replace(
            writes=now.writes + 1,
            total_ms=now.total_ms + took_ms,
            longest_ms=max(now.longest_ms, took_ms),
        )

    def count(self, states: int, now_ms: int) -> None:
        """A write of so many states begins."""
        self._look_at(now_ms)
        self._now = self._now._replace(states=self._now.states + states)

    def states_a_second(self, now_ms: int) -> float:
        self._look_at(now_ms)
        states = self._before.states + self._now.states
        return states * 1000 / (WINDOW_MS + now_ms % WINDOW_MS)

    def average_ms(self, now_ms: int) -> float:
        self._look_at(now_ms)
        count = self._before.writes + self._now.writes
        return (self._before.total_ms + self._now.total_ms) / max(1, count)

    def longest_ms(self, now_ms: int) -> int:
        self._look_at(now_ms)
        return max(self._before.longest_ms, self._now.longest_ms)

    def _look_at(self, now_ms: int) -> None:
        window = now_ms // WINDOW_MS
        if window != self._window:
            self._before = self._now if window == self._window + 1 else _NO_WRITES
            self._now = _NO_WRITES
            self._window = window


class _Writes(NamedTuple):
    states: int
    writes: int
    total_ms: int
    longest_ms: int


_NO_WRITES: Final = _Writes(0, 0, 0, 0)


class _Write:
    """The token of a write: its answer is timed."""

    __slots__ = ("_runtime", "_since_ms", "_token")

    def __init__(self, runtime: ShareRuntime, token: Any, since_ms: int) -> None:
        self._runtime = runtime
        self._token = token
        self._since_ms = since_ms

    def __repr__(self) -> str:
        return repr(self._token)

    def respond(self, response: Any) -> None:
        now_ms = self._runtime.now_ms
        self._runtime.write_times.record(now_ms - self._since_ms, now_ms)
        self._token.respond(response)

    def close(self) -> None:
        self._token.close()


class ShareRuntime(CoordinatorRuntime[ShareCoordinator, Effect]):
    """One broker's share coordinator and everything that it needs of the broker."""

    __slots__ = ("_write_timeout_ms", "write_times")

    topic = SHARE_STATE_TOPIC
    logger = logger

    def __init__(
        self,
        replicas: AppliedReplicas,
        config: ShareCoordinatorConfig,
        image: TopicImage,
        *,
        clock: Callable[[], int],
        load_buffer_bytes: int,
    ) -> None:
        super().__init__(
            replicas,
            ShareCoordinator(config, replicas.wall, image),
            {Reply: self._reply, Append: self._append, Prune: self._prune},
            clock=clock,
            load_buffer_bytes=load_buffer_bytes,
        )
        self._write_timeout_ms = config.write_timeout_ms
        self.write_times = WriteTimes()

    def write(self, token: Any, request: WriteShareGroupStateRequest, now_ms: int) -> None:
        """`machine.write`, timed."""
        before = self.machine.writes
        self.machine.write(_Write(self, token, now_ms), request, now_ms)
        self.write_times.count(self.machine.writes - before, now_ms)

    def on_topics_deleted(self) -> None:
        """Topics were deleted: so are the states of their share partitions."""
        self.machine.topics_deleted(self.now_ms)
        self.perform()

    def register_gauges(self, metrics: BrokerMetrics) -> None:
        """Kafka's share-coordinator-metrics."""
        prefix, machine = "kafka_server_share_coordinator_metrics_", self.machine
        times = self.write_times
        metrics.gauge(prefix + "write_latency_avg", lambda: times.average_ms(self.now_ms))
        metrics.gauge(prefix + "write_latency_max", lambda: times.longest_ms(self.now_ms))
        metrics.gauge(prefix + "write_rate", lambda: times.states_a_second(self.now_ms))
        metrics.gauge(prefix + "write_total", lambda: machine.writes)
        metrics.gauge_family(prefix + "last_pruned_offset", ("partition",), self._by_partition)

    def _by_partition(self) -> Iterable[tuple[tuple[str, ...], int]]:
        return [((str(partition),), offset) for partition, offset in self.machine.pruned()]

    # Effects

    def _reply(self, effect: Reply) -> None:
        request = effect.token
        try:
            request.respond(effect.response)
        except BrokenInvariant:
            raise
        except Exception:
            logger.exception("Answering %r failed; closing its connection", request)
            request.close()

    def _append(self, append: Append) -> None:
        self._append_batch(append, ACKS_ALL, self._write_timeout_ms)

    def append_completed(self, append: Append, result: ProduceResult, now_ms: int) -> None:
        """The outcome of an append, at once or after waiting for replicas."""
        self.machine.appended(append.append_id, result.error_code, result.base_offset)
        if not self._is_performing:
            self.perform()

    def _prune(self, effect: Prune) -> None:
        key = (SHARE_STATE_TOPIC, effect.partition)
        result = self._replicas.prune(key, effect.before_offset, self.now_ms)
        if result.error_code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            logger.warning(
                "%s-%d is not pruned before %d: %s",
                *key,
                effect.before_offset,
                result.error_code.name,
            )

    def _unload(self, partition: int, epoch: int | None) -> None:
        self.machine.unload(partition, epoch)
