"""Configs of single groups (KIP-848, KIP-932, KIP-1071): the resource type GROUP.

Job: the keys with their bounds, which are keys of the broker; the check of an alteration; the
values that a group has. A key that a group does not set has the value of the broker's key.

A value in ZooKeeper may be out of bounds, since a broker's may have changed: it is then the nearest
bound (`GroupConfigs.changed`), with a line in the log.

Mirrors GroupConfig, GroupConfigManager and their part of GroupCoordinatorConfig, of Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ...protocol.durations import duration_ms
from ...storage.config_def import (
    INT_MAX,
    ConfigDef,
    ConfigType,
    InvalidConfig,
    InvalidValue,
    OneOf,
    Range,
    Validator,
    shortened,
)
from .definitions import BROKER_CONFIGS
from .errors import ConfigError
from .kafka_config import ConfigSource, KafkaConfig
from .tables import groups4

logger = logging.getLogger("pybroker.broker.config")

BY_DURATION: Final = "by_duration:"


def offset_reset(value: Any) -> None:
    """earliest, latest, or by_duration: with a duration that is not negative."""
    if value in ("earliest", "latest"):
        return
    since_ms = duration_ms(value[len(BY_DURATION) :]) if value.startswith(BY_DURATION) else None
    if since_ms is None or since_ms < 0:
        raise InvalidValue(
            f"Invalid value `{shortened(value)}` for configuration share.auto.offset.reset. The "
            "value must be either 'earliest', 'latest' or of the format "
            "'by_duration:<PnDTnHnMn.nS>'."
        )


class Bounds(NamedTuple):
    """A key of groups that is a number, with the broker's keys: its default and its bounds."""

    name: str
    broker: str
    low: str | None = None
    high: str | None = None
    # Whether its default for a group is the broker's value; else it is only looked at when set.
    is_given: bool = True


BOUNDS: Final = tuple(
    Bounds(*row)
    for row in (
        (
            "consumer.heartbeat.interval.ms",
            "group.consumer.heartbeat.interval.ms",
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
        ),
        (
            "consumer.session.timeout.ms",
            "group.consumer.session.timeout.ms",
            "group.consumer.min.session.timeout.ms",
            "group.consumer.max.session.timeout.ms",
        ),
        (
            "consumer.assignment.interval.ms",
            "group.consumer.assignment.interval.ms",
            "group.consumer.min.assignment.interval.ms",
            "group.consumer.max.assignment.interval.ms",
            False,
        ),
        (
            "share.heartbeat.interval.ms",
            "group.share.heartbeat.interval.ms",
            "group.share.min.heartbeat.interval.ms",
            "group.share.max.heartbeat.interval.ms",
        ),
        (
            "share.session.timeout.ms",
            "group.share.session.timeout.ms",
            "group.share.min.session.timeout.ms",
            "group.share.max.session.timeout.ms",
        ),
        (
            "share.record.lock.duration.ms",
            "group.share.record.lock.duration.ms",
            "group.share.min.record.lock.duration.ms",
            "group.share.max.record.lock.duration.ms",
        ),
        (
            "share.delivery.count.limit",
            "group.share.delivery.count.limit",
            "group.share.min.delivery.count.limit",
            "group.share.max.delivery.count.limit",
        ),
        (
            "share.partition.max.record.locks",
            "group.share.partition.max.record.locks",
            "group.share.min.partition.max.record.locks",
            "group.share.max.partition.max.record.locks",
        ),
        (
            "share.assignment.interval.ms",
            "group.share.assignment.interval.ms",
            "group.share.min.assignment.interval.ms",
            "group.share.max.assignment.interval.ms",
            False,
        ),
        (
            "streams.heartbeat.interval.ms",
            "group.streams.heartbeat.interval.ms",
            "group.streams.min.heartbeat.interval.ms",
            "group.streams.max.heartbeat.interval.ms",
        ),
        (
            "streams.session.timeout.ms",
            "group.streams.session.timeout.ms",
            "group.streams.min.session.timeout.ms",
            "group.streams.max.session.timeout.ms",
        ),
        (
            "streams.num.standby.replicas",
            "group.streams.num.standby.replicas",
            None,
            "group.streams.max.standby.replicas",
        ),
        (
            "streams.assignment.interval.ms",
            "group.streams.assignment.interval.ms",
            "group.streams.min.assignment.interval.ms",
            "group.streams.max.assignment.interval.ms",
            False,
        ),
        (
            "streams.initial.rebalance.delay.ms",
            "group.streams.initial.rebalance.delay.ms",
        ),
    )
)
_BOUNDS: Final = {bounds.name: bounds for bounds in BOUNDS}
PROTOCOLS: Final = ("consumer", "share", "streams")


def _number(name: str, default: str, at_least: int, doc: str) -> ConfigDef:
    return ConfigDef(
        name, ConfigType.INT, default, doc, Range(at_least), synonyms=(_BOUNDS[name].broker,)
    )


def _of_share(
    name: str, kind: ConfigType, default: str, valid: Validator | None, doc: str
) -> ConfigDef:
    return ConfigDef(name, kind, default, doc, valid)


_SESSION = "The time without a heartbeat after which a member is removed, in a"
_HEARTBEAT = "The interval between the heartbeats of a member, in a"
_ASSIGNMENT = "The least time between two assignments, in a"
DEFINITIONS: Final[Mapping[str, ConfigDef]] = MappingProxyType(
    {
        definition.name: definition
        for definition in (
            _number("consumer.session.timeout.ms", "45000", 1, f"{_SESSION} consumer group."),
            _number("consumer.heartbeat.interval.ms", "5000", 1, f"{_HEARTBEAT} consumer group."),
            _number("consumer.assignment.interval.ms", "1000", 0, f"{_ASSIGNMENT} consumer group."),
            _number("share.session.timeout.ms", "45000", 1, f"{_SESSION} share group."),
            _number("share.heartbeat.interval.ms", "5000", 1, f"{_HEARTBEAT} share group."),
            _number(
                "share.record.lock.duration.ms",
                "30000",
                1000,
                "The time for which a consumer of a share group acquires a record.",
            ),
            _number(
                "share.delivery.count.limit",
                "5",
                2,
                "The greatest number of deliveries of a record to a share group.",
            ),
            _number(
                "share.partition.max.record.locks",
                "2000",
                100,
                "The most records of a partition in flight to a share group.",
            ),
            _of_share(
                "share.auto.offset.reset",
                ConfigType.STRING,
                "latest",
                offset_reset,
                "The first offset of a partition for a share group: earliest, latest, or "
                "by_duration:PnDTnHnMn.nS for that time ago.",
            ),
            _of_share(
                "share.isolation.level",
                ConfigType.STRING,
                "read_uncommitted",
                OneOf(("read_committed", "read_uncommitted")),
                "Whether a share group reads records of transactions before they are committed.",
            ),
            _of_share(
                "share.renew.acknowledge.enable",
                ConfigType.BOOLEAN,
                "true",
                None,
                "Whether consumers of a share group may renew the lock of a record.",
            ),
            _number("share.assignment.interval.ms", "1000", 0, f"{_ASSIGNMENT} share group."),
            _number("streams.session.timeout.ms", "45000", 1, f"{_SESSION} streams group."),
            _number("streams.heartbeat.interval.ms", "5000", 1, f"{_HEARTBEAT} streams group."),
            _number(
                "streams.num.standby.replicas",
                "0",
                0,
                "The standby replicas of each task of a streams group.",
            ),
            _number(
                "streams.initial.rebalance.delay.ms",
                "3000",
                0,
                "The time that a new streams group waits for members before its first assignment.",
            ),
            _number("streams.assignment.interval.ms", "1000", 0, f"{_ASSIGNMENT} streams group."),
        )
    }
)


# The broker's keys


def broker_value(config: KafkaConfig, name: str) -> Any:
    """The broker's value of a key of groups, with the defaults of Kafka 4.3."""
    if name in groups4.DEFAULTS and not config.is_set(name):
        return BROKER_CONFIGS[name].parse(groups4.DEFAULTS[name])
    return config.value(name)


def broker_synonyms(config: KafkaConfig, name: str) -> list[tuple[str, str | None, ConfigSource]]:
    """`KafkaConfig.synonyms`, with the defaults of Kafka 4.3."""
    is_other = name in groups4.DEFAULTS
    return [
        (key, groups4.DEFAULTS[name], source)
        if is_other and source is ConfigSource.DEFAULT_CONFIG
        else (key, text, source)
        for key, text, source in config.synonyms(name)
    ]


def check_brokers_keys(config: KafkaConfig) -> None:
    """Raise ConfigError if a broker's key of groups is out of the bounds that the broker sets."""
    for bounds in BOUNDS:
        _check_bounds(config, bounds)
    for protocol in PROTOCOLS:
        heartbeat = f"group.{protocol}.heartbeat.interval.ms"
        session = f"group.{protocol}.session.timeout.ms"
        if config.value(heartbeat) >= config.value(session):
            raise ConfigError(f"{heartbeat} must be less than {session}")


def _check_bounds(config: KafkaConfig, bounds: Bounds) -> None:
    value = broker_value(config, bounds.broker)
    low = None if bounds.low is None else config.value(bounds.low)
    high = None if bounds.high is None else config.value(bounds.high)
    if low is not None and high is not None and high < low:
        raise ConfigError(f"{bounds.high} must be greater than or equal to {bounds.low}")
    if low is not None and value < low:
        raise ConfigError(f"{bounds.broker} must be greater than or equal to {bounds.low}")
    if high is not None and value > high:
        raise ConfigError(f"{bounds.broker} must be less than or equal to {bounds.high}")


# Of one group


def validate(config: KafkaConfig, values: Mapping[str, str]) -> None:
    """Raise KafkaError unless a group may have these configs."""
    for name in values:
        if name not in DEFINITIONS:
            raise InvalidConfig(f"Unknown group config name: {shortened(name)}")
    parsed = {name: DEFINITIONS[name].parse(text) for name, text in values.items()}
    for bounds in BOUNDS:
        if bounds.name not in parsed and not bounds.is_given:
            continue
        value = parsed.setdefault(bounds.name, broker_value(config, bounds.broker))
        low, high = _limits(config, bounds)
        if value < low:
            raise InvalidConfig(f"{bounds.name} must be greater than or equal to {bounds.low}")
        if value > high:
            raise InvalidConfig(f"{bounds.name} must be less than or equal to {bounds.high}")
    for protocol in PROTOCOLS:
        session, heartbeat = _session_keys(protocol)
        if parsed[session] <= parsed[heartbeat]:
            raise InvalidConfig(f"{session} must be greater than {heartbeat}")


def described(config: KafkaConfig, values: Mapping[str, str], name: str) -> Any:
    """The value of a key that DescribeConfigs tells: that of the group, as it was set."""
    if name in values:
        return DEFINITIONS[name].parse(values[name])
    bounds = _BOUNDS.get(name)
    if bounds is None or not bounds.is_given:
        return DEFINITIONS[name].default_value()
    return broker_value(config, bounds.broker)


def _limits(config: KafkaConfig, bounds: Bounds) -> tuple[int, int]:
    low = 0 if bounds.low is None else config.get_int(bounds.low)
    return low, INT_MAX if bounds.high is None else config.get_int(bounds.high)


def _session_keys(protocol: str) -> tuple[str, str]:
    return f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"


class GroupConfigs:
    """The configs of all groups, as far as they have some. `on_change` is called with a group and
    the values that it sets itself, typed and within bounds."""

    __slots__ = ("_config", "_values", "on_change")

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._values: dict[str, dict[str, Any]] = {}
        self.on_change: list[Callable[[str, Mapping[str, Any]], None]] = []

    def names(self) -> list[str]:
        """The groups that have configs."""
        return list(self._values)

    def value(self, group_id: str, name: str) -> Any:
        """The value of a key for a group: its own, or the broker's."""
        own = self._values.get(group_id)
        if own is not None and name in own:
            return own[name]
        bounds = _BOUNDS.get(name)
        if bounds is None:
            return DEFINITIONS[name].default_value()
        return broker_value(self._config, bounds.broker)

    def changed(self, group_id: str, values: Mapping[str, str]) -> None:
        """A group has these configs from now on; KafkaError if one is no value of its key."""
        found = {
            name: self._within_bounds(group_id, name, DEFINITIONS[name].parse(text))
            for name, text in values.items()
            if name in DEFINITIONS
        }
        if found:
            self._values[group_id] = found
        elif self._values.pop(group_id, None) is None:
            return
        for protocol in PROTOCOLS:
            self._look_at_session(group_id, found, *_session_keys(protocol))
        for tell in self.on_change:
            tell(group_id, found)

    def _within_bounds(self, group_id: str, name: str, value: Any) -> Any:
        bounds = _BOUNDS.get(name)
        if bounds is None:
            return value
        low, high = _limits(self._config, bounds)
        nearest = max(low, min(value, high))
        if nearest != value:
            logger.warning(
                "group %r: %s=%d is out of the broker's bounds; it is taken as %d",
                group_id, name, value, nearest,
            )  # fmt: skip
        return nearest

    def _look_at_session(
        self, group_id: str, found: Mapping[str, Any], session: str, heartbeat: str
    ) -> None:
        if session not in found and heartbeat not in found:
            return
        session_ms, heartbeat_ms = self.value(group_id, session), self.value(group_id, heartbeat)
        if session_ms <= heartbeat_ms:
            logger.warning(
                "group %r: %s (%d) is not greater than %s (%d); look at the broker's bounds",
                group_id, session, session_ms, heartbeat, heartbeat_ms,
            )  # fmt: skip
