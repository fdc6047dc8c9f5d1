"""`GET /metrics` for Prometheus, on `--metrics-host` and `--metrics-port` (off by default), and
`GET /inside/...` for the console: what waits, files, look-ups, as JSON.

One short-lived connection a scrape, on the server's own loop, in slices: see `exposition`.
At most MAX_CONNECTIONS are open: who comes next takes the place of the oldest, so that connections
which never send a request, or never read the answer, keep no scrape waiting.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from urllib.parse import parse_qsl, urlsplit

import trio

from .exposition import Exported, exposition

AnswerInside = Callable[[str, Mapping[str, str]], Awaitable[object]]
INSIDE = "/inside/"

logger = logging.getLogger("pybroker.broker.observability.metrics")

MAX_REQUEST_BYTES = 16 * 1024
REQUEST_TIMEOUT_SECONDS = 5
RESPONSE_TIMEOUT_SECONDS = 10
MAX_CONNECTIONS = 16
DEFAULT_HOST = "127.0.0.1"


async def serve_metrics(
    metrics: Exported,
    port: int,
    *,
    host: str = DEFAULT_HOST,
    inside: AnswerInside | None = None,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; reports the bound port. ``inside`` raises LookupError for what cannot
    be told."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.gc_collector import GCCollector
    from prometheus_client.process_collector import ProcessCollector

    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    render = partial(exposition, metrics, registry)
    open_now: dict[object, trio.CancelScope] = {}  # the oldest first

    async def answer(stream: trio.SocketStream) -> None:
        if len(open_now) >= MAX_CONNECTIONS:
            open_now.pop(next(iter(open_now))).cancel()
        with trio.CancelScope() as scope:
            open_now[stream] = scope
            try:
                async with stream:
                    await _answer(stream, render, inside)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
            finally:
                open_now.pop(stream, None)

    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise OSError(
            error.errno, f"metrics cannot be served on {host}:{port}: {error.strerror}"
        ) from error
    bound: int = listeners[0].socket.getsockname()[1]
    logger.info("Metrics on http://%s:%d/metrics", host, bound)
    await trio.serve_listeners(answer, listeners, task_status=_PortStatus(task_status, bound))


class _PortStatus(trio.TaskStatus[list[trio.SocketListener]]):
    """Reports the port where `serve_listeners` would report its listeners."""

    def __init__(self, outer: trio.TaskStatus[int], port: int) -> None:
        self._outer = outer
        self._port = port

    def started(self, value: object = None) -> None:
        self._outer.started(self._port)


Render = Callable[[], AsyncIterator[bytes]]


async def _answer(stream: trio.SocketStream, render: Render, inside: AnswerInside | None) -> None:
    """One request and its response, each in its time."""
    target = None
    with trio.move_on_after(REQUEST_TIMEOUT_SECONDS):
        target = await _request_target(stream)
    if target is not None:
        with trio.move_on_after(RESPONSE_TIMEOUT_SECONDS):
            await stream.send_all(await _response(target, render, inside))


async def _request_target(stream: trio.SocketStream) -> str | None:
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = await stream.receive_some(4096)
        received += chunk
        if not chunk or len(received) > MAX_REQUEST_BYTES:
            return None
    words = received.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    return words[1] if len(words) == 3 and words[0] in ("GET", "HEAD") else ""


async def _response(target: str, render: Render, inside: AnswerInside | None) -> bytes:
    asked = urlsplit(target)
    if asked.path.startswith(INSIDE) and inside is not None:
        status, kind = "200 OK", "application/json"
        try:
            found = await inside(asked.path.removeprefix(INSIDE), dict(parse_qsl(asked.query)))
        except LookupError as error:
            status, found = "400 Bad Request", {"error": str(error)}
        body = json.dumps(found).encode()
    elif target.split("?", 1)[0] in ("/metrics", "/"):
        status, kind = "200 OK", "text/plain; version=0.0.4; charset=utf-8"
        body = b"".join([piece async for piece in render()])
    else:
        status, kind, body = "404 Not Found", "text/plain", b"Try /metrics.\n"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
