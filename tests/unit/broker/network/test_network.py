"""The network room over real sockets: order, pipelining, muting, limits, fairness."""

from __future__ import annotations

import random
import struct
from time import perf_counter

import pytest
import trio

from pybroker_kafka.broker.network.connection_quotas import ConnectionQuotas
from pybroker_kafka.broker.network.idle_connections import idlest
from pybroker_kafka.broker.network.selector import Selector
from pybroker_kafka.broker.network.socket_server import SocketSettings
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from pybroker_kafka.protocol.errors import ErrorCode
from tests.support.network import RawClient, answers, api_versions, heartbeat, running_network


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(b"".join(heartbeat(f"g{n}", n) for n in range(500)))
        assert await answers(client, 500) == list(range(500))
        assert network.heartbeats.seen == [f"g{n}" for n in range(500)]


async def test_one_byte_at_a_time() -> None:
    async with running_network() as network:
        client = await network.connect()
        for byte in heartbeat("a", 1) + heartbeat("b", 2, 0):
            await client.send(bytes([byte]))
            await trio.testing.wait_all_tasks_blocked()
        assert await answers(client, 1) == [1]
        assert await answers(client, 1, 0) == [2]


@pytest.mark.parametrize("seed", range(5))
async def test_any_chunking_gives_the_same_requests(seed: int) -> None:
    rng = random.Random(seed)
    groups = ["g" * rng.choice([1, 3, 100, 5_000, 30_000]) for _ in range(60)]
    stream = b"".join(heartbeat(group, n, 0) for n, group in enumerate(groups))
    async with running_network() as network:
        client = await network.connect()

        async def send() -> None:
            position = 0
            while position < len(stream):
                step = rng.choice([1, 2, 5, 100, 4_000, 16_384, 70_000])
                await client.send(stream[position : position + step])
                position += step

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            assert await answers(client, len(groups), 0) == list(range(len(groups)))
        assert network.heartbeats.seen == groups


async def test_a_parked_request_mutes_its_connection_and_no_other() -> None:
    async with running_network() as network:
        client, other = await network.connect(), await network.connect()
        await client.send(heartbeat("before", 1) + heartbeat("park", 2) + heartbeat("after", 3))
        assert await answers(client, 1) == [1]
        with trio.fail_after(120):
            await network.heartbeats.arrived.wait()
        await other.send(heartbeat("other", 9))
        assert await answers(other, 1) == [9]
        await client.send(heartbeat("later", 4))
        await trio.sleep(0.05)
        assert network.heartbeats.seen == ["before", "park", "other"]
        (request,) = network.heartbeats.parked
        request.respond(HeartbeatResponse())
        assert await answers(client, 3) == [2, 3, 4]


async def test_a_muted_connection_does_not_spin() -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("park", 1))
        await network.heartbeats.arrived.wait()
        await client.send(heartbeat("next", 2))
        counting = [_Counting(processor.selector) for processor in network.server.processors]
        for processor, selector in zip(network.server.processors, counting, strict=True):
            processor.selector = selector
        await trio.sleep(0.1)
        assert sum(selector.polls for selector in counting) <= 2


class _Counting(Selector):
    """Another one that counts how often it is asked."""

    def __init__(self, inner: Selector) -> None:
        self._inner = inner
        self.polls = 0

    def register(self, fileno: int, events: int) -> None:
        self._inner.register(fileno, events)

    def modify(self, fileno: int, events: int) -> None:
        self._inner.modify(fileno, events)

    def unregister(self, fileno: int) -> None:
        self._inner.unregister(fileno)

    def close(self) -> None:
        self._inner.close()

    def poll(self) -> list[tuple[int, int]]:
        self.polls += 1
        return self._inner.poll()


async def test_a_client_that_leaves_while_its_request_is_parked() -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("park", 1))
        await network.heartbeats.arrived.wait()
        client.stream.setsockopt(
            trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        await client.stream.aclose()
        await network.wait_for_connections(0)
        (request,) = network.heartbeats.parked
        request.respond(HeartbeatResponse())
        other = await network.connect()
        await other.send(heartbeat("other", 2))
        assert await answers(other, 1) == [2]


async def test_a_failing_handler_is_an_error_response(caplog: pytest.LogCaptureFixture) -> None:
    async with running_network() as network:
        client = await network.connect()
        request = HeartbeatRequest(group_id="fail", generation_id=1, member_id="m")
        response = await client.ask(request, 3)
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert [r.exc_info is not None for r in caplog.records] == [True]
        await client.send(heartbeat("ok", 2))
        assert await answers(client, 1) == [2]


async def test_throttling_answers_at_once_and_mutes_for_the_time() -> None:
    async with running_network() as network:
        client = await network.connect()
        began = trio.current_time()
        await client.send(heartbeat("throttle800", 1) + heartbeat("next", 2))
        assert await answers(client, 1) == [1]
        answered_after = trio.current_time() - began
        assert await answers(client, 1) == [2]
        assert answered_after < 0.7
        assert trio.current_time() - began >= 0.79


async def test_a_slow_reader_does_not_hurt_others_and_is_bounded() -> None:
    async with running_network(SocketSettings(send_buffer=4096)) as network:
        slow, quick = await network.connect(), await network.connect()
        count = 40_000
        flood = b"".join(heartbeat("slow", n) for n in range(count))

        async def send() -> None:
            await slow.send(flood)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await trio.sleep(0.2)
            for n in range(50):
                await quick.send(heartbeat("quick", n))
                assert await answers(quick, 1) == [n]
            handled = network.heartbeats.seen.count("slow")
            assert handled < count, "responses must not pile up without a limit"
            assert await answers(slow, count) == list(range(count))


async def test_idle_connections_are_closed_and_busy_ones_not() -> None:
    async with running_network(SocketSettings(max_idle_ms=400)) as network:
        began = trio.current_time()
        idle, parked = await network.connect(), await network.connect()
        await trio.sleep(0.2)
        await parked.send(heartbeat("park", 1))
        await network.heartbeats.arrived.wait()
        assert await idle.is_closed()
        assert trio.current_time() - began > 0.35
        began = trio.current_time()
        network.heartbeats.parked[0].respond(HeartbeatResponse())
        assert await answers(parked, 1) == [1]
        assert await parked.is_closed()
        assert trio.current_time() - began > 0.35, "an answer counts as activity"


async def test_a_connection_whose_request_waits_is_idle_too() -> None:
    """As in Kafka, where a muted channel stands among the others by its last read or write."""
    async with running_network(SocketSettings(max_idle_ms=200)) as network:
        parked = await network.connect()
        await parked.send(heartbeat("park", 1))
        await network.heartbeats.arrived.wait()
        assert await parked.is_closed()
        await network.wait_for_connections(0)
        network.heartbeats.parked[0].respond(HeartbeatResponse())
        assert sum(p.expired_connections for p in network.server.processors) == 1


async def test_a_sweep_between_an_answer_and_its_sending_closes_nothing() -> None:
    async with running_network() as network:
        client = await network.connect()
        await client.send(heartbeat("park", 1))
        await network.heartbeats.arrived.wait()
        network.heartbeats.parked[0].respond(HeartbeatResponse())
        for processor in network.server.processors:
            assert not idlest(processor.connections.values(), perf_counter() + 3600)
            list(processor.sweep(perf_counter() + 3600, 0.2))
        assert await answers(client, 1) == [1]


async def test_max_connections_per_ip() -> None:
    quotas = ConnectionQuotas(max_per_ip=2)
    async with running_network(quotas=quotas) as network:
        kept = [await network.connect() for _ in range(2)]
        for client in kept:
            await client.ask(api_versions(), 3)
        assert await (await network.connect()).is_closed()
        await kept.pop().stream.aclose()
        await network.wait_for_connections(1)
        await (await network.connect()).ask(api_versions(), 3)


async def test_max_connections_lets_the_next_one_wait_for_a_slot() -> None:
    async with running_network(quotas=ConnectionQuotas(max_connections=1)) as network:
        first = await network.connect()
        await first.ask(api_versions(), 3)
        second = await network.connect()
        await second.send(heartbeat("second", 1))
        await trio.sleep(0.1)
        assert network.heartbeats.seen == []
        await first.stream.aclose()
        assert await answers(second, 1) == [1]


async def test_request_memory_is_bounded() -> None:
    settings = SocketSettings(queued_bytes=200)
    async with running_network(settings) as network:
        first, second = await network.connect(), await network.connect()
        await first.send(heartbeat("park", 1))
        await network.heartbeats.arrived.wait()
        await first.stream.send_all(heartbeat("x" * 50, 2))
        await second.send(heartbeat("y" * 250, 3, 0))
        await trio.sleep(0.05)
        third = await network.connect()
        await third.send(heartbeat("third", 4))
        await trio.sleep(0.05)
        memory = network.server.memory
        assert memory is not None
        assert "third" not in network.heartbeats.seen or memory.available > 0
        network.heartbeats.parked[0].respond(HeartbeatResponse())
        assert await answers(first, 2) == [1, 2]
        assert await answers(second, 1, 0) == [3]
        assert await answers(third, 1) == [4]
        assert memory.available == memory.size


async def test_many_connections() -> None:
    async with running_network() as network:
        clients = [await network.connect() for _ in range(300)]

        async def talk(client: RawClient, number: int) -> None:
            for n in range(5):
                await client.send(heartbeat(f"c{number}", n))
                assert await answers(client, 1) == [n]

        async with trio.open_nursery() as nursery:
            for number, client in enumerate(clients):
                nursery.start_soon(talk, client, number)
        assert len(network.heartbeats.seen) == 1500
        counts = [len(p.connections) for p in network.server.processors]
        assert counts == [100, 100, 100]


async def test_a_full_request_queue_holds_back_and_loses_nothing() -> None:
    async with running_network(SocketSettings(queued_requests=2)) as network:
        clients = [await network.connect() for _ in range(20)]
        for client in clients:
            await client.send(heartbeat("g", 1))
        for client in clients:
            assert await answers(client, 1) == [1]
