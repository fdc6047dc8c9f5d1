"""The vocabulary of the tables of broker keys: one `key(...)` line a key.

Keys, types, defaults, bounds, importance and dynamic update modes are those of Kafka 3.9; the
descriptions are ours, and only for keys that have an effect here.
"""

from __future__ import annotations

import re
from typing import Any

from ...storage.config_def import (
    INT_MAX,
    ConfigDef,
    ConfigType,
    DynamicMode,
    Importance,
    InvalidValue,
    ListOf,
    OneOf,
    Range,
    RangeOr,
    Validator,
    non_empty,
)
from ...storage.message_format import find_version, parse_version

__all__ = [
    "AT_LEAST_0", "AT_LEAST_1", "BOOLEAN", "CLASS", "CLUSTER_WIDE", "DOUBLE", "HIGH", "INT",
    "INT_MAX", "LIST", "LONG", "LOW", "MEDIUM", "PASSWORD", "PER_BROKER", "SHORT", "STRING",
    "ListOf", "OneOf", "Range", "RangeOr", "host_ports", "inter_broker_version", "key",
    "non_empty", "non_null", "voters",
]  # fmt: skip

BOOLEAN, STRING, INT, SHORT = (
    ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT,
)  # fmt: skip
LONG, DOUBLE, LIST, CLASS = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST, ConfigType.CLASS
PASSWORD = ConfigType.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
PER_BROKER, CLUSTER_WIDE = DynamicMode.PER_BROKER, DynamicMode.CLUSTER_WIDE
AT_LEAST_0, AT_LEAST_1 = Range(0), Range(1)

NEWEST_INTER_BROKER_VERSION = parse_version("3.9-IV0")
_VOTER = re.compile(r"\d+@.+:\d+")
_HOST_PORT = re.compile(r".+:\d+")


def non_null(value: Any) -> None:
    if value is None:
        raise InvalidValue("Value must be non-null")


def inter_broker_version(value: Any) -> None:
    version = find_version(value)
    if version is None or version > NEWEST_INTER_BROKER_VERSION:
        raise InvalidValue("it is not a version from 0.8.0 to 3.9-IV0")


def voters(value: Any) -> None:
    for voter in value:
        if not _VOTER.fullmatch(voter):
            raise InvalidValue(f"`{voter}` is not id@host:port")


def host_ports(value: Any) -> None:
    for server in value:
        if not _HOST_PORT.fullmatch(server):
            raise InvalidValue(f"`{server}` is not host:port")


def key(
    name: str,
    config_type: ConfigType,
    default: str | None,
    importance: Importance,
    *,
    valid: Validator | None = None,
    mode: DynamicMode = DynamicMode.READ_ONLY,
    internal: bool = False,
    doc: str = "",
) -> ConfigDef:
    return ConfigDef(name, config_type, default, doc, valid, importance, mode, internal=internal)
