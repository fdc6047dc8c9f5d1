"""HTTP/1.1 alone: Hypercorn switches to HTTP/2 on request (`Upgrade: h2c`, or the first bytes of
HTTP/2), before any check that the client is allowed here.

Invariant: a request for another protocol is a request like others: `access` judges it, and the
answer is HTTP/1.1 (RFC 9110, 7.8: a server may ignore Upgrade).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from h11 import Request


def speak_http_1_only() -> None:
    """Switch HTTP/2 off in all of Hypercorn's servers in this process: it has no option for it."""
    import hypercorn.protocol
    from hypercorn.protocol.h11 import H11Protocol

    class Http1Protocol(H11Protocol):
        async def _check_protocol(self, event: Request) -> None:
            """Overrides the place where Hypercorn changes the protocol."""

    vars(hypercorn.protocol)["H11Protocol"] = Http1Protocol
