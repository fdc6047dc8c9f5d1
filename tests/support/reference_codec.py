"""The dumb twin of the compiled codec: one field at a time, straight from the definitions.

Job: `reference_encode` and `reference_decode`, written to be obviously right and never fast. They
share with `protocol.codec` only the message definitions; what fails raises `Refused`.
"""

from __future__ import annotations

import struct
from typing import Any

from pybroker_kafka.protocol.schema import UNSET, Field, Message, Struct


class Refused(Exception):
    """The bytes, or the message, cannot be read or written."""


NUMBERS = {
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "int64": ">q",
    "float64": ">d",
}


def covers(versions: str | None, version: int) -> bool:
    if versions is None or versions == "none":
        return False
    if versions[-1] == "+":
        return version >= int(versions[:-1])
    ends = versions.split("-")
    return int(ends[0]) <= version <= int(ends[-1])


def default_of(field: Field) -> Any:
    if field.default is UNSET:
        return field.element()
    return list(field.default) if isinstance(field.default, list) else field.default


class Writer:
    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.data = bytearray()

    def number(self, form: str, value: Any) -> None:
        try:
            self.data += struct.pack(form, value)
        except struct.error as error:
            raise Refused(str(error)) from error

    def uvarint(self, value: int) -> None:
        while value > 127:
            self.data.append(value % 128 + 128)
            value //= 128
        self.data.append(value)

    def length(self, form: str, length: int | None) -> None:
        if self.flexible:
            self.uvarint(0 if length is None else length + 1)
        else:
            self.number(form, -1 if length is None else length)

    def message(self, value: Struct) -> None:
        tagged: dict[int, bytes] = {}
        for field in value._fields:
            item = getattr(value, field.name)
            if not covers(field.versions, self.version):
                if item != default_of(field) and not field.ignorable:
                    raise Refused(f"{field.name} is not in version {self.version}")
            elif field.tag is None:
                self.field(field, item)
            elif item != default_of(field):
                inner = Writer(self.version, self.flexible)
                inner.field(field, item)
                tagged[field.tag] = bytes(inner.data)
        if self.flexible:
            for tag, data in value.unknown_tagged_fields.items():
                if tag in tagged:
                    raise Refused(f"tag {tag} twice")
                tagged[tag] = data
            self.uvarint(len(tagged))
            for tag in sorted(tagged):
                self.uvarint(tag)
                self.uvarint(len(tagged[tag]))
                self.data += tagged[tag]
        elif value.unknown_tagged_fields:
            raise Refused("tags in a version without tags")

    def field(self, field: Field, value: Any) -> None:
        if value is None and not covers(field.nullable, self.version):
            raise Refused(f"{field.name} is null")
        if field.kind == "array":
            self.length(">i", None if value is None else len(value))
            for item in value or []:
                if isinstance(field.element, str):
                    self.plain(field.element, item)
                else:
                    self.message(item)
        elif field.kind == "struct":
            if covers(field.nullable, self.version):
                null = -1 if field.tag is None else 0
                self.number(">b", null if value is None else 1)
            if value is not None:
                self.message(value)
        else:
            self.plain(field.kind, value)

    def plain(self, kind: str, value: Any) -> None:
        if kind == "bool":
            self.data.append(1 if value else 0)
        elif kind == "uuid":
            self.data += value
        elif kind == "string":
            text = None if value is None else value.encode("utf-8")
            if text is not None and len(text) > 32767:
                raise Refused("string too long")
            self.length(">h", None if text is None else len(text))
            self.data += text or b""
        elif kind in ("bytes", "records"):
            self.length(">i", None if value is None else len(value))
            self.data += value or b""
        else:
            self.number(NUMBERS[kind], value)


class Reader:
    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        self.data = data
        self.version = version
        self.flexible = flexible
        self.position = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self.position + size > len(self.data):
            raise Refused(f"{size} bytes at {self.position} of {len(self.data)}")
        taken = self.data[self.position : self.position + size]
        self.position += size
        return taken

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def uvarint(self) -> int:
        value: int = 0
        for index in range(5):
            byte = self.take(1)[0]
            value += byte % 128 * 128**index
            if byte < 128:
                if value >= 2**31:
                    raise Refused("varint too large")
                return value
        raise Refused("varint too long")

    def length(self, form: str) -> int | None:
        length: int = self.uvarint() - 1 if self.flexible else self.number(form)
        if length < -1:
            raise Refused(f"length {length}")
        return None if length == -1 else length

    def message(self, cls: type[Struct]) -> Struct:
        value = cls()
        tagged = {}
        for field in cls._fields:
            if not covers(field.versions, self.version):
                continue
            if field.tag is None:
                setattr(value, field.name, self.field(field))
            else:
                tagged[field.tag] = field
        if self.flexible:
            last = -1
            unknown = {}
            for _ in range(self.uvarint()):
                tag = self.uvarint()
                data = self.take(self.uvarint())
                if tag <= last:
                    raise Refused("tags out of order")
                last = tag
                if tag in tagged:
                    inner = Reader(data, self.version, self.flexible)
                    setattr(value, tagged[tag].name, inner.field(tagged[tag]))
                    if inner.position != len(data):
                        raise Refused("bytes left in a tag")
                else:
                    unknown[tag] = data
            value.unknown_tagged_fields = unknown
        return value

    def field(self, field: Field) -> Any:
        nullable = covers(field.nullable, self.version)
        value: Any
        if field.kind == "array":
            length = self.length(">i")
            value = None
            if length is not None:
                value = []
                for _ in range(length):
                    if isinstance(field.element, str):
                        item = self.plain(field.element)
                        if item is None:
                            raise Refused("null in an array")
                        value.append(item)
                    else:
                        value.append(self.message(field.element))
        elif field.kind == "struct":
            present = not nullable or self.number(">b") >= (0 if field.tag is None else 1)
            value = self.message(field.element) if present else None
        else:
            value = self.plain(field.kind)
        if value is None and not nullable:
            raise Refused(f"{field.name} is null")
        return value

    def plain(self, kind: str) -> Any:
        if kind == "bool":
            return self.take(1) != b"\0"
        if kind == "uuid":
            return self.take(16)
        if kind == "string":
            length = self.length(">h")
            if length is not None and length > 32767:
                raise Refused("string too long")
            return None if length is None else self.take(length).decode("utf-8", "replace")
        if kind in ("bytes", "records"):
            length = self.length(">i")
            return None if length is None else self.take(length)
        return self.number(NUMBERS[kind])


def reference_encode(message: Message, version: int) -> bytes:
    writer = Writer(version, covers(message._spec.flexible, version))
    writer.message(message)
    return bytes(writer.data)


def reference_decode(cls: type[Message], version: int, data: bytes) -> tuple[Message, int]:
    """The message and the number of bytes that it took."""
    reader = Reader(data, version, covers(cls._spec.flexible, version))
    message = reader.message(cls)
    assert isinstance(message, Message)
    return message, reader.position
