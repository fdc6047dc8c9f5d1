"""Schemas as the registry keeps them, and the identity of their content.

The `guid` is a digest of text, references, metadata and rules: equal content has one id in a
context.
Mirrors: Schema.updateHash and MD5.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
KINDS: Final = (JSON, PROTOBUF, AVRO)  # in the order of Confluent's answer

NO_ID: Final = -1


class Reference(NamedTuple):
    """A schema calls a version of another subject by this name."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class Content:
    """The parts of a schema that a client registers."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Mapping[str, Any] | None = None
    rules: Mapping[str, Any] | None = None

    @property
    def guid(self) -> str:
        digest = hashlib.md5(usedforsecurity=False)
        digest.update(self.text.encode())
        for one in self.references:
            digest.update(one.name.encode())
            digest.update(one.subject.encode())
            digest.update(one.version.to_bytes(4, "big"))
        if self.metadata is not None:
            digest.update(b"\1")
            for part in _of_metadata(self.metadata):
                digest.update(part.encode())
        if self.rules is not None:
            digest.update(b"\1")
            for part in _of_rules(self.rules):
                digest.update(part.encode())
        return str(uuid.UUID(bytes=digest.digest()))


@dataclass(frozen=True)
class Registered:
    """A version of a subject."""

    subject: str
    version: int
    id: int
    content: Content
    deleted: bool = False

    def marked_deleted(self) -> Registered:
        return replace(self, deleted=True)


def _of_metadata(metadata: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for name, tags in sorted((metadata.get("tags") or {}).items()):
        found += [name, *map(str, tags)]
    for name, text in sorted((metadata.get("properties") or {}).items()):
        found += [name, str(text)]
    return found + sorted(map(str, metadata.get("sensitive") or []))


def _of_rules(rules: Mapping[str, Any]) -> list[str]:
    found: list[str] = []
    for family in ("migrationRules", "domainRules", "encodingRules"):
        for rule in rules.get(family) or []:
            found += _of_rule(rule)
    return found + [str(rules["enableAt"])] * bool(rules.get("enableAt"))


def _of_rule(rule: Mapping[str, Any]) -> list[str]:
    found = [str(rule[key]) for key in ("name", "doc", "kind", "mode", "type") if rule.get(key)]
    found += sorted(map(str, rule.get("tags") or []))
    for name, text in sorted((rule.get("params") or {}).items()):
        found += [name, str(text)]
    return found + [str(rule[key]) for key in ("expr", "onSuccess", "onFailure") if rule.get(key)]


def references_of(given: Sequence[Mapping[str, Any]] | None) -> tuple[Reference, ...]:
    """References out of JSON. Raises KeyError, TypeError, ValueError."""
    return tuple(
        Reference(str(one["name"]), str(one["subject"]), int(one["version"])) for one in given or ()
    )
