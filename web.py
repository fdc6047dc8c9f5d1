"""The web server of the console and of the registry: Hypercorn's trio worker on a bound socket.

It speaks HTTP/1.1 alone. docs/decisions/console.md explains the choice and its cost.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import trio

if TYPE_CHECKING:
    from h11 import Request

MAX_HEAD_BYTES: Final = 64 * 1024  # of a request
GRACE_SECONDS: Final = 0.2  # for requests under way at the end


async def serve_web(
    app: Any,
    listener: trio.SocketListener,
    log: logging.Logger,
    certificate: Path | None = None,
    key: Path | None = None,
    *,
    task_status: trio.TaskStatus[Any] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the application until cancelled; with a certificate and its key (PEM) by TLS."""
    from hypercorn.config import Config
    from hypercorn.trio import serve

    config = Config()
    config.bind = [f"fd://{listener.socket.detach()}"]  # Hypercorn closes it
    config.graceful_timeout = GRACE_SECONDS
    config.include_server_header = False
    config.accesslog = None
    config.loglevel = "WARNING"
    config.errorlog = log
    config.h11_max_incomplete_size = MAX_HEAD_BYTES
    config.alpn_protocols = ["http/1.1"]
    if certificate is not None:
        config.certfile, config.keyfile = str(certificate), str(key or certificate)
    speak_http_1_only()
    await serve(
        cast(Any, app),
        config,
        shutdown_trigger=trio.sleep_forever,
        task_status=task_status,
        mode="asgi",
    )


def speak_http_1_only() -> None:
    """Switch HTTP/2 off in all of Hypercorn's servers in this process: it has no option for it.

    Hypercorn switches to HTTP/2 on request (`Upgrade: h2c`, or the first bytes of HTTP/2), before
    any check that the client is allowed here. So a request for another protocol is a request like
    others: the application judges it, and the answer is HTTP/1.1 (RFC 9110, 7.8).
    """
    import hypercorn.protocol
    from hypercorn.protocol.h11 import H11Protocol

    class Http1Protocol(H11Protocol):
        async def _check_protocol(self, event: Request) -> None:
            """Overrides the place where Hypercorn changes the protocol."""

    vars(hypercorn.protocol)["H11Protocol"] = Http1Protocol
