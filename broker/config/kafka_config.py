"""`KafkaConfig`: the values of all broker keys, typed, with their source.

A value comes from the first of: the dynamic config of this broker, the dynamic cluster default
(both from ZooKeeper), `server.properties`, the default. Defaults are parsed on first use, so that
start-up does not parse all 328; explicit values are parsed at once and raise their errors then.

Mirrors `kafka.server.KafkaConfig`. `dynamic` decides which keys may become dynamic configs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from functools import cached_property
from typing import Any

from ...protocol.errors import KafkaError
from ...replication.inter_broker import InterBrokerProtocol, protocol_of
from ...storage.config_def import INT_MAX, INT_MIN, parse_integer, shortened, trim
from ...storage.message_format import INTER_BROKER_VERSION
from .definitions import (
    BROKER_CONFIGS,
    LISTENER_PREFIX,
    SYNONYMS,
    base_key,
    definition_of,
)
from .errors import ConfigError
from .listeners import (
    WILDCARD_HOSTS,
    Listener,
    default_advertised_host,
    parse_listeners,
    parse_protocol_map,
)

__all__ = ["ConfigError", "ConfigSource", "KafkaConfig"]

_HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")


class ConfigSource(IntEnum):
    """The source of a value, in the numbers of DescribeConfigs."""

    UNKNOWN = 0
    TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class KafkaConfig:
    """The configuration of one broker. `static` holds the operator's own settings."""

    def __init__(self, static: Mapping[str, str]) -> None:
        self.static = dict(static)
        for one, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
            if one in self.static:
                self.static.setdefault(other, self.static[one])
        self.dynamic_default: dict[str, str] = {}
        self.dynamic_broker: dict[str, str] = {}
        self._parsed: dict[str, Any] = {}
        for name in self.static:
            if definition_of(name) is not None:
                self.value(name)

    # Values

    def text(self, name: str) -> str | None:
        """The effective text of a key."""
        return self.text_and_source(name)[0]

    def text_and_source(self, name: str) -> tuple[str | None, ConfigSource]:
        for source, values in self.sources():
            if name in values:
                return values[name], source
        definition = definition_of(name)
        return (definition.default if definition else None), ConfigSource.DEFAULT_CONFIG

    def sources(self) -> tuple[tuple[ConfigSource, dict[str, str]], ...]:
        return (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self.dynamic_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self.dynamic_default),
            (ConfigSource.STATIC_BROKER_CONFIG, self.static),
        )

    def is_set(self, name: str) -> bool:
        return any(name in values for _, values in self.sources())

    def value(self, name: str) -> Any:
        """The typed value of a key; ConfigError if its text is not one."""
        try:
            return self._parsed[name]
        except KeyError:
            pass
        definition = definition_of(name)
        assert definition is not None, f"{name} is no broker key"
        text = self.text(name)
        try:
            parsed = definition.parse(text)
        except KafkaError as error:
            raise ConfigError(error.message) from None
        self._parsed[name] = parsed
        return parsed

    def get_int(self, name: str) -> int:
        value = self.value(name)
        assert isinstance(value, int), f"{name} is not set"
        return value

    def get_float(self, name: str) -> float:
        value = self.value(name)
        assert isinstance(value, float), f"{name} is not set"
        return value

    def get_boolean(self, name: str) -> bool:
        value = self.value(name)
        assert isinstance(value, bool)
        return value

    def get_string(self, name: str) -> str:
        value = self.value(name)
        assert isinstance(value, str), f"{name} is not set"
        return value

    def get_optional_string(self, name: str) -> str | None:
        value = self.value(name)
        return value if isinstance(value, str) and value else None

    def get_list(self, name: str) -> list[str]:
        value = self.value(name)
        return list(value or ())

    def of_listener(self, listener: str, name: str) -> Any:
        """A key that may be set for one listener: `listener.name.<listener>.<key>`."""
        prefixed = f"{LISTENER_PREFIX}{listener.lower()}.{name}"
        return self.value(prefixed) if self.is_set(prefixed) else self.value(name)

    def explicit(self) -> dict[str, str]:
        """All explicit values as text: the broker defaults that topic configs inherit."""
        return {**self.static, **self.dynamic_default, **self.dynamic_broker}

    # Derived

    @property
    def broker_id(self) -> int:
        """-1 while it has to be taken from meta.properties or generated."""
        broker_id = self.get_int("broker.id")
        return broker_id if broker_id >= 0 else self.get_int("node.id")

    @property
    def zookeeper_connect(self) -> str:
        return self.get_string("zookeeper.connect")

    @property
    def zookeeper_connection_timeout_ms(self) -> int:
        timeout = self.value("zookeeper.connection.timeout.ms")
        return self.get_int("zookeeper.session.timeout.ms") if timeout is None else int(timeout)

    @property
    def log_dirs(self) -> list[str]:
        text = self.value("log.dirs") or self.value("log.dir")
        return [part.strip() for part in text.split(",") if part.strip()]

    @property
    def retention_ms(self) -> int:
        for name, unit_ms in (
            ("log.retention.ms", 1),
            ("log.retention.minutes", 60_000),
            ("log.retention.hours", 3_600_000),
        ):
            value = self.value(name)
            if value is not None:
                return -1 if value < 0 else int(value) * unit_ms
        raise AssertionError("log.retention.hours has a default")

    @property
    def roll_ms(self) -> int:
        value = self.value("log.roll.ms")
        return self.get_int("log.roll.hours") * 3_600_000 if value is None else int(value)

    @cached_property
    def protocol_map(self) -> dict[str, str]:
        return parse_protocol_map(self.get_string("listener.security.protocol.map"))

    @cached_property
    def listeners(self) -> list[Listener]:
        return parse_listeners("listeners", self.get_string("listeners"), self.protocol_map)

    @property
    def inter_broker_listener(self) -> str:
        named = self.get_optional_string("inter.broker.listener.name")
        if named is not None:
            return named.upper()
        protocol = self.get_string("security.inter.broker.protocol")
        for listener in self.listeners:
            if listener.security_protocol == protocol:
                return listener.name
        return protocol

    @property
    def inter_broker_protocol(self) -> InterBrokerProtocol:
        """The effects of `inter.broker.protocol.version`."""
        return protocol_of(self.get_string(INTER_BROKER_VERSION))

    @property
    def control_plane_listener(self) -> str:
        """The listener for requests between the controller and the brokers."""
        named = self.get_optional_string("control.plane.listener.name")
        return self.inter_broker_listener if named is None else named.upper()

    def advertised_listeners(self, bound_ports: Mapping[str, int] | None = None) -> list[Listener]:
        """The addresses for clients; port 0 becomes the port that was bound."""
        text = self.get_optional_string("advertised.listeners")
        listeners = self.listeners
        if text is not None:
            listeners = parse_listeners("advertised.listeners", text, self.protocol_map)
        advertised = []
        for listener in listeners:
            port = listener.port
            if port == 0 and bound_ports is not None:
                port = bound_ports[listener.name]
            host = listener.host
            if text is None and host in WILDCARD_HOSTS:
                host = default_advertised_host()
            advertised.append(listener._replace(host=host, port=port))
        return advertised

    @property
    def max_connections_per_ip_overrides(self) -> dict[str, int]:
        """The limits by host name or address, as written."""
        overrides = {}
        text = self.get_string("max.connections.per.ip.overrides").rstrip(", \t")
        for entry in map(trim, text.split(",") if text else ()):
            host, colon, count_text = entry.rpartition(":")
            host, count = host.strip(), parse_integer(count_text.strip()) if colon else None
            if count is None or not _HOST.fullmatch(host) or not INT_MIN <= count <= INT_MAX:
                raise ConfigError(
                    f"max.connections.per.ip.overrides: `{shortened(entry)}` is not host:count"
                )
            overrides[host] = count
        return overrides

    # Dynamic updates

    def with_dynamic(self, *, default: Mapping[str, str], broker: Mapping[str, str]) -> KafkaConfig:
        """A copy of this config with other dynamic configs."""
        copy = KafkaConfig(self.static)
        copy.dynamic_default, copy.dynamic_broker = dict(default), dict(broker)
        for name in (*copy.dynamic_default, *copy.dynamic_broker):
            copy._parsed.pop(name, None)
        return copy

    def update_dynamic(self, *, default: Mapping[str, str], broker: Mapping[str, str]) -> set[str]:
        """Take over dynamic configs, which have been checked; returns the keys that changed."""
        before = {name: self.text(name) for name in self._dynamic_names(default, broker)}
        self.dynamic_default, self.dynamic_broker = dict(default), dict(broker)
        changed = {name for name, text in before.items() if self.text(name) != text}
        for name in changed:
            self._parsed.pop(name, None)
        return changed

    def _dynamic_names(self, *more: Mapping[str, str]) -> set[str]:
        return {*self.dynamic_default, *self.dynamic_broker}.union(*more)

    # Synonyms, for DescribeConfigs

    def synonyms(self, name: str) -> list[tuple[str, str | None, ConfigSource]]:
        """(key, text, source) of every possible source of a key's value: the first one counts.

        As in Kafka, entries before the first entry of the key itself are left out: the list of
        log.retention.ms is empty while only log.retention.hours is set.
        """
        base = base_key(name)
        itself = dict.fromkeys((name, name if base is None else base.name))
        names = SYNONYMS.get(name, tuple(itself))
        found: list[tuple[str, str | None, ConfigSource]] = []
        for source, values in self.sources():
            found += [(key, values[key], source) for key in names if key in values]
        for key in names:
            definition = BROKER_CONFIGS.get(key)
            if definition is not None and definition.default is not None:
                found.append((key, definition.default, ConfigSource.DEFAULT_CONFIG))
        first = next((index for index, entry in enumerate(found) if entry[0] == name), len(found))
        return found[first:]
