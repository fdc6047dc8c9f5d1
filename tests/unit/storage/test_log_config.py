"""Topic configs: defaults, broker synonyms, overrides, validation."""

from __future__ import annotations

import pytest

from pybroker_kafka.protocol.errors import ErrorCode, KafkaError
from pybroker_kafka.protocol.records.batch import Compression, TimestampType
from pybroker_kafka.storage.config_def import (
    LONG_MAX,
    ConfigDef,
    ConfigType,
    format_value,
    parse_value,
)
from pybroker_kafka.storage.log_config import (
    TOPIC_CONFIGS,
    LogConfig,
    topic_config_from_broker,
    validate_topic_config,
    validate_topic_configs,
)


def test_defaults_of_3_9() -> None:
    config = LogConfig.from_overrides({}, {})
    assert len(TOPIC_CONFIGS) == 36
    assert config.segment_bytes == 1 << 30
    assert config.segment_ms == config.retention_ms == 7 * 24 * 3_600_000
    assert config.max_message_bytes == 1048588
    assert config.flush_messages == config.flush_ms == LONG_MAX
    assert config.cleanup_policy == ["delete"]
    assert (config.compact, config.delete) == (False, True)
    assert config.compression_type == "producer"
    assert config.target_compression is None
    assert config.message_timestamp_type is TimestampType.CREATE_TIME
    assert config.batches_stay_opaque
    assert not config.flushes_itself


def test_every_default_is_valid() -> None:
    for definition in TOPIC_CONFIGS.values():
        text = format_value(definition.type, definition.default_value())
        assert text is not None
        assert definition.parse(text) == definition.default_value()


@pytest.mark.parametrize(
    ("name", "broker", "value"),
    [
        ("segment.ms", {"log.roll.ms": "5", "log.roll.hours": "1"}, "5"),
        ("segment.ms", {"log.roll.hours": "2"}, "7200000"),
        ("retention.ms", {"log.retention.minutes": "3", "log.retention.hours": "9"}, "180000"),
        ("retention.ms", {"log.retention.hours": "-1"}, "-1"),
        ("segment.jitter.ms", {"log.roll.jitter.hours": "1"}, "3600000"),
        ("flush.ms", {"log.flush.scheduler.interval.ms": "7"}, "7"),
        ("segment.bytes", {"log.segment.bytes": "999"}, "999"),
        ("leader.replication.throttled.replicas", {}, None),
    ],
)
def test_broker_synonyms(name: str, broker: dict[str, str], value: str | None) -> None:
    assert topic_config_from_broker(name, broker) == value


def test_overrides_win() -> None:
    broker = {"log.segment.bytes": "1000", "log.retention.bytes": "5"}
    config = LogConfig.from_overrides({"segment.bytes": "2000", "unknown.key": "x"}, broker)
    assert (config.segment_bytes, config.retention_bytes) == (2000, 5)
    assert config.value("segment.bytes") == 2000


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("segment.bytes", "13", "Value must be at least 14"),
        ("segment.bytes", "x", "Not a number of type INT"),
        ("segment.bytes", "2147483648", "Not a number of type INT"),
        ("segment.bytes", "", "Not a number of type INT"),
        ("min.cleanable.dirty.ratio", "1.5", "no more than 1"),
        ("cleanup.policy", "compact,shred", "String must be one of: compact, delete"),
        ("compression.type", "zip", "String must be one of"),
        ("compression.gzip.level", "0", "between 1 and 9 or equal to -1"),
        ("message.timestamp.type", "createtime", "String must be one of"),
        ("preallocate", "yes", "Expected value to be either true or false"),
        ("message.format.version", "9.9", "not a valid version"),
        ("leader.replication.throttled.replicas", "1:2,x", "must be the literal"),
        ("no.such.key", "1", "Unknown topic config name: no.such.key"),
        ("segment.bytes", None, "Null value not supported"),
    ],
)
def test_bad_values(name: str, value: str | None, message: str) -> None:
    with pytest.raises(KafkaError, match=message) as caught:
        validate_topic_config(name, value)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cleanup.policy", " compact , delete ", ["compact", "delete"]),
        ("preallocate", " TRUE ", True),
        ("segment.bytes", " 14 ", 14),
        ("compression.zstd.level", "-131072", -131072),
        ("retention.ms", "-1", -1),
        ("message.format.version", "3.9-IV0", "3.9-IV0"),
        ("follower.replication.throttled.replicas", "*", ["*"]),
        ("follower.replication.throttled.replicas", "0:1,3:4", ["0:1", "3:4"]),
    ],
)
def test_good_values(name: str, text: str, value: object) -> None:
    assert validate_topic_config(name, text) == value


def test_configs_that_do_not_go_together() -> None:
    lags: dict[str, str | None] = {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"}
    with pytest.raises(KafkaError, match=r"min\.compaction\.lag\.ms"):
        validate_topic_configs(lags, {})
    validate_topic_configs({**lags, "max.compaction.lag.ms": "10"}, {})
    with pytest.raises(KafkaError, match="Tiered Storage"):
        validate_topic_configs({"remote.storage.enable": "true"}, {})


def test_the_deprecated_timestamp_bound() -> None:
    config = LogConfig.from_overrides(
        {"message.timestamp.difference.max.ms": "50", "message.timestamp.after.max.ms": "7"}, {}
    )
    assert config.message_timestamp_before_max_ms == 50
    assert config.message_timestamp_after_max_ms == 7
    assert not config.batches_stay_opaque


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Compression.NONE, None),
        (Compression.GZIP, 5),
        (Compression.SNAPPY, None),
        (Compression.LZ4, 9),
        (Compression.ZSTD, 3),
    ],
)
def test_compression_levels(codec: Compression, level: int | None) -> None:
    config = LogConfig.from_overrides({"compression.gzip.level": "5"}, {})
    assert config.compression_level(codec) == level


def test_types_of_values() -> None:
    assert parse_value("k", ConfigType.LIST, "") == []
    assert parse_value("k", ConfigType.PASSWORD, " s ") == "s"
    assert parse_value("k", ConfigType.DOUBLE, "1e3") == 1000.0
    assert format_value(ConfigType.BOOLEAN, False) == "false"
    assert format_value(ConfigType.LIST, ["a", "b"]) == "a,b"
    assert format_value(ConfigType.INT, None) is None
    definition = ConfigDef("secret", ConfigType.PASSWORD, None)
    assert definition.sensitive
    assert definition.default_value() is None
