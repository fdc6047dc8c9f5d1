"""A connection that closes lets go of its gatekeeper, without the garbage collector."""

from __future__ import annotations

import gc
import socket

import pytest

from pybroker_kafka.broker.network.connection import Connection
from tests.support.connections import connection_over


class Watchman:
    """Knows its connection, as that of SASL does."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.told = 0

    def __call__(self, connection: Connection) -> float:
        return 0.0

    def connection_closed(self) -> None:
        self.told += 1


def watchmen() -> int:
    return sum(type(each) is Watchman for each in gc.get_objects())


def test_both_are_gone_at_once() -> None:
    before = watchmen()
    gc.disable()
    try:
        ours, theirs = socket.socketpair()
        with theirs:
            connection = connection_over(ours)
            connection.gatekeeper = Watchman(connection)
            connection.close()
            del connection
        assert watchmen() == before
    finally:
        gc.enable()


def test_nothing_gets_past_one_that_has_closed() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        connection = connection_over(ours)
        connection.gatekeeper = watchman = Watchman(connection)
        connection.close()
        connection.close()
    assert watchman.told == 1
    assert connection.gatekeeper is not None
    with pytest.raises(AssertionError, match="closed"):
        connection.gatekeeper(connection)
