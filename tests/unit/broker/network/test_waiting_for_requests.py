"""How the network waits where requests follow each other closely: it looks, then it sleeps."""

from __future__ import annotations

from typing import cast

import pytest

from pybroker_kafka.broker.network import socket_server
from pybroker_kafka.broker.network.connection_quotas import ConnectionQuotas
from pybroker_kafka.broker.network.dispatcher import Dispatcher
from pybroker_kafka.broker.network.selector import SelectorGroup
from pybroker_kafka.broker.network.short_waits import ENOUGH, LOOK_SECONDS, WAIT_SECONDS, ShortWaits
from pybroker_kafka.broker.network.socket_server import SocketServer, SocketSettings
from pybroker_kafka.broker.observability.metrics import BrokerMetrics


class Sockets:
    """Of a group, what is asked of it, and what it answers to that."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []
        self.found_by = "nobody"

    def look(self, seconds: float) -> set[int]:
        return self._ask("look", seconds)

    def ready(self, seconds: float = 0.0) -> set[int]:
        return self._ask("sleep", seconds)

    def _ask(self, how: str, seconds: float) -> set[int]:
        self.asked.append((how, seconds))
        return {7} if self.found_by == how else set()


LOOK, SLEEP = ("look", LOOK_SECONDS), ("sleep", WAIT_SECONDS)


@pytest.fixture
def sockets() -> Sockets:
    return Sockets()


@pytest.fixture
async def server(sockets: Sockets, monkeypatch: pytest.MonkeyPatch) -> SocketServer:
    monkeypatch.setattr(socket_server, "perf_counter", lambda: 0.0)  # no sleep takes any time
    metrics = BrokerMetrics()
    server = SocketServer(Dispatcher(metrics), ConnectionQuotas(), SocketSettings(), metrics)
    server._selectors.close()
    server._selectors = cast(SelectorGroup, sockets)
    server.short_waits = ShortWaits(can_look=True)
    return server


async def test_it_sleeps_until_sleeps_were_short_enough_then_looks(
    server: SocketServer, sockets: Sockets
) -> None:
    sockets.found_by = "sleep"
    for _ in range(ENOUGH):
        assert server._ready_soon(WAIT_SECONDS) == {7}
    assert sockets.asked == [SLEEP] * ENOUGH
    sockets.asked.clear()
    sockets.found_by = "look"
    for _ in range(3):
        assert server._ready_soon(WAIT_SECONDS) == {7}
    assert sockets.asked == [LOOK] * 3


async def test_a_look_in_vain_is_the_last_one(server: SocketServer, sockets: Sockets) -> None:
    sockets.found_by = "sleep"
    for _ in range(ENOUGH + 2):
        server._ready_soon(WAIT_SECONDS)
    assert sockets.asked == [SLEEP] * ENOUGH + [LOOK, SLEEP, SLEEP]


async def test_nothing_found_ends_short_waits(server: SocketServer, sockets: Sockets) -> None:
    for _ in range(ENOUGH):
        server.short_waits.waited(0.0)
    assert server.short_waits.seconds == WAIT_SECONDS
    assert server._ready_soon(WAIT_SECONDS) == set()
    assert server.short_waits.seconds == 0.0
