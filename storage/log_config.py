"""Topic configs: the 36 keys of Kafka 3.9 and the typed `LogConfig` of one log.

A topic config that is not set on the topic comes from its broker synonyms (`segment.ms` from
`log.roll.ms`, else `log.roll.hours` in hours), else from the default. `LogConfig` is slotted,
and the log reads its attributes on every append.

Mirrors: org.apache.kafka.storage.internals.log.LogConfig, TopicConfig, ServerTopicConfigSynonyms.
Leaves out: tiered storage, whose keys are known and checked but change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from protocol.errors import ErrorCode, KafkaError
from protocol.records.batch import TimestampType
from protocol.records.compression import Compression
from storage.config_def import (
    LONG_MAX,
    ConfigDef,
    ConfigType,
    DynamicMode,
    Importance,
    InvalidValue,
    ListOf,
    OneOf,
    Range,
    RangeOr,
)

_HOURS_MS = 3_600_000
_MINUTES_MS = 60_000

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_AT_LEAST_0, _AT_LEAST_1 = Range(0), Range(1)

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_IBP_VERSION = re.compile(r"0\.8\.[0-2]|0\.9\.0|0\.(10|11)\.[0-2]|[12]\.[0-8]|3\.[0-9]")
_THROTTLED_REPLICA = re.compile(r"\d+:\d+")


def _throttled_replicas(value: Any) -> None:
    if value != ["*"] and not all(_THROTTLED_REPLICA.fullmatch(part) for part in value):
        raise InvalidValue(
            'Must be the literal "*" or a list of replicas: '
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )


def _inter_broker_version(value: Any) -> None:
    if not _IBP_VERSION.match(value):
        raise InvalidValue(f"Version `{value}` is not a valid version")


def _topic(
    name: str,
    config_type: ConfigType,
    default: str,
    validator: Any,
    documentation: str,
    *synonyms: str,
    importance: Importance = Importance.MEDIUM,
) -> ConfigDef:
    return ConfigDef(
        name,
        config_type,
        default,
        documentation,
        validator,
        importance,
        DynamicMode.PER_TOPIC,
        synonyms,
        group="topic",
    )


_DEFINITIONS = (
    _topic(
        "segment.bytes",
        _INT,
        "1073741824",
        Range(14),
        "The size of a segment file; a larger log is rolled.",
        "log.segment.bytes",
    ),
    _topic(
        "segment.ms",
        _LONG,
        "604800000",
        _AT_LEAST_1,
        "The age after which a segment is rolled even if it is not full.",
        "log.roll.ms",
        "log.roll.hours",
    ),
    _topic(
        "segment.jitter.ms",
        _LONG,
        "0",
        _AT_LEAST_0,
        "The most that is taken off segment.ms at random, against rolling in unison.",
        "log.roll.jitter.ms",
        "log.roll.jitter.hours",
    ),
    _topic(
        "segment.index.bytes",
        _INT,
        "10485760",
        Range(4),
        "The size to which an active segment's index files are preallocated.",
        "log.index.size.max.bytes",
    ),
    _topic(
        "flush.messages",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_1,
        "The number of messages after which the log is forced to disk.",
        "log.flush.interval.messages",
    ),
    _topic(
        "flush.ms",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_0,
        "The time after which the log is forced to disk.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    ),
    _topic(
        "retention.bytes",
        _LONG,
        "-1",
        None,
        "The size above which old segments of a partition are deleted; -1 is no limit.",
        "log.retention.bytes",
    ),
    _topic(
        "retention.ms",
        _LONG,
        "604800000",
        Range(-1),
        "The age after which segments are deleted; -1 is no limit.",
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ),
    _topic("remote.storage.enable", _BOOLEAN, "false", None, "Tiered storage; not supported."),
    _topic(
        "local.retention.ms",
        _LONG,
        "-2",
        Range(-2),
        "Tiered storage: local age limit; -2 is retention.ms.",
        "log.local.retention.ms",
    ),
    _topic(
        "local.retention.bytes",
        _LONG,
        "-2",
        Range(-2),
        "Tiered storage: local size limit; -2 is retention.bytes.",
        "log.local.retention.bytes",
    ),
    _topic("remote.log.copy.disable", _BOOLEAN, "false", None, "Tiered storage, KRaft only."),
    _topic("remote.log.delete.on.disable", _BOOLEAN, "false", None, "Tiered storage, KRaft only."),
    _topic(
        "max.message.bytes",
        _INT,
        "1048588",
        _AT_LEAST_0,
        "The largest record batch that is accepted, after compression.",
        "message.max.bytes",
    ),
    _topic(
        "index.interval.bytes",
        _INT,
        "4096",
        _AT_LEAST_0,
        "How many bytes of log lie between two index entries.",
        "log.index.interval.bytes",
    ),
    _topic(
        "delete.retention.ms",
        _LONG,
        "86400000",
        _AT_LEAST_0,
        "How long delete markers stay in a compacted topic.",
        "log.cleaner.delete.retention.ms",
    ),
    _topic(
        "min.compaction.lag.ms",
        _LONG,
        "0",
        _AT_LEAST_0,
        "The age below which a message is not compacted.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    _topic(
        "max.compaction.lag.ms",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_1,
        "The age at which a message becomes eligible for compaction at the latest.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    _topic(
        "file.delete.delay.ms",
        _LONG,
        "60000",
        _AT_LEAST_0,
        "The time between renaming a file for deletion and removing it.",
        "log.segment.delete.delay.ms",
    ),
    _topic(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        "0.5",
        Range(0, 1),
        "The share of uncompacted log from which a log is compacted.",
        "log.cleaner.min.cleanable.ratio",
    ),
    _topic(
        "cleanup.policy",
        _LIST,
        "delete",
        ListOf(("compact", "delete")),
        "delete, compact, or both.",
        "log.cleanup.policy",
    ),
    _topic(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "false",
        None,
        "Whether a replica outside of the ISR may become leader, losing data.",
        "unclean.leader.election.enable",
    ),
    _topic(
        "min.insync.replicas",
        _INT,
        "1",
        _AT_LEAST_1,
        "The ISR size below which a write with acks=all is refused.",
        "min.insync.replicas",
    ),
    _topic(
        "compression.type",
        _STRING,
        "producer",
        OneOf(COMPRESSION_TYPES),
        "The codec of stored batches; producer keeps the producer's.",
        "compression.type",
    ),
    _topic(
        "compression.gzip.level",
        _INT,
        "-1",
        RangeOr(1, 9, -1),
        "The gzip level if compression.type is gzip.",
        "compression.gzip.level",
    ),
    _topic(
        "compression.lz4.level",
        _INT,
        "9",
        Range(1, 17),
        "The lz4 level if compression.type is lz4.",
        "compression.lz4.level",
    ),
    _topic(
        "compression.zstd.level",
        _INT,
        "3",
        Range(-131072, 22),
        "The zstd level if compression.type is zstd.",
        "compression.zstd.level",
    ),
    _topic(
        "preallocate",
        _BOOLEAN,
        "false",
        None,
        "Whether a new segment file is created in its full size.",
        "log.preallocate",
    ),
    _topic(
        "message.format.version",
        _STRING,
        "3.0-IV1",
        _inter_broker_version,
        "Deprecated and ignored: messages are stored in format v2.",
        "log.message.format.version",
    ),
    _topic(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        OneOf(("CreateTime", "LogAppendTime")),
        "Whether a message carries its producer's time or the broker's.",
        "log.message.timestamp.type",
    ),
    _topic(
        "message.timestamp.difference.max.ms",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_0,
        "Deprecated: both bounds in one; the two below override it.",
        "log.message.timestamp.difference.max.ms",
    ),
    _topic(
        "message.timestamp.before.max.ms",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_0,
        "How far a message's timestamp may lie before the broker's time.",
        "log.message.timestamp.before.max.ms",
    ),
    _topic(
        "message.timestamp.after.max.ms",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_0,
        "How far a message's timestamp may lie after the broker's time.",
        "log.message.timestamp.after.max.ms",
    ),
    _topic(
        "leader.replication.throttled.replicas",
        _LIST,
        "",
        _throttled_replicas,
        "Replicas whose replication is throttled on the leader's side.",
    ),
    _topic(
        "follower.replication.throttled.replicas",
        _LIST,
        "",
        _throttled_replicas,
        "Replicas whose replication is throttled on the follower's side.",
    ),
    _topic(
        "message.downconversion.enable",
        _BOOLEAN,
        "true",
        None,
        "Whether messages are converted down for consumers of old formats.",
        "log.message.downconversion.enable",
        importance=Importance.LOW,
    ),
)

TOPIC_CONFIGS: Mapping[str, ConfigDef] = {d.name: d for d in _DEFINITIONS}

# Broker keys in other units than the topic key that they stand for.
SYNONYM_FACTORS_MS: Mapping[str, int] = {
    "log.roll.hours": _HOURS_MS,
    "log.roll.jitter.hours": _HOURS_MS,
    "log.retention.hours": _HOURS_MS,
    "log.retention.minutes": _MINUTES_MS,
}

_TARGET_COMPRESSION = {
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
        if factor is None:
            return text
        value = int(text)
        return str(value * factor if value >= 0 else -1)
    return None


def validate_topic_config(name: str, value: str | None) -> Any:
    """Check one topic config and return its typed value."""
    definition = TOPIC_CONFIGS.get(name)
    if definition is None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    if value is None:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for topic config {name}"
        )
    return definition.parse(value)


def validate_topic_configs(
    overrides: Mapping[str, str | None], broker_values: Mapping[str, str]
) -> None:
    """Check a topic's configs, each for itself and together."""
    for name, text in overrides.items():
        validate_topic_config(name, text)
    texts = {name: text for name, text in overrides.items() if text is not None}
    config = LogConfig.from_overrides(texts, broker_values)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            "conflict topic config setting min.compaction.lag.ms "
            f"({config.min_compaction_lag_ms}) > max.compaction.lag.ms "
            f"({config.max_compaction_lag_ms})",
        )
    for name in (
        "remote.storage.enable",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
    ):
        if config.value(name):
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"{name} cannot be enabled: tiered storage is not supported",
            )


class LogConfig:
    """The effective topic configs of one log, typed."""

    __slots__ = (
        "_values",
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
        "follower_replication_throttled_replicas",
        "index_interval_bytes",
        "leader_replication_throttled_replicas",
        "local_retention_bytes",
        "local_retention_ms",
        "log_append_time",
        "max_compaction_lag_ms",
        "max_message_bytes",
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
        "remote_log_copy_disable",
        "remote_log_delete_on_disable",
        "remote_storage_enable",
        "retention_bytes",
        "retention_ms",
        "segment_bytes",
        "segment_index_bytes",
        "segment_jitter_ms",
        "segment_ms",
        "target_compression",
        "unclean_leader_election_enable",
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
    # Derived, because the log asks for them on every append.
    compact: bool
    delete: bool
    log_append_time: bool
    target_compression: Compression | None
    overrides: Mapping[str, str]
    _values: dict[str, Any]

    def __init__(self, values: Mapping[str, Any], overrides: Mapping[str, str]) -> None:
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
        self._apply_deprecated_difference()

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

        Unknown override names are ignored, as a broker does with what it finds in ZooKeeper.
        """
        values: dict[str, Any] = {}
        for name, definition in TOPIC_CONFIGS.items():
            text = overrides.get(name)
            if text is None:
                text = topic_config_from_broker(name, broker_defaults)
            values[name] = definition.default_value() if text is None else definition.parse(text)
        return LogConfig(values, overrides)

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

    def max_segment_ms(self) -> int:
        """segment.ms, for compacted logs bounded by max.compaction.lag.ms."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms
