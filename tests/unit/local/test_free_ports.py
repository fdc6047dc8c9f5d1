"""Ports for servers that must know them before they listen."""

from __future__ import annotations

import socket

import pytest

from pybroker_kafka.local import free_ports
from pybroker_kafka.local.cluster_state import ClusterError
from pybroker_kafka.local.free_ports import LOOPBACK, take_ports


def test_each_port_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two rows of three that are free, one after the other; a third one finds nothing."""
    taken = {20_003}
    monkeypatch.setattr(free_ports, "LOWEST_PORT", 20_000)
    monkeypatch.setattr(free_ports, "HIGHEST_PORT", 20_005)
    first, second = take_ports(3, taken), take_ports(3, taken)
    assert {first, second} == {20_000, 20_004}
    assert taken == {20_003, *range(first, first + 3), *range(second, second + 3)}
    with pytest.raises(ClusterError, match="no port is free"):
        take_ports(3, taken)


def test_a_port_that_is_used_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server((LOOPBACK, 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(free_ports, "LOWEST_PORT", port)
        monkeypatch.setattr(free_ports, "HIGHEST_PORT", port + 1)
        with pytest.raises(ClusterError):
            take_ports(1, set())
