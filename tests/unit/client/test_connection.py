"""One connection with many requests on their way, over streams in memory, in virtual time."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair, wait_all_tasks_blocked

from pybroker_kafka.client import connection as connection_module
from pybroker_kafka.client.connection import Connection, Connections
from pybroker_kafka.client.errors import ClientError, ConnectionFailed
from pybroker_kafka.client.security.connector import Connector, Link
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from pybroker_kafka.protocol.apis.produce import ProduceRequest
from pybroker_kafka.protocol.framing import encode_response
from tests.support.frames import decode_request, joined

VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=key, min_version=0, max_version=newest)
        for key, newest in ((ApiKey.API_VERSIONS, 3), (ApiKey.HEARTBEAT, 4), (ApiKey.PRODUCE, 9))
    ]
)


class Peer:
    """A broker that reads all that comes, and answers when the test says so."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.got: list[tuple[Any, Any]] = []  # header and body, not answered yet
        self.all_got: list[Any] = []
        self.streams: list[trio.abc.Stream] = []
        self._came = trio.Event()

    async def serve(self, stream: Any) -> None:
        self.streams.append(stream)
        data = b""
        with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
            while True:
                while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
                    more = await stream.receive_some()
                    if not more:
                        return
                    data += more
                size = 4 + int.from_bytes(data[:4], "big")
                header, body = decode_request(memoryview(data[4:size]))
                data = data[size:]
                if header.api_key == ApiKey.API_VERSIONS:
                    await self._answer(header, VERSIONS)
                    continue
                self.got.append((header, body))
                self.all_got.append(body)
                self._came.set()

    async def wait_for(self, count: int) -> None:
        while len(self.got) < count:
            self._came = trio.Event()
            await self._came.wait()

    async def answer(self, count: int = 1, *, off_by: int = 0) -> None:
        for _ in range(count):
            header, body = self.got.pop(0)
            answer = HeartbeatResponse(throttle_time_ms=body.generation_id)
            header = header._replace(correlation_id=header.correlation_id + off_by)
            await self._answer(header, answer)

    async def _answer(self, header: Any, answer: Any) -> None:
        key = ApiKey(header.api_key)
        parts = encode_response(key, header.api_version, header.correlation_id, answer)
        await self.streams[-1].send_all(joined(parts))


@pytest.fixture
def peer(nursery: trio.Nursery, autojump_clock: MockClock) -> Peer:
    return Peer(nursery)


class PlayedLogin(Connector):
    """Each stream is good for the next of `lifetimes`, then for ever."""

    lifetimes: list[float] = []

    async def secure(self, tcp: Any, host: str, port: int, client_id: str) -> Link:
        lifetime = self.lifetimes.pop(0) if self.lifetimes else math.inf
        return Link(tcp, trio.current_time() + lifetime)


@asynccontextmanager
async def meeting(peer: Peer, lifetimes: list[float] | None = None) -> AsyncIterator[Connection]:
    async with Connections() as connections:

        async def reach(_host: str, _port: int) -> trio.abc.Stream:
            ours, theirs = memory_stream_pair()
            peer.nursery.start_soon(peer.serve, theirs)
            return ours

        connector = PlayedLogin(None, None, reach)
        PlayedLogin.lifetimes = lifetimes or []
        yield await connections.open("h", 9092, connector)


async def beat(connection: Connection, number: int, log: list[int], **options: Any) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=number, member_id="m")
    answer = await connection.request(ApiKey.HEARTBEAT, request, HeartbeatResponse, **options)
    assert answer.throttle_time_ms == number
    log.append(number)


async def test_many_are_on_their_way_in_order(peer: Peer) -> None:
    log = list[int]()
    async with meeting(peer) as connection, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(beat, connection, number, log)
        await peer.wait_for(20)
        assert connection.in_flight_count == 20
        assert log == []
        await peer.answer(20)
    assert sorted(log) == list(range(20))


async def test_who_is_cancelled_loses_only_its_answer(peer: Peer) -> None:
    log = list[int]()
    async with meeting(peer) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(beat, connection, 1, log)
        await wait_all_tasks_blocked()
        with trio.move_on_after(1):
            await beat(connection, 2, log)
        nursery.start_soon(beat, connection, 3, log)
        await peer.wait_for(3)
        await peer.answer(3)
    assert sorted(log) == [1, 3]
    assert [body.generation_id for body in peer.all_got] == [1, 2, 3]


async def test_a_lost_answer_must_be_the_right_one_too(peer: Peer) -> None:
    async with meeting(peer) as connection:
        with trio.move_on_after(1):
            await beat(connection, 2, [])
        await peer.answer(off_by=1)
        await wait_all_tasks_blocked()
        assert not connection.is_open


async def failing(connection: Connection, number: int, match: str) -> None:
    with pytest.raises(ConnectionFailed, match=match):
        await beat(connection, number, [])


@pytest.mark.parametrize("how", ["the end", "a wrong number", "unasked", "closed here"])
async def test_all_on_their_way_fail_with_the_connection(peer: Peer, how: str) -> None:
    match = {
        "the end": "the broker closed the connection",
        "a wrong number": "answer 2 to request 1",
        "unasked": "is that a Kafka broker",
        "closed here": "it was closed",
    }[how]
    async with meeting(peer) as connection:
        async with trio.open_nursery() as nursery:
            for number in range(3):
                nursery.start_soon(failing, connection, number, match)
            await peer.wait_for(3)
            if how == "the end":
                await peer.streams[0].aclose()
            elif how == "a wrong number":
                await peer.answer(off_by=1)
            elif how == "unasked":
                await peer.streams[0].send_all(b"\xff" * 8)
            else:
                connection.close()
        assert not connection.is_open
        with pytest.raises(ClientError, match="is closed"):
            await beat(connection, 4, [])


async def test_without_an_answer_in_time_all_fail(peer: Peer, autojump_clock: MockClock) -> None:
    async with meeting(peer) as connection, trio.open_nursery() as nursery:
        began = trio.current_time()
        nursery.start_soon(failing, connection, 1, "no answer in time")
        with pytest.raises(ConnectionFailed, match="no answer in time"):
            await beat(connection, 2, [], timeout_seconds=7)
        assert 7 <= trio.current_time() - began < 8


async def test_who_posts_hears_in_order_and_once(peer: Peer) -> None:
    """Answers, and of those that do not come in time why; what is not sent is not heard of."""
    heard = list[tuple[int, int | str]]()

    def post(number: int) -> None:
        def notify(answer: HeartbeatResponse | ClientError) -> None:
            what = str(answer) if isinstance(answer, ClientError) else answer.throttle_time_ms
            heard.append((number, what))

        request = HeartbeatRequest(group_id="g", generation_id=number, member_id="m")
        connection.post(ApiKey.HEARTBEAT, request, HeartbeatResponse, notify)

    async with meeting(peer) as connection:
        for number in range(4):
            post(number)
        await peer.wait_for(4)
        await peer.answer(2)
        await wait_all_tasks_blocked()
        assert heard == [(0, 0), (1, 1)]
        connection.give_up()
        silence = "the connection to h:9092 failed: no answer in time"
        assert heard[2:] == [(2, silence), (3, silence)]
        with pytest.raises(ConnectionFailed, match="is closed"):
            post(4)
        assert len(heard) == 4


async def test_no_more_than_so_many(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "MAX_IN_FLIGHT", 3)
    log = list[int]()
    async with meeting(peer) as connection, trio.open_nursery() as nursery:
        for number in range(8):
            nursery.start_soon(beat, connection, number, log)
            await wait_all_tasks_blocked()
        assert len(peer.got) == 3
        for done in range(8):
            assert connection.in_flight_count <= 3
            await peer.wait_for(1)
            await peer.answer()
            await wait_all_tasks_blocked()
            assert log == list(range(done + 1))
    assert [body.generation_id for body in peer.all_got] == list(range(8))


async def test_a_session_that_ends_is_left_when_nothing_is_on_its_way(
    peer: Peer, autojump_clock: MockClock
) -> None:
    log = list[int]()
    async with meeting(peer, [10]) as connection, trio.open_nursery() as nursery:
        nursery.start_soon(beat, connection, 1, log)
        await trio.sleep(11)
        for number in (2, 3):
            nursery.start_soon(beat, connection, number, log)
            await wait_all_tasks_blocked()
        assert len(peer.streams) == 1
        await peer.answer()
        await peer.wait_for(2)
        assert len(peer.streams) == 2
        await peer.answer(2)
    assert log == [1, 2, 3]


async def test_a_request_without_an_answer(peer: Peer) -> None:
    log = list[int]()
    async with meeting(peer) as connection, trio.open_nursery() as nursery:
        await connection.send_without_answer(
            ApiKey.PRODUCE, ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
        )
        await peer.wait_for(1)
        peer.got.clear()
        nursery.start_soon(beat, connection, 1, log)
        await peer.wait_for(1)
        await peer.answer()
    assert log == [1]


async def test_last_words_of_who_is_cancelled(peer: Peer) -> None:
    log = list[int]()
    with trio.CancelScope() as scope:
        async with meeting(peer) as connection:
            try:
                scope.cancel()
                await trio.sleep_forever()
            finally:
                with trio.CancelScope(shield=True):
                    async with trio.open_nursery() as goodbyes:
                        goodbyes.start_soon(beat, connection, 1, log)
                        await peer.wait_for(1)
                        await peer.answer()
    assert scope.cancelled_caught
    assert log == [1]


async def test_an_error_in_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(ClientError, match="mine"):
        async with Connections():
            raise ClientError("mine")
