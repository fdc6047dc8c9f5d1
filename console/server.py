"""The console's web server: Hypercorn's trio worker with the application of `app`.

It listens on 127.0.0.1 alone. docs/decisions/console.md explains the choice and its cost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from h11 import Request
import logging
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import trio

from ..client.cluster import Cluster
from ..client.schemas import Registry
from ..learn.course import Course
from .access import Access
from .app import application
from .collector import Collector
from .learn import tell_browsers
from .schemas import Schemas

HOST: Final = "127.0.0.1"
SECRET_BYTES: Final = 24
LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost")


class ConsoleOptions(NamedTuple):
    """The cluster and the port of a console. Port 0: any free one; `data_dir`: of a local
    cluster.
    """

    bootstrap: str
    security: dict[str, str]
    port: int
    data_dir: Path | None = None
    may_write: bool = False
    registry: Registry | None = None
    metrics: Mapping[int, tuple[str, int]] = {}  # by broker, where its metrics are
    course: Course | None = None  # whose pages it has, too


class CannotServe(Exception):
    """The console cannot be served; the text has the reason."""


async def serve_console(options: ConsoleOptions, announce: Callable[[str], None]) -> None:
    """Serve until cancelled; `announce` gets the address with its token. Raises CannotServe."""
    from hypercorn.config import Config
    from hypercorn.trio import serve

    try:
        (listener,) = await trio.open_tcp_listeners(options.port, host=HOST)
    except OSError as error:
        raise CannotServe(
            f"the console cannot be served on {HOST}:{options.port}: {error.strerror}; "
            "name another port"
        ) from error
    port = listener.socket.getsockname()[1]
    access = Access(
        hosts=tuple(f"{name}:{port}" for name in LOOPBACK_NAMES),
        cookie_name=f"pybroker-console-{port}",
        may_write=options.may_write,
        token=secrets.token_urlsafe(SECRET_BYTES),
        session=secrets.token_urlsafe(SECRET_BYTES),
    )
    config = Config()
    config.bind = [f"fd://{listener.socket.detach()}"]  # Hypercorn closes it
    config.graceful_timeout = 0.2
    config.include_server_header = False
    config.accesslog = None
    config.loglevel = "WARNING"
    config.errorlog = logging.getLogger("pybroker.console.http")
    config.h11_max_incomplete_size = 64 * 1024
    facts = {
        "bootstrap": options.bootstrap,
        "may_write": options.may_write,
        "is_local": options.data_dir is not None,
        "has_registry": options.registry is not None,
        "has_course": options.course is not None,
    }
    speak_http_1_only()
    async with Cluster(options.bootstrap, security=options.security) as cluster:
        collector = Collector(
            cluster,
            options.security,
            options.data_dir,
            facts,
            Schemas(options.registry),
            options.metrics,
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collector.run)
            if options.course is not None:
                nursery.start_soon(tell_browsers, options.course, collector.live)
            app = application(access, collector, options.course)
            await nursery.start(_serve, serve, app, config)
            announce(f"http://{HOST}:{port}/?token={access.token}")


async def _serve(
    serve: Any,
    app: Any,
    config: Any,
    *,
    task_status: trio.TaskStatus[Any] = trio.TASK_STATUS_IGNORED,
) -> None:
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
    others: `access` judges it, and the answer is HTTP/1.1 (RFC 9110, 7.8).
    """
    import hypercorn.protocol
    from hypercorn.protocol.h11 import H11Protocol

    class Http1Protocol(H11Protocol):
        async def _check_protocol(self, event: Request) -> None:
            """Overrides the place where Hypercorn changes the protocol."""

    vars(hypercorn.protocol)["H11Protocol"] = Http1Protocol
