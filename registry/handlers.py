"""The endpoints: what each answers, as a value of JSON.

Reads are answered out of the content. Writes are decided by `writes`, on the primary.
Leaves out: tags (`POST .../tags`), associations, exporters, and the encryption of fields.
Mirrors: the classes ...Resource.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from .calls import Call
from .entities import AVRO, KINDS, Content, Registered
from .errors import (
    Rejected,
    compatibility_not_configured,
    mode_not_configured,
    schema_not_found,
    subject_not_found,
)
from .reads import LATEST, Reads, version_number
from .subjects import ANY_CONTEXT, context_of, qualified, split
from .writes import Change, Writes

Reading = Callable[[Reads, Call], Any]
Writing = Callable[[Writes, Call], Change]


class Plain(str):
    """An answer that is the text of a schema itself."""


class Endpoint(NamedTuple):
    """`{}` in the path stands for a name. Either a reading or a writing endpoint."""

    method: str
    path: tuple[str, ...]
    read: Reading | None = None
    write: Writing | None = None
    shape: Callable[[Any], Any] = lambda answer: answer  # of a change's answer


# Schemas by id


def schema_types(_reads: Reads, _call: Call) -> Any:
    return list(KINDS)


def schema_by_id(reads: Reads, call: Call) -> Any:
    one = reads.by_id(_id(call), _subject_asked(call))
    found = _content(reads.formatted(one, call.text("format")))
    if call.asks("fetchMaxId"):
        found["maxId"] = reads.state.next_id(context_of(one.subject)) - 1
    return {**found, "guid": one.content.guid}


def schema_text_by_id(reads: Reads, call: Call) -> Any:
    one = reads.by_id(_id(call), _subject_asked(call))
    return Plain(reads.formatted(one, call.text("format")).text)


def subjects_with_id(reads: Reads, call: Call) -> Any:
    found = reads.versions_with_id(_id(call), _subject_asked(call), deleted=call.asks("deleted"))
    return call.page(list(dict.fromkeys(one.subject for one in found)))


def versions_with_id(reads: Reads, call: Call) -> Any:
    found = reads.versions_with_id(_id(call), _subject_asked(call), deleted=call.asks("deleted"))
    return call.page([{"subject": one.subject, "version": one.version} for one in found])


def schema_by_guid(reads: Reads, call: Call) -> Any:
    one = reads.by_guid(call.names[0])
    return {**_content(reads.formatted(one, call.text("format"))), "guid": one.content.guid}


def ids_by_guid(reads: Reads, call: Call) -> Any:
    return [
        {"context": context, "id": number}
        for context in reads.state.contexts()
        if (number := reads.state.id_of(call.names[0], context)) is not None
    ]


def schemas(reads: Reads, call: Call) -> Any:
    found: list[Registered] = []
    for subject in _matching(reads, call.text("subjectPrefix", ANY_CONTEXT), call):
        versions = reads.state.versions(subject, deleted=call.asks("deleted"))
        found += versions[-1:] if call.asks("latestOnly") else versions
    return [_version(reads, one, "") for one in call.page(found)]


# Subjects


def subjects(reads: Reads, call: Call) -> Any:
    found = []
    for subject in _matching(reads, call.text("subjectPrefix", ANY_CONTEXT), call):
        is_living = reads.has_subject(subject, deleted=False)
        only = call.asks("deletedOnly")
        if not is_living if only else is_living or call.asks("deleted"):
            found.append(subject)
    return call.page(found)


def lookup(reads: Reads, call: Call) -> Any:
    subject, deleted = call.subject(), call.asks("deleted")
    content = call.schema().content
    if not content.text.strip():
        raise schema_not_found()
    if not reads.has_subject(subject, deleted=deleted):
        raise subject_not_found(subject)
    one = reads.under_subject(subject, content, normalize=call.asks("normalize"), deleted=deleted)
    if one is None:
        raise schema_not_found()
    return _version(reads, one, call.text("format"))


def latest_with_metadata(reads: Reads, call: Call) -> Any:
    subject, deleted = call.subject(), call.asks("deleted")
    query = call.http.query_params
    wanted = dict(zip(query.getlist("key"), query.getlist("value"), strict=False))
    for one in reversed(reads.state.versions(subject, deleted=deleted)):
        properties = (one.content.metadata or {}).get("properties") or {}
        if all(properties.get(key) == text for key, text in wanted.items()):
            return _version(reads, one, call.text("format"))
    if not reads.has_subject(subject, deleted=deleted):
        raise subject_not_found(subject)
    raise schema_not_found()


def versions(reads: Reads, call: Call) -> Any:
    subject = call.subject()
    only, negative = call.asks("deletedOnly"), call.asks("deletedAsNegative")
    deleted = call.asks("deleted") or only
    if not reads.has_subject(subject, deleted=deleted):
        raise subject_not_found(subject)
    found = reads.state.versions(subject, deleted=deleted or negative)
    if negative:
        return call.page([-one.version if one.deleted else one.version for one in found])
    return call.page([one.version for one in found if one.deleted or not only])


def version(reads: Reads, call: Call) -> Any:
    return _version(reads, _found(reads, call, call.asks("deleted")), call.text("format"))


def version_text(reads: Reads, call: Call) -> Any:
    one = _found(reads, call, call.asks("deleted"))
    return Plain(reads.formatted(one, call.text("format")).text)


def referenced_by(reads: Reads, call: Call) -> Any:
    one = _found(reads, call, True)
    place = (one.subject, one.version)
    found = reads.state.referrers(place, deleted=call.asks("deleted"))
    return call.page(list(dict.fromkeys(each.id for each in found)))


def register(writes: Writes, call: Call) -> Change:
    request = call.schema()
    return writes.register(call.subject(), request, normalize=call.asks("normalize"))


def delete_subject(writes: Writes, call: Call) -> Change:
    return writes.delete_subject(call.subject(), permanent=call.asks("permanent"))


def delete_version(writes: Writes, call: Call) -> Change:
    number = version_number(call.names[1])
    return writes.delete_version(call.subject(), number, permanent=call.asks("permanent"))


# Compatibility


def check_with_version(reads: Reads, call: Call) -> Any:
    number = version_number(call.names[1])
    latest = reads.state.latest(call.subject())
    if number == LATEST:
        earlier = [] if latest is None else [latest]
    else:
        earlier = [reads.found(call.subject(), number)]
    return _checked(reads, call, earlier)


def check_with_subject(reads: Reads, call: Call) -> Any:
    return _checked(reads, call, reads.state.versions(call.subject()))


def _checked(reads: Reads, call: Call, earlier: list[Registered]) -> Any:
    content = call.schema().content
    try:
        problems = reads.incompatibilities(
            call.subject(), content, earlier, normalize=call.asks("normalize")
        )
    except Rejected as error:
        if not call.asks("verbose"):
            raise
        problems = [error.message]
    told = {"messages": problems} if call.asks("verbose") else {}
    return {"is_compatible": not problems, **told}


# Configs, modes, contexts


def config(reads: Reads, call: Call) -> Any:
    scope = call.scope()
    if call.asks("defaultToGlobal"):
        return reads.state.config_in_scope(scope)
    if (found := reads.state.config(scope)) is None:
        raise compatibility_not_configured(str(scope))
    return found


def update_config(writes: Writes, call: Call) -> Change:
    return writes.update_config(call.scope(), call.json())


def delete_config(writes: Writes, call: Call) -> Change:
    return writes.delete_config(call.scope())


def mode(reads: Reads, call: Call) -> Any:
    scope = call.scope()
    if call.asks("defaultToGlobal"):
        return {"mode": reads.state.mode_in_scope(scope)}
    if (found := reads.state.mode(scope)) is None:
        raise mode_not_configured(str(scope))
    return {"mode": found}


def update_mode(writes: Writes, call: Call) -> Change:
    return writes.update_mode(call.scope(), call.json().get("mode"), force=call.asks("force"))


def delete_mode(writes: Writes, call: Call) -> Change:
    return writes.delete_mode(call.scope(), recursive=call.asks("recursive"))


def contexts(reads: Reads, call: Call) -> Any:
    return call.page(reads.state.contexts())


def delete_context(writes: Writes, call: Call) -> Change:
    return writes.delete_context(call.names[0].strip(":"))


def root(_reads: Reads, _call: Call) -> Any:
    return {}


# Shapes


def _content(content: Content) -> dict[str, Any]:
    made: dict[str, Any] = {"schema": content.text}
    if content.kind != AVRO:
        made["schemaType"] = content.kind
    if content.references:
        made["references"] = [one._asdict() for one in content.references]
    if content.metadata is not None:
        made["metadata"] = content.metadata
    if content.rules is not None:
        made["ruleSet"] = content.rules
    return made


def _version(reads: Reads, one: Registered, form: str) -> dict[str, Any]:
    head = {"subject": one.subject, "version": one.version, "id": one.id}
    return {**head, "guid": one.content.guid, **_content(reads.formatted(one, form))}


def _registered(one: Registered) -> dict[str, Any]:
    """Without the text: a client keeps the one that it has sent, and for Protobuf it must."""
    return {"id": one.id, "version": one.version, "guid": one.content.guid}


def _found(reads: Reads, call: Call, deleted: bool) -> Registered:
    return reads.found(call.subject(), version_number(call.names[1]), deleted=deleted)


def _id(call: Call) -> int:
    text = call.names[0]
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise Rejected(404, 404, "HTTP 404 Not Found")
    return int(text)


def _subject_asked(call: Call) -> str | None:
    """The subject in the query, in the context of the path."""
    name = call.text("subject")
    if call.context not in (None, ".") and not name.startswith(":."):
        return qualified(str(call.context), name)
    return name or None


def _matching(reads: Reads, prefix: str, call: Call) -> list[str]:
    """Subjects in order: of any context with `:*:` and a prefix of the plain name, else by prefix
    of the default context."""
    if call.context is not None:
        plain = prefix.removeprefix(ANY_CONTEXT)
        prefix = plain if plain.startswith(":.") else qualified(call.context, plain)
    found = reads.state.subjects()
    if prefix.startswith(ANY_CONTEXT):
        plain = prefix[len(ANY_CONTEXT) :]
        return [one for one in found if split(one)[1].startswith(plain)]
    context, name = split(prefix)
    return [one for one in found if context_of(one) == context and split(one)[1].startswith(name)]


ENDPOINTS: Final = (
    Endpoint("GET", ("",), root),
    Endpoint("GET", ("schemas",), schemas),
    Endpoint("GET", ("schemas", "types"), schema_types),
    Endpoint("GET", ("schemas", "ids", "{}"), schema_by_id),
    Endpoint("GET", ("schemas", "ids", "{}", "schema"), schema_text_by_id),
    Endpoint("GET", ("schemas", "ids", "{}", "subjects"), subjects_with_id),
    Endpoint("GET", ("schemas", "ids", "{}", "versions"), versions_with_id),
    Endpoint("GET", ("schemas", "guids", "{}"), schema_by_guid),
    Endpoint("GET", ("schemas", "guids", "{}", "ids"), ids_by_guid),
    Endpoint("GET", ("subjects",), subjects),
    Endpoint("POST", ("subjects", "{}"), lookup),
    Endpoint("DELETE", ("subjects", "{}"), write=delete_subject),
    Endpoint("GET", ("subjects", "{}", "metadata"), latest_with_metadata),
    Endpoint("GET", ("subjects", "{}", "versions"), versions),
    Endpoint("POST", ("subjects", "{}", "versions"), write=register, shape=_registered),
    Endpoint("GET", ("subjects", "{}", "versions", "{}"), version),
    Endpoint("DELETE", ("subjects", "{}", "versions", "{}"), write=delete_version),
    Endpoint("GET", ("subjects", "{}", "versions", "{}", "schema"), version_text),
    Endpoint("GET", ("subjects", "{}", "versions", "{}", "referencedby"), referenced_by),
    Endpoint("POST", ("compatibility", "subjects", "{}", "versions"), check_with_subject),
    Endpoint("POST", ("compatibility", "subjects", "{}", "versions", "{}"), check_with_version),
    *(
        endpoint
        for tail in ((), ("{}",))
        for endpoint in (
            Endpoint("GET", ("config", *tail), config),
            Endpoint("PUT", ("config", *tail), write=update_config),
            Endpoint("DELETE", ("config", *tail), write=delete_config),
            Endpoint("GET", ("mode", *tail), mode),
            Endpoint("PUT", ("mode", *tail), write=update_mode),
            Endpoint("DELETE", ("mode", *tail), write=delete_mode),
        )
    ),
    Endpoint("GET", ("contexts",), contexts),
    Endpoint("DELETE", ("contexts", "{}"), write=delete_context),
)


def find(method: str, path: tuple[str, ...]) -> tuple[Endpoint, tuple[str, ...]]:
    """The endpoint of a request, and the names in its path. Raises Rejected."""
    is_known = False
    for one in ENDPOINTS:
        if len(one.path) != len(path):
            continue
        pairs = list(zip(one.path, path, strict=True))
        if any(mine not in ("{}", theirs) for mine, theirs in pairs):
            continue
        is_known = True
        if one.method == method:
            return one, tuple(theirs for mine, theirs in pairs if mine == "{}")
    if is_known:
        raise Rejected(405, 405, "HTTP 405 Method Not Allowed")
    raise Rejected(404, 404, "HTTP 404 Not Found")
