"""Generates the function that reads one message in one version.

Job: `compile_reader(cls, version)` makes `read(view, position, end) -> (message, next position)`.
Invariants: every length is compared with the bytes that remain before it is used, an array's count
with the least its elements can take; known tags must fill exactly their size; tags strictly
increase. What the generated code may raise: ProtocolError, struct.error, IndexError.
Mirrors: the read methods that Kafka's MessageDataGenerator writes, with Java's treatment of what is
no UTF-8 (replaced by U+FFFD). Stricter than these: a tag's size and order are checked, and so is
that a negative length is -1 and a varint fits 31 bits; no client sends such.
Leaves out: turning those exceptions into ProtocolError (`codec`).

Speed: neighbouring fixed-size fields, the first byte of a length behind them included, are one
`unpack_from`; nested structs and arrays are inlined; varints of one byte take no call.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import calcsize, unpack_from
from typing import Any, Final, NoReturn

from .codec_source import (
    FIXED,
    SLICE_NUMBERS,
    FieldPlan,
    Generator,
    Reader,
    SlicedReader,
    Source,
    in_range,
)
from .errors import ProtocolError
from .primitives import MAX_STRING_BYTES, decode_uvarint, uvarint_tail
from .schema import NO_TAGS, ZERO_UUID, Field, Message, Struct

# A sliced reader yields after about so many bytes: 2 000 elements if they are small.
SLICE_BYTES: Final = 4096
# Nobody sends more; without a limit they would be a loop that no slice ends.
MAX_UNKNOWN_TAGS: Final = 1000


def _fail(field: str, problem: str) -> NoReturn:
    raise ProtocolError(f"{field} {problem}")


def _iter_tags(buffer: Any, position: int, end: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Tag, start and end of each of `count` tagged fields."""
    if count > MAX_UNKNOWN_TAGS:
        raise ProtocolError(f"{count} tagged fields are too many")
    last = -1
    for _ in range(count):
        tag, position = decode_uvarint(buffer, position)
        size, position = decode_uvarint(buffer, position)
        if tag <= last:
            raise ProtocolError("tags are out of order")
        if size > end - position:
            raise ProtocolError(f"tag {tag} is longer than the buffer")
        last = tag
        yield tag, position, position + size
        position += size


def _read_unknown_tags(struct: Struct, buffer: Any, position: int, end: int, count: int) -> int:
    """Keeps the tags of a struct that knows none in this version. `count` is the first byte
    of their number."""
    if count > 127:
        count, position = uvarint_tail(buffer, position, count)
    unknown = {}
    for tag, start, stop in _iter_tags(buffer, position, end, count):
        unknown[tag] = bytes(buffer[start:stop])
        position = stop
    struct.unknown_tagged_fields = unknown
    return position


_HELPERS: Final[dict[str, Any]] = {
    "NO_TAGS": NO_TAGS,
    "ZERO_UUID": ZERO_UUID,
    "decode_uvarint": decode_uvarint,
    "fail": _fail,
    "iter_tags": _iter_tags,
    "new": object.__new__,
    "read_unknown_tags": _read_unknown_tags,
    "unpack_from": unpack_from,
    "uvarint_tail": uvarint_tail,
}


def compile_reader(cls: type[Message], version: int) -> Reader:
    read: Reader = _ReaderGenerator(cls, version, _HELPERS, False).generate()
    return read


def compile_sliced_reader(cls: type[Message], version: int) -> SlicedReader:
    read: SlicedReader = _ReaderGenerator(cls, version, _HELPERS, True).generate()
    return read


class _ReaderGenerator(Generator):
    def generate(self) -> Any:
        if self.sliced:
            source = self.function("read(m, buf, pos, end)")
            source.line(f"mark = pos + {SLICE_BYTES}")
            self.fields(source, self.cls, "m")
        else:
            source = self.function("read(buf, pos, end)")
            self.struct(source, self.cls, "m")
        source.line("return m, pos")
        if self.sliced:
            source.line("yield")  # a generator also without an array
        return self.compile("read")

    # Structs

    def struct(self, source: Source, cls: type[Struct], target: str) -> None:
        source.line(f"{target} = new({source.constant('C', cls)})")
        self.fields(source, cls, target)

    def fields(self, source: Source, cls: type[Struct], target: str) -> None:
        plan = FieldPlan(cls, self.version, self.flexible)
        for field in plan.absent + plan.tagged:
            source.line(f"{target}.{field.name} = {self.default(source, field)}")
        for field in plan.regular:
            self.field(source, field, f"{target}.{field.name}")
        source.line(f"{target}.unknown_tagged_fields = NO_TAGS")
        if self.flexible:
            count = self.counter.new("n")
            source.fixed("B", count)
            self.flush(source)
            with source.block(f"if {count}:"):
                tags = self.tag_function(cls, plan)
                source.line(f"pos = {tags}({target}, buf, pos, end, {count})")
        else:
            self.flush(source)

    def default(self, source: Source, field: Field) -> str:
        return "ZERO_UUID" if field.default == ZERO_UUID else source.default(field)

    def tag_function(self, cls: type[Struct], plan: FieldPlan) -> str:
        """Reads the tagged fields of one struct, of which there is at least one."""
        if not plan.tagged:
            return "read_unknown_tags"
        if cls in self.tag_functions:
            return self.tag_functions[cls]
        name = self.tag_functions[cls] = f"read_tags_of_{cls.__name__}"
        source = self.function(f"{name}(m, buf, pos, end, count)")
        source.line("if count > 127: count, pos = uvarint_tail(buf, pos, count)")
        source.line("stop = pos")
        source.line("unknown = {}")
        with (
            self.in_one_go(),
            source.block("for tag, pos, stop in iter_tags(buf, pos, end, count):"),
        ):
            for field in plan.tagged:
                with source.block(f"if tag == {field.tag}:"):
                    self.field(source, field, f"m.{field.name}")
                    self.flush(source)
                    size_differs = f"fail('{cls.__name__}.{field.name}', 'differs from its size')"
                    source.line(f"if pos != stop: {size_differs}")
                    source.line("continue")
            source.line("unknown[tag] = bytes(buf[pos:stop])")
        source.line("m.unknown_tagged_fields = unknown or NO_TAGS")
        source.line("return stop")
        return name

    # Fields

    def field(self, source: Source, field: Field, target: str) -> None:
        nullable = in_range(field.nullable, self.version)
        if field.kind in FIXED:
            source.fixed(FIXED[field.kind][0], target)
        elif field.kind == "string":
            self.string(source, field.name, nullable, target)
        elif field.kind in ("bytes", "records"):
            self.binary(source, field.name, nullable, target)
        elif field.kind == "array":
            self.array(source, field, nullable, target)
        elif nullable:
            self.nullable_struct(source, field, target)
        else:
            item = self.counter.new("s")
            self.struct(source, field.element, item)
            source.line(f"{target} = {item}")

    def flush(self, source: Source) -> None:
        letters, targets = source.take_run()
        if not targets:
            return
        if letters == "B":
            source.line(f"{targets[0]} = buf[pos]")
            source.line("pos += 1")
            return
        unpack = source.layout(letters, "unpack_from")
        source.line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(buf, pos)")
        source.line(f"pos += {_size_of(letters)}")

    def length(self, source: Source, letter: str) -> tuple[str, int]:
        """Reads a length or count. Returns its variable and what stands for zero length: the
        compact form is one higher, with 0 for null."""
        count = self.counter.new("n")
        if not self.flexible:
            source.fixed(letter, count)
            self.flush(source)
            return count, 0
        source.fixed("B", count)
        self.flush(source)
        source.line(f"if {count} > 127: {count}, pos = uvarint_tail(buf, pos, {count})")
        return count, 1

    def null(self, source: Source, name: str, nullable: bool, count: str, target: str) -> None:
        """The last branch of a length: null, or what no length may be."""
        if nullable and self.flexible:
            with source.block("else:"):
                source.line(f"{target} = None")
            return
        if nullable:
            with source.block(f"elif {count} == -1:"):
                source.line(f"{target} = None")
        with source.block("else:"):
            source.line(f"fail({name!r}, 'must not be null, or has a negative length')")

    def string(self, source: Source, name: str, nullable: bool, target: str) -> None:
        count, zero = self.length(source, "h")
        with source.block(f"if {count} > {zero}:"):
            source.line(f"e = pos + {count} - {zero}" if zero else f"e = pos + {count}")
            source.line(f"if e > end: fail({name!r}, 'is longer than the buffer')")
            if zero:
                limit = MAX_STRING_BYTES + 1
                source.line(f"if {count} > {limit}: fail({name!r}, 'is longer than 32767 bytes')")
            source.line(f"{target} = buf[pos:e].tobytes().decode('utf-8', 'replace')")
            source.line("pos = e")
        with source.block(f"elif {count} == {zero}:"):
            source.line(f"{target} = ''")
        self.null(source, name, nullable, count, target)

    def binary(self, source: Source, name: str, nullable: bool, target: str) -> None:
        count, zero = self.length(source, "i")
        with source.block(f"if {count} >= {zero}:"):
            source.line(f"e = pos + {count} - {zero}" if zero else f"e = pos + {count}")
            source.line(f"if e > end: fail({name!r}, 'is longer than the buffer')")
            source.line(f"{target} = buf[pos:e]")
            source.line("pos = e")
        self.null(source, name, nullable, count, target)

    def array(self, source: Source, field: Field, nullable: bool, target: str) -> None:
        count, zero = self.length(source, "i")
        element = field.element
        least = self.least_size(element)
        with source.block(f"if {count} > {zero}:"):
            if zero:
                source.line(f"{count} -= 1")
            source.line(
                f"if {count} * {least} > end - pos: fail({field.name!r}, 'has too many elements')"
            )
            if isinstance(element, str) and element in FIXED and element != "uuid":
                self.numbers(source, element, target, count)
            else:
                self.elements(source, field, target, count)
        with source.block(f"elif {count} == {zero}:"):
            source.line(f"{target} = []")
        self.null(source, field.name, nullable, count, target)

    def elements(self, source: Source, field: Field, target: str, count: str) -> None:
        items = self.counter.new("l")
        item = self.counter.new("i")
        source.line(f"{target} = {items} = []")
        with source.block(f"for _ in range({count}):"):
            if not isinstance(field.element, str):
                self.struct(source, field.element, item)
            elif field.element == "string":
                self.string(source, field.name, False, item)
            else:
                source.fixed(FIXED[field.element][0], item)
                self.flush(source)
            source.line(f"{items}.append({item})")
            if self.sliced:
                with source.block("if pos > mark:"):
                    source.line("yield")
                    source.line(f"mark = pos + {SLICE_BYTES}")

    def numbers(self, source: Source, element: str, target: str, count: str) -> None:
        letter, size = FIXED[element]
        if self.sliced:
            with source.block(f"if {count} > {SLICE_NUMBERS}:"):
                source.line(f"{target} = l = []")
                with source.block(f"while {count} > {SLICE_NUMBERS}:"):
                    source.line(f"l += unpack_from('>{SLICE_NUMBERS}{letter}', buf, pos)")
                    source.line(f"pos += {SLICE_NUMBERS * size}")
                    source.line(f"{count} -= {SLICE_NUMBERS}")
                    source.line("yield")
                source.line(f"l += unpack_from(f'>{{{count}}}{letter}', buf, pos)")
            with source.block("else:"):
                source.line(f"{target} = list(unpack_from(f'>{{{count}}}{letter}', buf, pos))")
        else:
            source.line(f"{target} = list(unpack_from(f'>{{{count}}}{letter}', buf, pos))")
        source.line(f"pos += {count} * {size}")

    def nullable_struct(self, source: Source, field: Field, target: str) -> None:
        marker = self.counter.new("n")
        item = self.counter.new("s")
        source.fixed("b", marker)
        self.flush(source)
        with source.block(f"if {marker} < 0:"):
            source.line(f"{target} = None")
        with source.block("else:"):
            self.struct(source, field.element, item)
            source.line(f"{target} = {item}")

    # Sizes

    def least_size(self, element: type[Struct] | str) -> int:
        """The fewest bytes that one array element takes."""
        if isinstance(element, str):
            return self.least_field_size(element, None, False)
        plan = FieldPlan(element, self.version, self.flexible)
        size = 1 if self.flexible else 0
        for field in plan.regular:
            nullable = in_range(field.nullable, self.version)
            size += self.least_field_size(field.kind, field.element, nullable)
        assert size > 0, f"{element.__name__} takes no bytes in version {self.version}"
        return size

    def least_field_size(self, kind: str, element: Any, nullable: bool) -> int:
        if kind in FIXED:
            return FIXED[kind][1]
        if kind == "struct":
            return 1 if nullable else self.least_size(element)
        if self.flexible:
            return 1
        return 2 if kind == "string" else 4


def _size_of(letters: str) -> int:
    return calcsize(">" + letters)
