"""The requests of a page, checked: the fields of a JSON body and of a query."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from starlette.requests import Request

BODY_MAX_BYTES: Final = 16 * 1024 * 1024
NUMBER_CHARACTERS_MAX: Final = 20  # of 64 bits
NUMBER_BITS: Final = 63  # beside the sign
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")  # in JSON


class Wrong(Exception):
    """A request, from a page or an impostor, is invalid; the text says why."""


async def body_of(request: Request) -> dict[str, Any]:
    """Raises Wrong."""
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > BODY_MAX_BYTES:
            raise Wrong(f"at most {BODY_MAX_BYTES} bytes can be sent")
    try:
        found = json.loads(bytes(received))
        if _SURROGATE.search(received):
            json.dumps(found, ensure_ascii=False).encode()  # halves of pairs are no text
    except (ValueError, RecursionError):
        raise Wrong("the body is not JSON, or nested too deep") from None
    if not isinstance(found, dict):
        raise Wrong("the body is not a JSON object")
    return found


def text(found: dict[str, Any], name: str, default: str | None = None) -> str:
    """Raises Wrong."""
    value = found.get(name, default)
    if not isinstance(value, str):
        raise Wrong(f"{name} is a text")
    return value


def optional_text(found: dict[str, Any], name: str) -> str | None:
    """A text; None if the field is missing. Raises Wrong."""
    return None if found.get(name) is None else text(found, name)


def number(
    found: dict[str, Any], name: str, default: int | None = None, *, bits: int = NUMBER_BITS
) -> int:
    """A whole number that fits into so many bits beside its sign. Raises Wrong."""
    value = found.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 1 << bits:
        raise Wrong(f"{name} is a whole number of up to {bits + 1} bits")
    return value


def whole(given: str) -> int:
    """A number of 64 bits out of a query. Raises Wrong."""
    if given.removeprefix("-").isdecimal() and len(given) <= NUMBER_CHARACTERS_MAX:
        value = int(given)
        if abs(value) < 1 << NUMBER_BITS:
            return value
    raise Wrong(f"{given[:NUMBER_CHARACTERS_MAX]!r} is not a whole number of 64 bits")
