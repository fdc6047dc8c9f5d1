"""Definitions of configuration keys: types, parsing, validation.

Shared by topic configs (`storage.log_config`) and broker configs (`broker/config`). A value is
text in `server.properties`, in ZooKeeper and on the wire; `ConfigDef.parse` turns it into its
Python value or raises `KafkaError(INVALID_CONFIG)` with the wording a Kafka user knows.

Mirrors: org.apache.kafka.common.config.ConfigDef, without groups, widths, recommenders and
dependents (they serve Kafka Connect).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

from protocol.errors import ErrorCode, KafkaError

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
SHORT_MIN, SHORT_MAX = -(2**15), 2**15 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


class ConfigType(IntEnum):
    """The numbers are those of DescribeConfigs' config_type field."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class DynamicMode(Enum):
    """Where a key may be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    PER_TOPIC = "per-topic"


class InvalidValue(ValueError):
    """What is wrong with a value; the message completes 'Invalid value X for configuration Y: '."""


Validator = Callable[[Any], None]

_INTEGER_BOUNDS = {
    ConfigType.SHORT: (SHORT_MIN, SHORT_MAX),
    ConfigType.INT: (INT_MIN, INT_MAX),
    ConfigType.LONG: (LONG_MIN, LONG_MAX),
}


@dataclass(slots=True, frozen=True)
class Range:
    """A number between two bounds, either of which may be open."""

    minimum: float | None = None
    maximum: float | None = None

    def __call__(self, value: Any) -> None:
        if value is None:
            raise InvalidValue("Value must be non-null")
        if self.minimum is not None and value < self.minimum:
            raise InvalidValue(f"Value must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            raise InvalidValue(f"Value must be no more than {self.maximum}")

    def __str__(self) -> str:
        if self.maximum is None:
            return f"[{self.minimum},...]"
        if self.minimum is None:
            return f"[...,{self.maximum}]"
        return f"[{self.minimum},...,{self.maximum}]"


@dataclass(slots=True, frozen=True)
class RangeOr:
    """A number between bounds, or one special value outside of them."""

    minimum: int
    maximum: int
    special: int

    def __call__(self, value: Any) -> None:
        if value != self.special and not self.minimum <= value <= self.maximum:
            raise InvalidValue(
                f"Value must be between {self.minimum} and {self.maximum} "
                f"or equal to {self.special}"
            )

    def __str__(self) -> str:
        return f"[{self.minimum},...,{self.maximum}] or {self.special}"


@dataclass(slots=True, frozen=True)
class OneOf:
    """One of a fixed set of strings."""

    values: tuple[str, ...]
    ignore_case: bool = False

    def __call__(self, value: Any) -> None:
        if value in self.values:
            return
        if self.ignore_case and isinstance(value, str):
            lowered = value.lower()
            if any(lowered == allowed.lower() for allowed in self.values):
                return
        raise InvalidValue(f"String must be one of: {', '.join(self.values)}")

    def __str__(self) -> str:
        return f"[{','.join(self.values)}]"


@dataclass(slots=True, frozen=True)
class ListOf:
    """A list whose members all belong to a fixed set."""

    values: tuple[str, ...]

    def __call__(self, value: Any) -> None:
        for member in value:
            if member not in self.values:
                raise InvalidValue(f"String must be one of: {', '.join(self.values)}")

    def __str__(self) -> str:
        return f"[{','.join(self.values)}]"


def non_empty(value: Any) -> None:
    if value is not None and value == "":
        raise InvalidValue("String must be non-empty")


@dataclass(slots=True, frozen=True)
class ConfigDef:
    """One key. `default` is text, as in a properties file; None means null."""

    name: str
    type: ConfigType
    default: str | None
    documentation: str = ""
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    dynamic_mode: DynamicMode = DynamicMode.READ_ONLY
    synonyms: tuple[str, ...] = ()
    internal: bool = False
    group: str = ""

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str | None) -> Any:
        """The typed and validated value of `text`."""
        value = None if text is None else parse_value(self.name, self.type, text)
        if self.validator is not None and (value is not None or text is not None):
            try:
                self.validator(value)
            except InvalidValue as error:
                raise invalid_value(self.name, text, str(error)) from None
        return value

    def default_value(self) -> Any:
        return self.parse(self.default)


def invalid_value(name: str, text: str | None, why: str) -> KafkaError:
    shown = "null" if text is None else text
    return KafkaError(
        ErrorCode.INVALID_CONFIG, f"Invalid value {shown} for configuration {name}: {why}"
    )


def parse_value(name: str, config_type: ConfigType, text: str) -> Any:
    """Parse by type alone, with Kafka's leniency: surrounding blanks do not matter."""
    stripped = text.strip()
    if config_type is ConfigType.BOOLEAN:
        lowered = stripped.lower()
        if lowered not in ("true", "false"):
            raise invalid_value(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if config_type in _INTEGER_BOUNDS:
        return _parse_integer(name, config_type, text, stripped)
    if config_type is ConfigType.DOUBLE:
        try:
            return float(stripped)
        except ValueError:
            raise invalid_value(name, text, "Not a number of type DOUBLE") from None
    if config_type is ConfigType.LIST:
        return [part.strip() for part in stripped.split(",")] if stripped else []
    if config_type is ConfigType.PASSWORD:
        return text
    return stripped


def _parse_integer(name: str, config_type: ConfigType, text: str, stripped: str) -> int:
    low, high = _INTEGER_BOUNDS[config_type]
    digits = stripped[1:] if stripped[:1] in ("-", "+") else stripped
    value = int(stripped) if digits.isascii() and digits.isdigit() else None
    if value is None or not low <= value <= high:
        raise invalid_value(name, text, f"Not a number of type {config_type.name}")
    return value


def format_value(config_type: ConfigType, value: Any) -> str | None:
    """The text of a parsed value, as DescribeConfigs shows it."""
    if value is None:
        return None
    if config_type is ConfigType.BOOLEAN:
        return "true" if value else "false"
    if config_type is ConfigType.LIST:
        return ",".join(value)
    if config_type is ConfigType.DOUBLE:
        return _format_double(value)
    return str(value)


def _format_double(value: float) -> str:
    """As Java writes it: with an exponent outside of 0.001 to 10 million."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, _ = (number := Decimal(repr(value)).normalize()).as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{fraction}E{number.adjusted()}"
