"""`GET /metrics` for Prometheus, on `--metrics-host` and `--metrics-port` (off by default), and
`GET /inside/...` for the console: waiting operations, files, look-ups, as JSON.

One short-lived connection a scrape, on the server's own loop, in slices: see `exposition`.
At most MAX_CONNECTIONS are open: a further connection replaces the oldest, so that connections
which never send a request, or never read the answer, keep no scrape waiting.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import parse_qsl

import trio

from .exposition import Exported, exposition


class ViewUnavailable(Exception):
    """A question about the inside is wrong, or must not be answered; its text says why."""


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
    """Serve until cancelled; reports the bound port. ``inside`` raises ViewUnavailable."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.gc_collector import GCCollector
    from prometheus_client.process_collector import ProcessCollector

    registry = CollectorRegistry()
    registry.register(metrics)
    GCCollector(registry=registry)
    process = CollectorRegistry()
    ProcessCollector(registry=process)
    render = partial(exposition, metrics, registry, in_thread=process)
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
            except Exception:  # of one scrape: the broker continues
                logger.exception("A request for metrics failed")
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


class _Asked(NamedTuple):
    path: str
    query: str
    host: str  # as the Host header names it, without a port


async def _answer(stream: trio.SocketStream, render: Render, inside: AnswerInside | None) -> None:
    """One request and its response, each in its time."""
    asked = None
    with trio.move_on_after(REQUEST_TIMEOUT_SECONDS):
        asked = await _request(stream)
    if asked is not None:
        with trio.move_on_after(RESPONSE_TIMEOUT_SECONDS):
            await stream.send_all(await _response(asked, render, inside))


async def _request(stream: trio.SocketStream) -> _Asked | None:
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = await stream.receive_some(4096)
        received += chunk
        if not chunk or len(received) > MAX_REQUEST_BYTES:
            return None
    first, *headers = received.decode("latin-1").split("\r\n")
    words = first.split(" ")
    target = words[1] if len(words) == 3 and words[0] in ("GET", "HEAD") else ""
    path, _, query = target.partition("?")
    hosts = [line[5:].strip() for line in headers if line[:5].lower() == "host:"]
    return _Asked(path, query, _without_port(hosts[0]) if hosts else "")


def _without_port(host: str) -> str:
    """`[::1]:80` is `::1`, `localhost:80` is `localhost`."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


async def _response(asked: _Asked, render: Render, inside: AnswerInside | None) -> bytes:
    if asked.path.startswith(INSIDE) and inside is not None:
        kind = "application/json"
        status, body = await _inside(asked, inside)
    elif asked.path in ("/metrics", "/"):
        status, kind = "200 OK", "text/plain; version=0.0.4; charset=utf-8"
        body = b"".join([piece async for piece in render()])
    else:
        status, kind, body = "404 Not Found", "text/plain", b"Try /metrics.\n"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


async def _inside(asked: _Asked, inside: AnswerInside) -> tuple[str, bytes]:
    """Status and JSON. A failing answer affects nothing else."""
    try:
        if not _is_address(asked.host):
            raise ViewUnavailable(
                "use an IP address in the URL, not a name: a name can be made to point anywhere"
            )
        found = await inside(asked.path.removeprefix(INSIDE), dict(parse_qsl(asked.query)))
        body = json.dumps(found).encode()
    except ViewUnavailable as error:
        return "400 Bad Request", json.dumps({"error": str(error)}).encode()
    except Exception:
        logger.exception("The broker could not show its inside")
        return "500 Internal Server Error", json.dumps({"error": "it failed; see the log"}).encode()
    return "200 OK", body


def _is_address(host: str) -> bool:
    """Whether a host is an address: a page of another site cannot claim one (DNS rebinding)."""
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True
