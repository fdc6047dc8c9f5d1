"""Avro schemas: read, checked, and written in one form.

The written form is that of Java's `Schema.toString()`: fixed order of attributes, no white space,
names relative to the namespace around them. The normalized form has whole names and sorted
properties. A schema is a tree of nodes; a named type occurs once in it, and by reference elsewhere.
Names, symbols and defaults are checked for new schemas alone (`strict`): older ones may break
rules.
Limits: MAX_DEPTH levels. Mirrors: AvroSchema, and Schema.Parser of Avro for Java 1.12.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .errors import BadSchema

MAX_DEPTH: Final = 100  # levels of a schema

PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NO_DEFAULT: Final = object()
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RECORD: Final = {"type", "name", "namespace", "doc", "fields", "aliases"}
_ENUM: Final = {"type", "name", "namespace", "doc", "symbols", "default", "aliases"}
_FIXED: Final = {"type", "name", "namespace", "doc", "size", "aliases"}
_FIELD: Final = {"name", "type", "doc", "default", "order", "aliases"}
_ORDERS: Final = ("ascending", "descending", "ignore")


@dataclass(eq=False)
class Node:
    """A type. `name` is the whole name of a record, an enum or a fixed type; `branches` has the
    types of a union, and the one type inside of an array or a map."""

    kind: str
    name: str = ""
    doc: str | None = None
    aliases: tuple[str, ...] = ()
    fields: list[Field] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    default: Any = NO_DEFAULT  # of an enum
    size: int = 0
    branches: list[Node] = field(default_factory=list)
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def is_named(self) -> bool:
        return self.kind in ("record", "error", "enum", "fixed")


@dataclass(eq=False)
class Field:
    """A field of a record."""

    name: str
    type: Node
    doc: str | None = None
    default: Any = NO_DEFAULT
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def has_default(self) -> bool:
        return self.default is not NO_DEFAULT


def parse(text: str, references: Iterable[str], *, strict: bool) -> tuple[Node, dict[str, Node]]:
    """The schema, and the named types that the `references` (texts, inner ones first) bring. Raises
    BadSchema."""
    parser = _Parser(strict)
    for one in references:
        parser.parse_text(one)
    brought = dict(parser.names)
    return parser.parse_text(text), brought


class _Parser:
    def __init__(self, strict: bool) -> None:
        self.names: dict[str, Node] = {}
        self._strict = strict

    def parse_text(self, text: str) -> Node:
        try:
            given = json.loads(text)
        except (ValueError, RecursionError):
            if not re.fullmatch(r"[\w.]+", text.strip()):
                raise BadSchema("the text is not JSON") from None
            given = text.strip()
        return self.parse(given, "", 0)

    def parse(self, given: Any, space: str, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise BadSchema(f"more than {MAX_DEPTH} levels")
        if isinstance(given, str):
            return self._named(given, space)
        if isinstance(given, list):
            return self._union(given, space, depth)
        if not isinstance(given, dict):
            raise BadSchema(f"no type: {_short(given)}")
        kind = given.get("type")
        if kind is None:
            raise BadSchema(f"no type: {_short(given)}")
        if kind in ("record", "error"):
            return self._record(given, space, depth)
        if kind == "enum":
            return self._enum(given, space)
        if kind == "fixed":
            return self._fixed(given, space)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            if inner not in given:
                raise BadSchema(f"an {kind} without {inner}: {_short(given)}")
            return Node(
                kind,
                branches=[self.parse(given[inner], space, depth + 1)],
                properties=_others(given, {"type", inner}),
            )
        if isinstance(kind, str) and kind in PRIMITIVES:
            return Node(kind, properties=_others(given, {"type"}))
        return self.parse(kind, space, depth + 1)

    def _named(self, name: str, space: str) -> Node:
        if name in PRIMITIVES:
            return Node(name)
        for whole in (f"{space}.{name}" if space and "." not in name else name, name):
            if whole in self.names:
                return self.names[whole]
        raise BadSchema(f'"{name}" is not a defined name')

    def _union(self, given: list[Any], space: str, depth: int) -> Node:
        branches = [self.parse(one, space, depth + 1) for one in given]
        seen = set()
        for one in branches:
            if one.kind == "union":
                raise BadSchema("a union directly inside a union")
            if (label := one.name or one.kind) in seen:
                raise BadSchema(f"a union has {label} twice")
            seen.add(label)
        return Node("union", branches=branches)

    def _define(self, given: Mapping[str, Any], space: str, known: set[str]) -> Node:
        name = given.get("name")
        if not isinstance(name, str) or not name:
            raise BadSchema(f"no name in schema: {_short(given)}")
        if "." not in name:
            own = given.get("namespace", space)
            if not isinstance(own, str):
                raise BadSchema(f"no namespace: {_short(own)}")
            name = f"{own}.{name}" if own else name
        for part in name.split(".") if self._strict else ():
            _check_name(part)
        if name in PRIMITIVES or name in self.names:
            raise BadSchema(f"cannot redefine: {name}")
        own_space = name.rpartition(".")[0]
        aliases = _strings(given.get("aliases") or [], "aliases")
        made = Node(
            given["type"],
            name,
            _optional_string(given.get("doc")),
            tuple(one if "." in one or not own_space else f"{own_space}.{one}" for one in aliases),
            properties=_others(given, known),
        )
        self.names[name] = made
        return made

    def _record(self, given: Mapping[str, Any], space: str, depth: int) -> Node:
        made = self._define(given, space, _RECORD)
        fields = given.get("fields")
        if not isinstance(fields, list):
            raise BadSchema(f"record {made.name} has no fields")
        for one in fields:
            made.fields.append(self._field(one, made.name.rpartition(".")[0], depth))
        names = [one.name for one in made.fields]
        for name in names:
            if names.count(name) > 1:
                raise BadSchema(f"record {made.name} has field {name} twice")
        return made

    def _field(self, given: Any, space: str, depth: int) -> Field:
        if not isinstance(given, dict):
            raise BadSchema(f"no field: {_short(given)}")
        name = given.get("name")
        if not isinstance(name, str) or "type" not in given:
            raise BadSchema(f"no field name or type: {_short(given)}")
        if self._strict:
            _check_name(name)
        order = str(given.get("order", "ascending")).lower()
        if order not in _ORDERS:
            raise BadSchema(f"field {name}: no order: {order}")
        made = Field(
            name,
            self.parse(given["type"], space, depth + 1),
            _optional_string(given.get("doc")),
            given.get("default", NO_DEFAULT),
            order,
            tuple(_strings(given.get("aliases") or [], "aliases")),
            _others(given, _FIELD),
        )
        if self._strict and made.has_default and not is_default(made.type, made.default):
            raise BadSchema(f"invalid default for field {name}: {_short(made.default)}")
        return made

    def _enum(self, given: Mapping[str, Any], space: str) -> Node:
        made = self._define(given, space, _ENUM)
        made.symbols = _strings(given.get("symbols"), "symbols")
        for symbol in made.symbols:
            if self._strict:
                _check_name(symbol)
            if made.symbols.count(symbol) > 1:
                raise BadSchema(f"enum {made.name} has {symbol} twice")
        if given.get("default") is not None:
            made.default = given["default"]
            if made.default not in made.symbols:
                raise BadSchema(f"the default of enum {made.name} is none of its symbols")
        return made

    def _fixed(self, given: Mapping[str, Any], space: str) -> Node:
        made = self._define(given, space, _FIXED)
        size = given.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise BadSchema(f"fixed {made.name} has no size")
        made.size = size
        return made


def is_default(node: Node, value: Any) -> bool:
    """Whether a JSON value may be the default of a field of this type (a union: of any branch)."""
    kind = node.kind
    if kind == "union":
        return any(is_default(one, value) for one in node.branches)
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and -(1 << bits) <= value < 1 << bits
    if kind in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind in ("string", "bytes", "fixed"):
        return isinstance(value, str)
    if kind == "enum":
        return value in node.symbols
    if kind == "array":
        return isinstance(value, list) and all(is_default(node.branches[0], v) for v in value)
    if kind == "map":
        inner = node.branches[0]
        return isinstance(value, dict) and all(is_default(inner, v) for v in value.values())
    return isinstance(value, dict) and all(
        is_default(one.type, value[one.name]) if one.name in value else one.has_default
        for one in node.fields
    )


def written(node: Node, brought: Iterable[str] = ()) -> str:
    """The text of a schema; types of references stay names."""
    return _dump(_Writer(set(brought)).node(node, ""))


def normalized(node: Node, brought: Iterable[str] = ()) -> str:
    return _dump(_Normalizer(set(brought)).node(node, ""))


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _Writer:
    def __init__(self, seen: set[str]) -> None:
        self._seen = seen

    def node(self, node: Node, space: str) -> Any:
        if node.is_named:
            if node.name in self._seen:
                return self._reference(node.name, space)
            self._seen.add(node.name)
            return self._definition(node, space)
        if node.kind == "union":
            return [self.node(one, space) for one in node.branches]
        if node.kind in ("array", "map"):
            inner = "items" if node.kind == "array" else "values"
            made = {"type": node.kind, inner: self.node(node.branches[0], space)}
            return made | self._properties(node.properties)
        if node.properties:
            return {"type": node.kind, **self._properties(node.properties)}
        return node.kind

    def _reference(self, name: str, space: str) -> str:
        own, _, short = name.rpartition(".")
        return short if own == space else name

    def _name(self, name: str, space: str) -> dict[str, Any]:
        own, _, short = name.rpartition(".")
        return {"name": short} if own == space else {"name": short, "namespace": own}

    def _properties(self, properties: dict[str, Any]) -> dict[str, Any]:
        return properties

    def _definition(self, node: Node, space: str) -> dict[str, Any]:
        own = node.name.rpartition(".")[0]
        made: dict[str, Any] = {"type": node.kind, **self._name(node.name, space)}
        if node.doc is not None:
            made["doc"] = node.doc
        if node.kind == "enum":
            made["symbols"] = node.symbols
            if node.default is not NO_DEFAULT:
                made["default"] = node.default
        elif node.kind == "fixed":
            made["size"] = node.size
        else:
            made["fields"] = [self._field(one, own) for one in node.fields]
        made |= self._properties(node.properties)
        if node.aliases:
            made["aliases"] = [self._reference(one, own) for one in node.aliases]
        return made

    def _field(self, one: Field, space: str) -> dict[str, Any]:
        made = {"name": one.name, "type": self.node(one.type, space)}
        if one.doc is not None:
            made["doc"] = one.doc
        if one.has_default:
            made["default"] = one.default
        if one.order != "ascending":
            made["order"] = one.order
        if one.aliases:
            made["aliases"] = list(one.aliases)
        return made | self._properties(one.properties)


class _Normalizer(_Writer):
    def _reference(self, name: str, space: str) -> str:
        return name

    def _name(self, name: str, space: str) -> dict[str, Any]:
        return {"name": name}

    def _properties(self, properties: dict[str, Any]) -> dict[str, Any]:
        return {key: _sorted(each) for key, each in sorted(properties.items())}


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in sorted(value.items())}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


def _others(given: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    return {key: each for key, each in given.items() if key not in known}


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise BadSchema(f"illegal name: {name!r}")


def _strings(given: Any, label: str) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise BadSchema(f"{label} are no list of texts: {_short(given)}")
    return given


def _optional_string(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:200]}..."
