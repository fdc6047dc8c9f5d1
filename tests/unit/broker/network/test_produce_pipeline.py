"""Produce requests that wait for replicas: who may follow them, and in which order answers leave.

The handler here stands for the real one: "hold" as topic is in the log and waits, "keep" waits
without being in the log, all else is answered at once.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
import trio

from pybroker_kafka.broker.network.connection_quotas import ConnectionQuotas
from pybroker_kafka.broker.network.dispatcher import Dispatcher
from pybroker_kafka.broker.network.produce_pipeline import MAX_WAITING
from pybroker_kafka.broker.network.request import Handler, Request
from pybroker_kafka.broker.network.socket_server import ListenerSpec, SocketServer, SocketSettings
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pybroker_kafka.protocol.framing import decode_response
from tests.support.network import PATIENCE_SECONDS, Heartbeats, RawClient, frame_of, heartbeat
from tests.support.patience import eventually

VERSION = 9


class Produces:
    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.records: list[bytes] = []

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.PRODUCE: self.produce}

    def produce(self, request: Request) -> None:
        topic = request.body.topic_data[0]
        self.requests.append(request)
        self.records.append(bytes(topic.partition_data[0].records))
        if topic.name == "hold":
            request.appended()
        elif topic.name == "close":
            request.close()
        elif topic.name != "keep":
            self.answer(len(self.requests) - 1)

    def answer(self, number: int) -> None:
        self.requests[number].respond(ProduceResponse(throttle_time_ms=number))

    async def arrived(self, count: int) -> None:
        await eventually(lambda: len(self.requests) >= count, seconds=PATIENCE_SECONDS)


class Running(NamedTuple):
    client: RawClient
    produces: Produces
    heartbeats: Heartbeats

    async def next_answer(self) -> int:
        """The correlation id of the next produce response."""
        frame = await self.client.receive_frame()
        assert frame is not None, "the server closed the connection"
        return decode_response(ApiKey.PRODUCE, VERSION, frame)[0]


@asynccontextmanager
async def running(settings: SocketSettings | None = None) -> AsyncIterator[Running]:
    metrics = BrokerMetrics()
    dispatcher = Dispatcher(metrics)
    produces, heartbeats = Produces(), Heartbeats()
    dispatcher.register(produces.handlers())
    dispatcher.register(heartbeats.handlers())
    server = SocketServer(dispatcher, ConnectionQuotas(), settings or SocketSettings(), metrics)
    bound = server.bind([ListenerSpec("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0)])
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        stream = await trio.open_tcp_stream("127.0.0.1", bound["PLAINTEXT"][1])
        yield Running(RawClient(stream), produces, heartbeats)
        nursery.cancel_scope.cancel()


def produce(topic: str, correlation_id: int, size: int = 40, index: int = 0) -> bytes:
    records = bytes([correlation_id]) * size
    partition = PartitionProduceData(index=index, records=records)
    message = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )
    return frame_of(message, VERSION, correlation_id)


async def settled() -> None:
    """Long enough for the network to do what it should not do."""
    for _ in range(5):
        await trio.sleep(0.005)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("size", [40, 60_000])
async def test_appended_requests_let_the_next_in_and_are_answered_in_order(
    together: bool, size: int
) -> None:
    async with running() as it:
        frames = [produce("hold", number, size) for number in range(4)]
        for data in [b"".join(frames)] if together else frames:
            await it.client.send(data)
        await it.produces.arrived(4)
        assert it.produces.records == [bytes([number]) * size for number in range(4)]
        for number in (2, 1, 3, 0):
            it.produces.answer(number)
        assert [await it.next_answer() for _ in range(4)] == [0, 1, 2, 3]
        await it.client.send(heartbeat("next", 7))
        assert await it.client.receive_frame() is not None


async def test_a_request_that_waits_keeps_its_message() -> None:
    async with running() as it:
        for number in range(6):
            await it.client.send(produce("hold", number, index=number))
        await it.produces.arrived(6)
        asked = [request.body.topic_data[0].partition_data[0] for request in it.produces.requests]
        assert [partition.index for partition in asked] == list(range(6))
        for number in range(6):
            it.produces.answer(number)
        assert [await it.next_answer() for _ in range(6)] == list(range(6))


async def test_an_answer_that_is_ready_at_once_waits_for_those_before_it() -> None:
    async with running() as it:
        await it.client.send(produce("hold", 0) + produce("at once", 1) + produce("hold", 2))
        await it.produces.arrived(3)
        await settled()
        it.produces.answer(0)
        assert [await it.next_answer() for _ in range(2)] == [0, 1]
        it.produces.answer(2)
        assert await it.next_answer() == 2


async def test_a_request_that_is_not_in_the_log_lets_nobody_in() -> None:
    async with running() as it:
        await it.client.send(produce("hold", 0) + produce("keep", 1) + produce("hold", 2))
        await it.produces.arrived(2)
        await settled()
        it.produces.answer(0)
        assert await it.next_answer() == 0
        await settled()
        assert len(it.produces.requests) == 2
        it.produces.answer(1)
        await it.produces.arrived(3)
        assert await it.next_answer() == 1


async def test_requests_that_wait_are_bounded() -> None:
    async with running() as it:
        total = MAX_WAITING + 5
        await it.client.send(b"".join(produce("hold", number) for number in range(total)))
        await it.produces.arrived(MAX_WAITING)
        await settled()
        assert len(it.produces.requests) == MAX_WAITING
        for number in range(total):
            await it.produces.arrived(number + 1)
            it.produces.answer(number)
            assert await it.next_answer() == number


@pytest.mark.parametrize("together", [True, False])
async def test_any_other_request_waits_until_all_are_answered(together: bool) -> None:
    async with running() as it:
        first, other = produce("hold", 0) + produce("hold", 1), heartbeat("other", 2)
        await it.client.send(first + other if together else first)
        await it.produces.arrived(2)
        if not together:
            await it.client.send(other)
        await settled()
        # More than a receive buffer behind it, which has to stay where it is.
        await it.client.send(produce("hold", 3, 40_000))
        await settled()
        assert it.heartbeats.seen == []
        it.produces.answer(1)
        it.produces.answer(0)
        assert [await it.next_answer() for _ in range(2)] == [0, 1]
        assert await it.client.receive_frame() is not None
        assert it.heartbeats.seen == ["other"]
        await it.produces.arrived(3)
        it.produces.answer(2)
        assert await it.next_answer() == 3


async def test_bad_bytes_close_after_the_answers() -> None:
    async with running() as it:
        await it.client.send(produce("hold", 0) + b"\xff\xff\xff\xff" * 4)
        await it.produces.arrived(1)
        await settled()
        it.produces.answer(0)
        assert await it.next_answer() == 0
        assert await it.client.is_closed()


async def test_a_close_for_a_handler_comes_after_the_answers() -> None:
    async with running() as it:
        await it.client.send(produce("hold", 0) + produce("close", 1) + produce("hold", 2))
        await it.produces.arrived(2)
        await settled()
        it.produces.answer(0)
        assert await it.next_answer() == 0
        assert await it.client.is_closed()
        assert len(it.produces.requests) == 2


async def test_a_client_that_has_said_all_still_gets_its_answers() -> None:
    async with running() as it:
        await it.client.send(produce("hold", 0) + produce("hold", 1))
        await it.client.stream.send_eof()
        await it.produces.arrived(2)
        await settled()
        it.produces.answer(1)
        it.produces.answer(0)
        assert [await it.next_answer() for _ in range(2)] == [0, 1]
        assert await it.client.is_closed()


async def test_answers_to_a_connection_that_is_gone_are_dropped() -> None:
    async with running() as it:
        await it.client.send(produce("hold", 0) + produce("hold", 1))
        await it.produces.arrived(2)
        it.produces.requests[0].close()
        it.produces.answer(1)
        assert await it.client.is_closed()


async def test_with_a_budget_of_request_memory_nobody_is_let_in() -> None:
    async with running(SocketSettings(queued_bytes=1 << 20)) as it:
        await it.client.send(produce("hold", 0) + produce("hold", 1))
        await it.produces.arrived(1)
        await settled()
        assert len(it.produces.requests) == 1
        it.produces.answer(0)
        await it.produces.arrived(2)
        it.produces.answer(1)
        assert [await it.next_answer() for _ in range(2)] == [0, 1]
