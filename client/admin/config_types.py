"""The resources that have configs, configs with the sources of their values, and alterations."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class ResourceKind(IntEnum):
    """The kinds of resources with configs; the numbers are those of the wire."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16  # KIP-714
    GROUP = 32  # KIP-848; Kafka 4, or ours with features of it


class ConfigSource(IntEnum):
    """The source of a value; the numbers are those of the wire."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


class ConfigOperation(IntEnum):
    """The operation of an alteration; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResource(NamedTuple):
    """A topic, a group, a broker by its id, or all brokers: the name ""."""

    kind: ResourceKind
    name: str

    @property
    def broker_id(self) -> int | None:
        """The only broker that knows the resource; None if all do. Raises ValueError for a bad
        id."""
        is_one = self.kind in (ResourceKind.BROKER, ResourceKind.BROKER_LOGGER) and self.name
        return int(self.name) if is_one else None

    def __str__(self) -> str:
        words = self.kind.name.lower().replace("_", " ")
        return f"{words} {self.name!r}" if self.name else f"all {words}s"


class ConfigSynonym(NamedTuple):
    """One of the possible sources of a value; the first one is in effect."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A key's value, None if it is secret or not set, and its source."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ConfigSynonym, ...]
    documentation: str | None


class Alteration(NamedTuple):
    """The alteration of one key; without a value for DELETE."""

    name: str
    operation: ConfigOperation
    value: str | None
