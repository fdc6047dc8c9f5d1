"""What a page asks for, checked: the fields of a JSON body and of a query."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.requests import Request

BODY_MAX_BYTES: Final = 16 * 1024 * 1024
NUMBER_CHARACTERS_MAX: Final = 20  # of 64 bits


class Wrong(Exception):
    """A page, or whoever plays one, asks for what cannot be; its text says why."""


async def body_of(request: Request) -> dict[str, Any]:
    """Raises Wrong."""
    received = bytearray()
    async for chunk in request.stream():
        received += chunk
        if len(received) > BODY_MAX_BYTES:
            raise Wrong(f"at most {BODY_MAX_BYTES} bytes can be sent")
    try:
        found = json.loads(bytes(received))
    except ValueError:
        raise Wrong("what was sent is not JSON") from None
    if not isinstance(found, dict):
        raise Wrong("what was sent is not a JSON object")
    return found


def text(found: dict[str, Any], name: str, default: str | None = None) -> str:
    """Raises Wrong."""
    value = found.get(name, default)
    if not isinstance(value, str):
        raise Wrong(f"{name} is a text")
    return value


def optional_text(found: dict[str, Any], name: str) -> str | None:
    """None if there is none. Raises Wrong."""
    return None if found.get(name) is None else text(found, name)


def number(found: dict[str, Any], name: str, default: int | None = None) -> int:
    """Raises Wrong."""
    value = found.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**63:
        raise Wrong(f"{name} is a whole number")
    return value


def whole(given: str) -> int:
    """A number out of a query. Raises Wrong."""
    if not given.removeprefix("-").isdecimal() or len(given) > NUMBER_CHARACTERS_MAX:
        raise Wrong(f"{given!r} is not a whole number")
    return int(given)
