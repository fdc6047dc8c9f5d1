"""JSON Schemas: read, checked against their draft, and written in one form.

The written form has no white space and keeps the order of names; the normalized form sorts them. A
schema without `$schema` is of draft 7. References go to a definition inside, to an `$id` inside, or
to the name of a registered schema; nothing is fetched from the network.
Limits: MAX_DEPTH levels. Needs `jsonschema`. Mirrors: JsonSchema and JsonSchemaProvider.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from jsonschema import Draft7Validator
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for

from . import json_schema_rules
from .errors import BadSchema
from .parsed import Parsed

MAX_DEPTH: Final = 100
# Names whose values are data, not schemas.
_DATA: Final = ("enum", "const", "default", "examples")


class JsonSchema:
    """See `Parsed`; there is one form."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self.root = _read(text, "the schema")
        self._documents = {name: _read(one, name) for name, one in references.items()}
        self._ids: dict[str, Any] = {}
        for name, one in (*self._documents.items(), ("", self.root)):
            self._ids[name] = one
            self._find_ids(one, name)
        self._bases: dict[int, str] = {}  # of each part with a `$ref`
        for name, one in (*self._documents.items(), ("", self.root)):
            self._check_references(one, name)

    @property
    def text(self) -> str:
        return _dump(self.root)

    def normalized(self) -> str:
        return json.dumps(self.root, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

    def problems_reading(self, older: Parsed) -> list[str]:
        assert isinstance(older, JsonSchema)
        return json_schema_rules.problems(
            self.root, older.root, resolve=self.resolve, resolve_older=older.resolve
        )

    def formatted(self, _form: str) -> str:
        return self.text

    def resolve(self, part: Mapping[str, Any]) -> Any:
        """The schema that a part with a `$ref` stands for. Raises BadSchema."""
        base = self._bases.get(id(part), "")
        return self._target(str(part["$ref"]), base)

    def _find_ids(self, part: Any, base: str) -> None:
        for one in _parts(part, 0):
            given = one.get("$id", one.get("id"))
            if isinstance(given, str) and not given.startswith("#"):
                self._ids.setdefault(urldefrag(urljoin(base, given))[0], one)
                self._ids.setdefault(given.rstrip("#"), one)
            for key in ("$anchor", "$id"):
                anchor = one.get(key)
                if isinstance(anchor, str) and (key == "$anchor" or anchor.startswith("#")):
                    self._ids.setdefault(f"{base}#{anchor.lstrip('#')}", one)

    def _check_references(self, document: Any, name: str) -> None:
        base = name
        if isinstance(document, dict) and isinstance(document.get("$id"), str):
            base = urljoin(name, document["$id"])
            self._ids.setdefault(base, document)
        for one in _parts(document, 0):
            if isinstance(one.get("$ref"), str):
                self._bases[id(one)] = base
                self._target(one["$ref"], base)

    def _target(self, reference: str, base: str) -> Any:
        for whole in (reference, urljoin(base, reference)):
            if whole in self._ids:
                return self._ids[whole]
        place, fragment = urldefrag(reference)
        for whole in (place, urljoin(base, place)) if place else (base,):
            if whole in self._ids:
                if not fragment:
                    return self._ids[whole]
                if fragment.startswith("/"):
                    return _pointed(self._ids[whole], fragment, reference)
                if f"{whole}#{fragment}" in self._ids:
                    return self._ids[f"{whole}#{fragment}"]
        raise BadSchema(f"{reference!r} is in no schema of this subject's references")


def _read(text: str, name: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSchema(f"{name} is not JSON: {error}") from None
    if not isinstance(found, dict | bool):
        raise BadSchema(f"{name} is no object")
    _check_depth(found, 0)
    kind = validator_for(found, default=Draft7Validator) if isinstance(found, dict) else None
    if kind is not None:
        try:
            kind.check_schema(found)
        except SchemaError as error:
            place = "/".join(map(str, error.absolute_path))
            raise BadSchema(f"#/{place}: {error.message.splitlines()[0][:300]}") from None
    return found


def _check_depth(value: Any, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise BadSchema(f"more than {MAX_DEPTH} levels")
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            _check_depth(one, depth + 1)


def _parts(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """All objects that may be schemas."""
    if isinstance(value, dict):
        yield value
        for key, one in value.items():
            if key not in _DATA:
                yield from _parts(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            yield from _parts(one, depth + 1)


def _pointed(document: Any, pointer: str, reference: str) -> Any:
    found = document
    for part in pointer.split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, dict) and key in found:
            found = found[key]
        else:
            raise BadSchema(f"{reference!r} is not in the schema")
    return found


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
