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
    Importance,
    InvalidValue,
    ListOf,
    OneOf,
    Range,
    RangeOr,
    topic_config,
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


_DEFINITIONS = (
    topic_config(
        "segment.bytes",
        _INT,
        "1073741824",
        Range(14),
        "The size of a segment file; a larger log is rolled.",
        "log.segment.bytes",
    ),
    topic_config(
        "segment.ms",
        _LONG,
        "604800000",
        _AT_LEAST_1,
        "The age after which a segment is rolled even if it is not full.",
        "log.roll.ms",
        "log.roll.hours",
    ),
    topic_config(
        "segment.jitter.ms",
        _LONG,
        "0",
        _AT_LEAST_0,
        "The most that is taken off segment.ms at random, against rolling in unison.",
        "log.roll.jitter.ms",
        "log.roll.jitter.hours",
    ),
    topic_config(
        "segment.index.bytes",
        _INT,
        "10485760",
        Range(4),
        "The size to which an active segment's index files are preallocated.",
        "log.index.size.max.bytes",
    ),
    topic_config(
        "flush.messages",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_1,
        "The number of messages after which the log is forced to disk.",
        "log.flush.interval.messages",
    ),
    topic_config(
        "flush.ms",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_0,
        "The time after which the log is forced to disk.",
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    ),
    topic_config(
        "retention.bytes",
        _LONG,
        "-1",
        None,
        "The size above which old segments of a partition are deleted; -1 is no limit.",
        "log.retention.bytes",
    ),
    topic_config(
        "retention.ms",
        _LONG,
        "604800000",
        Range(-1),
        "The age after which segments are deleted; -1 is no limit.",
        "log.retention.ms",
        "log.retention.minutes",
        "log.retention.hours",
    ),
    topic_config(
        "remote.storage.enable",
        _BOOLEAN,
        "false",
        None,
        "Whether old segments are copied to a remote tier; never false again.",
    ),
    topic_config(
        "local.retention.ms",
        _LONG,
        "-2",
        Range(-2),
        "Tiered storage: local age limit; -2 is retention.ms.",
        "log.local.retention.ms",
    ),
    topic_config(
        "local.retention.bytes",
        _LONG,
        "-2",
        Range(-2),
        "Tiered storage: local size limit; -2 is retention.bytes.",
        "log.local.retention.bytes",
    ),
    topic_config("remote.log.copy.disable", _BOOLEAN, "false", None, "Tiered storage, KRaft only."),
    topic_config(
        "remote.log.delete.on.disable", _BOOLEAN, "false", None, "Tiered storage, KRaft only."
    ),
    topic_config(
        "max.message.bytes",
        _INT,
        "1048588",
        _AT_LEAST_0,
        "The largest record batch that is accepted, after compression.",
        "message.max.bytes",
    ),
    topic_config(
        "index.interval.bytes",
        _INT,
        "4096",
        _AT_LEAST_0,
        "How many bytes of log lie between two index entries.",
        "log.index.interval.bytes",
    ),
    topic_config(
        "delete.retention.ms",
        _LONG,
        "86400000",
        _AT_LEAST_0,
        "How long delete markers stay in a compacted topic.",
        "log.cleaner.delete.retention.ms",
    ),
    topic_config(
        "min.compaction.lag.ms",
        _LONG,
        "0",
        _AT_LEAST_0,
        "The age below which a message is not compacted.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    topic_config(
        "max.compaction.lag.ms",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_1,
        "The age at which a message becomes eligible for compaction at the latest.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    topic_config(
        "file.delete.delay.ms",
        _LONG,
        "60000",
        _AT_LEAST_0,
        "The time between renaming a file for deletion and removing it.",
        "log.segment.delete.delay.ms",
    ),
    topic_config(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        "0.5",
        Range(0, 1),
        "The share of uncompacted log from which a log is compacted.",
        "log.cleaner.min.cleanable.ratio",
    ),
    topic_config(
        "cleanup.policy",
        _LIST,
        "delete",
        ListOf(("compact", "delete")),
        "delete, compact, or both.",
        "log.cleanup.policy",
    ),
    topic_config(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "false",
        None,
        "Whether a replica outside of the ISR may become leader, losing data.",
        "unclean.leader.election.enable",
    ),
    topic_config(
        "min.insync.replicas",
        _INT,
        "1",
        _AT_LEAST_1,
        "The ISR size below which a write with acks=all is refused.",
        "min.insync.replicas",
    ),
    topic_config(
        "compression.type",
        _STRING,
        "producer",
        OneOf(COMPRESSION_TYPES),
        "The codec of stored batches; producer keeps the producer's.",
        "compression.type",
    ),
    topic_config(
        "compression.gzip.level",
        _INT,
        "-1",
        RangeOr(1, 9, -1),
        "The gzip level if compression.type is gzip.",
        "compression.gzip.level",
    ),
    topic_config(
        "compression.lz4.level",
        _INT,
        "9",
        Range(1, 17),
        "The lz4 level if compression.type is lz4.",
        "compression.lz4.level",
    ),
    topic_config(
        "compression.zstd.level",
        _INT,
        "3",
        Range(-131072, 22),
        "The zstd level if compression.type is zstd.",
        "compression.zstd.level",
    ),
    topic_config(
        "preallocate",
        _BOOLEAN,
        "false",
        None,
        "Whether a new segment file is created in its full size.",
        "log.preallocate",
    ),
    topic_config(
        "message.format.version",
        _STRING,
        "3.0-IV1",
        _inter_broker_version,
        "The Kafka version whose message format the topic is stored in; ignored, as 3.0, while "
        "inter.broker.protocol.version is 3.0 or higher.",
        "log.message.format.version",
    ),
    topic_config(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        OneOf(("CreateTime", "LogAppendTime")),
        "Whether a message carries its producer's time or the broker's.",
        "log.message.timestamp.type",
    ),
    topic_config(
        "message.timestamp.difference.max.ms",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_0,
        "Deprecated: both bounds in one; the two below override it.",
        "log.message.timestamp.difference.max.ms",
    ),
    topic_config(
        "message.timestamp.before.max.ms",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_0,
        "How far a message's timestamp may lie before the broker's time.",
        "log.message.timestamp.before.max.ms",
    ),
    topic_config(
        "message.timestamp.after.max.ms",
        _LONG,
        str(LONG_MAX),
        _AT_LEAST_0,
        "How far a message's timestamp may lie after the broker's time.",
        "log.message.timestamp.after.max.ms",
    ),
    topic_config(
        "leader.replication.throttled.replicas",
        _LIST,
        "",
        _ThrottledReplicas("leader.replication.throttled.replicas"),
        "Replicas whose replication is throttled on the leader's side.",
    ),
    topic_config(
        "follower.replication.throttled.replicas",
        _LIST,
        "",
        _ThrottledReplicas("follower.replication.throttled.replicas"),
        "Replicas whose replication is throttled on the follower's side.",
    ),
    topic_config(
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
