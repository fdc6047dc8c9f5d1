"""Many clients that go at once do not hold the loop: closing them takes turns with others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pybroker_kafka.broker.network import processor, request_handler_pool, socket_server
from pybroker_kafka.broker.network.cold_reads import ColdReads
from pybroker_kafka.broker.network.connection import Connection
from pybroker_kafka.broker.network.memory_shortage import MemoryShortage
from pybroker_kafka.broker.network.processor import ROUND_SECONDS
from pybroker_kafka.broker.network.receive_buffer import ReceiveMemory
from pybroker_kafka.broker.network.request_channel import RequestChannel
from pybroker_kafka.broker.network.request_handler_pool import BATCH_SECONDS, RequestHandlerPool
from tests.support.network import running_network
from tests.support.sources import needs_sources

COUNT = 40
CLOSING_SECONDS = 0.001


class Now:
    """A clock that goes on while a connection is closed, and then only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        for module in (processor, request_handler_pool, socket_server):
            monkeypatch.setattr(module, "perf_counter", lambda: self.seconds)

    def close(self, connection: Any) -> None:
        connection.closed = True
        self.seconds += CLOSING_SECONDS


@needs_sources
def test_those_who_have_reset_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their answers cannot be sent, which closes them."""
    now = Now(monkeypatch)
    handle_frame: Any = None
    memory = MemoryShortage(ReceiveMemory(), None, lambda: ())
    pool = RequestHandlerPool(RequestChannel(8), handle_frame, memory, ColdReads())
    monkeypatch.setattr(
        RequestHandlerPool, "_flush", lambda _pool, connection: now.close(connection)
    )
    for _ in range(COUNT):
        out = SimpleNamespace(blocked=False)
        connection: Any = SimpleNamespace(closed=False, last_active=0.0, out=out)
        pool.answered(connection)
    batches = 0
    while pool.has_work:
        began = now.seconds
        pool.serve_batch()
        assert now.seconds - began <= BATCH_SECONDS + 1.5 * CLOSING_SECONDS
        batches += 1
    assert batches >= COUNT * CLOSING_SECONDS / (BATCH_SECONDS + CLOSING_SECONDS)


@needs_sources
async def test_those_who_are_idle_for_as_long_as_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_network() as network:
        clients = [await network.connect() for _ in range(COUNT)]
        await network.wait_for_connections(COUNT)
        now = Now(monkeypatch)
        close = Connection.close

        def slowly(connection: Connection, reason: str | None = None) -> None:
            close(connection, reason)
            now.close(connection)

        monkeypatch.setattr(Connection, "close", slowly)
        began = now.seconds
        for each in network.server.processors:
            for _ in each.sweep(1e9, 600.0):
                assert now.seconds - began <= ROUND_SECONDS + 1.5 * CLOSING_SECONDS
                began = now.seconds
        assert network.connections == 0
        for client in clients:
            assert await client.is_closed()
