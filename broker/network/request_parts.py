"""A request with very many elements is handled in parts, and answered as one.

Job: the page of an API declares the places of its elements in the request and in the response, and
whether they are independent of each other. `InParts` cuts such a request into copies of at most
MAX_PART_ELEMENTS elements, has each handled like a request of its own, in turns with others, and
joins the answers. So handlers need not care about long lists: a part takes a few milliseconds at
most.

Invariants: a part begins when the one before it is answered, so that elements are processed in the
order of the request; the joined answer has the shape that the handler would have given it, except
that repeated names, which Kafka answers each time, are answered once if the page declares it; an
error of the request as a whole ends it, and if its answer names elements, it names those of all
parts; a request whose response would be too large to read is refused.

Left out are requests whose elements belong together: their handlers take turns themselves.
Mirrors nothing in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

from ...protocol.api_page import Elements
from ...protocol.discarding import discard_all
from ...protocol.errors import ErrorCode
from ...protocol.schema import Struct
from .request import Request, Route
from .turns import Steps

logger = logging.getLogger("pybroker.broker.network.dispatcher")

# A handler takes up to twenty microseconds for each.
MAX_PART_ELEMENTS = 100
# The elements of a part if each may create or remove files: milliseconds.
FILES = 2
# Of the joined response: as many as MAX_RESPONSE_BYTES hold if they are small.
MAX_RESPONSE_ELEMENTS = 2_000_000


# Lists in a response that each part repeats.
_REPEATED = ("node_endpoints",)


def limit_of(route: Route) -> int:
    """The elements of a part."""
    return FILES if route.page.makes_files else MAX_PART_ELEMENTS


def place_to_cut(route: Route, body: Any) -> Elements | None:
    """The list at which to cut this request, or None if it is handled as a whole."""
    limit = limit_of(route)
    for place in route.places:
        if weight(getattr(body, place.asked[0]), place.asked[1:], limit) > limit:
            return place
    return None


def weight(items: Sequence[Any] | None, path: Sequence[str], limit: int = MAX_PART_ELEMENTS) -> int:
    """The number of elements in nested lists, counted until it is certain that they are many."""
    if not items:
        return 0
    total = len(items)
    if path:
        for item in items:
            if total > limit:
                break
            total += weight(getattr(item, path[0]), path[1:], limit)
    return total


def cut(
    items: Sequence[Any], path: Sequence[str], limit: int = MAX_PART_ELEMENTS
) -> Iterator[list[Any]]:
    """The same elements in lists of at most `limit`; a long inner list is cut, and its outer
    element repeated."""
    if not path:
        for start in range(0, len(items), limit):
            yield list(items[start : start + limit])
        return
    group: list[Any] = []
    total = 0
    for item in items:
        size = 1 + weight(getattr(item, path[0]), path[1:], limit)
        if group and total + size > limit:
            yield group
            group, total = [], 0
        if size > limit + 1:
            for inner in cut(getattr(item, path[0]), path[1:], limit):
                piece = copy(item)
                setattr(piece, path[0], inner)
                yield [piece]
        else:
            group.append(item)
            total += size
    if group:
        yield group


class InParts:
    """One request that is handled in parts."""

    def __init__(
        self, request: Request, place: Elements, perform: Callable[[Request], None]
    ) -> None:
        self._request = request
        self._place = place
        self._perform = perform
        self._joined: Any = None
        self._elements = 0
        self._is_over = False
        # The part that has no answer yet, and whether its answer continues with the next one.
        self._open: Request | None = None
        self._is_waiting = False
        self._seen: set[str] | None = set() if request.route.page.has_distinct_elements else None
        self._refusal: tuple[ErrorCode, str | None] | None = None
        items = getattr(request.body, place.asked[0])
        self._elements_to_cut = (items, place.asked[1:], limit_of(request.route))
        self._groups = cut(*self._elements_to_cut)

    def steps(self) -> Steps:
        """Perform parts until one has to wait; its answer continues with the next one."""
        request = self._request
        for group in self._groups:
            if self._refusal is not None:
                break
            items = group if self._seen is None else self._not_seen(self._seen, group)
            if items:
                part = self._open = self._part(items)
                self._perform(part)
                if self._open is not None:
                    self._is_waiting = True
                    return
            yield
            if self._is_over or request.connection.closed:
                return
        if self._refusal is not None:
            yield from self._refuse(*self._refusal)
            if self._is_over or request.connection.closed:
                return
        request.respond(self._joined)
        if self._seen is not None:
            yield from discard_all(self._seen)

    def _part(self, items: list[Any]) -> Request:
        whole = self._request
        body = copy(whole.body)
        setattr(body, self._place.asked[0], items)
        part = Request(
            whole.connection, whole.route, whole.correlation_id, whole.client_id, body, 0,
            whole.started_at,
        )  # fmt: skip
        part.whole = self
        part.meter = whole.meter
        return part

    @staticmethod
    def _not_seen(seen: set[str], names: list[str]) -> list[str]:
        new = [name for name in dict.fromkeys(names) if name not in seen]
        seen.update(new)
        return new

    def part_answered(self, response: Any) -> None:
        self._open = None
        if self._is_over:
            return
        if getattr(response, "error_code", 0):
            self._is_over = True
            self._request.respond(response)
            return
        self._add(response)
        if not self._is_over:
            self._go_on()

    def _go_on(self) -> None:
        """With the next part, if the last one had to wait."""
        if self._is_waiting:
            self._is_waiting = False
            self._request.route.turns.add(self.steps(), self._request.connection.fail)

    def _add(self, response: Any) -> None:
        """To the joined answer; closes the connection where that is too large."""
        if self._joined is None:
            self._joined = response
        elif response is not None:
            join(self._joined, response, self._place.answered)
        self._elements += _elements_of(response)
        if self._elements > MAX_RESPONSE_ELEMENTS:
            self._is_over = True
            logger.warning(
                "The answer to %r has more than %d elements; closing",
                self._request, MAX_RESPONSE_ELEMENTS,
            )  # fmt: skip
            self._request.close()

    def part_refused(self, part: Request, code: ErrorCode, message: str | None) -> bool:
        """An error that is said once names the elements of all parts, as Kafka does: nothing more
        is done. False if it is said at each element."""
        from ...protocol.failures import error_response

        if not getattr(error_response(part, code, message), "error_code", 0):
            return False
        self._open = None
        if not self._is_over and self._refusal is None:
            self._request.metrics.error(code.name)
            self._refusal = (code, message)
            self._go_on()
        return True

    def _refuse(self, code: ErrorCode, message: str | None) -> Steps:
        """The error once for all, and the elements of all parts, as if they had been one."""
        from ...protocol.failures import error_response

        self._joined, self._elements = None, 0
        for group in cut(*self._elements_to_cut):
            self._add(error_response(self._part(group), code, message))
            yield
            if self._is_over or self._request.connection.closed:
                return

    def part_failed(self) -> None:
        self._open = None
        if not self._is_over:
            self._is_over = True
            self._request.close()


def join(joined: Any, response: Any, path: Sequence[str]) -> None:
    """Append the elements of the lists of `response` to those of `joined`."""
    for field in type(response)._fields:
        if field.kind != "array":
            continue
        more = getattr(response, field.name)
        if not more:
            continue
        items = getattr(joined, field.name)
        if field.name in _REPEATED:
            items += [item for item in more if item not in items]
        elif path and field.name == path[0]:
            _continue(items, more, path[1:])
        else:
            items += more


def _continue(items: list[Any], more: list[Any], path: Sequence[str]) -> None:
    """The first of `more` may be the rest of the last of `items`."""
    if path and items and _is_rest(items[-1], more[0], path[0]):
        inner = getattr(more[0], path[0])
        if inner:
            _continue(getattr(items[-1], path[0]), inner, path[1:])
        more = more[1:]
    items += more


def _is_rest(last: Struct, first: Struct, inner: str) -> bool:
    """The same outer element: all is equal but the list that was cut."""
    return all(
        getattr(last, field.name) == getattr(first, field.name)
        for field in type(last)._fields
        if field.name != inner
    )


def _elements_of(message: Any) -> int:
    """All elements of all lists in a message."""
    total = 0
    for field in type(message)._fields if message is not None else ():
        if field.kind == "array":
            items = getattr(message, field.name) or ()
            total += len(items)
            if not isinstance(field.element, str):
                total += sum(map(_elements_of, items))
    return total
