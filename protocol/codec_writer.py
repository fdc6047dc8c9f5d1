"""Generates the function that writes one message in one version.

Job: `compile_writer(cls, version)` makes `write(message, out, parts)`: small pieces go to the list
`out`; what must not be copied goes to `parts`, behind what `out` held by then.
Invariants: a field outside its versions must hold its default unless it is ignorable; null only
where the version allows it; known and unknown tags are written together in increasing order; a
tagged field with its default is not written.
Mirrors: the write methods that Kafka's MessageDataGenerator writes.

Speed: neighbouring fixed-size fields, a one-byte length behind them included, are one `pack`.
"""

from __future__ import annotations

from struct import pack
from typing import Any, Final, NoReturn

from .codec_source import (
    FIXED,
    SLICE_NUMBERS,
    FieldPlan,
    Generator,
    SlicedWriter,
    Source,
    Writer,
    in_range,
)
from .errors import ProtocolError
from .primitives import MAX_STRING_BYTES, ONE_BYTE, encode_uvarint
from .schema import ZERO_UUID, Field, Message, Struct

# Records up to this size are copied into the message; larger ones become a part of their own.
MAX_COPIED_RECORDS_BYTES: Final = 4096
# A sliced writer yields after so many pieces, which it joins to a part.
SLICE_PIECES: Final = 1000
_BUFFERS: Final = (bytes, bytearray, memoryview)


def _fail(field: str, problem: str) -> NoReturn:
    raise ProtocolError(f"{field} {problem}")


def _write_tags(out: list[Any], known: list[tuple[int, bytes]], unknown: Any) -> None:
    fields = sorted([*known, *unknown.items()])
    out.append(encode_uvarint(len(fields)))
    last = -1
    for tag, data in fields:
        if tag <= last:
            raise ProtocolError(f"tag {tag} is negative, or both known and unknown")
        out += (encode_uvarint(tag), encode_uvarint(len(data)), data)
        last = tag


def _write_records(records: Any, out: list[Any], parts: list[Any]) -> None:
    if isinstance(records, _BUFFERS) and len(records) <= MAX_COPIED_RECORDS_BYTES:
        out.append(records)
    else:
        parts += (b"".join(out), records)
        out.clear()


_HELPERS: Final[dict[str, Any]] = {
    "ONE_BYTE": ONE_BYTE,
    "ZERO_UUID": ZERO_UUID,
    "encode_uvarint": encode_uvarint,
    "fail": _fail,
    "pack": pack,
    "write_records": _write_records,
    "write_tags": _write_tags,
}


def compile_writer(cls: type[Message], version: int) -> Writer:
    write: Writer = _WriterGenerator(cls, version, _HELPERS, False).generate()
    return write


def compile_sliced_writer(cls: type[Message], version: int) -> SlicedWriter:
    write: SlicedWriter = _WriterGenerator(cls, version, _HELPERS, True).generate()
    return write


class _WriterGenerator(Generator):
    def generate(self) -> Any:
        source = self.function("write(m, out, parts)")
        source.line("a = out.append")
        self.struct(source, self.cls, "m")
        self.flush(source)
        if self.sliced:
            with source.block("if 0:"):
                source.line("yield")  # a generator also without an array
        return self.compile("write")

    # Structs

    def struct(self, source: Source, cls: type[Struct], value: str) -> None:
        plan = FieldPlan(cls, self.version, self.flexible)
        for field in plan.absent:
            if not field.ignorable:
                differs = self.differs(source, field, f"{value}.{field.name}")
                problem = f"cannot be written in version {self.version}"
                source.line(f"if {differs}: fail('{cls.__name__}.{field.name}', '{problem}')")
        for field in plan.regular:
            self.field(source, field, f"{value}.{field.name}")
        if not self.flexible:
            problem = f"has tagged fields, which version {self.version} cannot carry"
            condition = f"if {value}.unknown_tagged_fields:"
            source.line(f"{condition} fail('{cls.__name__}', '{problem}')")
            return
        conditions = [f"{value}.unknown_tagged_fields"]
        conditions += [self.differs(source, each, f"{value}.{each.name}") for each in plan.tagged]
        run = list(source.run)
        with source.block(f"if {' or '.join(conditions)}:"):
            self.flush(source)
            source.line(f"{self.tag_function(cls, plan)}({value}, out)")
        source.run = run
        with source.block("else:"):
            source.fixed("x", "")
            self.flush(source)

    def differs(self, source: Source, field: Field, value: str) -> str:
        """An expression that is true when the value is not the field's default."""
        if field.kind == "struct" and field.default is not None:
            default = source.default(field)
            return f"({value} is not {default} and {value} != {default})"
        if field.default is None:
            return f"{value} is not None"
        if field.default == ZERO_UUID:
            return f"{value} != ZERO_UUID"
        return f"{value} != {source.default(field)}"

    def tag_function(self, cls: type[Struct], plan: FieldPlan) -> str:
        """Writes all tagged fields of a struct that has at least one to write."""
        if not plan.tagged:
            self.tag_functions[cls] = "write_unknown_tags"
            if "write_unknown_tags" not in self.names:
                self.names["write_unknown_tags"] = _write_unknown_tags
        if cls in self.tag_functions:
            return self.tag_functions[cls]
        name = self.tag_functions[cls] = f"write_tags_of_{cls.__name__}"
        source = self.function(f"{name}(m, outer)")
        source.line("known = []")
        with self.in_one_go():
            for field in plan.tagged:
                with source.block(f"if {self.differs(source, field, f'm.{field.name}')}:"):
                    source.line("out = []")
                    source.line("a = out.append")
                    self.field(source, field, f"m.{field.name}")
                    self.flush(source)
                    source.line(f"known.append(({field.tag}, b''.join(out)))")
        source.line("write_tags(outer, known, m.unknown_tagged_fields)")
        return name

    # Fields

    def field(self, source: Source, field: Field, value: str) -> None:
        nullable = in_range(field.nullable, self.version)
        if field.kind in FIXED:
            source.fixed(FIXED[field.kind][0], value)
        elif field.kind == "string":
            self.string(source, field.name, nullable, value)
        elif field.kind in ("bytes", "records"):
            self.binary(source, field, nullable, value)
        elif field.kind == "array":
            self.array(source, field, nullable, value)
        elif nullable:
            self.nullable_struct(source, field, value)
        else:
            item = self.counter.new("s")
            source.line(f"{item} = {value}")
            source.line(f"if {item} is None: fail({field.name!r}, 'must not be null')")
            self.struct(source, field.element, item)

    def flush(self, source: Source) -> None:
        letters, values = source.take_run()
        if letters:
            source.line(f"a({self.packed(source, letters, values)})")

    def packed(self, source: Source, letters: str, values: list[str]) -> str:
        if letters == "x":
            return "b'\\0'"
        arguments = ", ".join(value for value in values if value)
        return f"{source.layout(letters, 'pack')}({arguments})"

    def flush_length(self, source: Source, letter: str, count: str) -> None:
        """Writes the run and a length behind it: a fixed integer, or a varint."""
        if not self.flexible:
            source.fixed(letter, count)
            self.flush(source)
            return
        letters, values = source.take_run()
        if not letters:
            source.line(f"a(ONE_BYTE[{count}] if {count} < 128 else encode_uvarint({count}))")
            return
        short = self.packed(source, letters + "B", [*values, count])
        long = self.packed(source, letters, values)
        source.line(f"a({short} if {count} < 128 else {long} + encode_uvarint({count}))")

    def null(self, source: Source, name: str, nullable: bool, value: str, count: str) -> None:
        """Opens the case of null; the caller goes on with an else block."""
        with source.block(f"if {value} is None:"):
            if nullable:
                source.line(f"{count} = {0 if self.flexible else -1}")
            else:
                source.line(f"fail({name!r}, 'must not be null in version {self.version}')")

    def length_of(self, value: str) -> str:
        return f"len({value}) + 1" if self.flexible else f"len({value})"

    def string(self, source: Source, name: str, nullable: bool, value: str) -> None:
        text = self.counter.new("t")
        data = self.counter.new("b")
        count = self.counter.new("n")
        source.line(f"{text} = {value}")
        self.null(source, name, nullable, text, count)
        with source.block("else:"):
            source.line(f"{data} = {text}.encode()")
            source.line(f"{count} = {self.length_of(data)}")
            limit = MAX_STRING_BYTES + (1 if self.flexible else 0)
            source.line(f"if {count} > {limit}: fail({name!r}, 'is longer than 32767 bytes')")
        self.flush_length(source, "h", count)
        source.line(f"if {text}: a({data})")

    def binary(self, source: Source, field: Field, nullable: bool, value: str) -> None:
        data = self.counter.new("b")
        count = self.counter.new("n")
        source.line(f"{data} = {value}")
        self.null(source, field.name, nullable, data, count)
        with source.block("else:"):
            source.line(f"{count} = {self.length_of(data)}")
        self.flush_length(source, "i", count)
        with source.block(f"if {count} > {1 if self.flexible else 0}:"):
            if field.kind == "records":
                source.line(f"write_records({data}, out, parts)")
            else:
                source.line(f"a({data})")

    def array(self, source: Source, field: Field, nullable: bool, value: str) -> None:
        items = self.counter.new("l")
        count = self.counter.new("n")
        source.line(f"{items} = {value}")
        self.null(source, field.name, nullable, items, count)
        with source.block("else:"):
            source.line(f"{count} = {self.length_of(items)}")
        self.flush_length(source, "i", count)
        element = field.element
        with source.block(f"if {items}:"):
            if isinstance(element, str) and element in FIXED and element != "uuid":
                self.numbers(source, FIXED[element][0], items)
                return
            item = self.counter.new("i")
            with source.block(f"for {item} in {items}:"):
                if not isinstance(element, str):
                    self.struct(source, element, item)
                elif element == "string":
                    self.string(source, field.name, False, item)
                else:
                    source.fixed(FIXED[element][0], item)
                self.flush(source)
                if self.sliced:
                    with source.block(f"if len(out) > {SLICE_PIECES}:"):
                        self.end_slice(source)

    def numbers(self, source: Source, letter: str, items: str) -> None:
        if self.sliced:
            with source.block(f"while len({items}) > {SLICE_NUMBERS}:"):
                source.line(f"a(pack('>{SLICE_NUMBERS}{letter}', *{items}[:{SLICE_NUMBERS}]))")
                source.line(f"{items} = {items}[{SLICE_NUMBERS}:]")
                self.end_slice(source)
        source.line(f"a(pack(f'>{{len({items})}}{letter}', *{items}))")

    def end_slice(self, source: Source) -> None:
        source.line("parts.append(b''.join(out))")
        source.line("out.clear()")
        source.line("yield")

    def nullable_struct(self, source: Source, field: Field, value: str) -> None:
        item = self.counter.new("s")
        self.flush(source)
        source.line(f"{item} = {value}")
        with source.block(f"if {item} is None:"):
            source.line("a(b'\\xff')")
        with source.block("else:"):
            source.fixed("b", "1")
            self.struct(source, field.element, item)
            self.flush(source)


def _write_unknown_tags(struct: Struct, out: list[Any]) -> None:
    _write_tags(out, [], struct.unknown_tagged_fields)
