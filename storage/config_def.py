"""Definitions of configuration keys: types, parsing, validation.

Shared by topic configs (`storage.log_config`) and broker configs (`broker/config`). A value is
text in `server.properties`, in ZooKeeper and on the wire; `ConfigDef.parse` turns it into its
Python value or raises `KafkaError(INVALID_CONFIG)` with the wording a Kafka user knows.

Texts are parsed as in Java: `1_000` is no number, `0x1p3` and `1e3d` are doubles, only blanks up to
U+0020 surround a value. One departure: no range contains NaN, which passes Kafka's comparisons.

Mirrors: org.apache.kafka.common.config.ConfigDef, without groups, widths, recommenders and
dependents (they serve Kafka Connect).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

from ..protocol.errors import ErrorCode, KafkaError

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
SHORT_MIN, SHORT_MAX = -(2**15), 2**15 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

# A value in an error message is cut there: the message must fit into a response.
MAX_SHOWN_LENGTH = 200
# More digits than any number has that is meant: the rest must be leading zeros.
_MAX_DIGITS = 19
_JAVA_BLANKS = "".join(map(chr, range(33)))  # removed by String.trim
_LIST_COMMA = re.compile(r"\s*,\s*", re.ASCII)
_DECIMAL_DOUBLE = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?", re.ASCII
)
_HEX_DOUBLE = re.compile(
    r"(?P<number>[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+)[fFdD]?",
    re.ASCII,
)
_SPECIAL_DOUBLE = re.compile(r"(?P<number>[+-]?(?:NaN|Infinity))")


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
    """The level at which a key may be changed while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"
    PER_TOPIC = "per-topic"


class InvalidValue(ValueError):
    """The error of an invalid value; the message completes 'Invalid value X for configuration Y: '.

    X is `shown` if it is given, else the whole value."""

    def __init__(self, message: str, shown: str | None = None) -> None:
        super().__init__(message)
        self.shown = shown


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
        if value != value:
            raise InvalidValue("Value must be a number")
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
                raise InvalidValue(f"String must be one of: {', '.join(self.values)}", member)

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
                shown = error.shown
                if shown is None and value is not None:
                    shown = shown_value(self.type, value)
                raise invalid_value(self.name, shown, str(error)) from None
        return value

    def default_value(self) -> Any:
        return self.parse(self.default)


def topic_config(
    name: str,
    config_type: ConfigType,
    default: str,
    validator: Validator | None,
    documentation: str,
    *synonyms: str,
    importance: Importance = Importance.MEDIUM,
) -> ConfigDef:
    """A key of topics; `synonyms` are the broker's keys with its default."""
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


class InvalidConfig(KafkaError):
    """A value that a key cannot have, or not here: a ConfigException in Kafka, which names the
    resource that should have had it."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_CONFIG, message)


def invalid_value(name: str, text: str | None, why: str) -> InvalidConfig:
    shown = "null" if text is None else shortened(text)
    return InvalidConfig(f"Invalid value {shown} for configuration {name}: {why}")


def shown_value(config_type: ConfigType, value: Any) -> str:
    """A parsed value as Java prints it."""
    if config_type is ConfigType.LIST:
        return f"[{', '.join(value)}]"
    return format_value(config_type, value) or ""


def shortened(text: str) -> str:
    """A text for an error message, cut if it is long."""
    return text if len(text) <= MAX_SHOWN_LENGTH else f"{text[:MAX_SHOWN_LENGTH]}..."


def parse_value(name: str, config_type: ConfigType, text: str) -> Any:
    """Parse by type alone, with Kafka's leniency: surrounding blanks do not matter."""
    stripped = trim(text)
    if config_type is ConfigType.BOOLEAN:
        lowered = stripped.lower()
        if lowered not in ("true", "false"):
            raise invalid_value(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if config_type in _INTEGER_BOUNDS:
        value = parse_integer(stripped)
        low, high = _INTEGER_BOUNDS[config_type]
        if value is None or not low <= value <= high:
            raise invalid_value(name, text, f"Not a number of type {config_type.name}")
        return value
    if config_type is ConfigType.DOUBLE:
        double = _parse_double(stripped)
        if double is None:
            raise invalid_value(name, text, "Not a number of type DOUBLE")
        return double
    if config_type is ConfigType.LIST:
        return _LIST_COMMA.split(stripped) if stripped else []
    return stripped


def trim(text: str) -> str:
    return text.strip(_JAVA_BLANKS)


def parse_integer(text: str) -> int | None:
    """Parse like Integer.parseInt, but with up to as many digits as a long has; None if invalid."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    digits = digits.lstrip("0") or digits[:1]
    if not digits.isdecimal() or len(digits) > _MAX_DIGITS or max(digits) > "\uffff":
        return None
    return -int(digits) if text[0] == "-" else int(digits)


def _parse_double(text: str) -> float | None:
    """Parse like Double.parseDouble; None if invalid."""
    if match := _DECIMAL_DOUBLE.fullmatch(text) or _SPECIAL_DOUBLE.fullmatch(text):
        return float(match["number"])
    if match := _HEX_DOUBLE.fullmatch(text):
        try:
            return float.fromhex(match["number"])
        except OverflowError:
            return -math.inf if text[0] == "-" else math.inf
    return None


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
    """Format like Java: with an exponent outside of 0.001 to 10 million."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, _ = (number := Decimal(repr(value)).normalize()).as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' * sign}{digits[0]}.{fraction}E{number.adjusted()}"
