"""Read and write large messages in slices, between which other tasks can run.

Job: `decode_slices` and `encode_slices`: like `codec.decode_from` and `codec.encode_parts`, but
generators that yield about once a millisecond. Invariants: no step reads or writes more than
LIMITED_BYTES, a few strings, and records; the message and the bytes are those of `codec`, and so
are the errors (a test compares them).

The generated functions read or write a struct within the limit at once. A larger struct is
processed along its definition, field by field, and its elements are tried one by one: so this file
is slow only for large structs, not for long lists, and a message has few large structs.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from .codec import codec_of
from .discarding import discard
from .errors import ProtocolError
from .packed import write_i16_be, write_i32_be, write_i64_be
from .primitives import Buffer, Records
from .reader import Beyond, Reader
from .schema import UNSET, Field, Message, Struct, shared_default, version_range
from .writer import LIMITED_BYTES, NO_LIMIT, REFUSED, Writer

M = TypeVar("M", bound=Message)
Steps = Generator[None, None, None]

# Numbers of an array that are read or written at once.
SLICE_NUMBERS: Final = 1024
# Parts, most of them records, that are written at once.
SLICE_PARTS: Final = 500
_NUMBERS: Final = {"int8": ("b", 1), "int16": ("h", 2), "int32": ("i", 4), "int64": ("q", 8)}


def decode_small(cls: type[M], version: int, buffer: Buffer, offset: int) -> tuple[M, int] | None:
    """Like `codec.decode_from`, but None if much has to be read; the size of records does not
    count."""
    codec = codec_of(cls)
    try:
        reader = Reader(memoryview(buffer), offset, codec.is_flexible(version), True)
        message: M = codec.read(reader, version)
    except Beyond:
        return None
    except ProtocolError as error:
        raise ProtocolError(f"{codec.name} v{version}: {error}") from error
    return message, reader.place()


def decode_slices(
    cls: type[M], version: int, buffer: Buffer, offset: int = 0
) -> Generator[None, None, tuple[M, int]]:
    """Like `codec.decode_from`, in slices."""
    codec = codec_of(cls)
    read: list[Any] = []
    try:
        reader = Reader(memoryview(buffer), offset, codec.is_flexible(version), True)
        yield from _read_all(reader, read, cls, 1, version)
        return read[0], reader.place()
    except ProtocolError as error:
        problem = ProtocolError(f"{codec.name} v{version}: {error}")
        problem.__cause__ = error
    for message in read:
        yield from discard(message)
    raise problem


def encode_slices(message: Message, version: int, parts: list[Records]) -> Steps:
    """Like `codec.encode_parts`, in slices; finished parts are in `parts`."""
    codec = codec_of(type(message))
    writer = Writer(version, codec.is_flexible(version), parts)
    try:
        yield from _write_all(writer, (message,), type(message), version)
        writer.end_part()
    except REFUSED as error:
        raise ProtocolError(f"{codec.name} v{version} has a value out of range: {error}") from error


# Reading


def _read_all(
    reader: Reader, items: list[Any], cls: type[Struct], count: int, version: int
) -> Steps:
    """Read `count` structs and add them to `items`."""
    read = codec_of(cls).read
    next_yield = reader.place() + LIMITED_BYTES
    for _ in range(count):
        start = reader.place()
        reader.limited = True
        reader.windows = 0
        try:
            items.append(read(reader, version))
        except Beyond:
            reader.go_back(start)
            try:
                items.append(read(reader, version))
            except Beyond:
                reader.go_back(start)
                item = object.__new__(cls)
                items.append(item)
                yield
                yield from _read_fields(reader, item, cls, version)
        if reader.place() > next_yield:
            yield
            next_yield = reader.place() + LIMITED_BYTES


def _read_fields(reader: Reader, struct: Struct, cls: type[Struct], version: int) -> Steps:
    """The fields of a large struct."""
    for field in cls._fields:
        reader.limited = False
        if field.tag is not None or not _in_range(field.versions, version):
            setattr(struct, field.name, _default(field))
        elif field.kind == "array":
            yield from _read_array(reader, struct, field, version)
        elif field.kind == "struct":
            read: list[Any] = [None]
            if not _in_range(field.nullable, version) or reader.int8() >= 0:
                read.clear()
                yield from _read_all(reader, read, field.element, 1, version)
            setattr(struct, field.name, read[0])
        else:
            setattr(struct, field.name, _READ[field.kind](reader, field, version))
    reader.limited = False
    codec_of(cls).read_tags(reader, struct, version)


def _read_array(reader: Reader, struct: Struct, field: Field, version: int) -> Steps:
    element, nullable = field.element, _in_range(field.nullable, version)
    letter, size = _NUMBERS.get(element, ("", 1))
    count = reader.count(field.name, nullable, size)
    items: list[Any] = []
    setattr(struct, field.name, None if count < 0 else items)
    if not isinstance(element, str):
        yield from _read_all(reader, items, element, count, version)
    elif letter:
        while len(items) < count:
            items += reader.numbers(letter, size, min(SLICE_NUMBERS, count - len(items)))
            yield
    else:
        next_yield = reader.place() + LIMITED_BYTES
        for _ in range(count):
            items.append(reader.string(field.name, False))
            if reader.place() > next_yield:
                yield
                next_yield = reader.place() + LIMITED_BYTES


# Writing


def _write_all(writer: Writer, items: Any, cls: type[Struct], version: int) -> Steps:
    write = codec_of(cls).write
    out, parts = writer.out, writer.parts
    next_yield = len(parts) + SLICE_PARTS
    for item in items:
        size, count = len(out), len(parts)
        writer.limit = size + LIMITED_BYTES
        try:
            write(writer, item, version)
        except Beyond:
            writer.go_back(count, size)
            yield
            yield from _write_fields(writer, item, cls, version)
        if len(out) > LIMITED_BYTES:
            writer.end_part()
            yield
        elif len(parts) > next_yield:
            yield
            next_yield = len(parts) + SLICE_PARTS


def _write_fields(writer: Writer, struct: Struct, cls: type[Struct], version: int) -> Steps:
    """The fields of a large struct."""
    for field in cls._fields:
        writer.limit = NO_LIMIT
        value = getattr(struct, field.name)
        nullable = _in_range(field.nullable, version)
        if field.tag is not None:
            continue
        if not _in_range(field.versions, version):
            if not field.ignorable and value != _default(field):
                writer.refuse(f"{cls.__name__}.{field.name}")
        elif field.kind == "array":
            yield from _write_array(writer, field, value, nullable, version)
        elif field.kind == "struct":
            if nullable:
                writer.int8(-1 if value is None else 1)
            elif value is None:
                writer.refuse_null(field.name)
            if value is not None:
                yield from _write_all(writer, (value,), field.element, version)
        else:
            _WRITE[field.kind](writer, field, value, nullable)
    writer.limit = NO_LIMIT
    codec_of(cls).write_tags(writer, struct, version)


def _write_array(writer: Writer, field: Field, items: Any, nullable: bool, version: int) -> Steps:
    writer.array(field.name, items, nullable)
    if not items:
        return
    if not isinstance(field.element, str):
        yield from _write_all(writer, items, field.element, version)
        return
    for item in items:
        _WRITE[field.element](writer, field, item, False)
        if len(writer.out) > LIMITED_BYTES:
            writer.end_part()
            yield


# Definitions


def _in_range(versions: str | None, version: int) -> bool:
    if versions is None:
        return False
    low, high = version_range(versions)
    return low <= version <= high


def _default(field: Field) -> Any:
    if field.default is UNSET:
        return shared_default(field.element)
    return [] if field.default == [] else field.default


_READ: Final[dict[str, Callable[[Reader, Field, int], Any]]] = {
    "bool": lambda reader, field, version: reader.boolean(),
    "int8": lambda reader, field, version: reader.int8(),
    "int16": lambda reader, field, version: reader.int16(),
    "uint16": lambda reader, field, version: reader.uint16(),
    "int32": lambda reader, field, version: reader.int32(),
    "int64": lambda reader, field, version: reader.int64(),
    "float64": lambda reader, field, version: reader.float64(),
    "uuid": lambda reader, field, version: reader.uuid(),
    "string": lambda reader, field, version: reader.string(
        field.name, _in_range(field.nullable, version)
    ),
    "bytes": lambda reader, field, version: reader.binary(
        field.name, _in_range(field.nullable, version)
    ),
}
_READ["records"] = _READ["bytes"]

_WRITE: Final[dict[str, Callable[[Writer, Field, Any, bool], None]]] = {
    "bool": lambda writer, field, value, nullable: writer.boolean(value),
    "int8": lambda writer, field, value, nullable: writer.int8(value),
    "int16": lambda writer, field, value, nullable: write_i16_be(writer.out, value),
    "uint16": lambda writer, field, value, nullable: writer.uint16(value),
    "int32": lambda writer, field, value, nullable: write_i32_be(writer.out, value),
    "int64": lambda writer, field, value, nullable: write_i64_be(writer.out, value),
    "float64": lambda writer, field, value, nullable: writer.float64(value),
    "uuid": lambda writer, field, value, nullable: writer.uuid(value),
    "string": lambda writer, field, value, nullable: writer.string(field.name, value, nullable),
    "bytes": lambda writer, field, value, nullable: writer.binary(field.name, value, nullable),
    "records": lambda writer, field, value, nullable: writer.records(field.name, value, nullable),
}
