"""Writes that arrive at a secondary go on to the primary, with the client's login.

Limits: FORWARD_SECONDS. Mirrors: the forwarding by RestService.
"""

from __future__ import annotations

import http.client
import ssl
from typing import Final, NamedTuple

from .calls import MAX_BODY_BYTES
from .election import Identity
from .errors import forwarding_failed

FORWARD_SECONDS: Final = 60.0
FORWARDED: Final = "x-forward"
HEADERS: Final = ("authorization", "content-type", "accept")
MAX_ANSWER_BYTES: Final = 2 * MAX_BODY_BYTES


class Forwarded(NamedTuple):
    """The answer of the primary."""

    status: int
    content_type: str
    body: bytes


class Sent(NamedTuple):
    """A request to forward; the target is path and query."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


def forward(primary: Identity, sent: Sent, tls: ssl.SSLContext | None) -> Forwarded:
    """Send a request on, and wait for its answer, in a thread. Raises Rejected."""
    host, port = primary.host, primary.port
    connection = http.client.HTTPConnection(host, port, timeout=FORWARD_SECONDS)
    if primary.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=FORWARD_SECONDS, context=tls)
    try:
        headers = {**sent.headers, FORWARDED: "true"}
        connection.request(sent.method, sent.target, sent.body or None, headers)
        answer = connection.getresponse()
        content = answer.read(MAX_ANSWER_BYTES)
        return Forwarded(answer.status, answer.headers.get("content-type", ""), content)
    except (OSError, http.client.HTTPException) as error:
        text = f"{primary.url} does not answer: {error or type(error).__name__}"
        raise forwarding_failed(text) from None
    finally:
        connection.close()
