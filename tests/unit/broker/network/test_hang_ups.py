"""Clients that leave while their requests wait, or shut down their side and await the answer."""

from __future__ import annotations

import struct
from time import perf_counter

import trio

from pybroker_kafka.broker.network.connection import HALF_CLOSED_SECONDS, Connection
from pybroker_kafka.broker.network.idle_connections import idlest
from pybroker_kafka.broker.network.request import Request
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatResponse
from tests.support.network import RawClient, RunningNetwork, answers, heartbeat, running_network
from tests.support.patience import eventually

PATIENCE_SECONDS = 30


class Told:
    """A wait that remembers what it was told; it answers early if it has a request."""

    def __init__(self, request: Request | None = None) -> None:
        self.words: list[str] = []
        self.request = request

    def hurry(self) -> None:
        self.words.append("hurry")
        if self.request is not None:
            self.request.connection.remove_wait(self)
            self.request.respond(HeartbeatResponse())

    def cancel(self) -> None:
        self.words.append("cancel")


async def parked(network: RunningNetwork, *, is_early: bool) -> tuple[RawClient, Told]:
    """A client whose request waits, and what it waits for."""
    client = await network.connect()
    network.heartbeats.arrived = trio.Event()
    await client.send(heartbeat("park", 1))
    with trio.fail_after(PATIENCE_SECONDS):
        await network.heartbeats.arrived.wait()
    request = network.heartbeats.parked[-1]
    told = Told(request if is_early else None)
    request.connection.add_wait(told)
    return client, told


def only_connection(network: RunningNetwork) -> Connection:
    (connection,) = [c for p in network.server.processors for c in p.connections.values()]
    return connection


async def until_told(told: Told, *words: str) -> None:
    await eventually(lambda: told.words == list(words), seconds=PATIENCE_SECONDS)


async def test_who_closes_while_it_waits_holds_nothing() -> None:
    async with running_network() as network:
        client, told = await parked(network, is_early=True)
        await client.stream.aclose()
        await network.wait_for_connections(0)
        assert told.words == ["hurry"]


async def test_who_shuts_down_its_side_gets_its_answer_early() -> None:
    async with running_network() as network:
        client, told = await parked(network, is_early=True)
        await client.stream.send_eof()
        assert await answers(client, 1) == [1]
        assert await client.is_closed()
        assert told.words == ["hurry"]


async def test_a_request_that_comes_before_the_end_need_not_wait_either() -> None:
    async with running_network() as network:
        client, _ = await parked(network, is_early=True)
        network.heartbeats.arrived = trio.Event()
        await client.send(heartbeat("park", 2) + heartbeat("g", 3))
        await client.stream.send_eof()
        with trio.fail_after(PATIENCE_SECONDS):
            await network.heartbeats.arrived.wait()
        request = network.heartbeats.parked[-1]
        request.connection.add_wait(Told(request))
        assert await answers(client, 3) == [1, 2, 3]
        assert await client.is_closed()


async def test_what_cannot_be_answered_early_is_answered_in_time() -> None:
    async with running_network() as network:
        client, told = await parked(network, is_early=False)
        await client.stream.send_eof()
        await until_told(told, "hurry")
        for processor in network.server.processors:
            list(processor.sweep(perf_counter() + HALF_CLOSED_SECONDS - 5, -1))
        network.heartbeats.parked[0].respond(HeartbeatResponse())
        assert await answers(client, 1) == [1]
        assert await client.is_closed()


async def test_what_is_not_answered_in_time_is_given_up() -> None:
    async with running_network() as network:
        client, told = await parked(network, is_early=False)
        await client.stream.aclose()
        await until_told(told, "hurry")
        for processor in network.server.processors:
            list(processor.sweep(perf_counter() + HALF_CLOSED_SECONDS + 5, -1))
        assert told.words == ["hurry", "cancel"]
        assert network.connections == 0


async def test_a_reset_gives_up_what_waits_at_once() -> None:
    async with running_network() as network:
        client, told = await parked(network, is_early=False)
        linger = struct.pack("ii", 1, 0)
        client.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, linger)
        await client.stream.aclose()
        await network.wait_for_connections(0)
        assert told.words[-1] == "cancel"


async def test_what_begins_to_wait_for_a_closed_connection_is_given_up() -> None:
    async with running_network() as network:
        client, _ = await parked(network, is_early=False)
        connection = only_connection(network)
        connection.close()
        told = Told()
        connection.add_wait(told)
        assert told.words == ["cancel"]
        await client.stream.aclose()


async def test_who_has_hung_up_is_not_looked_at_again_and_again() -> None:
    async with running_network() as network:
        client, told = await parked(network, is_early=False)
        await client.send(heartbeat("g", 2))
        await client.stream.aclose()
        await until_told(told, "hurry")
        selectors = [processor.selector for processor in network.server.processors]
        await trio.sleep(0.05)
        assert [selector.poll() for selector in selectors] == [[]] * len(selectors)
        assert told.words == ["hurry"]


async def test_who_is_held_for_a_quota_and_closes_holds_nothing() -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("throttle600000", 1))
        assert await answers(client, 1) == [1]
        await client.stream.aclose()
        await network.wait_for_connections(0)


async def test_what_was_sent_before_the_end_is_done_after_the_hold() -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("throttle400", 1))
        assert await answers(client, 1) == [1]
        await client.send(heartbeat("last", 2))
        await client.stream.send_eof()
        assert await answers(client, 1) == [2]
        assert network.heartbeats.seen == ["throttle400", "last"]
        assert await client.is_closed()


async def test_who_has_hung_up_makes_room_first() -> None:
    async with running_network() as network:
        idle = await network.connect()
        await idle.send(heartbeat("g", 1))
        assert await answers(idle, 1) == [1]
        client, told = await parked(network, is_early=False)
        await client.stream.send_eof()
        await until_told(told, "hurry")
        everyone = [c for p in network.server.processors for c in p.connections.values()]
        assert [c.hung_up_at > 0 for c in idlest(everyone, perf_counter())] == [True]
