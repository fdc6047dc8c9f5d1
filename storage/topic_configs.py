"""The table of topic configs: the 36 keys of Kafka 3.9 with their broker synonyms.

Mirrors: LogConfig.CONFIG_DEF, TopicConfig, ServerTopicConfigSynonyms.
Leaves out: nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .config_def import (
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
from .message_format import find_version

_HOURS_MS = 3_600_000
_MINUTES_MS = 60_000

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_LONG, _DOUBLE, _LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
_AT_LEAST_0, _AT_LEAST_1 = Range(0), Range(1)

COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_THROTTLED_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


@dataclass(slots=True, frozen=True)
class _ThrottledReplicas:
    name: str

    def __call__(self, value: Any) -> None:
        if "".join(value) != "*" and not all(map(_THROTTLED_REPLICA.fullmatch, value)):
            raise InvalidValue(
                f"{self.name} must be the literal '*' or a list of replicas in the following "
                "format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )

    def __str__(self) -> str:
        return "*, or partition:broker,..."


def _inter_broker_version(value: Any) -> None:
    if find_version(value) is None:
        raise InvalidValue(f"Version {value} is not a valid version")


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
    _topic(
        "remote.storage.enable",
        _BOOLEAN,
        "false",
        None,
        "Whether old segments are copied to a remote tier; never false again.",
    ),
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
        "The Kafka version whose message format the topic is stored in; ignored, as 3.0, while "
        "inter.broker.protocol.version is 3.0 or higher.",
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
        _ThrottledReplicas("leader.replication.throttled.replicas"),
        "Replicas whose replication is throttled on the leader's side.",
    ),
    _topic(
        "follower.replication.throttled.replicas",
        _LIST,
        "",
        _ThrottledReplicas("follower.replication.throttled.replicas"),
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

# Broker keys in other units than the topic key that they stand for, or with more values.
SYNONYM_FACTORS_MS: Mapping[str, int] = {
    "log.retention.ms": 1,
    "log.roll.hours": _HOURS_MS,
    "log.roll.jitter.hours": _HOURS_MS,
    "log.retention.hours": _HOURS_MS,
    "log.retention.minutes": _MINUTES_MS,
}
