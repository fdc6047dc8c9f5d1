"""The registry's content: `apply` takes the records of `_schemas` in their order.

Invariants: every instance that has applied the same records has the same content. An id of a
context has one text: a record with another text for a known id is left out, as Confluent does. A
schema that is softly deleted is found by its id, and by its version when asked for deleted ones.
Mirrors: InMemoryCache and KafkaStoreMessageHandler.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .entities import Registered
from .records import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MODE,
    SCHEMA,
    Key,
    Value,
    schema_of,
)
from .subjects import DEFAULT_CONTEXT, beside, context_of, qualified, split

DEFAULT_LEVEL: Final = "BACKWARD"
READWRITE: Final = "READWRITE"
READONLY_OVERRIDE: Final = "READONLY_OVERRIDE"

Place = tuple[str, int]  # a subject and a version


class State:
    """See the module."""

    def __init__(self) -> None:
        self._subjects: defaultdict[str, dict[int, Registered]] = defaultdict(dict)
        # By context: the places of each id, the oldest first, and the id of each content.
        self._ids: defaultdict[str, dict[int, dict[Place, None]]] = defaultdict(dict)
        self._guids: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._referrers: defaultdict[Place, set[Place]] = defaultdict(set)
        self._configs: dict[str | None, dict[str, Any]] = {}
        self._modes: dict[str | None, str] = {}
        self._contexts: set[str] = set()
        self._highest: defaultdict[str, int] = defaultdict(int)  # id ever seen, by context

    def apply(self, key: Key, value: Value) -> str:
        """Take a record; returns the reason if it is left out. Raises BadRecord."""
        if key.kind == SCHEMA:
            return self._apply_schema(key, value)
        if key.kind == CONFIG:
            _set(self._configs, key.subject, None if value is None else _without_subject(value))
        elif key.kind == MODE:
            _set(self._modes, key.subject, None if value is None else value.get("mode"))
        elif key.kind == CONTEXT:
            (self._contexts.discard if value is None else self._contexts.add)(key.context)
        elif key.kind == DELETE_SUBJECT and value is not None and key.subject is not None:
            for one in list(self._subjects.get(key.subject, {}).values()):
                if one.version <= int(value.get("version", 0)):
                    self._put(one.marked_deleted())
        elif key.kind == CLEAR_SUBJECT and value is not None:
            for one in list(self.matching(key.subject, deleted=True)):
                self._remove(one)
        return ""

    def _apply_schema(self, key: Key, value: Value) -> str:
        assert key.subject is not None
        old = self._subjects.get(key.subject, {}).get(key.version)
        if value is None:
            if old is not None:
                self._remove(old)
            return ""
        new = schema_of(key, value)
        known = self.by_id(new.id, context_of(new.subject))
        if known is not None and known.content.text != new.content.text:
            return f"id {new.id} belongs to another schema"
        if old is not None:
            self._remove(old)
        self._put(new)
        return ""

    def _put(self, one: Registered) -> None:
        context, place = context_of(one.subject), (one.subject, one.version)
        self._subjects[one.subject][one.version] = one
        self._ids[context].setdefault(one.id, {})[place] = None
        self._guids[context][one.content.guid] = one.id
        self._highest[context] = max(self._highest[context], one.id)
        for reference in one.content.references:
            target = beside(one.subject, reference.subject)
            self._referrers[target, reference.version].add(place)

    def _remove(self, one: Registered) -> None:
        context, place = context_of(one.subject), (one.subject, one.version)
        versions = self._subjects[one.subject]
        del versions[one.version]
        if not versions:
            del self._subjects[one.subject]
        places = self._ids[context][one.id]
        del places[place]
        if not places:
            del self._ids[context][one.id]
        guid = one.content.guid
        left = (self._subjects[subject][version] for subject, version in places)
        if not any(other.content.guid == guid for other in left):
            self._guids[context].pop(guid, None)
        for reference in one.content.references:
            target = (beside(one.subject, reference.subject), reference.version)
            self._referrers[target].discard(place)
            if not self._referrers[target]:
                del self._referrers[target]

    # Schemas

    def versions(self, subject: str, *, deleted: bool = False) -> list[Registered]:
        """The versions of a subject in ascending order, with or without softly deleted ones."""
        found = self._subjects.get(subject, {})
        return [one for _, one in sorted(found.items()) if deleted or not one.deleted]

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Registered | None:
        one = self._subjects.get(subject, {}).get(number)
        return None if one is None or (one.deleted and not deleted) else one

    def latest(self, subject: str) -> Registered | None:
        found = self.versions(subject)
        return found[-1] if found else None

    def by_id(self, number: int, context: str) -> Registered | None:
        for subject, version in self._ids.get(context, {}).get(number, ()):
            return self._subjects[subject][version]
        return None

    def places(self, number: int, context: str) -> list[Registered]:
        """The versions that have this id, softly deleted ones included."""
        found = self._ids.get(context, {}).get(number, ())
        return [self._subjects[subject][version] for subject, version in found]

    def id_of(self, guid: str, context: str) -> int | None:
        return self._guids.get(context, {}).get(guid)

    def next_id(self, context: str) -> int:
        return self._highest.get(context, 0) + 1

    def subjects(self) -> list[str]:
        return sorted(self._subjects)

    def matching(self, scope: str | None, *, deleted: bool) -> Iterator[Registered]:
        """The versions of a subject, or of all subjects of a context (`:.eu:`, None)."""
        context, name = (DEFAULT_CONTEXT, "") if scope is None else split(scope)
        for subject in [qualified(context, name)] if name else list(self._subjects):
            if context_of(subject) == context:
                yield from self.versions(subject, deleted=deleted)

    def referrers(self, place: Place, *, deleted: bool = False) -> list[Registered]:
        """The schemas that refer to a version."""
        found = (self._subjects[s][v] for s, v in self._referrers.get(place, ()))
        return sorted((one for one in found if deleted or not one.deleted), key=lambda one: one.id)

    def contexts(self) -> list[str]:
        return sorted({DEFAULT_CONTEXT, *self._contexts, *map(context_of, self._subjects)})

    # Configs and modes

    def config(self, scope: str | None) -> dict[str, Any] | None:
        """The config of a subject or a context itself."""
        found = self._configs.get(scope)
        if found is not None:
            return {"compatibilityLevel": DEFAULT_LEVEL, **found}
        return {"compatibilityLevel": DEFAULT_LEVEL} if scope is None else None

    def raw_config(self, scope: str | None) -> dict[str, Any] | None:
        return self._configs.get(scope)

    def config_in_scope(self, scope: str | None) -> dict[str, Any]:
        """The settings that apply to a subject: its own, and below them those of its context."""
        above = self._configs.get(self._scope_above(scope)) or {}
        own = self._configs.get(scope) or {}
        return {"compatibilityLevel": DEFAULT_LEVEL, **above, **own}

    def mode(self, scope: str | None) -> str | None:
        """The mode of a subject or a context itself."""
        found = self._modes.get(scope)
        return READWRITE if found is None and scope is None else found

    def own_mode(self, scope: str | None) -> str | None:
        return self._modes.get(scope)

    def scopes_with_modes(self) -> list[str | None]:
        return list(self._modes)

    def mode_in_scope(self, scope: str | None) -> str:
        if self._modes.get(None) == READONLY_OVERRIDE:
            return READONLY_OVERRIDE
        found = self._modes.get(scope) or self._modes.get(self._scope_above(scope))
        return found or READWRITE

    @staticmethod
    def _scope_above(scope: str | None) -> str | None:
        context = context_of(scope)
        return None if context == DEFAULT_CONTEXT else f":{context}:"


def _without_subject(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key != "subject" and each is not None}


def _set(table: dict[str | None, Any], key: str | None, value: object) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
