"""What a request changes: the records to write and the answer, out of the present content.

Each method takes a request that was read from JSON, checks it, and returns a `Change`; it changes
nothing itself. The shell writes the records in order and applies them by reading them back, before
the next change begins. Invariant: an unacceptable request raises Rejected, and writes nothing.
Mirrors: KafkaSchemaRegistry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from .compatibility import LEVELS
from .entities import NO_ID, Content, Registered
from .errors import (
    incompatible,
    invalid_compatibility,
    invalid_mode,
    invalid_schema,
    invalid_subject,
    not_permitted,
    reference_exists,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_soft_deleted,
    version_soft_deleted,
)
from .reads import LATEST, Reads
from .records import (
    CLEAR_SUBJECT,
    CONFIG,
    CONTEXT,
    DELETE_SUBJECT,
    MODE,
    SCHEMA,
    TENANT,
    Key,
    Record,
    Value,
    schema_record,
    with_subject,
)
from .state import READONLY_OVERRIDE, READWRITE
from .subjects import DEFAULT_CONTEXT, context_of, is_valid

READONLY: Final = "READONLY"
IMPORT: Final = "IMPORT"
MODES: Final = (READWRITE, READONLY, READONLY_OVERRIDE, IMPORT)

# Settings of a config, by Confluent's names; `compatibility` of a request is `compatibilityLevel`.
SETTINGS: Final = (
    "alias", "aliasForDeks", "normalize", "validateFields", "validateNewSchemas", "validateRules",
    "compatibilityLevel", "compatibilityPolicy", "compatibilityGroup", "defaultMetadata",
    "overrideMetadata", "defaultRuleSet", "overrideRuleSet",
)  # fmt: skip


class Request(NamedTuple):
    """A schema to register. `id` and `version` are given in mode IMPORT; `version` LATEST: as a new
    latest one."""

    content: Content
    id: int = NO_ID
    version: int = 0


class Change(NamedTuple):
    """The records to write, and what to answer once they are applied."""

    records: Sequence[Record]
    answer: Any


class Writes:
    """See the module."""

    def __init__(self, reads: Reads) -> None:
        self.reads = reads
        self.state = reads.state

    # Schemas

    def known(self, subject: str, request: Request, *, normalize: bool) -> Registered | None:
        """The version that is registered already, for which nothing is written. Raises Rejected."""
        if request.version not in (0, LATEST) or not request.content.text.strip():
            return None
        found = self.reads.under_subject(subject, request.content, normalize=normalize)
        if found is None or request.id not in (NO_ID, found.id):
            return None
        latest = self.state.latest(subject)
        return None if request.version == LATEST and found is not latest else found

    def register(self, subject: str, request: Request, *, normalize: bool) -> Change:
        """The answer is a `Registered`. Raises Rejected."""
        if not is_valid(subject):
            raise invalid_subject(subject)
        if (found := self.known(subject, request, normalize=normalize)) is not None:
            return Change((), found)
        mode = self._check_register_mode(subject, request)
        every = self.state.versions(subject, deleted=True)
        living = [one for one in every if not one.deleted]
        content = request.content
        if mode != IMPORT:
            if not content.text.strip() and living:
                before = living[-1].content
                content = replace(
                    content, text=before.text, kind=before.kind, references=before.references
                )
            content = self.reads.with_defaults(subject, content)
        if not content.text.strip():
            raise invalid_schema("Empty schema")
        content, parsed = self.reads.canonical(
            subject,
            content,
            normalize=self.reads.normalizes(subject, asked=normalize),
            strict=mode != IMPORT,
        )
        if mode != IMPORT:
            problems = self.reads.problems(subject, content, parsed, living)
            if problems:
                raise incompatible(subject, problems)
        next_version = every[-1].version + 1 if every else 1
        version = request.version if request.version > 0 else next_version
        if version != next_version and mode != IMPORT:
            raise invalid_schema("Version is not one more than previous version")
        new = Registered(subject, version, self._id_for(subject, request, content), content)
        records = [*self._context_records(subject), *self._buried(every, new), schema_record(new)]
        return Change(records, new)

    def _check_register_mode(self, subject: str, request: Request) -> str:
        mode, context = self.state.mode_in_scope(subject), context_of(subject)
        place = f"Subject {subject} in context {context}"
        if mode in (READONLY, READONLY_OVERRIDE):
            raise not_permitted(f"{place} is in read-only mode")
        if request.id != NO_ID and mode != IMPORT:
            raise not_permitted(f"{place} is not in import mode")
        if request.id == NO_ID and mode != READWRITE:
            raise not_permitted(f"{place} is not in read-write mode")
        return mode

    def _id_for(self, subject: str, request: Request, content: Content) -> int:
        """The id of the same content in the context, or the one of the request, or a new one."""
        context = context_of(subject)
        if request.id != NO_ID:
            for one in self.state.places(request.id, context):
                if one.content != content:
                    text = f"Overwrite new schema with id {request.id} in context {context} is not"
                    raise not_permitted(f"{text} permitted.")
            return request.id
        known = self.state.id_of(content.guid, context)
        return self.state.next_id(context) if known is None else known

    def _context_records(self, subject: str) -> list[Record]:
        context = context_of(subject)
        if context == DEFAULT_CONTEXT or context in self.state.contexts():
            return []
        value = {"tenant": TENANT, "context": context}
        return [Record(Key(CONTEXT, context=context), value)]

    def _buried(self, every: Sequence[Registered], new: Registered) -> list[Record]:
        """Tombstones for softly deleted versions with the id of the new one."""
        return [
            Record(Key(SCHEMA, one.subject, one.version), None)
            for one in every
            if one.deleted
            and one.id == new.id
            and one.version < new.version
            and not self.state.referrers((one.subject, one.version), deleted=True)
        ]

    def delete_version(self, subject: str, version: int, *, permanent: bool) -> Change:
        """The answer is the version. Raises Rejected."""
        one = self.reads.found(subject, version, deleted=True)
        if one.deleted and not permanent:
            raise version_soft_deleted(subject, one.version)
        self._check_writable(subject)
        if self.state.referrers((subject, one.version), deleted=permanent):
            raise reference_exists(subject, one.version)
        if not permanent:
            return Change([schema_record(one.marked_deleted())], one.version)
        if not one.deleted:
            raise version_not_soft_deleted(subject, one.version)
        records = [Record(Key(SCHEMA, subject, one.version), None)]
        if len(self.state.versions(subject, deleted=True)) == 1:
            records += self._settings_gone(subject)
        return Change(records, one.version)

    def delete_subject(self, subject: str, *, permanent: bool) -> Change:
        """The answer is the list of versions. Raises Rejected."""
        every = self.state.versions(subject, deleted=True)
        living = [one for one in every if not one.deleted]
        if not every:
            raise subject_not_found(subject)
        if not permanent and not living:
            raise subject_soft_deleted(subject)
        self._check_writable(subject)
        gone = every if permanent else living
        for one in gone:
            others = self.state.referrers((subject, one.version), deleted=permanent)
            if any(other.subject != subject for other in others):
                raise reference_exists(subject, one.version)
        if permanent and living:
            raise subject_not_soft_deleted(subject)
        versions = [one.version for one in gone]
        if not permanent:
            value = {"subject": subject, "version": versions[-1]}
            return Change([Record(Key(DELETE_SUBJECT, subject), value)], versions)
        records = [Record(Key(SCHEMA, subject, number), None) for number in reversed(versions)]
        return Change(records + self._settings_gone(subject), versions)

    def _check_writable(self, scope: str | None) -> None:
        if self.state.mode_in_scope(scope) in (READONLY, READONLY_OVERRIDE):
            place = f"Subject {scope} in context {context_of(scope)}"
            raise not_permitted(f"{place} is in read-only mode")

    def _settings_gone(self, subject: str) -> list[Record]:
        """Tombstones for mode and config of a subject that is gone."""
        has = {MODE: self.state.own_mode(subject), CONFIG: self.state.raw_config(subject)}
        return [Record(Key(kind, subject), None) for kind, found in has.items() if found]

    # Configs

    def update_config(self, scope: str | None, given: Mapping[str, Any]) -> Change:
        """The answer is the whole config as a request has it. Raises Rejected."""
        settings = {key: given[key] for key in SETTINGS if key in given}
        if "compatibility" in given:
            settings["compatibilityLevel"] = given["compatibility"]
        level = settings.get("compatibilityLevel")
        if level is not None:
            level = str(level).upper()
            if level not in LEVELS:
                raise invalid_compatibility()
            settings["compatibilityLevel"] = level
        if scope is not None and not scope.endswith(":") and not is_valid(scope):
            raise invalid_subject(scope)
        self._check_writable(scope)
        merged = {**(self.state.raw_config(scope) or {}), **settings}
        kept = {key: merged[key] for key in SETTINGS if merged.get(key) is not None}
        record = Record(Key(CONFIG, scope), with_subject(scope, kept))
        answer = {
            "compatibility" if key == "compatibilityLevel" else key: each
            for key, each in kept.items()
        }
        return Change([record], answer)

    def delete_config(self, scope: str | None) -> Change:
        """The answer is the config that was there. Raises Rejected."""
        found = self.state.config(scope)
        if found is None:
            raise subject_not_found(scope)
        self._check_writable(scope)
        return Change([Record(Key(CONFIG, scope), None)], found)

    # Modes

    def update_mode(self, scope: str | None, given: object, *, force: bool) -> Change:
        """The answer is the request. Raises Rejected."""
        if scope is not None and not scope.endswith(":") and not is_valid(scope):
            raise invalid_subject(scope)
        mode = str(given).upper()
        if given is not None and mode not in MODES:
            raise invalid_mode()
        records: list[Record] = []
        if mode == IMPORT and self.state.mode_in_scope(scope) != IMPORT and not force:
            if next(self.state.matching(scope, deleted=False), None) is not None:
                raise not_permitted("Cannot import since found existing subjects")
            gone = list(self.state.matching(scope, deleted=True))
            for one in gone:
                if self.state.referrers((one.subject, one.version), deleted=True):
                    raise reference_exists(one.subject, one.version)
            records += [Record(Key(SCHEMA, one.subject, one.version), None) for one in gone]
            records.append(Record(Key(CLEAR_SUBJECT, scope), with_subject(scope, {})))
        value: Value = None if given is None else with_subject(scope, {"mode": mode})
        return Change([*records, Record(Key(MODE, scope), value)], {"mode": given})

    def delete_mode(self, scope: str | None, *, recursive: bool) -> Change:
        """The answer is the mode that was there. Raises Rejected."""
        found = self.state.mode(scope)
        if found is None and not recursive:
            raise subject_not_found(scope)
        scopes = [scope]
        if recursive and (scope is None or scope.endswith(":")):
            context = context_of(scope)
            scopes += [one for one in self.state.scopes_with_modes() if context_of(one) == context]
        records = [
            Record(Key(MODE, one), None)
            for one in dict.fromkeys(scopes)
            if self.state.own_mode(one) is not None
        ]
        return Change(records, {"mode": found})

    def delete_context(self, context: str) -> Change:
        """Raises Rejected."""
        if next(self.state.matching(f":{context}:", deleted=True), None) is not None:
            raise not_permitted(f"Context {context} is not empty")
        return Change([Record(Key(CONTEXT, context=context), None)], None)
