"""The error answer of every API: all of a request failed with one code.

Job: `error_response` makes the answer of any API from its page: the code once if the version has a
place for it, and otherwise at each element (topic, partition, group, resource) of the request, with
the names of the element; `error_elements` is the list of elements alone. None means that the API
has no error answer in this case (Produce with acks=0): the connection is closed.
Invariants: if an element has a field for the code, the elements inside of it are left out; null
becomes the empty text in a field that is not nullable in the version.

Mirrors `AbstractRequest.getErrorResponse` of Kafka's request classes. Imported on the first error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from .access_rules import AnyRequest
from .api import page
from .api_page import Api, Elements, field_of, has_field, is_in
from .errors import ErrorCode
from .schema import Field, Struct

SLICE_ELEMENTS: Final = 500

_CODES: Final = ("error_code", "partition_error_code")
_TEXT: Final = "error_message"
# The fields that name an element.
_NAMES: Final = frozenset(
    {
        "entity", "entity_name", "entity_type", "group_id", "index", "key", "name", "partition",
        "partition_id", "partition_index", "producer_id", "resource_name", "resource_type", "topic",
        "topic_id", "topic_name", "transactional_id", "user",
    }
)  # fmt: skip


def error_response(request: AnyRequest, code: ErrorCode, message: str | None = None) -> Any:
    """The answer with `code` for all of `request`, or None if there is no such answer."""
    plan = _plan_of(request)
    text = message or code.description
    answer = plan.answer.make(int(code), text)
    if plan.has_elements:
        for level in plan.levels:
            level.fill(level.items(request.body), answer, int(code), text)
    return answer if plan.finish is None else plan.finish(request, answer, int(code))


def error_response_slices(
    request: AnyRequest, code: ErrorCode, message: str | None = None
) -> Generator[None, None, Any]:
    """Like `error_response`, in slices: for large requests that are not handled in parts."""
    plan = _plan_of(request)
    text = message or code.description
    answer = plan.answer.make(int(code), text)
    if plan.has_elements:
        for level in plan.levels:
            items = level.items(request.body)
            for start in range(0, len(items), SLICE_ELEMENTS):
                level.fill(items[start : start + SLICE_ELEMENTS], answer, int(code), text)
                yield
    return answer if plan.finish is None else plan.finish(request, answer, int(code))


def error_elements(request: AnyRequest, code: ErrorCode) -> Any:
    """The elements of `request`, each with `code`, in an otherwise empty answer; None if
    there is no such answer. Not for every API."""
    plan = _plan_of(request)
    answer = plan.answer.make_plain()
    for level in plan.levels:
        level.fill(level.items(request.body), answer, int(code), None)
    return answer if plan.finish is None else plan.finish(request, answer, int(code))


class _Shape:
    """The form of one struct of an error answer in one version."""

    __slots__ = ("_has_text", "_values", "code", "make_plain")

    def __init__(self, cls: type[Struct], values: Mapping[str, Any], version: int) -> None:
        self.make_plain: Callable[..., Any] = cls
        self.code = next((name for name in _CODES if has_field(cls, name, version)), "")
        self._has_text = has_field(cls, _TEXT, version)
        self._values = {
            field.name: _said(field, values[field.name], version)
            for field in cls._fields
            if field.name in values and is_in(field.versions, version)
        }

    def make(self, code: int, text: str | None) -> Any:
        made = self.make_plain(**self._values) if self._values else self.make_plain()
        if self.code:
            setattr(made, self.code, code)
        if self._has_text:
            made.error_message = text
        return made


def _said(field: Field, value: Any, version: int) -> Any:
    return "" if value is None and not is_in(field.nullable, version) else value


class _Copy(NamedTuple):
    """A field of the answer's element, and its source."""

    name: str
    source: str  # "": the element is the name itself
    element: type[Struct] | None  # of a list of structs
    has_null: bool  # in the answer, or neither there nor in the request

    @property
    def is_plain(self) -> bool:
        return bool(self.source) and self.element is None and self.has_null

    def of(self, asked: Any) -> Any:
        value = getattr(asked, self.source) if self.source else asked
        if self.element is not None:
            return [_same_fields(self.element, item) for item in value]
        return "" if value is None and not self.has_null else value


def _same_fields(cls: type[Struct], item: Any) -> Any:
    made: Any = cls()
    for field in cls._fields:
        setattr(made, field.name, getattr(item, field.name))
    return made


Names = tuple[tuple[str, Any], ...]


class _Level:
    """One list of the request, and the list of the answer with the same elements."""

    __slots__ = ("_answered", "_asked", "_copies", "_inner", "_others", "_same", "_shape")

    def __init__(
        self, asked: str, answered: str, shape: _Shape | None, copies: list[_Copy],
        inner: _Level | None,
    ) -> None:  # fmt: skip
        """Without a shape the elements do not appear in the answer, and only pass their names to
        the elements inside of them."""
        self._asked = asked
        self._answered = answered
        self._shape = shape
        self._copies = copies
        self._same = [(copy.name, copy.source) for copy in copies if copy.is_plain]
        self._others = [copy for copy in copies if not copy.is_plain]
        self._inner = inner

    def items(self, holder: Any) -> Sequence[Any]:
        return getattr(holder, self._asked) or ()

    def fill(
        self, items: Sequence[Any], target: Any, code: int, text: str | None, outer: Names = ()
    ) -> None:
        """Put an element into `target` for each of `items`."""
        inner, shape = self._inner, self._shape
        if shape is None:
            assert inner is not None
            for asked in items:
                names = tuple([(copy.name, copy.of(asked)) for copy in self._copies])
                inner.fill(inner.items(asked), target, code, text, outer + names)
            return
        into: list[Any] = getattr(target, self._answered)
        for asked in items:
            made = shape.make(code, text)
            for name, source in self._same:
                setattr(made, name, getattr(asked, source))
            for copy in self._others:
                setattr(made, copy.name, copy.of(asked))
            for name, value in outer:
                setattr(made, name, value)
            into.append(made)
            if inner is not None:
                inner.fill(inner.items(asked), made, code, text)


class _Plan:
    """The error answers of one API in one version."""

    __slots__ = ("answer", "finish", "has_elements", "levels")

    def __init__(self, row: Api, version: int) -> None:
        failure = row.failure
        self.answer = _Shape(row.response, failure.values, version)
        self.has_elements = failure.is_repeated or not self.answer.code
        self.finish = failure.finish
        self.levels = [
            _levels(row, each, version) for each in row.elements_in(version) if each.answered
        ]


def _levels(row: Api, place: Elements, version: int) -> _Level:
    """The levels from the outermost list of the request to the innermost with elements in the
    answer."""
    without = len(place.asked) - len(place.answered)
    answered = ("",) * without + place.answered
    return _level(row, place, version, row.request, row.response, place.asked, answered)


def _level(
    row: Api, place: Elements, version: int, asked_of: type[Struct], answered_of: type[Struct],
    asked: tuple[str, ...], answered: tuple[str, ...],
) -> _Level:  # fmt: skip
    element = _element(asked_of, asked[0])
    inner: _Level | None = None
    if not answered[0]:
        # The next list with elements in the answer takes the names.
        made = _element(answered_of, next(name for name in answered if name))
        shape = None
        below: type[Struct] = answered_of
    else:
        made = below = _element(answered_of, answered[0])
        shape = _Shape(made, row.failure.values, version)
    if len(asked) > 1 and (shape is None or not shape.code):
        inner = _level(row, place, version, element, below, asked[1:], answered[1:])
    copies = _copies(element, made, place.renamed, version)
    return _Level(asked[0], answered[0], shape, list(copies), inner)


def _element(cls: type[Struct], name: str) -> Any:
    field = field_of(cls, name)
    assert field is not None, f"{cls.__name__} has no list {name}"
    return field.element


def _copies(
    asked: type[Struct] | str, made: type[Struct], renamed: Mapping[str, str], version: int
) -> Generator[_Copy, None, None]:
    sources = {to: name for name, to in renamed.items()}
    for field in made._fields:
        if field.name not in _NAMES:
            continue
        element = field.element if field.kind == "array" else None
        has_null = is_in(field.nullable, version) or field.kind not in ("string", "array")
        if isinstance(asked, str):
            if field.kind == asked:
                yield _Copy(field.name, "", element, has_null)
                return
        else:
            for source in (sources.get(field.name), field.name):
                found = field_of(asked, source) if source else None
                if found is not None and is_in(found.versions, version):
                    never_null = not is_in(found.nullable, version)
                    yield _Copy(field.name, found.name, element, has_null or never_null)
                    break


_plans: Final[dict[int, _Plan]] = {}  # by API and version as one number


def _plan_of(request: AnyRequest) -> _Plan:
    key = request.api_key << 16 | request.api_version
    plan = _plans.get(key)
    if plan is None:
        plan = _plans[key] = _Plan(page(request.api_key), request.api_version)
    return plan
