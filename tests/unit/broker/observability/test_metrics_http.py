"""The metrics port: whom it listens to, and that half-open and slow scrapes keep nobody waiting."""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.observability import metrics_http
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.broker.observability.metrics_http import MAX_CONNECTIONS, serve_metrics
from pybroker_kafka.cli.cluster import start
from pybroker_kafka.cli.server import broker
from pybroker_kafka.local.cluster_spec import ClusterSpec
from tests.support.patience import fair

PATIENCE_SECONDS = 120
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n"


async def scrape(port: int) -> bytes:
    answer = b""
    with trio.fail_after(PATIENCE_SECONDS):
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(SCRAPE)
            async for chunk in stream:
                answer += chunk
    return answer


async def is_closed(stream: trio.SocketStream) -> bool:
    with trio.fail_after(PATIENCE_SECONDS):
        try:
            return not await stream.receive_some()
        except trio.BrokenResourceError:
            return True


def test_only_this_machine_is_served_unless_told_otherwise() -> None:
    assert inspect.signature(serve_metrics).parameters["host"].default == "127.0.0.1"
    for command in (start, broker):
        hosts = [option.default for option in command.params if option.name == "metrics_host"]
        assert hosts == ["127.0.0.1"], command.name
    assert ClusterSpec(Path(), first_metrics_port=7000).metrics_address(3) == ("127.0.0.1", 7002)


async def test_half_open_scrapes_keep_nobody_waiting() -> None:
    """Ten times as many as there is room for: whoever asks is answered at once, the oldest go."""
    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve_metrics, BrokerMetrics(), 0)
        half_open = []
        for _ in range(10 * MAX_CONNECTIONS):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(b"GET /met")
            half_open.append(stream)
        for _ in range(3):
            started = fair.now()
            assert (await scrape(port)).startswith(b"HTTP/1.1 200 OK")
            assert fair.now() - started < 1
        assert await is_closed(half_open[0])
        for stream in half_open:
            await stream.aclose()
        nursery.cancel_scope.cancel()


async def test_open_files_are_counted_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    listed_by = []
    listdir = os.listdir

    def noted(path: str) -> list[str]:
        listed_by.append(threading.get_ident())
        return listdir(path)

    monkeypatch.setattr(os, "listdir", noted)
    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve_metrics, BrokerMetrics(), 0)
        assert b"\nprocess_open_fds " in await scrape(port)
        nursery.cancel_scope.cancel()
    assert listed_by
    assert threading.get_ident() not in listed_by


async def test_a_scrape_that_never_ends_its_request_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_http, "REQUEST_TIMEOUT_SECONDS", 0.05)
    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve_metrics, BrokerMetrics(), 0)
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET /metrics HTTP/1.1\r\n")
            assert await is_closed(stream)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "request_line", [b"GET /metrics HTTP/1.1", b"GET /inside/any HTTP/1.1\r\nHost: localhost"]
)
async def test_a_request_that_fails_for_a_reason_of_ours_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, request_line: bytes
) -> None:
    async def no_json(*_arguments: object) -> object:
        return object()

    async with trio.open_nursery() as nursery:
        port = await nursery.start(partial(serve_metrics, BrokerMetrics(), 0, inside=no_json))
        with monkeypatch.context() as broken, trio.fail_after(PATIENCE_SECONDS):
            broken.setattr(metrics_http, "_response", _failing_render(metrics_http._response))
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(request_line + b"\r\n\r\n")
                answer = await stream.receive_some()
        assert not answer.startswith(b"HTTP/1.1 200")
        assert (await scrape(port)).startswith(b"HTTP/1.1 200 OK")
        nursery.cancel_scope.cancel()


def _failing_render(response: Any) -> Any:
    async def fails() -> AsyncIterator[bytes]:
        raise KeyError("a defect")
        yield b""

    async def with_it(asked: Any, _render: Any, inside: Any) -> Any:
        return await response(asked, fails, inside)

    return with_it


async def test_a_port_in_use_is_said_with_its_address() -> None:
    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve_metrics, BrokerMetrics(), 0)
        with pytest.raises(OSError, match=f"metrics cannot be served on 127.0.0.1:{port}"):
            await serve_metrics(BrokerMetrics(), port)
        nursery.cancel_scope.cancel()
