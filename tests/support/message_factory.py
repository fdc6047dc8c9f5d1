"""Messages of every kind and version, made from a string of bytes that decides each choice.

Hypothesis draws the bytes, so that it can shrink them (no bytes left means the simplest choice);
loops that need thousands of messages take them from a seeded generator.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pybroker_kafka.protocol.apis
import pybroker_kafka.protocol.messages
from pybroker_kafka.protocol.schema import Field, Message, Struct, version_range

BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
TEXTS = ("", "a", "my-topic", "gruppe-ä", "主题", "🦀🦀", "x" * 127, "y" * 300)
BLOBS = (b"", b"\0", b"some bytes", bytes(range(256)), b"r" * 5000)
DOUBLES = (0.0, 1.5, -2.25, 1e300, float("inf"))


def all_messages() -> list[type[Message]]:
    """Every message class, by name."""
    names: dict[str, Any] = {}
    for room in (pybroker_kafka.protocol.apis, pybroker_kafka.protocol.messages):
        for module in pkgutil.iter_modules(room.__path__):
            names |= vars(import_module(f"{room.__name__}.{module.name}"))
    found: dict[str, type[Message]] = {
        name: value
        for name, value in names.items()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    }
    return [found[name] for name in sorted(found)]


def all_versions(cls: type[Message]) -> range:
    low, high = version_range(cls._spec.valid)
    return range(low, high + 1)


def every_message_and_version() -> Iterator[tuple[type[Message], int]]:
    for cls in all_messages():
        for version in all_versions(cls):
            yield cls, version


def is_flexible(cls: type[Message], version: int) -> bool:
    low, high = version_range(cls._spec.flexible)
    return low <= version <= high


def within(versions: str | None, version: int) -> bool:
    if versions is None:
        return False
    low, high = version_range(versions)
    return low <= version <= high


class MessageFactory:
    """Makes messages that their version can express."""

    def __init__(self, entropy: bytes, *, unknown_tags: bool = True) -> None:
        self.entropy = entropy
        self.position = 0
        self.unknown_tags = unknown_tags

    def byte(self) -> int:
        if self.position >= len(self.entropy):
            return 0
        self.position += 1
        return self.entropy[self.position - 1]

    def make(self, cls: type[Message], version: int) -> Any:
        return self.struct(cls, version, is_flexible(cls, version), 0)

    def struct(self, cls: type[Struct], version: int, flexible: bool, depth: int) -> Any:
        made: Any = cls()
        for field in cls._fields:
            if within(field.versions, version):
                setattr(made, field.name, self.field(field, version, flexible, depth))
        if flexible and self.unknown_tags and self.byte() > 230:
            tags = sorted({100 + self.byte() * 90 for _ in range(1 + self.byte() % 3)})
            made.unknown_tagged_fields = {tag: bytes([tag % 256]) * (tag % 150) for tag in tags}
        return made

    def field(self, field: Field, version: int, flexible: bool, depth: int) -> Any:
        if within(field.nullable, version) and self.byte() % 4 == 1:
            return None
        if field.kind == "struct":
            return self.struct(field.element, version, flexible, depth + 1)
        if field.kind != "array":
            return self.plain(field.kind)
        choice = self.byte()
        count = 130 if choice == 255 and depth == 0 else choice % 3
        if isinstance(field.element, str):
            return [self.plain(field.element) for _ in range(count)]
        return [self.struct(field.element, version, flexible, depth + 1) for _ in range(count)]

    def plain(self, kind: str) -> Any:
        choice = self.byte()
        if kind == "bool":
            return choice % 2 == 1
        if kind == "string":
            return TEXTS[choice % len(TEXTS)]
        if kind in ("bytes", "records"):
            return BLOBS[choice % len(BLOBS)]
        if kind == "uuid":
            return bytes([choice]) * 16
        if kind == "float64":
            return DOUBLES[choice % len(DOUBLES)]
        if kind == "uint16":
            return self.integer(BITS["int16"], choice) & 0xFFFF
        return self.integer(BITS[kind], choice)

    def integer(self, bits: int, choice: int) -> int:
        top = 1 << (bits - 1)
        if choice < 100:
            return choice
        if choice < 150:
            return -1
        if choice < 180:
            return top - 1
        if choice < 200:
            return -top
        value = 0
        for _ in range(bits // 8):
            value = value << 8 | self.byte()
        return value - top
