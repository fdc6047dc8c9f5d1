"""Topic configs: the 36 keys of Kafka 3.9 and the typed `LogConfig` of one log.

A topic config that is not set on the topic comes from its broker synonyms (`segment.ms` from
`log.roll.ms`, else `log.roll.hours` in hours), else from the default. `LogConfig` is slotted,
and the log reads its attributes on every append.

`remote_storage` says whether the logs of a topic with this config have a remote tier (KIP-405): its
brokers have the system, the topic asks for it, and it is not compacted.

Mirrors: org.apache.kafka.storage.internals.log.LogConfig, TopicConfig, ServerTopicConfigSynonyms.
Leaves out: switching tiered storage off for a topic (KIP-950), which needs KRaft.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.records.batch import TimestampType
from ..protocol.records.compression import Compression
from . import message_format
from .config_def import LONG_MAX, InvalidConfig, parse_integer, trim
from .table_configs import TABLE_CONFIGS, validate_table_configs
from .topic_configs import SYNONYM_FACTORS_MS, TOPIC_CONFIGS

__all__ = [
    "SYNONYM_FACTORS_MS",
    "TOPIC_CONFIGS",
    "LogConfig",
    "LogManagerConfig",
    "topic_config_from_broker",
    "validate_local_retention",
    "validate_together",
    "validate_topic_config",
    "validate_topic_configs",
]

PRODUCER_ID_EXPIRATION_MS: Final = 86_400_000
# Producer ids that are kept, by default: of one log, and of all logs of a broker.
MAX_IDS_OF_LOG: Final = 100_000
MAX_IDS_OF_BROKER: Final = 1_000_000

REMOTE_SYSTEM: Final = "remote.log.storage.system.enable"
LIKE_RETENTION: Final = -2  # of a local limit: it is that of both tiers

_TARGET_COMPRESSION: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


def topic_config_from_broker(name: str, broker_values: Mapping[str, str]) -> str | None:
    """The text a topic config takes from its broker synonyms, None if none of them is set."""
    for synonym in TOPIC_CONFIGS[name].synonyms:
        text = broker_values.get(synonym)
        if text is None:
            continue
        factor = SYNONYM_FACTORS_MS.get(synonym)
        value = None if factor is None else parse_integer(trim(text))
        if factor is None or value is None:
            return text
        # Any negative age is without a limit; where there must be one, -1 is refused.
        return str(value * factor if value >= 0 else -1)
    return None


def validate_topic_config(name: str, value: str | None) -> Any:
    """Check one topic config and return its typed value."""
    definition = TOPIC_CONFIGS.get(name) or TABLE_CONFIGS.get(name)
    if definition is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    if value is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic config {name}"
        )
    return definition.parse(value)


def validate_topic_configs(
    overrides: Mapping[str, str | None],
    broker_values: Mapping[str, str],
    stored: Mapping[str, str] | None = None,
) -> None:
    """Check a topic's configs, each for itself and together; `stored` are those that they replace.

    Apache Kafka in ZooKeeper mode stores `remote.storage.enable=false` for a tiered topic, and its
    brokers refuse to apply it; here it is refused at once.
    """
    for name, text in overrides.items():
        validate_topic_config(name, text)
    texts = {name: text for name, text in overrides.items() if text is not None}
    config = LogConfig.from_overrides(texts, broker_values)
    validate_together(config)
    validate_table_configs(overrides, broker_values)
    if config.remote_log_copy_disable or config.remote_log_delete_on_disable:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` "
            "under Zookeeper's mode.",
        )
    if config.remote_storage_enable:
        _validate_remote_storage(config, broker_values)
    elif stored is not None and stored.get("remote.storage.enable", "").lower() == "true":
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "It is invalid to disable remote storage without deleting remote data. A cluster with "
            "ZooKeeper cannot do that: delete the topic instead.",
        )


def _validate_remote_storage(config: LogConfig, broker_values: Mapping[str, str]) -> None:
    """Check a topic that asks for tiered storage."""
    if not _has_remote_system(broker_values):
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured "
            "with remote log storage."
        )
    if config.compact:
        raise InvalidConfig("Remote log storage is unsupported for the compacted topics")
    validate_local_retention(config)


def validate_local_retention(config: LogConfig) -> None:
    """Check that the local limits of a tiered log keep no more than the limits of both tiers."""
    for unit in ("bytes", "ms"):
        total, local = config.value(f"retention.{unit}"), config.value(f"local.retention.{unit}")
        if total < 0 or local == LIKE_RETENTION or 0 <= local <= total:
            continue
        reason = f"must not be more than retention.{unit} property value: {total}"
        if local == -1:
            reason = f"must not be -1 as retention.{unit} value is set as {total}."
        name = f"local.retention.{unit}"
        raise InvalidConfig(f"Invalid value {local} for configuration {name}: Value {reason}")


def _has_remote_system(broker_values: Mapping[str, str]) -> bool:
    return trim(broker_values.get(REMOTE_SYSTEM, "false")).lower() == "true"


def validate_together(config: LogConfig) -> None:
    """Check the rules between the configs of a log."""
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "conflict topic config setting min.compaction.lag.ms "
            f"({config.min_compaction_lag_ms}) > max.compaction.lag.ms "
            f"({config.max_compaction_lag_ms})",
        )


class LogConfig:
    """The effective topic configs of one log, typed."""

    __slots__ = (
        "_values",
        "batches_stay_opaque",
        "cleanup_policy",
        "compact",
        "compression_gzip_level",
        "compression_lz4_level",
        "compression_type",
        "compression_zstd_level",
        "delete",
        "delete_retention_ms",
        "file_delete_delay_ms",
        "flush_messages",
        "flush_ms",
        "flushes_itself",
        "follower_replication_throttled_replicas",
        "index_interval_bytes",
        "leader_replication_throttled_replicas",
        "local_retention_bytes",
        "local_retention_ms",
        "log_append_time",
        "max_compaction_lag_ms",
        "max_message_bytes",
        "max_segment_ms",
        "message_downconversion_enable",
        "message_format_version",
        "message_timestamp_after_max_ms",
        "message_timestamp_before_max_ms",
        "message_timestamp_difference_max_ms",
        "message_timestamp_type",
        "min_cleanable_dirty_ratio",
        "min_compaction_lag_ms",
        "min_insync_replicas",
        "overrides",
        "preallocate",
        "record_version",
        "records_have_no_rules",
        "remote_log_copy_disable",
        "remote_log_delete_on_disable",
        "remote_storage",
        "remote_storage_enable",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "target_compression",
        "unclean_leader_election_enable",
        "zstd_forbidden",
    )

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    flush_messages: int
    flush_ms: int
    retention_bytes: int
    retention_ms: int
    remote_storage_enable: bool
    local_retention_ms: int
    local_retention_bytes: int
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    max_message_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    file_delete_delay_ms: int
    min_cleanable_dirty_ratio: float
    cleanup_policy: list[str]
    unclean_leader_election_enable: bool
    min_insync_replicas: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    preallocate: bool
    message_format_version: str
    message_timestamp_type: TimestampType
    message_timestamp_difference_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    leader_replication_throttled_replicas: list[str]
    follower_replication_throttled_replicas: list[str]
    message_downconversion_enable: bool
    # Derived. `remote_storage`: the class's head. Of a log with a remote tier the local limits are
    # those of its own segments; of another log they are its limits.
    remote_storage: bool
    # Because the log asks for them on every append.
    compact: bool
    delete: bool
    log_append_time: bool
    target_compression: Compression | None
    max_segment_ms: int
    batches_stay_opaque: bool
    flushes_itself: bool
    record_version: int
    records_have_no_rules: bool
    zstd_forbidden: bool
    overrides: Mapping[str, str]
    _values: dict[str, Any]

    def __init__(
        self,
        values: Mapping[str, Any],
        overrides: Mapping[str, str],
        record_version: int = message_format.NEWEST_RECORD_VERSION,
        zstd_forbidden: bool = False,
        has_remote_system: bool = False,
    ) -> None:
        self.record_version = record_version
        self.zstd_forbidden = zstd_forbidden
        self._values = dict(values)
        self.overrides = dict(overrides)
        for name, value in values.items():
            setattr(self, name.replace(".", "_"), value)
        self.log_append_time = values["message.timestamp.type"] == "LogAppendTime"
        self.message_timestamp_type = (
            TimestampType.LOG_APPEND_TIME if self.log_append_time else TimestampType.CREATE_TIME
        )
        self.compact = "compact" in self.cleanup_policy
        self.delete = "delete" in self.cleanup_policy
        self.target_compression = _TARGET_COMPRESSION.get(self.compression_type)
        self.remote_storage = has_remote_system and self.remote_storage_enable and not self.compact
        if not self.remote_storage or self.local_retention_ms == LIKE_RETENTION:
            self.local_retention_ms = self.retention_ms
        if not self.remote_storage or self.local_retention_bytes == LIKE_RETENTION:
            self.local_retention_bytes = self.retention_bytes
        self._apply_deprecated_difference()
        # Compacted logs roll in time for max.compaction.lag.ms.
        self.max_segment_ms = (
            min(self.max_compaction_lag_ms, self.segment_ms) if self.compact else self.segment_ms
        )
        self.flushes_itself = self.flush_messages != LONG_MAX or self.flush_ms != LONG_MAX
        self.records_have_no_rules = not self.compact and (
            self.log_append_time
            or (
                self.message_timestamp_before_max_ms == LONG_MAX
                and self.message_timestamp_after_max_ms == LONG_MAX
            )
        )
        # Nor has the batch to be rewritten.
        self.batches_stay_opaque = (
            self.records_have_no_rules
            and not self.log_append_time
            and record_version == message_format.NEWEST_RECORD_VERSION
            and self.target_compression is None
        )

    def _apply_deprecated_difference(self) -> None:
        """The deprecated bound counts while the two that replace it have their defaults."""
        difference = self.message_timestamp_difference_max_ms
        if difference == LONG_MAX:
            return
        if self.message_timestamp_before_max_ms == LONG_MAX:
            self.message_timestamp_before_max_ms = difference
        if self.message_timestamp_after_max_ms == LONG_MAX:
            self.message_timestamp_after_max_ms = difference

    @staticmethod
    def from_overrides(
        overrides: Mapping[str, str], broker_defaults: Mapping[str, str]
    ) -> LogConfig:
        """Topic overrides first, then broker synonyms, then defaults.

        Unknown override names are ignored, as a broker ignores them in ZooKeeper.
        """
        values: dict[str, Any] = {}
        for name, definition in TOPIC_CONFIGS.items():
            text = overrides.get(name)
            if text is None:
                text = topic_config_from_broker(name, broker_defaults)
            values[name] = definition.default_value() if text is None else definition.parse(text)
        inter_broker = broker_defaults.get(message_format.INTER_BROKER_VERSION)
        broker_format = broker_defaults.get(message_format.BROKER_FORMAT_VERSION)
        topic_format = overrides.get(message_format.TOPIC_FORMAT_VERSION)
        if topic_format is None:
            values[message_format.TOPIC_FORMAT_VERSION] = message_format.broker_format_version(
                inter_broker, broker_format
            )
        return LogConfig(
            values,
            overrides,
            message_format.stored_record_version(inter_broker, broker_format, topic_format),
            not message_format.knows_zstd(inter_broker),
            _has_remote_system(broker_defaults),
        )

    def value(self, name: str) -> Any:
        """The typed value of a config by its Kafka name."""
        return self._values[name]

    def compression_level(self, codec: Compression) -> int | None:
        """The configured level of a codec, None for codecs without levels."""
        if codec is Compression.GZIP:
            return self.compression_gzip_level
        if codec is Compression.LZ4:
            return self.compression_lz4_level
        if codec is Compression.ZSTD:
            return self.compression_zstd_level
        return None


@dataclass(slots=True, frozen=True)
class LogManagerConfig:
    """The broker configs of storage, with Kafka's defaults."""

    flush_offset_checkpoint_interval_ms: int = 60_000
    flush_start_offset_checkpoint_interval_ms: int = 60_000
    high_watermark_checkpoint_interval_ms: int = 5_000
    retention_check_interval_ms: int = 300_000
    producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    producer_id_expiration_check_interval_ms: int = 600_000
    producer_ids_of_log: int = MAX_IDS_OF_LOG
    producer_ids: int = MAX_IDS_OF_BROKER
    initial_task_delay_ms: int = 30_000
    validate_fully: bool = False
