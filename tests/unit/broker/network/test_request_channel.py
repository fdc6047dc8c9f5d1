"""Who is served first: connections whose requests have just come, then those that ask for more."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker_kafka.broker.network import request_handler_pool
from pybroker_kafka.broker.network.cold_reads import ColdReads
from pybroker_kafka.broker.network.memory_shortage import MemoryShortage
from pybroker_kafka.broker.network.receive_buffer import ReceiveMemory
from pybroker_kafka.broker.network.request_channel import RequestChannel
from pybroker_kafka.broker.network.request_handler_pool import BATCH_SECONDS, RequestHandlerPool
from tests.support.sources import needs_sources


class Served:
    """A pool whose turns take as long as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.names: list[str] = []
        self.sent: list[tuple[str, int]] = []  # whose answers, after how many were served
        self.channel = RequestChannel(8)
        handle_frame: Any = None
        memory = MemoryShortage(ReceiveMemory(), None, lambda: ())
        self.pool = RequestHandlerPool(self.channel, handle_frame, memory, ColdReads())
        self.now = 0.0
        monkeypatch.setattr(request_handler_pool, "perf_counter", lambda: self.now)

        def serve(
            _pool: RequestHandlerPool, connection: Any, _ends: float, to_flush: deque[Any]
        ) -> float:
            self.names.append(connection.name)
            self.now += seconds
            to_flush.append(connection)
            return self.now

        def flush(_pool: RequestHandlerPool, connection: Any) -> None:
            connection.last_active = self.now
            self.sent.append((connection.name, len(self.names)))

        monkeypatch.setattr(RequestHandlerPool, "_serve", serve)
        monkeypatch.setattr(RequestHandlerPool, "_flush", flush)

    def put(self, fresh: str, again: str) -> None:
        for names, put in ((fresh, self.channel.put), (again, self.channel.put_again)):
            for name in names:
                connection: Any = SimpleNamespace(
                    name=name,
                    closed=name.isupper(),
                    out=SimpleNamespace(blocked=False),
                    flush_queued=True,
                )
                put(connection)

    def batch(self) -> str:
        self.names.clear()
        self.sent.clear()
        self.pool.serve_batch()
        return "".join(self.names)


@needs_sources
def test_who_had_a_turn_stands_behind_who_had_none(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, 0.0)
    served.put("ab", "xy")
    assert len(served.channel) == 4
    served.put("cD", "zW")  # two of them are closed
    assert served.channel.full
    assert served.batch() == "abcxyz"
    assert served.sent == [("a", 3), ("b", 3), ("c", 3), ("x", 6), ("y", 6), ("z", 6)]
    assert len(served.channel) == 0


@needs_sources
def test_nobody_is_kept_out_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, 2 * BATCH_SECONDS)
    served.put("ab", "xy")
    assert served.batch() == "ax"
    assert served.sent == [("a", 1), ("x", 2)]
    served.put("c", "")
    assert served.batch() == "by"
    assert served.batch() == "c"


@needs_sources
def test_answers_of_who_has_just_come_do_not_wait_for_those_that_are_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    served = Served(monkeypatch, 0.6 * BATCH_SECONDS)
    served.put("", "xyz")
    assert served.batch() == "xy"
    assert served.sent == [("x", 2)]  # the answer of `y` is left
    served.put("a", "")
    assert served.batch() == "az"
    assert served.sent == [("a", 1), ("y", 2)]
