"""Access to the console: only its own pages, in a browser that has the token; pure.

The address that is printed has a token. A browser that brings it gets a cookie and is redirected to
the page itself, so that the token leaves the address bar. The cookie is SameSite=Strict and
HttpOnly.

Invariants: a request under a Host other than the console's own is refused (a name that a stranger's
DNS has bound to 127.0.0.1 gets nothing); a request from another site's page is refused, whatever it
carries; a change comes by POST from our own page, as JSON, and only where writing is allowed.
Mirrors: the token of Jupyter's server; Fetch Metadata's resource isolation policy.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final, NamedTuple

OWN_SITES: Final = ("same-origin", "none")  # none: typed, or opened from a terminal
READ_METHODS: Final = ("GET", "HEAD")


class Asked(NamedTuple):
    """The parts of a request that decide its access; header names are in lower case."""

    method: str
    headers: Mapping[str, str]
    token: str | None = None


class Denied(NamedTuple):
    """An HTTP status, and a line with the reason."""

    status: int
    why: str


@dataclass(frozen=True)
class Access:
    """`hosts`: the valid Host headers. The two secrets are never shown."""

    hosts: Collection[str]
    cookie_name: str
    may_write: bool
    token: str = field(repr=False)
    session: str = field(repr=False)

    def refusal(self, asked: Asked) -> Denied | None:
        """Why this request is refused; None if it is not. A request with the token is accepted."""
        stranger = self._stranger(asked)
        if stranger is not None:
            return stranger
        if not self._is_known(asked) and not self.brings_token(asked):
            return Denied(401, "open the address that pybroker printed: the token is in it")
        if asked.method in READ_METHODS:
            return None
        if asked.headers.get("origin") not in self._origins():
            return Denied(403, "only the console's own pages may change anything")
        if asked.headers.get("content-type", "").split(";")[0] != "application/json":
            return Denied(415, "the body must be JSON")
        if not self.may_write:
            return Denied(403, "this console only reads: start it with --console-write")
        return None

    def _stranger(self, asked: Asked) -> Denied | None:
        headers = asked.headers
        if headers.get("host") not in self.hosts:
            return Denied(421, "the console is not known by this name")
        if headers.get("sec-fetch-site", "none") not in OWN_SITES:
            is_visit = headers.get("sec-fetch-mode") == "navigate" and asked.method == "GET"
            if not is_visit:
                return Denied(403, "asked by another site")
        if headers.get("origin", "") not in ("", *self._origins()):
            return Denied(403, "asked by another site")
        return None

    def brings_token(self, asked: Asked) -> bool:
        """Whether the request brings the token, to get the cookie for it."""
        return asked.method == "GET" and _same(asked.token or "", self.token)

    def _is_known(self, asked: Asked) -> bool:
        try:
            found = SimpleCookie(asked.headers.get("cookie", "")).get(self.cookie_name)
        except CookieError:
            return False
        return found is not None and _same(found.value, self.session)

    def _origins(self) -> list[str]:
        return [f"http://{host}" for host in self.hosts]


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
