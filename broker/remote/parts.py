"""The layer of tiered storage in a broker: built if `remote.log.storage.system.enable` is set.

Mirrors: KafkaServer.createRemoteLogManager, RemoteLogManagerConfig.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from ...storage.remote.loading import InvalidStorageManager, load
from ..cluster.parts import Ground
from ..cluster.topic_creation import random_uuid
from ..config import ConfigError, KafkaConfig
from ..replicas.parts import Replicas
from .indexes import RemoteIndexes
from .metadata_manager import RemoteLogMetadataManager
from .remote_log_manager import RemoteLogManager, RemoteSettings
from .remote_reads import RemoteReads

_CLASS = "remote.log.storage.manager.class.name"


class Remote(NamedTuple):
    metadata: RemoteLogMetadataManager
    tasks: RemoteLogManager
    reads: RemoteReads
    indexes: RemoteIndexes


def build_remote(ground: Ground, replicas: Replicas) -> Remote | None:
    """ConfigError if the storage manager cannot be made."""
    config = ground.config
    if not config.get_boolean("remote.log.storage.system.enable"):
        return None
    if len(config.log_dirs) > 1:
        raise ConfigError("tiered storage is not supported with several log.dirs")
    name = config.get_optional_string(_CLASS)
    if name is None:
        raise ConfigError(f"remote.log.storage.system.enable needs {_CLASS}")
    prefix = config.get_string("remote.log.storage.manager.impl.prefix")
    try:
        store = load(name, {**with_prefix(config, prefix), "broker.id": str(ground.broker_id)})
    except InvalidStorageManager as error:
        raise ConfigError(f"{_CLASS}: {error}") from None
    indexes = RemoteIndexes(store, config.get_int("remote.log.index.file.cache.total.size.bytes"))
    metadata = metadata_manager(ground, replicas)
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
        ),
        RemoteReads(
            replicas.runtime,
            store,
            metadata,
            indexes,
            threads=config.get_int("remote.log.reader.threads"),
            max_pending=config.get_int("remote.log.reader.max.pending.tasks"),
        ),
        indexes,
    )
    replicas.runtime.on_remote_read = remote.reads.read
    replicas.manager.reader.tier_quota = remote.reads.quota
    ground.topic_configs.on_change.append(lambda topic, _: remote.tasks.on_config(topic))
    _measure_quotas(config, remote)
    configs_changed(config, replicas, remote)
    return remote


def configs_changed(config: KafkaConfig, replicas: Replicas, remote: Remote) -> None:
    """Apply the keys that may change while the broker runs."""
    remote.tasks.copy_quota.limit = config.get_int("remote.log.manager.copy.max.bytes.per.second")
    remote.reads.quota.limit = config.get_int("remote.log.manager.fetch.max.bytes.per.second")
    remote.indexes.max_bytes = config.get_int("remote.log.index.file.cache.total.size.bytes")
    waiting = replicas.manager.waiting
    waiting.remote_fetch_max_wait_ms = config.get_int("remote.fetch.max.wait.ms")


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
    for quota, kind in ((remote.tasks.copy_quota, "copy"), (remote.reads.quota, "fetch")):
        quota.measure_over(
            config.get_int(f"remote.log.manager.{kind}.quota.window.num"),
            1000 * config.get_int(f"remote.log.manager.{kind}.quota.window.size.seconds"),
        )


def metadata_manager(ground: Ground, replicas: Replicas) -> RemoteLogMetadataManager:
    raise NotImplementedError
