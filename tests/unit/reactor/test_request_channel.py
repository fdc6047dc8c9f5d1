"""Who is served first: connections whose requests have just come, then those that ask for more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.reactor import handlers_pool
from broker.reactor.handlers_pool import BATCH_SECONDS, HandlersPool
from broker.reactor.request_channel import RequestChannel


class Served:
    """A pool whose turns take as long as the test says."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
        self.names: list[str] = []
        self.channel = RequestChannel(8)
        dispatcher: Any = None
        self.pool = HandlersPool(self.channel, dispatcher)
        self.now = 0.0
        monkeypatch.setattr(handlers_pool, "perf_counter", lambda: self.now)

        def serve(_pool: HandlersPool, connection: Any, _ends: float) -> float:
            self.names.append(connection.name)
            self.now += seconds
            return self.now

        monkeypatch.setattr(HandlersPool, "_serve", serve)

    def put(self, fresh: str, again: str) -> None:
        for names, put in ((fresh, self.channel.put), (again, self.channel.put_again)):
            for name in names:
                connection: Any = SimpleNamespace(name=name, closed=name.isupper())
                put(connection)

    def batch(self) -> str:
        self.names.clear()
        self.pool.serve_batch()
        return "".join(self.names)


def test_who_had_a_turn_stands_behind_who_had_none(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, 0.0)
    served.put("ab", "xy")
    assert len(served.channel) == 4
    served.put("cD", "zW")  # two of them are closed
    assert served.channel.full
    assert served.batch() == "abcxyz"
    assert len(served.channel) == 0


def test_nobody_is_kept_out_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch, 2 * BATCH_SECONDS)
    served.put("ab", "xy")
    assert served.batch() == "ax"
    served.put("c", "")
    assert served.batch() == "by"
    assert served.batch() == "c"
