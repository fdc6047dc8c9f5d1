"""Whether data written by one Avro schema is read by another: Avro's rules of resolution.

The verdicts are those of Java's SchemaCompatibility, which Confluent's registry asks: names are
compared without their namespace, or by the reader's aliases; a union of the writer needs each of
its branches read. Messages have `%s` for the readers' and the writers' schema, in this order.
Limits: MAX_PAIRS. Mirrors: SchemaCompatibility of Avro 1.12, and Difference of Confluent's package
`avro`.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .avro import NO_DEFAULT, Field, Node
from .errors import BadSchema

MAX_PAIRS: Final = 50_000  # of types that are compared

# What a reader takes beside its own type.
PROMOTIONS: Final = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}


class Problem(NamedTuple):
    """Why a reader cannot read, and where in its schema."""

    kind: str
    place: str
    detail: str

    @property
    def text(self) -> str:
        about = _DESCRIPTIONS[self.kind].format(place=self.place, detail=self.detail)
        return f"{{errorType:'{self.kind}', description:'{about}', additionalInfo:'{self.detail}'}}"


_DESCRIPTIONS: Final = {
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{place}' in the %s schema does "
    "not match with the %s schema",
    "TYPE_MISMATCH": "The type (path '{place}') of a field in the %s schema does not match with "
    "the %s schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{place}')",
    "MISSING_ENUM_SYMBOLS": "The %s schema is missing enum symbols '{detail}' at path '{place}' in "
    "the %s schema",
    "MISSING_UNION_BRANCH": "The %s schema is missing a type inside a union field at path "
    "'{place}' in the %s schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{detail}' at path '{place}' in the %s schema "
    "has no default value and is missing in the %s schema",
}


def problems(reader: Node, writer: Node) -> list[str]:
    """Why `reader` cannot read what `writer` has written; empty if it can. Raises BadSchema."""
    return [one.text for one in _Check().pair(reader, writer, ())]


class _Check:
    def __init__(self) -> None:
        # Of pairs under way, and of pairs done: a recursive type is compatible unless its parts
        # are not.
        self._known: dict[tuple[int, int], list[Problem]] = {}

    def pair(self, reader: Node, writer: Node, place: tuple[str, ...]) -> list[Problem]:
        key = (id(reader), id(writer))
        if key not in self._known:
            if len(self._known) >= MAX_PAIRS:
                raise BadSchema("the schemas are too complex to be compared")
            self._known[key] = []
            self._known[key] = self._compare(reader, writer, place)
        return self._known[key]

    def _compare(self, reader: Node, writer: Node, place: tuple[str, ...]) -> list[Problem]:
        if reader.kind == writer.kind:
            return self._same_kind(reader, writer, place)
        if writer.kind == "union":
            found = [self.pair(reader, one, place) for one in writer.branches]
            return [problem for each in found for problem in each]
        if reader.kind == "union":
            if any(not self.pair(one, writer, place) for one in reader.branches):
                return []
            text = f"reader union lacking writer type: {writer.kind.upper()}"
            return [Problem("MISSING_UNION_BRANCH", _path(place), text)]
        if writer.kind in PROMOTIONS.get(reader.kind, ()):
            return []
        text = f"reader type: {reader.kind.upper()} not compatible with writer type: "
        return [Problem("TYPE_MISMATCH", _path(place), text + writer.kind.upper())]

    def _same_kind(self, reader: Node, writer: Node, place: tuple[str, ...]) -> list[Problem]:
        kind = reader.kind
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            return self.pair(reader.branches[0], writer.branches[0], (*place, inner))
        if kind == "union":
            return self._unions(reader, writer, place)
        if kind == "fixed":
            return self._names(reader, writer, place) + self._sizes(reader, writer, place)
        if kind == "enum":
            return self._names(reader, writer, place) + self._symbols(reader, writer, place)
        if kind in ("record", "error"):
            return self._names(reader, writer, place) + self._fields(reader, writer, place)
        return []

    def _unions(self, reader: Node, writer: Node, place: tuple[str, ...]) -> list[Problem]:
        found = []
        for index, one in enumerate(writer.branches):
            if not any(not self.pair(each, one, place) for each in reader.branches):
                text = f"reader union lacking writer type: {one.kind.upper()}"
                found.append(Problem("MISSING_UNION_BRANCH", _path((*place, str(index))), text))
        return found

    def _names(self, reader: Node, writer: Node, place: tuple[str, ...]) -> list[Problem]:
        if _short(reader.name) == _short(writer.name) or writer.name in reader.aliases:
            return []
        path = _path((*place, "name"))
        return [Problem("NAME_MISMATCH", path, f"expected: {writer.name}")]

    def _sizes(self, reader: Node, writer: Node, place: tuple[str, ...]) -> list[Problem]:
        if reader.size == writer.size:
            return []
        text = f"expected: {writer.size}, found: {reader.size}"
        return [Problem("FIXED_SIZE_MISMATCH", _path((*place, "size")), text)]

    def _symbols(self, reader: Node, writer: Node, place: tuple[str, ...]) -> list[Problem]:
        missing = sorted(set(writer.symbols) - set(reader.symbols))
        if not missing or reader.default is not NO_DEFAULT:
            return []
        path = _path((*place, "symbols"))
        return [Problem("MISSING_ENUM_SYMBOLS", path, f"[{', '.join(missing)}]")]

    def _fields(self, reader: Node, writer: Node, place: tuple[str, ...]) -> list[Problem]:
        found: list[Problem] = []
        for index, one in enumerate(reader.fields):
            here = (*place, "fields", str(index))
            theirs = _writers_field(writer, one)
            if theirs is not None:
                found += self.pair(one.type, theirs.type, (*here, "type"))
            elif not one.has_default:
                found.append(Problem("READER_FIELD_MISSING_DEFAULT_VALUE", _path(here), one.name))
        return found


def _writers_field(writer: Node, field: Field) -> Field | None:
    by_name = {one.name: one for one in writer.fields}
    for name in (field.name, *field.aliases):
        if name in by_name:
            return by_name[name]
    return None


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _path(place: tuple[str, ...]) -> str:
    return "/" + "/".join(place)
