"""`GET /metrics` for Prometheus, on the port given by `--metrics-port` (off by default).

One short-lived connection a scrape, on the broker's own loop: a scrape sees one consistent moment.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from .metrics import BrokerMetrics

log = logging.getLogger("broker.metrics")

MAX_REQUEST_BYTES = 16 * 1024
REQUEST_TIMEOUT_SECONDS = 10
MAX_SCRAPES_AT_ONCE = 16


async def serve_metrics(
    metrics: BrokerMetrics,
    port: int,
    *,
    host: str = "0.0.0.0",
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; reports the bound port."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest
    from prometheus_client.gc_collector import GCCollector
    from prometheus_client.process_collector import ProcessCollector

    registry = CollectorRegistry()
    registry.register(metrics)
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    limiter = trio.CapacityLimiter(MAX_SCRAPES_AT_ONCE)

    async def answer(stream: trio.SocketStream) -> None:
        async with limiter, stream:
            with trio.move_on_after(REQUEST_TIMEOUT_SECONDS):
                try:
                    target = await _request_target(stream)
                    if target is not None:
                        await stream.send_all(_response(target, lambda: generate_latest(registry)))
                except (trio.BrokenResourceError, trio.ClosedResourceError):
                    pass

    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise OSError(
            error.errno, f"metrics cannot be served on port {port}: {error.strerror}"
        ) from error
    bound: int = listeners[0].socket.getsockname()[1]
    log.info("Metrics on http://%s:%d/metrics", host, bound)
    await trio.serve_listeners(answer, listeners, task_status=_PortStatus(task_status, bound))


class _PortStatus(trio.TaskStatus[list[trio.SocketListener]]):
    """Reports the port where `serve_listeners` would report its listeners."""

    def __init__(self, outer: trio.TaskStatus[int], port: int) -> None:
        self._outer = outer
        self._port = port

    def started(self, value: object = None) -> None:
        self._outer.started(self._port)


async def _request_target(stream: trio.SocketStream) -> str | None:
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = await stream.receive_some(4096)
        received += chunk
        if not chunk or len(received) > MAX_REQUEST_BYTES:
            return None
    words = received.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    return words[1] if len(words) == 3 and words[0] in ("GET", "HEAD") else ""


def _response(target: str, render: object) -> bytes:
    assert callable(render)
    if target.split("?", 1)[0] in ("/metrics", "/"):
        status, kind, body = "200 OK", "text/plain; version=0.0.4; charset=utf-8", render()
    else:
        status, kind, body = "404 Not Found", "text/plain", b"Try /metrics.\n"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + bytes(body)
