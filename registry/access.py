"""Logins of clients: HTTP's basic scheme, with a file of users.

A line of the file is `NAME:PASSWORD`; empty ones, and those with `#`, do not count. Passwords are
compared in constant time. Without a file everybody may do everything.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from pathlib import Path
from typing import Final

CHALLENGE: Final = 'Basic realm="SchemaRegistry"'


class BadUsers(Exception):
    """A file of users that cannot be used; the message says why."""


def read_users(path: Path) -> dict[str, bytes]:
    """Passwords by name. Raises BadUsers."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise BadUsers(f"{path} cannot be read: {reason}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, separator, password = line.partition(":")
        if not separator or not name.strip() or not password.strip():
            raise BadUsers(f"{path}, line {number}, is not NAME:PASSWORD")
        found[name.strip()] = password.strip().encode()
    if not found:
        raise BadUsers(f"{path} has no users")
    return found


def is_allowed(users: Mapping[str, bytes], authorization: str) -> bool:
    """Whether the header of a request has a name and its password."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        name, _, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        expected = users.get(name.decode())
    except (binascii.Error, ValueError):
        return False
    is_equal = hmac.compare_digest(password, expected if expected is not None else b"\0")
    return is_equal and expected is not None
