"""The console's web server with nothing behind it: whom it refuses, and what it calls wrong."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
import trio

from pybroker_kafka.console.access import Access
from pybroker_kafka.console.app import application
from pybroker_kafka.console.asked import Wrong
from pybroker_kafka.web import serve_web

PATIENCE_SECONDS = 10
DEEP = "[" * 100_000
H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
UPGRADES = [
    b"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    H2_PREFACE,
]  # fmt: skip


class Nothing:
    """A collector that has seen no cluster."""

    class shared:  # noqa: N801
        @staticmethod
        def forget() -> None: ...

    view = type("View", (), {"topics": {}})

    async def partitions(self, _topic: str) -> tuple[None, ...]:
        return (None,)

    def metrics_ports(self) -> dict[int, Any]:
        return {}

    def __getattr__(self, name: str) -> Any:
        if name in ("schemas", "admin", "cluster"):
            return self
        if name in ("records", "topics", "offsets"):
            return self
        raise Wrong("reached the cluster")

    def __call__(self, *_arguments: object, **_options: object) -> Any:
        raise Wrong("reached the cluster")


class Served(NamedTuple):
    """Where, and with which cookie."""

    port: int
    cookie: str

    async def say(self, request: bytes) -> bytes:
        answer = b""
        with trio.fail_after(PATIENCE_SECONDS):
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as stream:
                await stream.send_all(request.replace(b"{host}", b"127.0.0.1:%d" % self.port))
                with trio.move_on_after(0.5):
                    async for chunk in stream:
                        answer += chunk
        return answer

    async def ask(self, method: str, path: str, body: bytes = b"") -> int:
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {{host}}\r\nConnection: close\r\n"
            f"Cookie: {self.cookie}\r\nOrigin: http://{{host}}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        answer = await self.say(head.encode() + body)
        return int(answer.split(b" ")[1])


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    access = Access([f"127.0.0.1:{port}"], "cookie", may_write=True, token="t", session="s")
    collector: Any = Nothing()
    log = logging.getLogger(__name__)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve_web, application(access, collector), listener, log)
        yield Served(port, "cookie=s")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("request_bytes", UPGRADES)
async def test_no_other_protocol_before_the_token(request_bytes: bytes) -> None:
    async with served() as console:
        answer = await console.say(request_bytes)
        assert answer.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 403 ", b"HTTP/1.1 421 ")), answer
        assert b" 101 " not in answer
        assert await console.ask("GET", "/") == 200


def queries() -> Iterable[str]:
    huge, digits = "9" * 20, "9" * 5000
    for number in (huge, digits, "-" + huge, "1e5", "٣" * 30, "²"):
        written = quote(number)
        yield f"/api/messages?topic=t&partition={written}"
        yield f"/api/messages?topic=t&limit={written}"
        yield f"/api/content?topic=t&partition={written}&offset=0"
        yield f"/api/content?topic=t&partition=0&offset={written}"
        yield f"/api/inside?view=files&broker={written}"
        yield f"/api/replicas?topic=t&partition={written}"
        yield f"/api/hanging?minutes={written}"
        yield f"/api/producers?topic=t&partition={written}"
    yield f"/api/messages?topic=t&where={quote('.'.join(['value'] + ['a'] * 400))}"
    yield f"/api/messages?topic=t&where={quote('not ' * 200 + 'key')}"
    yield f"/api/messages?topic=t&where={quote('(' * 400 + 'key' + ')' * 400)}"
    yield f"/api/hanging?minutes={2**62}"


BODIES = [
    DEEP.encode(), b'{"do": ' + DEEP.encode(), b'{"name": "\\ud800", "do": "delete"}',
    b'{"name": "t", "do": "create", "partitions": 2147483648}',
    b'{"name": "t", "do": "create", "partitions": 1, "replication_factor": 40000}',
    b'{"name": "t", "do": "partitions", "total": 4294967296}',
    b'{"name": "t", "do": "partitions", "total": ' + b"9" * 5000 + b"}",
    b'{"name": "t", "do": "delete-records", "partition": 4294967296, "before": 1}',
    b'{"name": "t", "do": "create", "configs": {"a": "\\udc00"}}', b"[]", b"", b"\xff",
]  # fmt: skip


async def test_what_cannot_be_meant_is_wrong(caplog: pytest.LogCaptureFixture) -> None:
    async with served() as console:
        for path in queries():
            assert await console.ask("GET", path) == 400, path[:100]
        for body in BODIES:
            assert await console.ask("POST", "/api/topics/order", body) == 400, body[:100]
    assert "Traceback" not in caplog.text
