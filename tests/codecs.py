"""Writes `protocol/generated/`: what reads and writes each message of `protocol/apis/` and
`protocol/messages/`, and the table of all APIs with their versions.

    python -m tests.codecs

`tests/unit/protocol/test_generated.py` fails until that is done.

A module for each module with messages, with two functions for each struct: `read_X(r, version)` and
`write_X(w, m, version)`, and two more for the tagged fields where there are some. A function serves
all versions and asks which one it is where that matters, as Kafka's own generated classes do: the
code of a function for each version would be eight times as long, and takes as long to run
(docs/decisions/codecs.md). What a kind of field looks like on the wire is in `protocol/reader.py`
and `protocol/writer.py`.
"""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

import pybroker_kafka.protocol.apis
import pybroker_kafka.protocol.messages
from pybroker_kafka.protocol.schema import UNSET, ZERO_UUID, Field, Message, Struct, version_range

ROOM: Final = Path(__file__).resolve().parents[1] / "protocol" / "generated"

# By kind: a method of Reader; how it is written, and the name that takes.
READ: Final = {
    "bool": "boolean", "int8": "int8", "int16": "int16", "uint16": "uint16", "int32": "int32",
    "int64": "int64", "float64": "float64", "uuid": "uuid", "string": "string", "bytes": "binary",
    "records": "binary",
}  # fmt: skip
# What librt writes itself.
PACKED: Final = {"int16": "write_i16_be", "int32": "write_i32_be", "int64": "write_i64_be"}
WRITE: Final = {
    "bool": "boolean", "int8": "int8", "uint16": "uint16", "float64": "float64", "uuid": "uuid",
    "string": "string", "bytes": "binary", "records": "records",
}  # fmt: skip
ARRAYS: Final = {
    "string": "strings",
    "int8": "int8s",
    "int16": "int16s",
    "int32": "int32s",
    "int64": "int64s",
}
LEAST_BYTES: Final = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "int64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip

Versions = frozenset[int]


def main() -> None:
    for path in ROOM.glob("*.py"):
        path.unlink()
    write(ROOM)


def write(room: Path) -> None:
    """All files, formatted as the rest of the code is."""
    for name, text in _modules().items():
        (room / name).write_text(text, encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff"]
    config = f"--config={ROOM.parents[1] / 'pyproject.toml'}"
    for command in ("check --select=I --fix --quiet", "format --quiet"):
        subprocess.run([*ruff, *command.split(), config, str(room)], check=True)


def _modules() -> dict[str, str]:
    """The text of each file."""
    found = {"__init__.py": '"""Written by `python -m tests.codecs`: see there."""\n'}
    keys: dict[int, str] = {}
    for room in (pybroker_kafka.protocol.apis, pybroker_kafka.protocol.messages):
        for module in pkgutil.iter_modules(room.__path__):
            page = import_module(f"{room.__name__}.{module.name}")
            found[f"{module.name}.py"] = _Module(page).text()
            if room is pybroker_kafka.protocol.apis:
                keys[page.API.request._spec.api_key] = module.name
    found["api_table.py"] = _table(keys)
    return found


def _table(keys: dict[int, str]) -> str:
    """The enumeration of all APIs, and their versions."""
    members, rows = [], []
    for key, name in sorted(keys.items()):
        page = import_module(f"pybroker_kafka.protocol.apis.{name}")
        spec = page.API.request._spec
        first, last = version_range(spec.valid)
        flexible = None if spec.flexible == "none" else version_range(spec.flexible)[0]
        of = page.API.request.__name__.removesuffix("Request")
        members.append(f"    {name.upper()} = {key}")
        later = page.API.later
        since = "None, None" if later is None else f"{later.version}, {_quoted(later.feature)}"
        rows.append(f'    (ApiKey.{name.upper()}, "{of}", {first}, {last}, {flexible}, {since}),')
    return "\n".join(
        [
            '"""Of the pages in `apis/`. Written by `python -m tests.codecs`: see there."""',
            "",
            "from __future__ import annotations",
            "",
            "from enum import IntEnum",
            "from typing import Final",
            "",
            "",
            "class ApiKey(IntEnum):",
            *members,
            "",
            "",
            "# The name, the first and the last version, the first in flexible form, and the first",
            "# that Kafka 3.9 does not have, with the feature that brings it (None: any feature).",
            "Row = tuple[ApiKey, str, int, int, int | None, int | None, str | None]",
            "VERSIONS: Final[tuple[Row, ...]] = (",
            *rows,
            ")",
            "",
        ]
    )


def _quoted(feature: str | None) -> str:
    return "None" if feature is None else f'"{feature}"'


def _structs(module: ModuleType) -> dict[type[Struct], Versions]:
    """The structs of a module, elements before what they are in, with the versions of the
    messages that they are in."""
    found: dict[type[Struct], Versions] = {}

    def visit(cls: type[Struct], versions: Versions) -> None:
        for field in cls._fields:
            if isinstance(field.element, type):
                visit(field.element, versions & _versions(field.versions, versions))
        found[cls] = found.get(cls, frozenset()) | versions

    for cls in vars(module).values():
        if isinstance(cls, type) and issubclass(cls, Message) and cls is not Message:
            low, high = version_range(cls._spec.valid)
            visit(cls, frozenset(range(low, high + 1)))
    return found


def _versions(versions: str | None, among: Versions) -> Versions:
    if versions is None:
        return frozenset()
    low, high = version_range(versions)
    return frozenset(version for version in among if low <= version <= high)


def _condition(versions: Versions, among: Versions) -> str:
    """An expression that is true in these versions, of those that can be."""
    if versions == among:
        return "True"
    if not versions:
        return "False"
    low, high = min(versions), max(versions)
    if high == max(among):
        return f"version >= {low}"
    if low == min(among):
        return f"version <= {high}"
    return f"version == {low}" if low == high else f"{low} <= version <= {high}"


class _Module:
    def __init__(self, module: ModuleType) -> None:
        self.place = ".".join(module.__name__.split(".")[-2:])  # from protocol/ on
        self.structs = _structs(module)
        self.lines: list[str] = []
        self.defaults: dict[str, type[Struct]] = {}
        self.depth = 0

    def line(self, text: str = "") -> None:
        self.lines.append(("    " * self.depth + text).rstrip())

    def text(self) -> str:
        for cls, versions in self.structs.items():
            self.reader(cls, versions)
            self.writer(cls, versions)
        body = "\n".join(self.lines)
        used = sorted(cls.__name__ for cls in self.structs)
        path = self.place.replace(".", "/")
        imported = [
            ("..packed", [name for name in PACKED.values() if f"{name}(" in body]),
            ("..schema", [name for name in ("NO_TAGS", "ZERO_UUID") if name in body]
                         + ["made_by_readers"] + ["shared_default"] * bool(self.defaults)),
        ]  # fmt: skip
        head = [
            f'"""Of `{path}.py`. Written by `python -m tests.codecs`: see there."""',
            "",
            "from __future__ import annotations",
            "",
            "from typing import Any, Final",
            "",
            "from mypy_extensions import i64",
            "",
            f"from ..{self.place} import (",
            *(f"    {name}," for name in used),
            ")",
        ]
        for module, names in imported:
            if names:
                head.append(f"from {module} import {', '.join(names)}")
            if module == "..packed":
                head.append("from ..reader import Reader")
        head += ["from ..writer import Writer", ""]
        if "_NO_TAGS" in body:
            head.append("_NO_TAGS: Final = NO_TAGS")
        for name in used:
            head.append(f"_{name}: Final[Any] = made_by_readers({name})")
        for name, cls in self.defaults.items():
            head.append(f"{name}: Final[Any] = shared_default({cls.__name__})")
        return "\n".join(head) + "\n" + body + "\n"

    def default(self, field: Field) -> str:
        """An expression for what a field is where it is absent."""
        if field.default is UNSET:
            name = f"DEFAULT_{field.element.__name__}"
            self.defaults[name] = field.element
            return name
        return "ZERO_UUID" if field.default == ZERO_UUID else repr(field.default)

    def groups(
        self, cls: type[Struct], versions: Versions
    ) -> Iterator[tuple[Versions, list[Field]]]:
        """Neighbouring fields that stand on the wire in the same versions."""
        current: list[Field] = []
        present = versions
        for field in cls._fields:
            if field.tag is not None:
                continue
            its = _versions(field.versions, versions)
            if current and its != present:
                yield present, current
                current = []
            present = its
            current.append(field)
        if current:
            yield present, current

    # Reading

    def reader(self, cls: type[Struct], versions: Versions) -> None:
        tagged = _tagged(cls, versions)
        if tagged:
            self.tags_reader(cls, versions, tagged)
        name = cls.__name__
        self.function(f"read_{name}(r: Reader, version: i64) -> Any")
        self.line(f"m: Any = _{name}()")
        for present, fields in self.groups(cls, versions):
            condition = _condition(present, versions)
            if condition == "True":
                self.read_all(fields, present)
            elif condition == "False":
                self.set_defaults(fields)
            else:
                self.block(f"if {condition}:")
                self.read_all(fields, present)
                self.end()
                self.block("else:")
                self.set_defaults(fields)
                self.end()
        if not tagged:
            self.set_defaults([field for field in cls._fields if field.tag is not None])
        if not self.is_ever_flexible():
            self.line("m.unknown_tagged_fields = _NO_TAGS")
        elif not tagged:
            self.line("m.unknown_tagged_fields = r.unknown_tags()")
        else:
            self.line(f"read_tags_of_{name}(r, m, version)")
        self.line("return m")
        self.end()

    def is_ever_flexible(self) -> bool:
        return any(
            issubclass(cls, Message) and cls._spec.flexible != "none" for cls in self.structs
        )

    def tags_reader(self, cls: type[Struct], versions: Versions, tagged: list[Field]) -> None:
        name = cls.__name__
        self.function(f"read_tags_of_{name}(r: Reader, m: Any, version: i64) -> None")
        self.set_defaults(tagged)
        self.line("m.unknown_tagged_fields = _NO_TAGS")
        self.line("tags = r.tag_count()")
        self.block("if not tags:")
        self.line("return")
        self.end()
        self.line("unknown: dict[int, bytes] = {}")
        self.line("tag: i64 = -1")
        self.block("for _ in range(tags):")
        self.line("tag = r.next_tag(tag)")
        self.line("end = r.tag_end")
        word = "if"
        for field in tagged:
            present = _versions(field.versions, versions)
            condition = _condition(present, _flexible(cls, versions, self.structs))
            also = "" if condition == "True" else f" and {condition}"
            self.block(f"{word} tag == {field.tag}{also}:")
            self.read(field, present)
            self.line(f'r.end_tag("{name}.{field.name}", end)')
            self.end()
            word = "elif"
        self.block("else:")
        self.line("unknown[tag] = r.unknown_tag()")
        self.end()
        self.end()
        self.block("if unknown:")
        self.line("m.unknown_tagged_fields = unknown")
        self.end()
        self.end()

    def set_defaults(self, fields: list[Field]) -> None:
        for field in fields:
            self.line(f"m.{field.name} = {self.default(field)}")

    def read_all(self, fields: list[Field], versions: Versions) -> None:
        for field in fields:
            self.read(field, versions)

    def read(self, field: Field, versions: Versions) -> None:
        name, element = field.name, field.element
        nullable = _condition(_versions(field.nullable, versions), versions)
        if field.kind == "array" and isinstance(element, str):
            self.line(f'm.{name} = r.{ARRAYS[element]}("{name}", {nullable})')
        elif field.kind == "array":
            self.read_structs(field, versions, nullable)
        elif field.kind == "struct":
            read = f"read_{element.__name__}(r, version)"
            if nullable != "False":
                assert nullable == "True", f"{name} becomes nullable"
                least = 0 if field.tag is None else 1
                read = f"None if r.int8() < {least} else {read}"
            self.line(f"m.{name} = {read}")
        elif field.kind in ("string", "bytes", "records"):
            self.line(f'm.{name} = r.{READ[field.kind]}("{name}", {nullable})')
        else:
            self.line(f"m.{name} = r.{READ[field.kind]}()")

    def read_structs(self, field: Field, versions: Versions, nullable: str) -> None:
        name, element = field.name, field.element
        least = min(_least_bytes(element, version, self.structs) for version in versions)
        self.line(f'count = r.count("{name}", {nullable}, {least})')
        absent = "" if nullable == "False" else "None if count < 0 else "
        items = f"[read_{element.__name__}(r, version) for _ in range(count)]"
        self.line(f"m.{name} = {absent}{items}")

    # Writing

    def writer(self, cls: type[Struct], versions: Versions) -> None:
        tagged = _tagged(cls, versions)
        if tagged:
            self.tags_writer(cls, versions, tagged)
            self.end_writer(cls, versions, tagged)
        name = cls.__name__
        self.function(f"write_{name}(w: Writer, m: Any, version: i64) -> None")
        start = len(self.lines)
        for present, fields in self.groups(cls, versions):
            condition = _condition(present, versions)
            refused = [field for field in fields if not field.ignorable]
            if condition == "True":
                self.write_all(fields, present)
                continue
            if condition != "False":
                self.block(f"if {condition}:")
                self.write_all(fields, present)
                self.end()
                if len(refused) == 1:
                    self.refuse(cls, refused[0], "elif")
                    continue
                if refused:
                    self.block("else:")
            for field in refused:
                self.refuse(cls, field, "if")
            if refused and condition != "False":
                self.end()
        if tagged:
            self.line(f"write_tags_of_{name}(w, m, version)")
        else:
            self.line(f'w.unknown_tags("{name}", m.unknown_tagged_fields)')
        self.end()
        if any("(out, " in line for line in self.lines[start:]):
            self.lines.insert(start, "    out = w.out")

    def end_writer(self, cls: type[Struct], versions: Versions, tagged: list[Field]) -> None:
        name = cls.__name__
        self.function(f"write_tags_of_{name}(w: Writer, m: Any, version: i64) -> None")
        for field in tagged:
            absent = versions - _versions(field.versions, versions)
            if absent and not field.ignorable:
                self.block(f"if {_condition(absent, versions)} and {self.differs(field, True)}:")
                self.line(f'w.refuse("{name}.{field.name}")')
                self.end()
        flexible = _flexible(cls, versions, self.structs)
        conditions = []
        for field in tagged:
            condition = _condition(_versions(field.versions, versions), flexible)
            differs = self.differs(field, True)
            conditions.append(differs if condition == "True" else f"({condition} and {differs})")
        self.block(f"if w.flexible and ({' or '.join(conditions)}):")
        self.line(f"_write_known_tags_of_{name}(w, m, version)")
        self.end()
        self.block("else:")
        self.line(f'w.unknown_tags("{name}", m.unknown_tagged_fields)')
        self.end()
        self.end()

    def tags_writer(self, cls: type[Struct], versions: Versions, tagged: list[Field]) -> None:
        name = cls.__name__
        self.function(f"_write_known_tags_of_{name}(outer: Writer, m: Any, version: i64) -> None")
        self.line("known: list[tuple[int, Writer]] = []")
        for field in tagged:
            present = _versions(field.versions, versions)
            condition = _condition(present, _flexible(cls, versions, self.structs))
            also = "" if condition == "True" else f"{condition} and "
            self.block(f"if {also}{self.differs(field, bool(also))}:")
            self.line("w = outer.inner()")
            start = len(self.lines)
            self.write(field, present)
            if any("(out, " in line for line in self.lines[start:]):
                self.lines.insert(start, "        out = w.out")
            self.line(f"known.append(({field.tag}, w))")
            self.end()
        self.line("outer.tags(known, m.unknown_tagged_fields)")
        self.end()

    def differs(self, field: Field, is_part: bool) -> str:
        """An expression that is true when the value is not the field's default."""
        value = f"m.{field.name}"
        default = self.default(field)
        if field.kind == "struct" and field.default is not None:
            both = f"{value} is not {default} and {value} != {default}"
            return f"({both})" if is_part else both
        if field.default is None:
            return f"{value} is not None"
        if field.default is False:
            return value
        if field.default is True:
            return f"not {value}"
        return f"{value} != {default}"

    def refuse(self, cls: type[Struct], field: Field, word: str) -> None:
        self.block(f"{word} {self.differs(field, False)}:")
        self.line(f'w.refuse("{cls.__name__}.{field.name}")')
        self.end()

    def write_all(self, fields: list[Field], versions: Versions) -> None:
        for field in fields:
            self.write(field, versions)

    def write(self, field: Field, versions: Versions) -> None:
        name, kind, element = field.name, field.kind, field.element
        value = f"m.{name}"
        nullable = _condition(_versions(field.nullable, versions), versions)
        if kind == "array" and isinstance(element, str):
            self.line(f'w.{ARRAYS[element]}("{name}", {value}, {nullable})')
        elif kind == "array":
            self.line(f"{name} = {value}")
            self.line(f'w.array("{name}", {name}, {nullable})')
            self.block(
                f"for item in {name}:" if nullable == "False" else f"for item in {name} or ():"
            )
            self.line(f"write_{element.__name__}(w, item, version)")
            self.end()
        elif kind == "struct":
            self.block(f"if {value} is None:")
            if nullable == "False":
                self.line(f'w.refuse_null("{name}")')
                self.end()
                self.line(f"write_{element.__name__}(w, {value}, version)")
                return
            # In a tagged field null is 0, an unsigned varint in Kafka's classes.
            self.line(f"w.int8({-1 if field.tag is None else 0})")
            self.end()
            self.block("else:")
            self.line("w.int8(1)")
            self.line(f"write_{element.__name__}(w, {value}, version)")
            self.end()
        elif kind in PACKED:
            self.line(f"{PACKED[kind]}(out, {value})")
        elif kind in ("string", "bytes", "records"):
            self.line(f'w.{WRITE[kind]}("{name}", {value}, {nullable})')
        else:
            self.line(f"w.{WRITE[kind]}({value})")

    # Text

    def function(self, signature: str) -> None:
        self.line()
        self.line()
        self.block(f"def {signature}:")

    def block(self, opening: str) -> None:
        self.line(opening)
        self.depth += 1

    def end(self) -> None:
        self.depth -= 1


def _tagged(cls: type[Struct], versions: Versions) -> list[Field]:
    """Those that are tagged in some version, in the order of their tags."""
    found = [
        field
        for field in cls._fields
        if field.tag is not None and _versions(field.versions, versions)
    ]
    return sorted(found, key=lambda field: field.tag or 0)


def _flexible(
    cls: type[Struct], versions: Versions, structs: dict[type[Struct], Versions]
) -> Versions:
    """The flexible ones of these versions."""
    found: Versions = frozenset()
    for message in structs:
        if issubclass(message, Message) and _contains(message, cls):
            found |= _versions(message._spec.flexible, versions)
    return found


def _contains(cls: type[Struct], other: type[Struct]) -> bool:
    return cls is other or any(
        isinstance(field.element, type) and _contains(field.element, other) for field in cls._fields
    )


def _least_bytes(cls: type[Struct], version: int, structs: dict[type[Struct], Versions]) -> int:
    """The fewest bytes that a struct takes."""
    flexible = version in _flexible(cls, structs[cls], structs)
    size = 1 if flexible else 0
    for field in cls._fields:
        if field.tag is not None or not _versions(field.versions, frozenset({version})):
            continue
        if field.kind in LEAST_BYTES:
            size += LEAST_BYTES[field.kind]
        elif field.kind == "struct":
            nullable = _versions(field.nullable, frozenset({version}))
            size += 1 if nullable else _least_bytes(field.element, version, structs)
        elif flexible:
            size += 1
        else:
            size += 2 if field.kind == "string" else 4
    assert size > 0, f"{cls.__name__} takes no bytes in version {version}"
    return size


if __name__ == "__main__":
    main()
