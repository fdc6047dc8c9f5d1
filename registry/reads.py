"""What the registry answers out of its content: lookups, and parsed schemas with their references.

Limits: MAX_PARSED parsed schemas are kept, references go MAX_REFERENCES deep.
Mirrors: AbstractSchemaRegistry.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from .compatibility import Earlier, problems
from .entities import Content, Registered
from .errors import (
    BadSchema,
    invalid_schema,
    invalid_version,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from .formats import parse
from .parsed import Parsed
from .state import State
from .subjects import DEFAULT_CONTEXT, beside, context_of, qualified, split

MAX_PARSED: Final = 1000
MAX_REFERENCES: Final = 100  # levels, and texts of one schema
LATEST: Final = -1
MAX_VERSION: Final = 2**31 - 1


def version_number(text: str) -> int:
    """LATEST, or 1 to MAX_VERSION. Raises Rejected."""
    plain = text.strip().lower()
    if plain in ("latest", "-1"):
        return LATEST
    digits = plain.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and 0 < int(digits) <= MAX_VERSION):
        raise invalid_version(text)
    return int(digits)


class Reads:
    """See the module."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._parsed: OrderedDict[tuple[object, ...], Parsed] = OrderedDict()

    # Parsed schemas

    def parsed(self, subject: str, content: Content, *, strict: bool = False) -> Parsed:
        """Raises BadSchema."""
        texts: dict[str, str] = {}
        self._collect(subject, content, texts, 0)
        key = (content.kind, content.text, tuple(texts.items()), strict)
        known = self._parsed.get(key)
        if known is None:
            known = self._parsed[key] = parse(content, texts, strict=strict)
            if len(self._parsed) > MAX_PARSED:
                self._parsed.popitem(last=False)
        self._parsed.move_to_end(key)
        return known

    def _collect(self, subject: str, content: Content, texts: dict[str, str], depth: int) -> None:
        """The texts of the references by their names, inner ones first."""
        if depth > MAX_REFERENCES or len(texts) > MAX_REFERENCES:
            raise BadSchema(f"more than {MAX_REFERENCES} references")
        for one in content.references:
            if one.name in texts:
                continue
            target = beside(subject, one.subject)
            if one.version == LATEST:
                found = self.state.latest(target)
            else:
                found = self.state.version(target, one.version, deleted=True)
            if found is None:
                place = f"{one.subject!r} version {one.version}"
                raise BadSchema(f"No schema reference found for subject {place} ({one.name})")
            self._collect(target, found.content, texts, depth + 1)
            texts[one.name] = found.content.text

    def canonical(
        self, subject: str, content: Content, *, normalize: bool, strict: bool = False
    ) -> tuple[Content, Parsed]:
        """The content with its text in one form. Raises Rejected."""
        with _refusing(f"Invalid schema of type {content.kind}, details: "):
            parsed = self.parsed(subject, content, strict=strict)
            text = parsed.normalized() if normalize else parsed.text
        return replace(content, text=text), parsed

    def normalizes(self, subject: str, *, asked: bool) -> bool:
        return asked or self.state.config_in_scope(subject).get("normalize") is True

    def formatted(self, one: Registered, form: str) -> Content:
        """Raises Rejected."""
        if not form.strip():
            return one.content
        with _refusing():
            text = self.parsed(one.subject, one.content).formatted(form)
        return replace(one.content, text=text)

    # Lookups

    def has_subject(self, subject: str, *, deleted: bool) -> bool:
        return bool(self.state.versions(subject, deleted=deleted))

    def found(self, subject: str, version: int, *, deleted: bool = False) -> Registered:
        """Raises Rejected."""
        if version == LATEST:
            versions = self.state.versions(subject)
            one = versions[-1] if versions else None
        else:
            one = self.state.version(subject, version, deleted=deleted)
        if one is not None:
            return one
        if not self.has_subject(subject, deleted=deleted):
            raise subject_not_found(subject)
        raise version_not_found(version)

    def under_subject(
        self, subject: str, content: Content, *, normalize: bool, deleted: bool = False
    ) -> Registered | None:
        """The newest version with this content; a content without metadata and rules is also found
        with those of the latest version, with which it would be registered. Raises Rejected."""
        normalize = self.normalizes(subject, asked=normalize)
        plain, parsed = self.canonical(subject, content, normalize=normalize)
        versions = self.state.versions(subject, deleted=deleted)
        for wanted in (plain, self.with_defaults(subject, plain)):
            for one in reversed(versions):
                if one.content == wanted:
                    return one
        resolved = parsed.formatted("resolved")
        for one in reversed(versions):
            is_alike = one.content.kind == plain.kind and bool(
                one.content.references or plain.references
            )
            if is_alike and replace(one.content, text="", references=()) == replace(
                plain, text="", references=()
            ):
                known = self.parsed(one.subject, one.content)
                if known.formatted("resolved") == resolved:
                    return one
        return None

    def with_defaults(self, subject: str, content: Content) -> Content:
        """The content with metadata and rules of the latest version and of the config."""
        latest = self.state.latest(subject)
        config = self.state.config_in_scope(subject)
        metadata, rules = content.metadata, content.rules
        if latest is not None:
            metadata = latest.content.metadata if metadata is None else metadata
            rules = latest.content.rules if rules is None else rules
        metadata = _merged(config.get("defaultMetadata"), metadata, config.get("overrideMetadata"))
        rules = _merged_rules(config.get("defaultRuleSet"), rules, config.get("overrideRuleSet"))
        return replace(content, metadata=metadata, rules=rules)

    def by_id(self, number: int, subject: str | None) -> Registered:
        """A schema by its id: of the subject's context, or of another one that has the subject.
        Raises Rejected."""
        context, name = split(subject or "")
        places = self.state.places(number, context)
        if name and context == DEFAULT_CONTEXT:
            wanted = [one for one in places if one.subject == subject]
            for other in self.state.contexts() if not wanted else ():
                there = self.state.places(number, other)
                wanted += [one for one in there if one.subject == qualified(other, name)]
            places = wanted or places
        if not places:
            raise schema_not_found(number)
        return places[0]

    def by_guid(self, guid: str) -> Registered:
        """Raises Rejected."""
        for context in self.state.contexts():
            number = self.state.id_of(guid, context)
            for one in self.state.places(number, context) if number is not None else ():
                if one.content.guid == guid:
                    return one
        raise schema_not_found(guid)

    def versions_with_id(
        self, number: int, subject: str | None, *, deleted: bool
    ) -> list[Registered]:
        """Raises Rejected."""
        one = self.by_id(number, subject)
        places = self.state.places(number, context_of(one.subject))
        return [each for each in places if deleted or not each.deleted]

    # Compatibility

    def incompatibilities(
        self, subject: str, content: Content, earlier: list[Registered], *, normalize: bool
    ) -> list[str]:
        """Why a content is not compatible with these versions of the subject. Raises Rejected."""
        _, parsed = self.canonical(
            subject,
            content,
            normalize=self.normalizes(subject, asked=normalize),
            strict=True,
        )
        return self.problems(subject, content, parsed, earlier)

    def problems(
        self, subject: str, content: Content, parsed: Parsed, earlier: list[Registered]
    ) -> list[str]:
        """Raises Rejected."""
        config = self.state.config_in_scope(subject)
        group = config.get("compatibilityGroup")
        if group is not None:
            wanted = _property(content, group)
            earlier = [one for one in earlier if _property(one.content, group) == wanted]
        level = str(config["compatibilityLevel"])
        versions = [
            Earlier(
                one.version,
                one.content.kind,
                one.content.text,
                partial(self.parsed, one.subject, one.content),
            )
            for one in earlier
        ]
        with _refusing("The schemas cannot be compared: "):
            found = problems(level, content.kind, parsed, versions)
        checks = "true" if config.get("validateFields") else "false"
        tail = f"{{validateFields: '{checks}', compatibility: '{level}'}}"
        return [*found, tail] if found else []


@contextmanager
def _refusing(head: str = "") -> Iterator[None]:
    """Turn what is wrong with a schema into a Rejected."""
    try:
        yield
    except BadSchema as error:
        raise invalid_schema(f"{head}{error}") from None
    except RecursionError:
        raise invalid_schema(f"{head}it is nested too deeply") from None


def _property(content: Content, name: str) -> object:
    return ((content.metadata or {}).get("properties") or {}).get(name)


def _merged(*parts: Any) -> Any:
    """Metadata: what comes later wins, by name."""
    given = [one for one in parts if one is not None]
    if len(given) < 2:
        return given[0] if given else None
    made: dict[str, Any] = {}
    for one in given:
        for key, each in one.items():
            if isinstance(each, dict):
                made[key] = {**made.get(key, {}), **each}
            elif each is not None:
                made[key] = [*made.get(key, []), *(x for x in each if x not in made.get(key, []))]
    return made


def _merged_rules(*parts: Any) -> Any:
    """Rules: of one name, what comes later wins."""
    given = [one for one in parts if one is not None]
    if len(given) < 2:
        return given[0] if given else None
    made: dict[str, Any] = {}
    for one in given:
        for family, rules in one.items():
            if isinstance(rules, list):
                names = [rule.get("name") for rule in rules]
                kept = [rule for rule in made.get(family, []) if rule.get("name") not in names]
                made[family] = kept + rules
            elif rules is not None:
                made[family] = rules
    return made
