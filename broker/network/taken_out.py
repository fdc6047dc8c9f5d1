"""Elements that are taken out of a request and answered with an error beside the others.

Job: `take_out`. The answer of the handler gets the errors of the elements that it did not see.
Invariants: the message of the request is copied, because another request may be read into it; an
error of the request as a whole replaces its elements, and theirs.

Mirrors the responses that KafkaApis merges: unauthorized and unknown topics beside the others.
"""

from __future__ import annotations

from collections.abc import Generator
from copy import copy
from typing import Any, NamedTuple

from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode
from ...protocol.failures import error_elements
from .request import CLOSE, Request
from .request_parts import join


def take_out(
    request: Request,
    elements: str,
    kept: list[Any],
    taken: list[Any],
    code: ErrorCode,
    *,
    goes_on: bool = False,
) -> bool:
    """Answer the `taken` ones of a list of the request with `code`, together with the answer to the
    `kept` ones. False: none are kept and the request is answered, unless it `goes_on`."""
    body = copy(request.body)
    setattr(body, elements, taken)
    errors = error_elements(_Taken(request.api_key, request.api_version, body), code)
    request.metrics.error(code.name)
    if not kept and not goes_on:
        if errors is None:
            request.close()
        else:
            request.respond(errors)
        return False
    body = copy(request.body)
    setattr(body, elements, kept)
    request.body = body
    request.add_filter(ErrorsOfTaken(errors))
    return True


class _Taken(NamedTuple):
    """The elements removed from a request, for the builders of error responses."""

    api_key: ApiKey
    api_version: int
    body: Any


class ErrorsOfTaken:
    """The answer gets the errors of the elements that were taken out of its request."""

    __slots__ = ("_errors",)

    def __init__(self, errors: Any) -> None:
        """`errors` is None where a failure has no answer: Produce with acks=0."""
        self._errors = errors

    def filtered(self, request: Request, response: Any) -> Generator[None, None, Any]:
        if response is None or self._errors is None:
            return CLOSE
        if not getattr(response, "error_code", ErrorCode.NONE):
            join(response, self._errors, ())
        yield
        return response
