"""The layer of tiered storage in a broker: imported and built if
`remote.log.storage.system.enable` is set.

Mirrors: KafkaServer.createRemoteLogManager, RemoteLogManagerConfig.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable
from typing import NamedTuple

from ...client.cluster import Cluster
from ...storage.log_directory import REMOTE_INDEX_DIRECTORY, TIER_DELETIONS_FILE
from ...storage.remote.deletions import TierDeletions
from ...storage.remote.index_cache import RemoteIndexCache
from ...storage.remote.loading import InvalidStorageManager, load
from ..cluster.parts import Ground
from ..cluster.topic_creation import random_uuid
from ..config import ConfigError, KafkaConfig
from ..config.definitions import BROKER_CONFIGS
from ..replicas.parts import Replicas
from . import tier_gauges
from .copy_process import with_copies_elsewhere
from .metadata_config import metadata_topic_config
from .metadata_manager import RemoteLogMetadataManager
from .remote_log_manager import RemoteLogManager, RemoteSettings
from .remote_reads import RemoteReads
from .side_by_side import side_by_side
from .tier_take_overs import TierTakeOvers
from .topic_metadata_manager import TopicRemoteLogMetadataManager

logger = logging.getLogger("pybroker.broker.remote.parts")

_METADATA_CLASS = "remote.log.metadata.manager.class.name"
_CLASS = "remote.log.storage.manager.class.name"


class Remote(NamedTuple):
    metadata: RemoteLogMetadataManager
    tasks: RemoteLogManager
    reads: RemoteReads
    take_overs: TierTakeOvers
    indexes: RemoteIndexCache

    def configs_changed(self, config: KafkaConfig, replicas: Replicas) -> None:
        """Apply the keys that may change while the broker runs."""
        bytes_of = config.get_int
        self.tasks.copy_quota.limit = bytes_of("remote.log.manager.copy.max.bytes.per.second")
        self.reads.quota.limit = bytes_of("remote.log.manager.fetch.max.bytes.per.second")
        self.reads.ahead.resize(bytes_of("pybroker.remote.prefetch.max.bytes"))
        self.indexes.resize(bytes_of("remote.log.index.file.cache.total.size.bytes"))
        waiting = replicas.manager.waiting
        waiting.remote_fetch_max_wait_ms = config.get_int("remote.fetch.max.wait.ms")


def build_remote(ground: Ground, replicas: Replicas, address_of: Callable[[str], str]) -> Remote:
    """ConfigError if the storage manager cannot be made. `address_of` a listener of this broker is
    asked for when it is bound."""
    config = ground.config
    if len(config.log_dirs) > 1:
        raise ConfigError("tiered storage is not supported with several log.dirs")
    other = config.get_optional_string(_METADATA_CLASS)
    if other != BROKER_CONFIGS[_METADATA_CLASS].default:
        raise ConfigError(f"{_METADATA_CLASS}={other} is a class of Java, which cannot run here")
    name = config.get_optional_string(_CLASS)
    if name is None:
        raise ConfigError(f"remote.log.storage.system.enable needs {_CLASS}")
    prefix = config.get_string("remote.log.storage.manager.impl.prefix")
    configs = {**with_prefix(config, prefix), "broker.id": str(ground.broker_id)}
    try:
        store = with_copies_elsewhere(load(name, configs), name, configs)
    except InvalidStorageManager as error:
        raise ConfigError(f"{_CLASS}: {error}") from None
    indexes = RemoteIndexCache(
        os.path.join(config.log_dirs[0], REMOTE_INDEX_DIRECTORY),
        store,
        config.get_int("remote.log.index.file.cache.total.size.bytes"),
        threading.Lock,
        side_by_side=side_by_side,
    )
    metadata = metadata_manager(config, address_of)
    threads = config.get_int("remote.log.manager.thread.pool.size")
    remote = Remote(
        metadata,
        RemoteLogManager(
            replicas.runtime,
            store,
            metadata,
            indexes,
            RemoteSettings(
                ground.broker_id,
                config.get_int("remote.log.manager.task.interval.ms"),
                _threads(config, "remote.log.manager.copier.thread.pool.size", threads),
                _threads(config, "remote.log.manager.expiration.thread.pool.size", threads),
                config.get_int("remote.log.metadata.custom.metadata.max.bytes"),
            ),
            lambda: random_uuid(random.SystemRandom()),
            TierDeletions(os.path.join(config.log_dirs[0], TIER_DELETIONS_FILE)),
        ),
        RemoteReads(
            replicas.runtime,
            store,
            metadata,
            indexes,
            threads=config.get_int("remote.log.reader.threads"),
            max_pending=config.get_int("remote.log.reader.max.pending.tasks"),
        ),
        TierTakeOvers(store, metadata),
        indexes,
    )
    replicas.manager.hosted.note_tier_deletion = remote.tasks.note_deletion
    replicas.runtime.on_remote_read = remote.reads.read
    replicas.runtime.on_rebuild_from_tier = remote.tasks.rebuild
    replicas.runtime.on_take_over_tier = remote.take_overs.begin
    replicas.manager.hosted.has_tier = True
    remote.tasks.on_rebuilt = replicas.fetchers.tier_read
    replicas.manager.reader.tier_quota = remote.reads.quota
    ground.topic_configs.on_change.append(lambda topic, _: remote.tasks.on_config(topic))
    _register_gauges(ground, replicas, remote)
    _measure_quotas(config, remote)
    remote.configs_changed(config, replicas)
    return remote


def _register_gauges(ground: Ground, replicas: Replicas, remote: Remote) -> None:
    metrics, reads = ground.metrics, remote.reads
    metrics.with_tier()
    tier_gauges.register(metrics, remote.tasks.led)
    waiting = replicas.manager.waiting.remote_fetches
    metrics.gauge(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        waiting.__len__,
        delayedOperation=waiting.name,
    )
    metrics.gauge(
        "kafka_server_delayedremotefetchmetrics_expires_total", lambda: waiting.expired_count
    )
    pool = "org_apache_kafka_storage_internals_log_remotestoragethreadpool_"
    tasks = "kafka_log_remote_remotelogmanager_"
    metrics.gauge(pool + "remotelogreadertaskqueuesize", lambda: reads.queue_size)
    metrics.gauge(pool + "remotelogreaderavgidlepercent", lambda: reads.idle_share)
    metrics.durations(tasks + "remotelogreaderfetchrateandtimems", reads.times)
    metrics.gauge(tasks + "remotelogmanagertasksavgidlepercent", lambda: remote.tasks.idle_share)


def with_prefix(config: KafkaConfig, prefix: str) -> dict[str, str]:
    """The configs that begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): text
        for name, text in config.explicit().items()
        if name.startswith(prefix)
    }


def _threads(config: KafkaConfig, name: str, default: int) -> int:
    count = config.get_int(name)
    return default if count < 0 else count


def _measure_quotas(config: KafkaConfig, remote: Remote) -> None:
    remote.tasks.copy_quota.measure_over(
        config.get_int("remote.log.manager.copy.quota.window.num"),
        1000 * config.get_int("remote.log.manager.copy.quota.window.size.seconds"),
    )
    remote.reads.quota.measure_over(
        config.get_int("remote.log.manager.fetch.quota.window.num"),
        1000 * config.get_int("remote.log.manager.fetch.quota.window.size.seconds"),
    )


def metadata_manager(
    config: KafkaConfig, address_of: Callable[[str], str]
) -> RemoteLogMetadataManager:
    """The clients of the metadata topic begin at this broker's own listener, unless
    `bootstrap.servers` is set for them."""
    prefix = config.get_string("remote.log.metadata.manager.impl.prefix")
    name = config.get_optional_string("remote.log.metadata.manager.listener.name")
    listener = (name or config.inter_broker_listener).upper()
    known = {one.name: one.security_protocol for one in config.listeners}
    if listener not in known:
        raise ConfigError(
            f"remote.log.metadata.manager.listener.name={name} is none of {', '.join(known)}"
        )
    topic = metadata_topic_config(with_prefix(config, prefix), prefix)

    def open_cluster() -> Cluster:
        client = {"security.protocol": known[listener], **topic.client}
        bootstrap = client.pop("bootstrap.servers", None) or address_of(listener)
        security = None if client == {"security.protocol": "PLAINTEXT"} else client
        return Cluster(bootstrap, logger.warning, security=security)

    return TopicRemoteLogMetadataManager(topic, open_cluster)
