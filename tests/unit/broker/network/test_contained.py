"""An error that nobody expected, in the work for one connection: that one is closed, others live.

The errors are planted where compiled code sees them, too: in what is not compiled, or is called
through an interface. docs/decisions/contained.md lists the places.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from typing import Any, NoReturn

import pytest
import trio

from pybroker_kafka.broker.logins.login_tasks import LoginTasks
from pybroker_kafka.broker.network.connection import Connection
from pybroker_kafka.broker.network.listener_security import ListenerSecurity
from pybroker_kafka.broker.network.selector import HANGUP, READ
from pybroker_kafka.broker.observability.request_metrics import RequestMetrics
from pybroker_kafka.protocol import codec, large_messages
from tests.support.network import (
    PATIENCE_SECONDS,
    RawClient,
    RunningNetwork,
    answers,
    api_versions,
    heartbeat,
    running_network,
)
from tests.support.sources import needs_sources


class Planted(TypeError):
    """Of this test."""


def fails(*_: object, **__: object) -> NoReturn:
    raise Planted("on purpose")


def only_connection(network: RunningNetwork) -> Connection:
    (found,) = [c for p in network.server.processors for c in p.connections.values()]
    return found


class Wrapper:
    """Something of a connection, of which the first call of this name fails."""

    def __init__(self, inner: Any, failing: str) -> None:
        self.inner = inner
        self.failing = failing

    def __getattr__(self, name: str) -> Any:
        if name != self.failing:
            return getattr(self.inner, name)
        self.failing = ""
        return fails


def in_receive(connection: Connection, _: pytest.MonkeyPatch) -> None:
    connection.transport = Wrapper(connection.transport, "recv_into")


def before_the_handler(connection: Connection, _: pytest.MonkeyPatch) -> None:
    class Guard:
        __call__ = fails

        def connection_closed(self) -> None: ...

    connection.gatekeeper = Guard()


def in_decoding(_: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "decode_from", fails)


def behind_the_answer(connection: Connection, _: pytest.MonkeyPatch) -> None:
    """The request counts as answered, and nothing has left."""
    connection.owner = Wrapper(connection.owner, "throttled")


def in_the_flush(_: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RequestMetrics, "record", fails)


PLACES = [
    (in_receive, "g"),
    (before_the_handler, "g"),
    pytest.param(in_decoding, "g", marks=needs_sources),
    (behind_the_answer, "throttle100"),
    pytest.param(in_the_flush, "g", marks=needs_sources),
]


async def check_that_others_live(
    network: RunningNetwork, client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection of `client` has failed; that is told, counted, and all."""
    while await client.receive_frame() is not None:
        pass
    await network.wait_for_connections(0)
    assert sum(processor.failed_connections for processor in network.server.processors) == 1
    told = [r for r in caplog.records if "the work for it failed" in r.getMessage()]
    assert [(r.levelno, r.exc_info and r.exc_info[0]) for r in told] == [(logging.ERROR, Planted)]
    assert network.server.receive_memory.used == 0
    other = await network.connect()
    await other.send(heartbeat("other", 9))
    assert await answers(other, 1) == [9]


@pytest.mark.parametrize(
    ("plant", "group"), PLACES, ids=lambda value: getattr(value, "__name__", "")
)
async def test_an_error_closes_one_connection(
    plant: Callable[[Connection, pytest.MonkeyPatch], None],
    group: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("before", 1))
        assert await answers(client, 1) == [1]
        with monkeypatch.context() as patched:
            plant(only_connection(network), patched)
            await client.send(heartbeat(group, 2))
            await network.wait_for_connections(0)
        await check_that_others_live(network, client, caplog)


async def test_in_the_encoding_of_a_long_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("park", 1))
        await network.heartbeats.arrived.wait()
        (request,) = network.heartbeats.parked
        with monkeypatch.context() as patched:
            patched.setattr(large_messages, "encode_slices", fails)
            request.respond_in_turns(api_versions())
        await check_that_others_live(network, client, caplog)


async def test_when_a_connection_is_read_again(caplog: pytest.LogCaptureFixture) -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("throttle50", 1))
        assert await answers(client, 1) == [1]
        connection = only_connection(network)
        connection.watch(0)  # as if it had sent more meanwhile
        connection.selector = Wrapper(connection.selector, "modify")
        await check_that_others_live(network, client, caplog)


async def test_in_the_sweep(caplog: pytest.LogCaptureFixture) -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("g", 1))
        assert await answers(client, 1) == [1]
        connection = only_connection(network)
        assert connection.events == READ | HANGUP
        connection.receive_memory.is_short = True
        connection.owner = Wrapper(connection.owner, "memory_released")
        connection.last_active = 0.0
        for processor in network.server.processors:
            list(processor.sweep(perf_counter(), 1e9))
        await check_that_others_live(network, client, caplog)


@pytest.mark.parametrize("made", ["new_connection", "new_gatekeeper"])
async def test_a_connection_that_cannot_be_made(
    made: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_network() as network:
        for processor in network.server.processors:
            processor.security = ListenerSecurity(**{made: fails})
        client = await network.connect()
        assert await client.is_closed()
        for processor in network.server.processors:
            processor.security = ListenerSecurity()
        await check_that_others_live(network, client, caplog)


async def test_what_a_login_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    async with running_network() as network:
        tasks = LoginTasks()
        client = await network.connect()
        await network.wait_for_connections(1)
        async with trio.open_nursery() as nursery:
            await nursery.start(tasks.run)
            tasks.later(only_connection(network), 0.0, fails)
            with trio.fail_after(PATIENCE_SECONDS):
                assert await client.is_closed()
            nursery.cancel_scope.cancel()
        await check_that_others_live(network, client, caplog)
