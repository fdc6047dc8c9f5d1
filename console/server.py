"""The console's web server: Hypercorn's trio worker with the application of `app`.

It listens on 127.0.0.1 alone. docs/decisions/console.md explains the choice and its cost.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from ..local.kept_objects import kept_objects
from .access import Access

if TYPE_CHECKING:
    from ..client.schemas import Registry
    from ..learn.course import Course

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
    facts = {
        "bootstrap": options.bootstrap,
        "may_write": options.may_write,
        "is_local": options.data_dir is not None,
        "has_registry": options.registry is not None,
        "has_course": options.course is not None,
    }
    with kept_objects():
        from ..client.cluster import Cluster
    async with Cluster(options.bootstrap, security=options.security) as cluster:
        announce(f"http://{HOST}:{port}/?token={access.token}")
        with kept_objects():
            from .collector import Collector
        collector = Collector(cluster, options.security, options.data_dir, facts,
                              options.registry, options.metrics)  # fmt: skip
        async with trio.open_nursery() as nursery:
            nursery.start_soon(collector.run)
            if options.course is not None:
                from .learn import tell_browsers

                nursery.start_soon(tell_browsers, options.course, collector.live)
            with kept_objects():
                from ..web import serve_web
                from .app import application
            app = application(access, collector, options.course)
            await serve_web(app, listener, logging.getLogger("pybroker.console.http"))
