"""Whether data that one JSON Schema accepts is accepted by another, as Confluent's registry says.

Both schemas are compared place by place; each difference has a type, and a set of types is
harmless. Objects have an open content model (any further property is accepted), a closed one, or
one that is open for a schema (patterns, a schema of additional properties): a property is added
only to a closed model, whose data cannot have it with another meaning, and removed only from an
open one. A pair of parts that is being compared counts as compatible, so that recursive schemas
end.
Limits: MAX_PAIRS compared pairs, MAX_LEVELS inside each other. Mirrors: SchemaDiff and the
...SchemaDiff of Confluent's package `json.diff`, with its strict policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from .errors import BadSchema

MAX_PAIRS: Final = 20_000
MAX_LEVELS: Final = 100

Resolve = Callable[[Mapping[str, Any]], Any]

HARMLESS: Final = frozenset({
    "ID_CHANGED", "DESCRIPTION_CHANGED", "TITLE_CHANGED", "DEFAULT_CHANGED", "SCHEMA_REMOVED",
    "TYPE_EXTENDED", "MAX_LENGTH_INCREASED", "MAX_LENGTH_REMOVED", "MIN_LENGTH_DECREASED",
    "MIN_LENGTH_REMOVED", "PATTERN_REMOVED", "MAXIMUM_INCREASED", "MAXIMUM_REMOVED",
    "MINIMUM_DECREASED", "MINIMUM_REMOVED", "EXCLUSIVE_MAXIMUM_INCREASED",
    "EXCLUSIVE_MAXIMUM_REMOVED", "EXCLUSIVE_MINIMUM_DECREASED", "EXCLUSIVE_MINIMUM_REMOVED",
    "MULTIPLE_OF_REDUCED", "MULTIPLE_OF_REMOVED", "REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED",
    "REQUIRED_ATTRIBUTE_REMOVED", "DEPENDENCY_ARRAY_NARROWED", "DEPENDENCY_ARRAY_REMOVED",
    "DEPENDENCY_SCHEMA_REMOVED", "MAX_PROPERTIES_INCREASED", "MAX_PROPERTIES_REMOVED",
    "MIN_PROPERTIES_DECREASED", "MIN_PROPERTIES_REMOVED", "ADDITIONAL_PROPERTIES_ADDED",
    "ADDITIONAL_PROPERTIES_EXTENDED", "UNEVALUATED_PROPERTIES_ADDED",
    "UNEVALUATED_PROPERTIES_EXTENDED", "PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL",
    "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL",
    "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
    "PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    "PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL",
    "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "MAX_ITEMS_INCREASED",
    "MAX_ITEMS_REMOVED", "MIN_ITEMS_DECREASED", "MIN_ITEMS_REMOVED", "MAX_CONTAINS_INCREASED",
    "MAX_CONTAINS_REMOVED", "MIN_CONTAINS_DECREASED", "MIN_CONTAINS_REMOVED",
    "UNIQUE_ITEMS_REMOVED", "ADDITIONAL_ITEMS_ADDED", "ADDITIONAL_ITEMS_EXTENDED",
    "UNEVALUATED_ITEMS_ADDED", "UNEVALUATED_ITEMS_EXTENDED",
    "ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL", "ITEM_ADDED_TO_CLOSED_CONTENT_MODEL",
    "ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL", "ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL",
    "ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    "ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "ENUM_ARRAY_EXTENDED",
    "COMBINED_TYPE_EXTENDED", "PRODUCT_TYPE_NARROWED", "SUM_TYPE_EXTENDED", "NOT_TYPE_NARROWED",
})  # fmt: skip

# The keywords of each type, by which a schema without `type` is recognized.
_KEYWORDS: Final = {
    "object": (
        "properties", "required", "additionalProperties", "patternProperties", "minProperties",
        "maxProperties", "dependencies", "dependentRequired", "dependentSchemas", "propertyNames",
        "unevaluatedProperties",
    ),
    "array": (
        "items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems",
        "contains", "minContains", "maxContains", "unevaluatedItems",
    ),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip
_CRITERIA: Final = ("allOf", "anyOf", "oneOf")

_ANNOTATIONS: Final = (
    ("$id", "ID"),
    ("title", "TITLE"),
    ("description", "DESCRIPTION"),
    ("default", "DEFAULT"),
)

# Bounds: the keyword, and its name in types.
_LENGTHS: Final = (("maxLength", "MAX_LENGTH"), ("minLength", "MIN_LENGTH"))
_LIMITS: Final = (
    ("maximum", "MAXIMUM"),
    ("minimum", "MINIMUM"),
    ("exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
    ("exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
)
_COUNTS: Final = (
    ("maxProperties", "MAX_PROPERTIES"),
    ("minProperties", "MIN_PROPERTIES"),
)
_ITEM_COUNTS: Final = (
    ("maxItems", "MAX_ITEMS"),
    ("minItems", "MIN_ITEMS"),
    ("maxContains", "MAX_CONTAINS"),
    ("minContains", "MIN_CONTAINS"),
)


class Difference(NamedTuple):
    """A change between two schemas, and its place in them."""

    kind: str
    place: str

    @property
    def text(self) -> str:
        words = self.kind.lower().replace("_", " ")
        about = f"{words}: the %s schema at '{self.place}' does not accept all that the %s one does"
        return f'{{errorType:"{self.kind}", description:"{about}"}}'


def problems(reader: Any, older: Any, *, resolve: Resolve, resolve_older: Resolve) -> list[str]:
    """Why data of the older schema may not be valid by `reader`; empty if it is. Raises
    BadSchema."""
    found = _Comparison(resolve_older, resolve).compare(older, reader, "#")
    return [one.text for one in dict.fromkeys(found) if one.kind not in HARMLESS]


class Part(NamedTuple):
    """A schema of one kind: true, false, a type, `enum`, `const`, `not`, or `combined` of others by
    a criterion."""

    kind: str
    given: Mapping[str, Any]
    criterion: str = ""
    parts: tuple[Any, ...] = ()


def part_of(schema: Any) -> Part:
    """A schema that is no `$ref`; several kinds in one are combined by `allOf`."""
    if schema is True or schema == {}:
        return Part("true", {})
    if schema is False:
        return Part("false", {})
    types = schema.get("type")
    found: list[Part] = []
    if isinstance(types, list) and len(types) != 1:
        others = {key: each for key, each in schema.items() if key not in ("enum", "const", "not")}
        alone = [{**others, "type": one} for one in types]
        alone = [{k: v for k, v in one.items() if k not in _CRITERIA} for one in alone]
        found.append(Part("combined", schema, "anyOf", tuple(alone)))
    elif types is not None:
        kind = types[0] if isinstance(types, list) else types
        found.append(Part("number" if kind == "integer" else kind, schema))
    else:
        for kind, keywords in _KEYWORDS.items():
            if any(key in schema for key in keywords):
                found.append(Part(kind, schema))
    if "enum" in schema:
        found.append(Part("enum", schema))
    if "const" in schema:
        found.append(Part("const", schema))
    if "not" in schema:
        found.append(Part("not", schema))
    found += [
        Part("combined", schema, criterion, tuple(schema[criterion]))
        for criterion in _CRITERIA
        if criterion in schema
    ]
    if not found:
        return Part("true", schema)
    if len(found) == 1:
        return found[0]
    return Part("combined", schema, "allOf", tuple(found))


class _Comparison:
    def __init__(self, resolve_old: Resolve, resolve_new: Resolve) -> None:
        self._resolve_old = resolve_old
        self._resolve_new = resolve_new
        self._known: dict[tuple[int, int], list[Difference]] = {}
        self._under_way: set[tuple[int, int]] = set()
        self._kept: list[object] = []  # whose ids are keys
        self._count = 0
        self._is_assumed = False  # a pair that was under way has counted as compatible

    def compare(self, old: Any, new: Any, place: str) -> list[Difference]:
        if old is None or new is None:
            if old is new:
                return []
            return [Difference("SCHEMA_ADDED" if old is None else "SCHEMA_REMOVED", place)]
        old, new = _resolved(old, self._resolve_old), _resolved(new, self._resolve_new)
        key = (id(old), id(new))
        if key in self._under_way:
            self._is_assumed = True
            return []
        if key in self._known:
            return self._known[key]
        self._count += 1
        if self._count > MAX_PAIRS or len(self._under_way) > MAX_LEVELS:
            raise BadSchema("the schemas are too complex to be compared")
        self._kept += [old, new]
        before, self._is_assumed = self._is_assumed, False
        self._under_way.add(key)
        try:
            found = self._parts(_as_part(old), _as_part(new), place)
        finally:
            self._under_way.discard(key)
        if not self._is_assumed:  # else it holds for this place alone
            self._known[key] = found
        self._is_assumed = self._is_assumed or before
        return found

    def _is_compatible(self, found: list[Difference]) -> bool:
        return all(one.kind in HARMLESS for one in found)

    def _parts(self, old: Part, new: Part, place: str) -> list[Difference]:
        alike = self._singleton_or_branch(old, new, place)
        if alike is not None:
            return alike
        if old.kind != new.kind:
            if old.kind == "false" or new.kind == "true":
                return []
            return [Difference("TYPE_CHANGED", place)]
        return _annotations(old, new, place) + self._same_kind(old, new, place)

    def _singleton_or_branch(self, old: Part, new: Part, place: str) -> list[Difference] | None:
        """The differences if one side is combined, and one of its parts fits the other side."""
        if (old.kind == "combined") == (new.kind == "combined"):
            return None
        if new.kind == "combined":
            if len(new.parts) > 1 and new.criterion == "allOf":
                return None
            pairs = [(old, one) for one in new.parts]
            extra = [Difference("SUM_TYPE_EXTENDED", place)] if len(new.parts) > 1 else []
        else:
            if len(old.parts) > 1 and old.criterion != "allOf":
                return None
            pairs = [(one, new) for one in old.parts]
            extra = [Difference("PRODUCT_TYPE_NARROWED", place)] if len(old.parts) > 1 else []
        for first, second in pairs:
            found = self.compare(first, second, place)
            if self._is_compatible(found):
                return found + extra
        return None

    def _same_kind(self, old: Part, new: Part, place: str) -> list[Difference]:
        one, two = old.given, new.given
        match old.kind:
            case "string":
                return _bounds(one, two, place, _LENGTHS) + _patterns(one, two, place)
            case "number":
                return _bounds(one, two, place, _LIMITS) + _numbers(one, two, place)
            case "const":
                is_equal = one["const"] == two["const"]
                return [] if is_equal else [Difference("ENUM_ARRAY_CHANGED", f"{place}/const")]
            case "enum":
                return _enums(one, two, place)
            case "not":
                found = self._reversed(two["not"], one["not"], f"{place}/not")
                kind = "NOT_TYPE_NARROWED" if self._is_compatible(found) else "NOT_TYPE_EXTENDED"
                return [Difference(kind, f"{place}/not")]
            case "combined":
                return self._combined(old, new, place)
            case "object":
                return self._objects(one, two, place)
            case "array":
                return self._arrays(one, two, place)
        return []

    def _reversed(self, old: Any, new: Any, place: str) -> list[Difference]:
        """What must not match is compared the other way round."""
        return _Comparison(self._resolve_new, self._resolve_old).compare(old, new, place)

    def _combined(self, old: Part, new: Part, place: str) -> list[Difference]:
        found: list[Difference] = []
        if old.criterion != new.criterion:
            alone = [len(old.parts) == 1, len(new.parts) == 1]
            is_wider = (
                new.criterion == "anyOf"
                or all(alone)
                or (alone[0] and new.criterion == "oneOf")
                or (alone[1] and old.criterion == "allOf")
            )
            if not is_wider:
                return [Difference("COMBINED_TYPE_CHANGED", place)]
            found.append(Difference("COMBINED_TYPE_EXTENDED", place))
        ours, theirs = _distinct(old.parts), _distinct(new.parts)
        if len(ours) < len(theirs):
            kind = "PRODUCT_TYPE_EXTENDED" if new.criterion == "allOf" else "SUM_TYPE_EXTENDED"
            found.append(Difference(kind, place))
        elif len(ours) > len(theirs):
            kind = "PRODUCT_TYPE_NARROWED" if old.criterion == "allOf" else "SUM_TYPE_NARROWED"
            found.append(Difference(kind, place))
        edges: list[list[int]] = []
        for index, one in enumerate(ours):
            here = f"{place}/{old.criterion}/{index}"
            fits = [self._is_compatible(self.compare(one, two, here)) for two in theirs]
            edges.append([number for number, does in enumerate(fits) if does])
        if _matched(edges) < min(len(ours), len(theirs)):
            found.append(Difference("COMBINED_TYPE_SUBSCHEMAS_CHANGED", place))
        return found

    # Objects

    def _objects(
        self, old: Mapping[str, Any], new: Mapping[str, Any], place: str
    ) -> list[Difference]:
        found = _bounds(old, new, place, _COUNTS)
        ours, theirs = old.get("properties", {}), new.get("properties", {})
        required_old, required_new = _required(old), _required(new)
        for name in ours:
            if name in theirs and (name in required_old) != (name in required_new):
                kind = "REQUIRED_ATTRIBUTE_REMOVED"
                if name in required_new:
                    has = "_WITH_DEFAULT" if _has_default(theirs[name]) else ""
                    kind = f"REQUIRED_ATTRIBUTE{has}_ADDED"
                found.append(Difference(kind, f"{place}/required/{name}"))
        for name in dict.fromkeys([*ours, *theirs]):
            here = f"{place}/properties/{name}"
            if name not in theirs:
                found += self._removed(ours[name], new, name, here)
            elif name not in ours:
                found += self._added(old, theirs[name], name, name in required_new, here)
            else:
                found += self.compare(ours[name], theirs[name], here)
        found += self._dependencies(old, new, f"{place}/dependencies")
        for key, label in (
            ("additionalProperties", "ADDITIONAL_PROPERTIES"),
            ("unevaluatedProperties", "UNEVALUATED_PROPERTIES"),
        ):
            found += self._rest(old.get(key, True), new.get(key, True), label, f"{place}/{key}")
        return found

    def _removed(self, was: Any, new: Mapping[str, Any], name: str, here: str) -> list[Difference]:
        if _is_open(new, _PROPERTIES):
            return [Difference("PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL", here)]
        partly = _partly_open(new, name, _PROPERTIES)
        if partly is not None:
            found = self.compare(was, partly, here)
            covered = "IS" if self._is_compatible(found) else "NOT"
            kind = f"PROPERTY_REMOVED_{covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [*found, Difference(kind, here)]
        is_false = "WITH_FALSE_" if was is False else ""
        return [Difference(f"PROPERTY_{is_false}REMOVED_FROM_CLOSED_CONTENT_MODEL", here)]

    def _added(
        self, old: Mapping[str, Any], now: Any, name: str, is_required: bool, here: str
    ) -> list[Difference]:
        kind = "REQUIRED_PROPERTY" if is_required else "OPTIONAL_PROPERTY"
        if is_required and _has_default(now):
            kind += "_WITH_DEFAULT"
        if _is_open(old, _PROPERTIES):
            if now is True or now == {}:
                kind = "PROPERTY_WITH_EMPTY_SCHEMA"
            return [Difference(f"{kind}_ADDED_TO_OPEN_CONTENT_MODEL", here)]
        found: list[Difference] = []
        partly = _partly_open(old, name, _PROPERTIES)
        if partly is not None:
            found = list(self.compare(partly, now, here))
            covered = "IS" if self._is_compatible(found) else "NOT"
            text = f"PROPERTY_ADDED_{covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            found.append(Difference(text, here))
        return [*found, Difference(f"{kind}_ADDED_TO_UNOPEN_CONTENT_MODEL", here)]

    def _dependencies(
        self, old: Mapping[str, Any], new: Mapping[str, Any], place: str
    ) -> list[Difference]:
        ours, theirs = _depending(old), _depending(new)
        found: list[Difference] = []
        for name in dict.fromkeys([*ours, *theirs]):
            here, one, two = f"{place}/{name}", ours.get(name), theirs.get(name)
            is_list = isinstance(two if one is None else one, list)
            label = "DEPENDENCY_ARRAY" if is_list else "DEPENDENCY_SCHEMA"
            if one is None or two is None:
                found.append(Difference(f"{label}_{'ADDED' if one is None else 'REMOVED'}", here))
            elif isinstance(one, list) and isinstance(two, list):
                if set(one) != set(two):
                    is_more, is_less = set(two) >= set(one), set(one) >= set(two)
                    how = "EXTENDED" if is_more else "NARROWED" if is_less else "CHANGED"
                    found.append(Difference(f"{label}_{how}", here))
            else:
                found += self.compare(
                    {"required": one} if isinstance(one, list) else one,
                    {"required": two} if isinstance(two, list) else two,
                    here,
                )
        return found

    def _rest(self, old: Any, new: Any, label: str, place: str) -> list[Difference]:
        """What is said about properties or items that have no schema of their own."""
        was, now = _openness(old), _openness(new)
        if was == "none" or now == "none":
            if was == now:
                return []
            return [Difference(f"{label}_{'ADDED' if was == 'none' else 'REMOVED'}", place)]
        if was == now:
            return self.compare(old, new, place) if was == "some" else []
        return [Difference(f"{label}_{'NARROWED' if was == 'all' else 'EXTENDED'}", place)]

    # Arrays

    def _arrays(
        self, old: Mapping[str, Any], new: Mapping[str, Any], place: str
    ) -> list[Difference]:
        found = _bounds(old, new, place, _ITEM_COUNTS)
        is_unique = [one.get("uniqueItems") is True for one in (old, new)]
        if is_unique[0] != is_unique[1]:
            kind = "UNIQUE_ITEMS_REMOVED" if is_unique[0] else "UNIQUE_ITEMS_ADDED"
            found.append(Difference(kind, f"{place}/uniqueItems"))
        (all_old, ours, rest_old), (all_new, theirs, rest_new) = _items(old), _items(new)
        found += self.compare(all_old, all_new, f"{place}/items")
        for index in range(max(len(ours), len(theirs))):
            here = f"{place}/items/{index}"
            if index >= len(theirs):
                found += self._item_removed(ours[index], {**new, "additionalItems": rest_new}, here)
            elif index >= len(ours):
                found += self._item_added({**old, "additionalItems": rest_old}, theirs[index], here)
            else:
                found += self.compare(ours[index], theirs[index], here)
        found += self._rest(rest_old, rest_new, "ADDITIONAL_ITEMS", f"{place}/additionalItems")
        key = "unevaluatedItems"
        return found + self._rest(
            old.get(key, True), new.get(key, True), "UNEVALUATED_ITEMS", f"{place}/{key}"
        )

    def _item_removed(self, was: Any, new: Mapping[str, Any], here: str) -> list[Difference]:
        if _is_open(new, _ITEMS):
            return [Difference("ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL", here)]
        partly = _partly_open(new, "", _ITEMS)
        if partly is not None:
            found = self.compare(was, partly, here)
            covered = "IS" if self._is_compatible(found) else "NOT"
            kind = f"ITEM_REMOVED_{covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [*found, Difference(kind, here)]
        is_false = "WITH_FALSE_" if was is False else ""
        return [Difference(f"ITEM_{is_false}REMOVED_FROM_CLOSED_CONTENT_MODEL", here)]

    def _item_added(self, old: Mapping[str, Any], now: Any, here: str) -> list[Difference]:
        if _is_open(old, _ITEMS):
            is_empty = "WITH_EMPTY_SCHEMA_" if now is True or now == {} else ""
            return [Difference(f"ITEM_{is_empty}ADDED_TO_OPEN_CONTENT_MODEL", here)]
        partly = _partly_open(old, "", _ITEMS)
        if partly is not None:
            found = self.compare(partly, now, here)
            covered = "IS" if self._is_compatible(found) else "NOT"
            kind = f"ITEM_ADDED_{covered}_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            return [*found, Difference(kind, here)]
        return [Difference("ITEM_ADDED_TO_CLOSED_CONTENT_MODEL", here)]


# Additional and unevaluated: the keywords about what has no schema of its own.
_PROPERTIES: Final = ("additionalProperties", "unevaluatedProperties")
_ITEMS: Final = ("additionalItems", "unevaluatedItems")


def _as_part(schema: Any) -> Part:
    return schema if isinstance(schema, Part) else part_of(schema)


def _resolved(schema: Any, resolve: Resolve) -> Any:
    seen = set()
    while isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        if id(schema) in seen:
            raise BadSchema(f"{schema['$ref']!r} refers to itself")
        seen.add(id(schema))
        schema = resolve(schema)
    return schema


def _annotations(old: Part, new: Part, place: str) -> list[Difference]:
    return [
        Difference(f"{label}_CHANGED", place)
        for key, label in _ANNOTATIONS
        if old.given.get(key) != new.given.get(key)
    ]


def _bounds(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    place: str,
    bounds: Sequence[tuple[str, str]],
) -> list[Difference]:
    found = []
    for key, label in bounds:
        was, now = old.get(key), new.get(key)
        if was == now or isinstance(was, bool) or isinstance(now, bool):  # draft 4's exclusive...
            if was != now:
                found.append(Difference(f"{label}_{'ADDED' if now else 'REMOVED'}", place))
            continue
        if was is None or now is None:
            how = "ADDED" if was is None else "REMOVED"
        else:
            how = "INCREASED" if was < now else "DECREASED"
        found.append(Difference(f"{label}_{how}", f"{place}/{key}"))
    return found


def _patterns(old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> list[Difference]:
    was, now = old.get("pattern"), new.get("pattern")
    if was == now:
        return []
    how = "ADDED" if was is None else "REMOVED" if now is None else "CHANGED"
    return [Difference(f"PATTERN_{how}", f"{place}/pattern")]


def _numbers(old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> list[Difference]:
    found = []
    was, now = old.get("multipleOf"), new.get("multipleOf")
    if was != now:
        if was is None or now is None:
            how = "ADDED" if was is None else "REMOVED"
        elif Decimal(str(now)) % Decimal(str(was)) == 0:
            how = "EXPANDED"
        elif Decimal(str(was)) % Decimal(str(now)) == 0:
            how = "REDUCED"
        else:
            how = "CHANGED"
        found.append(Difference(f"MULTIPLE_OF_{how}", f"{place}/multipleOf"))
    is_whole = [one.get("type") in ("integer", ["integer"]) for one in (old, new)]
    if is_whole[0] != is_whole[1]:
        found.append(Difference("TYPE_EXTENDED" if is_whole[0] else "TYPE_NARROWED", place))
    return found


def _enums(old: Mapping[str, Any], new: Mapping[str, Any], place: str) -> list[Difference]:
    was, now = ({json.dumps(v, sort_keys=True) for v in one["enum"]} for one in (old, new))
    if was == now:
        return []
    how = "EXTENDED" if now >= was else "NARROWED" if was >= now else "CHANGED"
    return [Difference(f"ENUM_ARRAY_{how}", f"{place}/enum")]


def _distinct(parts: Sequence[Any]) -> list[Any]:
    seen: dict[str, Any] = {}
    for one in parts:
        label = json.dumps(
            [one.kind, one.given, one.criterion] if isinstance(one, Part) else one,
            sort_keys=True,
            default=str,
        )
        seen.setdefault(label, one)
    return list(seen.values())


def _matched(edges: Sequence[Sequence[int]]) -> int:
    """The size of the largest matching: each part of one side with a part of the other."""
    owner: dict[int, int] = {}

    def place(one: int, tried: set[int]) -> bool:
        for other in edges[one]:
            if other not in tried:
                tried.add(other)
                if other not in owner or place(owner[other], tried):
                    owner[other] = one
                    return True
        return False

    return sum(place(one, set()) for one in range(len(edges)))


def _required(schema: Mapping[str, Any]) -> set[str]:
    given = schema.get("required", ())
    return set(given) if isinstance(given, list) else set()


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _depending(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **schema.get("dependencies", {}),
        **schema.get("dependentRequired", {}),
        **schema.get("dependentSchemas", {}),
    }


def _openness(schema: Any) -> str:
    if schema is False:
        return "none"
    return "all" if schema is True or schema == {} else "some"


def _is_open(schema: Mapping[str, Any], keys: tuple[str, str]) -> bool:
    if keys is _PROPERTIES and schema.get("patternProperties"):
        return False
    return all(_openness(schema.get(key, True)) == "all" for key in keys)


def _partly_open(schema: Mapping[str, Any], name: str, keys: tuple[str, str]) -> Any:
    """The schema that a property or an item without one of its own must match; None: none may be
    there."""
    if keys is _PROPERTIES:
        for pattern, one in schema.get("patternProperties", {}).items():
            try:
                if re.search(pattern, name):
                    return one
            except re.error:
                continue
    for key in keys:
        if _openness(schema.get(key, True)) == "some":
            return schema[key]
    return None


def _items(schema: Mapping[str, Any]) -> tuple[Any, list[Any], Any]:
    """The schema of all items, those of the first ones, and that of the rest."""
    items = schema.get("items")
    if "prefixItems" in schema:
        return None, list(schema["prefixItems"]), True if items is None else items
    if isinstance(items, list):
        return None, items, schema.get("additionalItems", True)
    return items, [], True
