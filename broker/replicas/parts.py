"""The layer of replicas in a broker: the parts that host, move and follow partitions.

Job: build them and connect them with each other, from the configuration. Nothing runs yet.
"""

from __future__ import annotations

from typing import NamedTuple

from ...replication.follower_steps import FetcherConfig
from ...replication.metadata_cache import MetadataCache
from ...replication.replica_manager import ReplicaManager
from ...replication.replica_selector import RackAwareReplicaSelector, ReplicaSelector
from ...replication.types import ReplicaConfig
from ..cluster.parts import Control, Ground
from ..config import ConfigError, KafkaConfig
from .alter_partition_sender import AlterPartitionSender
from .fetcher_runtime import FetcherRuntime
from .log_dir_mover import LogDirMover
from .replica_runtime import ReplicaRuntime

LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Replicas(NamedTuple):
    manager: ReplicaManager
    runtime: ReplicaRuntime
    fetchers: FetcherRuntime
    mover: LogDirMover
    isr_changes: AlterPartitionSender


def build_replicas(ground: Ground, control: Control) -> Replicas:
    """Build the replica manager, and the parts that move data into and between logs."""
    config, clock = ground.config, ground.clock
    manager = ReplicaManager(
        ReplicaConfig(
            broker_id=ground.broker_id,
            replica_lag_time_max_ms=config.get_int("replica.lag.time.max.ms"),
            fetch_max_bytes=config.get_int("fetch.max.bytes"),
        ),
        ground.logs,
        control.cache,
        ground.topic_configs.config_for,
        now_ms=clock(),
        replica_selector=replica_selector(config, control.cache),
    )
    apply_replication_quotas(config, manager)
    ground.metrics.topic_stats = manager.hosted.topic_stats
    ground.topic_configs.on_change.append(
        lambda topic, changed: manager.apply_topic_config(topic, changed, clock())
    )
    runtime = ReplicaRuntime(manager, clock)
    runtime.flusher.set_max_threads(config.get_int("num.io.threads"))
    fetchers = FetcherRuntime(
        runtime,
        config.inter_broker_listener,
        fetcher_config(config),
        connect=ground.connectors.to(config.inter_broker_listener),
        fetchers_per_source=config.get_int("num.replica.fetchers"),
        timeout_ms=config.get_int("replica.socket.timeout.ms"),
    )
    runtime.on_flush = fetchers.on_flush
    isr_changes = AlterPartitionSender(
        ground.broker_id, runtime, control.client, ground.zookeeper, config.inter_broker_protocol
    )
    runtime.on_isr_change = isr_changes.propose
    runtime.on_failed_log_dir = isr_changes.log_dir_failed
    return Replicas(
        manager, runtime, fetchers, LogDirMover(runtime, _copies_at_once(config)), isr_changes
    )


# Settings


def fetcher_config(config: KafkaConfig) -> FetcherConfig:
    return FetcherConfig(
        wait_max_ms=config.get_int("replica.fetch.wait.max.ms"),
        min_bytes=config.get_int("replica.fetch.min.bytes"),
        response_max_bytes=config.get_int("replica.fetch.response.max.bytes"),
        partition_max_bytes=config.get_int("replica.fetch.max.bytes"),
        shares_room=not config.is_set("replica.fetch.max.bytes"),
        backoff_ms=config.get_int("replica.fetch.backoff.ms"),
        truncates_on_fetch=config.inter_broker_protocol.truncates_on_fetch,
        protocol=config.inter_broker_protocol,
    )


def apply_replication_quotas(config: KafkaConfig, manager: ReplicaManager) -> None:
    """The throttles of both sides, and of moves between directories; the rates are dynamic."""
    for quota, side in ((manager.leader_quota, "leader"), (manager.follower_quota, "follower")):
        quota.limit = config.get_int(f"{side}.replication.throttled.rate")
        quota.measure_over(
            config.get_int("replication.quota.window.num"),
            1000 * config.get_int("replication.quota.window.size.seconds"),
        )
    moves = manager.moves.quota
    moves.limit = config.get_int("replica.alter.log.dirs.io.max.bytes.per.second")
    moves.measure_over(
        config.get_int("alter.log.dirs.replication.quota.window.num"),
        1000 * config.get_int("alter.log.dirs.replication.quota.window.size.seconds"),
    )


def _copies_at_once(config: KafkaConfig) -> int:
    """The number of replicas copied to another log directory at the same time."""
    if config.is_set("num.replica.alter.log.dirs.threads"):
        return max(1, config.get_int("num.replica.alter.log.dirs.threads"))
    return len(config.log_dirs)


def replica_selector(config: KafkaConfig, metadata: MetadataCache) -> ReplicaSelector | None:
    """The class that chooses a consumer's replica (KIP-392); None: always the leader."""
    name = config.get_optional_string("replica.selector.class")
    if not name or name == LEADER_SELECTOR:
        return None
    if name == RACK_AWARE_SELECTOR:
        return RackAwareReplicaSelector(metadata)
    raise ConfigError(
        f"replica.selector.class={name} is not known; there are {LEADER_SELECTOR} and "
        f"{RACK_AWARE_SELECTOR}"
    )
