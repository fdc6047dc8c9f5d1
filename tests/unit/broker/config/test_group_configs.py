"""Configs of groups: bounds, defaults, and the broker's keys that they come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pybroker_kafka.broker.config import ConfigError, KafkaConfig
from pybroker_kafka.broker.config.group_configs import (
    BOUNDS,
    DEFINITIONS,
    GroupConfigs,
    broker_synonyms,
    broker_value,
    check_brokers_keys,
    described,
    validate,
)
from pybroker_kafka.broker.config.kafka_config import ConfigSource
from pybroker_kafka.protocol.errors import ErrorCode, KafkaError

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def config(**keys: str) -> KafkaConfig:
    return KafkaConfig({name.replace("_", "."): text for name, text in keys.items()})


def test_the_defaults_are_within_their_own_bounds() -> None:
    check_brokers_keys(config())
    for definition in DEFINITIONS.values():
        validate(config(), {definition.name: definition.default or ""})
        assert definition.default_value() == described(config(), {}, definition.name)


@pytest.mark.parametrize("bounds", BOUNDS, ids=lambda bounds: bounds.name)
def test_a_group_keeps_within_the_brokers_bounds(bounds: Any) -> None:
    brokers = config()
    for limit, step, words in (
        (bounds.low, -1, "must be greater than or equal to"),
        (bounds.high, 1, "must be less than or equal to"),
    ):
        if limit is None:
            continue
        text = str(brokers.get_int(limit) + step)
        try:
            DEFINITIONS[bounds.name].parse(text)
        except KafkaError:
            continue  # out of the key's own range
        with pytest.raises(KafkaError) as caught:
            validate(brokers, {bounds.name: text})
        assert caught.value.code is ErrorCode.INVALID_CONFIG
        assert caught.value.message == f"{bounds.name} {words} {limit}"


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"session.timeout.ms": "1"}, "Unknown group config name: session.timeout.ms"),
        ({SESSION: "soon"}, "Not a number of type INT"),
        ({"consumer.assignment.interval.ms": "-1"}, "Value must be at least 0"),
        ({"share.isolation.level": "none"}, "String must be one of: read_committed, "),
        ({"share.auto.offset.reset": "none"}, "must be either 'earliest', 'latest' or of the"),
        ({"share.auto.offset.reset": "by_duration:-PT1H"}, "'by_duration:<PnDTnHnMn.nS>'."),
        ({"share.renew.acknowledge.enable": "yes"}, "Expected value to be either true or false"),
    ],
)
def test_values_that_are_none(values: Mapping[str, str], complaint: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate(config(), values)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert complaint in caught.value.message


def test_a_session_is_longer_than_the_interval_of_heartbeats() -> None:
    brokers = config(
        group_consumer_min_session_timeout_ms="1000", group_consumer_session_timeout_ms="45000"
    )
    validate(brokers, {SESSION: "5001"})
    with pytest.raises(KafkaError, match=f"{SESSION} must be greater than {HEARTBEAT}"):
        validate(brokers, {SESSION: "5000"})


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        (
            {"group.consumer.session.timeout.ms": "1000"},
            "group.consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
        (
            {"group.consumer.max.heartbeat.interval.ms": "4000"},
            "group.consumer.max.heartbeat.interval.ms must be greater than or equal to "
            "group.consumer.min.heartbeat.interval.ms",
        ),
        (
            {
                "group.consumer.min.session.timeout.ms": "1000",
                "group.consumer.session.timeout.ms": "5000",
            },
            "group.consumer.heartbeat.interval.ms must be less than "
            "group.consumer.session.timeout.ms",
        ),
        (
            {"group.streams.num.standby.replicas": "3"},
            "group.streams.num.standby.replicas must be less than or equal to "
            "group.streams.max.standby.replicas",
        ),
    ],
)
def test_brokers_keys_out_of_bounds(keys: Mapping[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_brokers_keys(KafkaConfig(keys))
    assert str(caught.value) == complaint


def test_defaults_that_are_new_in_kafka_4() -> None:
    key = "group.share.partition.max.record.locks"
    assert config().value(key) == 200
    assert broker_value(config(), key) == 2000
    assert broker_synonyms(config(), key) == [(key, "2000", ConfigSource.DEFAULT_CONFIG)]
    own = config(group_share_partition_max_record_locks="300")
    assert broker_value(own, key) == 300
    assert broker_synonyms(own, key)[0] == (key, "300", ConfigSource.STATIC_BROKER_CONFIG)


def test_values_of_groups_as_they_change(caplog: pytest.LogCaptureFixture) -> None:
    configs = GroupConfigs(config(group_consumer_heartbeat_interval_ms="6000"))
    told: list[tuple[str, Mapping[str, Any]]] = []
    configs.on_change.append(lambda group, values: told.append((group, values)))
    configs.changed("g", {SESSION: "50000", "of another version": "7"})
    configs.changed("h", {SESSION: "99999999", HEARTBEAT: "1"})
    assert told == [("g", {SESSION: 50000}), ("h", {SESSION: 60000, HEARTBEAT: 5000})]
    assert "is out of the broker's bounds; it is taken as 60000" in caplog.text
    assert configs.names() == ["g", "h"]
    assert (configs.value("g", SESSION), configs.value("g", HEARTBEAT)) == (50000, 6000)
    assert configs.value("i", "share.auto.offset.reset") == "latest"
    configs.changed("g", {})
    configs.changed("never", {})
    assert told[2:] == [("g", {})]
    assert configs.names() == ["h"]
    assert configs.value("g", SESSION) == 45000
    with pytest.raises(KafkaError):
        configs.changed("g", {SESSION: "soon"})


def test_bounds_that_turn_a_session_round_are_told(caplog: pytest.LogCaptureFixture) -> None:
    configs = GroupConfigs(
        config(
            group_consumer_min_session_timeout_ms="1000",
            group_consumer_max_heartbeat_interval_ms="30000",
        )
    )
    configs.changed("g", {SESSION: "10000", HEARTBEAT: "20000"})
    assert "is not greater than consumer.heartbeat.interval.ms (20000)" in caplog.text
