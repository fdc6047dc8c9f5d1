"""Applies the access rules on the pages of the APIs before the handlers run.

Job: `AccessGuard` wraps the handler of each API. It first checks the request as a whole: the first
denial is the answer. Then topics that have only ids get their names, and elements are checked:
denied ones are taken out of the request, and a filter puts their errors into the answer. Another
filter removes from the answer what the client may not see.

Invariants: a request without denied or hidden elements reaches its handler unchanged; the
connection's `access` belongs to its present principal. Large requests come here in parts
(`network.request_parts`), so that no loop here is long, except the loop over an answer, which
runs in turns.

Mirrors the calls of AuthHelper in KafkaApis.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ...protocol.access_rules import (
    ANY_NAME,
    ITEM,
    AccessRules,
    Each,
    Hidden,
    Question,
    Whole,
)
from ...protocol.acls import CLUSTER_NAME, ResourceType
from ...protocol.api import ApiKey, page
from ...protocol.errors import ErrorCode
from ..network.request import ConnectionInfo, Request
from ..network.taken_out import take_out
from ..network.topic_names import Naming, TopicNames
from ..security.access import Access, DenialLog
from ..security.authorizer import Authorizer

HIDDEN_PER_STEP = 100
NOBODY_HEARS: Mapping[ApiKey, Callable[[Request], None]] = MappingProxyType({})

Handle = Callable[[Request], Any]


class AccessGuard:
    """Makes the handlers of the dispatcher (`Dispatcher.guard_with`)."""

    __slots__ = ("_denials", "_is_controller", "_names", "authorizer", "on_denied")

    def __init__(
        self,
        authorizer: Authorizer,
        denials: DenialLog,
        is_controller: Callable[[], bool],
        on_denied: Mapping[ApiKey, Callable[[Request], None]] = NOBODY_HEARS,
        names: TopicNames | None = None,
    ) -> None:
        """`on_denied` is called with requests that are denied as a whole; `names` are those of
        topics that a request names by id."""
        self.authorizer = authorizer
        self._denials = denials
        self._is_controller = is_controller
        self.on_denied = on_denied
        self._names = names

    def __call__(self, key: ApiKey, handle: Handle, version: int = 0) -> Handle:
        """The handler to use in the place of `handle` for requests of one version."""
        rules = page(key).access
        naming = None if self._names is None else self._names.of(key, version)
        if key is ApiKey.PRODUCE:
            return _ProduceGuard(self, rules, handle, naming)
        return _Guarded(self, rules, handle, naming)

    def access_of(self, peer: ConnectionInfo) -> Access:
        access = peer.access
        if access is None or access.principal is not peer.principal:
            access = Access(self.authorizer, peer.principal, peer.host, self._denials)
            peer.access = access
        return access

    def refuses_as_no_controller(self, rules: AccessRules) -> bool:
        return rules.only_controller and not self._is_controller()


class _Guarded:
    """The handler of one API behind the questions of its rules."""

    __slots__ = ("_guard", "_handle", "_naming", "_rules")

    def __init__(
        self, guard: AccessGuard, rules: AccessRules, handle: Handle, naming: Naming | None
    ) -> None:
        self._guard = guard
        self._rules = rules
        self._handle = handle
        self._naming = naming

    def __call__(self, request: Request) -> None:
        rules = self._rules
        access = self._guard.access_of(request.connection.peer)
        if rules.only_controller and self._guard.refuses_as_no_controller(rules):
            request.fail(ErrorCode.NOT_CONTROLLER)
            return
        for whole in rules.whole:
            if (whole.when is None or whole.when.holds(request)) and _is_denied(
                access, whole, request
            ):
                request.fail(whole.denied)
                hear = self._guard.on_denied.get(request.route.api_key)
                if hear is not None:
                    hear(request)
                return
        if self._naming is not None and not self._naming.name_or_answer(request):
            return
        if rules.each is not None:
            split = _split(access, rules.each, request)
            if split is not None and not take_out(
                request,
                rules.each.elements,
                split.allowed,
                split.denied,
                rules.each.denied,
                goes_on=rules.each.goes_on,
            ):
                return
        self._perform(request)

    def _perform(self, request: Request) -> None:
        if self._rules.hidden:
            request.add_filter(_Hiding(self._rules.hidden))
        self._handle(request)


class _ProduceGuard(_Guarded):
    """Like `_Guarded`, with a short way for the usual request, to one topic that may be written."""

    __slots__ = ("_authorizer",)

    def __init__(
        self, guard: AccessGuard, rules: AccessRules, handle: Handle, naming: Naming | None
    ) -> None:
        super().__init__(guard, rules, handle, naming)
        self._authorizer = guard.authorizer

    def __call__(self, request: Request) -> None:
        body = request.body
        peer = request.connection.peer
        access = peer.access
        topics = body.topic_data
        if self._naming is not None:
            self._naming.name(request)
        if (
            access is not None
            and access.version == self._authorizer.version
            and len(topics) == 1
            and access.writable.get(topics[0].name)
            and body.transactional_id is None
            and access.principal is peer.principal
        ):
            self._handle(request)
        else:
            super().__call__(request)


# Questions


def _is_denied(access: Access, whole: Whole, request: Request) -> bool:
    body, api = request.body, request.route.name
    last = whole.any_of[-1]
    return not any(
        _is_allowed(access, question, body, api, is_logged=question is last)
        for question in whole.any_of
    )


def _is_allowed(
    access: Access, question: Question, subject: Any, api: str, *, is_logged: bool
) -> bool:
    operation, kind, field = question
    if kind is ResourceType.CLUSTER:
        name = CLUSTER_NAME
    elif field == ANY_NAME:
        return access.permits_any(operation, kind, api)
    else:
        name = subject if field == ITEM else getattr(subject, field)
    return access.permits(operation, kind, name, api, is_logged=is_logged)


class _Split(NamedTuple):
    allowed: list[Any]
    denied: list[Any]


def _split(access: Access, each: Each, request: Request) -> _Split | None:
    """The elements, if not all of them are allowed."""
    api = request.route.name
    if each.unless is not None and _is_allowed(access, each.unless, None, api, is_logged=False):
        return None
    operation, kind, field = each.question
    elements = getattr(request.body, each.elements)
    denied = [
        number
        for number, element in enumerate(elements)
        if not access.permits(operation, kind, getattr(element, field) if field else element, api)
    ]
    if not denied:
        return None
    out = set(denied)
    return _Split(
        [element for number, element in enumerate(elements) if number not in out],
        [elements[number] for number in denied],
    )


# Filters of an answer


class _Hiding:
    """Removes from an answer the parts that its client may not see."""

    __slots__ = ("_hidden",)

    def __init__(self, hidden: tuple[Hidden, ...]) -> None:
        self._hidden = hidden

    def filtered(self, request: Request, response: Any) -> Generator[None, None, Any]:
        for hidden in self._hidden:
            if hidden.unless is None or not _may_see(request, hidden.unless, None):
                *outer, last = hidden.path
                for holder in _walk(response, outer):
                    kept = yield from _kept(request, getattr(holder, last), hidden.question)
                    setattr(holder, last, kept)
        return response


def _kept(
    request: Request, elements: list[Any], question: Question
) -> Generator[None, None, list[Any]]:
    kept = []
    for number, element in enumerate(elements):
        if _may_see(request, question, element):
            kept.append(element)
        if number % HIDDEN_PER_STEP == 0:
            yield
    return kept


def _may_see(request: Request, question: Question, subject: Any) -> bool:
    access = request.peer.access
    assert access is not None
    return _is_allowed(access, question, subject, request.route.name, is_logged=False)


def _walk(message: Any, path: list[str]) -> list[Any]:
    """All messages that contain the filtered list."""
    holders = [message]
    for name in path:
        holders = [inner for holder in holders for inner in getattr(holder, name)]
    return holders
