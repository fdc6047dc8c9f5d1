"""The parts of the network room on their own: mute states, limits, frames, metrics."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.broker.network.connection import Connection
from pybroker_kafka.broker.network.connection_quotas import ConnectionQuotas, MemoryPool
from pybroker_kafka.broker.network.mute_state import TRANSITIONS, MuteEvent, MuteState, next_state
from pybroker_kafka.broker.network.receive_buffer import FIRST_BUFFER_BYTES
from pybroker_kafka.broker.observability.metrics import BrokerMetrics, quantiles
from pybroker_kafka.broker.quotas.connection_rates import ConnectionRates
from tests.support.connections import connection_over

LEGAL = {
    (MuteState.READING, MuteEvent.REQUEST_RECEIVED): MuteState.RESPONSE_PENDING,
    (MuteState.RESPONSE_PENDING, MuteEvent.RESPONSE_SENT): MuteState.READING,
    (
        MuteState.RESPONSE_PENDING,
        MuteEvent.THROTTLE_STARTED,
    ): MuteState.THROTTLED_AND_RESPONSE_PENDING,
    (MuteState.THROTTLED_AND_RESPONSE_PENDING, MuteEvent.RESPONSE_SENT): MuteState.THROTTLED,
    (
        MuteState.THROTTLED_AND_RESPONSE_PENDING,
        MuteEvent.THROTTLE_ENDED,
    ): MuteState.RESPONSE_PENDING,
    (MuteState.THROTTLED, MuteEvent.THROTTLE_ENDED): MuteState.READING,
    (MuteState.RESPONSE_PENDING, MuteEvent.RECORDS_APPENDED): MuteState.PIPELINING,
    (MuteState.PIPELINING, MuteEvent.REQUEST_RECEIVED): MuteState.RESPONSE_PENDING,
    (MuteState.PIPELINING, MuteEvent.RESPONSE_SENT): MuteState.READING,
}


def test_the_mute_table_has_every_case() -> None:
    assert len(TRANSITIONS) == len(MuteState)
    for state, event in product(MuteState, MuteEvent):
        if (state, event) in LEGAL:
            assert next_state(state, event) is LEGAL[state, event]
        else:
            with pytest.raises(AssertionError, match="illegal"):
                next_state(state, event)


async def test_connection_quotas() -> None:
    quotas = ConnectionQuotas(
        max_connections=3,
        max_per_ip=2,
        max_per_ip_overrides={"10.0.0.1": 1},
        max_by_listener={"OUT": 2},
        inter_broker_listener="IN",
    )
    quotas.add_listener("IN")
    quotas.add_listener("OUT")
    assert quotas.address_allowed("10.0.0.1")
    quotas.opened("OUT", "10.0.0.1")
    assert not quotas.address_allowed("10.0.0.1")
    quotas.opened("OUT", "10.0.0.2")
    assert not quotas.slot_available("OUT"), "the listener's own limit"
    quotas.opened("IN", "10.0.0.3")
    assert quotas.slot_available("IN"), "the inter-broker listener is protected"
    assert not quotas.must_shed("OUT")
    quotas.opened("IN", "10.0.0.3")
    assert quotas.must_shed("OUT")
    assert not quotas.must_shed("IN")
    quotas.closed("OUT", "10.0.0.1")
    assert quotas.address_allowed("10.0.0.1")
    assert quotas.total == 3


async def test_a_single_inter_broker_listener_is_not_protected() -> None:
    quotas = ConnectionQuotas(max_connections=1, inter_broker_listener="ONE")
    quotas.add_listener("ONE")
    quotas.opened("ONE", "h")
    assert not quotas.slot_available("ONE")


async def test_creation_rate() -> None:
    quotas = ConnectionQuotas(rates=ConnectionRates(10))
    delays = [quotas.accept_delay("A", 100.0) for _ in range(102)]
    assert delays[:100] == [0.0] * 100, "ten windows' worth at once"
    assert delays[100:] == [0.1, 0.2]
    assert max(quotas.accept_delay("A", 100.0) for _ in range(100)) == 1.0, "a window at most"
    assert quotas.accept_delay("A", 200.0) == 0.0
    assert ConnectionQuotas().accept_delay("A", 1.0) == 0.0
    nobody = ConnectionQuotas(rates=ConnectionRates(0))
    assert nobody.accept_delay("A", 1.0) == 1.0


async def test_a_listener_has_its_own_creation_rate() -> None:
    quotas = ConnectionQuotas(
        rates=ConnectionRates(100, {"A": 2, "IN": 5}), inter_broker_listener="IN"
    )
    for listener in ("A", "B", "IN"):
        quotas.add_listener(listener)
    assert [quotas.accept_delay("A", 100.0) for _ in range(21)][-2:] == [0.0, 0.5]
    assert [quotas.accept_delay("IN", 100.0) for _ in range(51)][-2:] == [0.0, 0.2]
    assert quotas.accept_delay("B", 100.0) == 0.0
    assert [quotas.accept_delay("B", 100.0) for _ in range(979)][-2:] == [0.0, 0.01]
    quotas.rates.by_listener = {"A": 20}
    assert quotas.accept_delay("A", 100.0) == 0.02, "of the broker"


async def test_an_address_over_its_rate_counts_for_nobody() -> None:
    quotas = ConnectionQuotas(rates=ConnectionRates(100))
    quotas.rates.limit_address("10.0.0.1", 1)
    quotas.rates.limit_address(None, 2)
    for number in range(1000):
        assert quotas.accept_delay("A", 100.0) == 0.0, number
        delay = quotas.turn_away_delay("A", "10.0.0.1", 100.0)
        assert delay == (0.0 if number < 10 else 1.0)
    assert [quotas.turn_away_delay("A", "10.0.0.2", 100.0) for _ in range(21)][-2:] == [0.0, 0.5]
    assert quotas.turn_away_delay("A", "10.0.0.3", 100.0) == 0.0
    quotas.rates.limit_address("10.0.0.1", None)
    assert quotas.turn_away_delay("A", "10.0.0.1", 100.0) == 0.0, "the default's, and a new one"
    quotas.rates.limit_address(None, 2_147_483_647)
    assert not any(quotas.turn_away_delay("A", "10.0.0.3", 100.0) for _ in range(100))


def test_memory_pool() -> None:
    pool = MemoryPool(100)
    assert pool.try_reserve(60)
    assert pool.try_reserve(60), "not strict: one may exceed it"
    assert not pool.try_reserve(1)
    pool.release(60)
    assert pool.try_reserve(1)
    pool.release(61)
    with pytest.raises(AssertionError):
        pool.release(1)


@pytest.fixture
def pair() -> Iterator[tuple[Connection, socket.socket]]:
    left, right = socket.socketpair()
    left.setblocking(False)
    connection = connection_over(left)
    yield connection, right
    left.close()
    right.close()


def test_a_view_into_the_buffer_survives_growing(pair: tuple[Connection, socket.socket]) -> None:
    connection, peer = pair
    peer.sendall((100_000).to_bytes(4, "big") + b"abcd")
    assert connection.receive()
    view = connection.view[4:8]
    peer.sendall(b"-" * 50_000)
    assert connection.receive()
    assert len(connection.buffer) > FIRST_BUFFER_BYTES
    assert bytes(view) == b"abcd" == bytes(connection.view[4:8])


def test_a_quiet_connection_has_no_buffer(pair: tuple[Connection, socket.socket]) -> None:
    connection, peer = pair
    for _ in range(2):
        assert len(connection.buffer) == 0
        peer.sendall(b"\0\0\0\x04abcd\0\0")
        assert connection.receive()
        assert connection.frame_ready()
        connection.start += connection.needed
        connection.give_back_buffer()
        assert len(connection.buffer) == FIRST_BUFFER_BYTES, "a frame has begun"
        peer.sendall(b"\0\0")
        assert connection.receive()
        assert connection.frame_ready()
        connection.start += connection.needed
        connection.give_back_buffer()


def test_files_and_buffers_leave_in_order(
    pair: tuple[Connection, socket.socket], tmp_path: Path
) -> None:
    connection, peer = pair
    content = os.urandom(3_000_000)
    (tmp_path / "segment").write_bytes(content)
    with open(tmp_path / "segment", "rb") as file:
        part = _Slice(file.fileno(), 1000, 2_500_000)
        parts: list[Any] = [b"head", part, b"middle", memoryview(b"x" * 70_000), part, b"tail"]
        connection.out.parts.extend(parts)
        connection.out.size = sum(map(len, parts))
        expected = b"head" + content[1000:2_501_000] + b"middle" + b"x" * 70_000
        expected += content[1000:2_501_000] + b"tail"
        assert connection.out.size == len(expected)
        received = bytearray()
        peer.settimeout(5)
        while len(received) < len(expected):
            connection.out.flush()
            received += peer.recv(1 << 20)
    assert bytes(received) == expected
    assert connection.out.size == 0
    assert connection.out.flush()


class _Slice:
    def __init__(self, fileno: int, position: int, size: int) -> None:
        self._fileno = fileno
        self.position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def fileno(self) -> int:
        return self._fileno

    def read_failed(self, error: OSError) -> None:
        """A socket that is full says it, too."""


def test_quantiles() -> None:
    assert quantiles([5, 1, 4, 2, 3], [0.0, 0.5, 0.99]) == [1, 3, 5]


class _Times:
    body = None
    received_at = 1.0
    started_at = 1.25
    local_done_at = 1.5
    responded_at = 2.0
    throttle_ms = 0


def test_metrics_are_exported_under_the_jmx_exporters_names() -> None:
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import generate_latest

    metrics = BrokerMetrics()
    produce = metrics.request("Produce", 9)
    for _ in range(3):
        produce.record(_Times(), 2.125)
    produce.conversions.record(0.25, 1000)
    produce.error("UNKNOWN_SERVER_ERROR")
    metrics.gauge("kafka_network_requestchannel_requestqueuesize", lambda: 7)
    registry = CollectorRegistry()
    registry.register(metrics)
    text = generate_latest(registry).decode()
    for line in (
        'kafka_network_requestmetrics_requests_total{request="Produce",version="9"} 3.0',
        'kafka_network_requestmetrics_totaltimems_count{request="Produce"} 3.0',
        'kafka_network_requestmetrics_totaltimems_sum{request="Produce"} 3375.0',
        'kafka_network_requestmetrics_totaltimems{quantile="0.99",request="Produce"} 1125.0',
        'kafka_network_requestmetrics_requestqueuetimems{quantile="0.50",request="Produce"} 250.0',
        'kafka_network_requestmetrics_localtimems{quantile="0.50",request="Produce"} 250.0',
        'kafka_network_requestmetrics_remotetimems{quantile="0.50",request="Produce"} 500.0',
        'kafka_network_requestmetrics_responsesendtimems{quantile="0.50",request="Produce"} 125.0',
        'kafka_network_requestmetrics_errors_total{error="UNKNOWN_SERVER_ERROR",request="Produce"}'
        " 1.0",
        # One of three had something converted.
        'kafka_network_requestmetrics_messageconversionstimems_count{request="Produce"} 3.0',
        'kafka_network_requestmetrics_messageconversionstimems_sum{request="Produce"} 250.0',
        'kafka_network_requestmetrics_messageconversionstimems{quantile="0.50",request="Produce"}'
        " 0.0",
        'kafka_network_requestmetrics_messageconversionstimems{quantile="0.75",request="Produce"}'
        " 250.0",
        'kafka_network_requestmetrics_temporarymemorybytes{quantile="0.999",request="Produce"}'
        " 1000.0",
        'kafka_network_requestmetrics_temporarymemorybytes_sum{request="Fetch"} 0.0',
        "kafka_network_requestchannel_requestqueuesize 7.0",
    ):
        assert line in text, text
