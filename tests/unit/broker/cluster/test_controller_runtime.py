"""Controllers over a real ZooKeeper connection, with brokers that are sockets."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio

from pybroker_kafka.broker.cluster.broker_connection import BrokerConnection, ChannelError
from pybroker_kafka.broker.cluster.control_channel import ControlChannel
from pybroker_kafka.broker.cluster.controller_client import ControllerClient, ControllerUnavailable
from pybroker_kafka.broker.cluster.controller_runtime import ControllerRuntime
from pybroker_kafka.broker.zk.registration import ensure_top_level_paths, register_broker
from pybroker_kafka.broker.zk.zookeeper_client import ZooKeeperClient, open_zookeeper
from pybroker_kafka.protocol.apis.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from pybroker_kafka.protocol.apis.update_metadata import UpdateMetadataRequest
from pybroker_kafka.protocol.codec import encode
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.framing import encode_response
from pybroker_kafka.protocol.schema import Message
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.protocol.zookeeper.operations import Delete, Exists
from pybroker_kafka.replication.controller import events, topic_admin, znodes
from pybroker_kafka.replication.controller.config import ControllerConfig
from pybroker_kafka.replication.controller.topic_admin import NewTopic
from pybroker_kafka.replication.controller.znodes import BrokerRegistration
from pybroker_kafka.replication.metadata_cache import BrokerNode, Endpoint, MetadataCache
from tests.support.controller_cluster import SimulatedBroker
from tests.support.embedded_zookeeper import embedded_zookeeper
from tests.support.frames import decode_request, joined
from tests.support.raw_zookeeper import close_session

SESSION_TIMEOUT_MS = 4_000


class SocketBroker(SimulatedBroker):
    """Answers control requests over a socket. `misbehave` closes connections instead."""

    def __init__(self, broker_id: int) -> None:
        super().__init__(broker_id)
        self.received: list[Message] = []
        self.misbehave = 0
        self.changed = trio.Event()
        self.endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 0)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        self.endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port)
        async with trio.open_nursery() as nursery:
            task_status.started()
            nursery.start_soon(trio.serve_listeners, self._serve, [listener])

    async def _serve(self, stream: trio.SocketStream) -> None:
        buffer = bytearray()
        async for data in stream:
            buffer += data
            while len(buffer) >= 4 and len(buffer) >= 4 + int.from_bytes(buffer[:4], "big"):
                size = int.from_bytes(buffer[:4], "big")
                header, request = decode_request(bytes(buffer[4 : 4 + size]))
                del buffer[: 4 + size]
                self.received.append(request)
                self._tell()
                if self.misbehave:
                    self.misbehave -= 1
                    return
                response = self.answer(request)
                self._tell()
                parts = encode_response(
                    header.api_key, header.api_version, header.correlation_id, response
                )
                await stream.send_all(joined(parts))

    def _tell(self) -> None:
        changed, self.changed = self.changed, trio.Event()
        changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        with trio.fail_after(120):
            while not condition():
                await self.changed.wait()


class Member:
    """A broker of the cluster under test: socket, ZooKeeper session, controller."""

    def __init__(self, broker_id: int, zookeeper: ZooKeeperClient) -> None:
        self.broker = SocketBroker(broker_id)
        self.zookeeper = zookeeper
        self.registrations = 0
        self.sessions: list[int] = []
        self.runtime = ControllerRuntime(
            zookeeper,
            ControllerConfig(broker_id),
            clock=lambda: 0,
            wall=WallClock(),
            new_topic_id=lambda: b"i" * 16,
            register=self.register,
        )

    async def register(self) -> None:
        self.registrations += 1
        session = self.zookeeper.session[0]
        record = BrokerRegistration(self.broker.broker_id, (self.broker.endpoint,))
        await self.zookeeper.run(register_broker(record, 0, session, tuple(self.sessions)))
        self.sessions.append(session)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with embedded_zookeeper() as port:
        yield port


@pytest.fixture
def connect(port: int, request: pytest.FixtureRequest) -> str:
    return f"127.0.0.1:{port}/{request.node.name}"


@asynccontextmanager
async def member(broker_id: int, connect: str) -> AsyncIterator[Member]:
    """Running until the block ends, when its session is closed."""
    async with open_zookeeper(connect, session_timeout_ms=SESSION_TIMEOUT_MS) as zookeeper:
        await zookeeper.run(ensure_top_level_paths())
        joined = Member(broker_id, zookeeper)
        async with trio.open_nursery() as nursery:
            await nursery.start(joined.broker.run)
            await joined.register()
            await nursery.start(joined.runtime.run)
            await joined.broker.until(lambda: joined.broker.cache.is_alive(broker_id))
            yield joined
            nursery.cancel_scope.cancel()


async def create(joined: Member, topic: str, replicas: list[int]) -> None:
    await joined.zookeeper.run(
        topic_admin.create_topic(NewTopic(topic, b"t" * 16, {0: replicas}, {}))
    )


def settled(*members: Member) -> bool:
    """One of them is controller, in a second term."""
    active = [joined.runtime.machine for joined in members if joined.runtime.is_active]
    return len(active) == 1 and active[0].context.epoch == 2


def leads(joined: Member, topic: str, leader: int) -> bool:
    state = joined.broker.cache.partition_state(topic, 0)
    return state is not None and state.leader == leader


async def test_brokers_hear_of_topics_and_of_each_other(connect: str) -> None:
    async with member(1, connect) as first, member(2, connect) as second:
        assert first.runtime.is_active
        assert not second.runtime.is_active
        await create(first, "t", [2, 1])
        for joined in (first, second):
            await joined.broker.until(partial(leads, joined, "t", 2))
            assert joined.broker.cache.controller_id == 1
        assert ("t", 0) in second.broker.replicas


async def test_a_request_is_sent_until_it_is_answered(connect: str) -> None:
    async with member(1, connect) as first, member(2, connect) as second:
        second.broker.misbehave = 2
        second.broker.received.clear()
        await create(first, "t", [2])
        await second.broker.until(partial(leads, second, "t", 2))
        kinds = [type(request).__name__ for request in second.broker.received]
        assert kinds == ["LeaderAndIsrRequest"] * 3 + ["UpdateMetadataRequest"]


async def test_the_next_controller_takes_over_when_the_first_is_gone(connect: str) -> None:
    async with member(2, connect) as second:
        async with member(1, connect) as first:
            await second.zookeeper.execute_one(Delete(znodes.CONTROLLER))
            with trio.fail_after(120):
                while not settled(first, second):
                    await second.runtime.event_processed()
            await create(second, "t", [1, 2])
            await second.broker.until(partial(leads, second, "t", 1))
        await second.broker.until(partial(leads, second, "t", 2))
        assert second.runtime.is_active
        assert set(second.broker.cache.alive_brokers()) == {2}


def port_of(connect: str) -> int:
    return int(connect.partition("/")[0].rpartition(":")[2])


@pytest.mark.parametrize("queued", [0, 300])
async def test_an_expired_controller_registers_anew_and_is_elected_again(
    connect: str, queued: int
) -> None:
    """With `queued`, what the old session had to say of /controller waits when the new one begins:
    an election on its account would be resigned from, with nobody to win the next one."""
    async with member(1, connect) as first:
        await create(first, "t", [1])
        await first.broker.until(partial(leads, first, "t", 1))
        epoch = first.runtime.machine.context.epoch
        close_session(port_of(connect), first.zookeeper.session)
        for _ in range(queued):
            first.runtime.post(events.NodeChanged(znodes.CONTROLLER))
        with trio.fail_after(120):
            while first.registrations < 2 or not first.runtime.is_active:
                await first.runtime.event_processed()
        await create(first, "settled", [1])
        await first.broker.until(partial(leads, first, "settled", 1))
        assert first.runtime.machine.context.epoch == epoch + 1
        assert (await first.zookeeper.execute_one(Exists(znodes.broker_path(1)))).ok
        await create(first, "u", [1])
        await first.broker.until(partial(leads, first, "u", 1))


async def test_questions_are_answered(connect: str) -> None:
    async with member(1, connect) as first:
        found = await first.zookeeper.execute_one(Exists(znodes.broker_path(1)))
        assert found.stat is not None
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=found.stat.czxid)
        answer = await first.runtime.ask(lambda t: events.AllocateProducerIds(t, request))
        assert (answer.error_code, answer.producer_id_start, answer.producer_id_len) == (0, 0, 1000)


# The channel, the connection and the client by themselves


async def test_a_silent_broker_times_out(nursery: trio.Nursery) -> None:
    broker = SocketBroker(1)
    await nursery.start(broker.run)
    broker.answer = lambda request: trio.Event()  # no message: the answer never comes

    async def swallow(stream: trio.SocketStream) -> None:
        await trio.sleep_forever()

    listeners = await nursery.start(partial(trio.serve_tcp, swallow, 0, host="127.0.0.1"))
    port = listeners[0].socket.getsockname()[1]
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port)
    connection = BrokerConnection(endpoint, "1", timeout_ms=50)
    with pytest.raises(ChannelError, match="no answer within 50 ms"):
        await connection.send(UpdateMetadataRequest(), 8)


@pytest.mark.parametrize("garbage", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x02ab"])
async def test_garbage_is_an_error_and_closes(nursery: trio.Nursery, garbage: bytes) -> None:
    async def answer(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(garbage)
        await stream.receive_some()

    listeners = await nursery.start(partial(trio.serve_tcp, answer, 0, host="127.0.0.1"))
    port = listeners[0].socket.getsockname()[1]
    endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", port)
    connection = BrokerConnection(endpoint, "1", timeout_ms=2_000)
    with pytest.raises(ChannelError, match="cannot read the answer"):
        await connection.send(UpdateMetadataRequest(), 8)


async def test_queued_requests_follow_a_broker_to_its_new_endpoint(nursery: trio.Nursery) -> None:
    broker = SocketBroker(1)
    await nursery.start(broker.run)
    answered = []
    nowhere = Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 1)
    channel = ControlChannel(
        BrokerConnection(nowhere, "1"), lambda *exchange: answered.append(exchange)
    )
    requests = [UpdateMetadataRequest(controller_id=index) for index in range(3)]
    for request in requests:
        channel.enqueue(request, 8)
    nursery.start_soon(channel.run)
    await trio.testing.wait_all_tasks_blocked(0.01)  # it waits to try again
    assert len(channel) == 3
    channel.redirect(broker.endpoint)
    await broker.until(lambda: len(broker.received) == 3)
    assert [encode(r, 8) for r in broker.received] == [encode(r, 8) for r in requests]
    nursery.cancel_scope.cancel()


class FixedCluster(MetadataCache):
    """A cache that says what the test wants to hear."""

    def point_to(self, broker_id: int, endpoint: Endpoint) -> None:
        self.controller_id = broker_id
        self._brokers = {broker_id: BrokerNode(broker_id, {"PLAINTEXT": endpoint})}


@pytest.mark.parametrize(
    "code", [ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_CONTROLLER_EPOCH], ids=lambda code: code.name
)
async def test_the_controller_client_finds_the_controller(
    nursery: trio.Nursery, code: ErrorCode
) -> None:
    old, new = SocketBroker(1), SocketBroker(2)
    await nursery.start(old.run)
    await nursery.start(new.run)
    cache = FixedCluster()
    client = ControllerClient(3, cache, "PLAINTEXT")
    with pytest.raises(ControllerUnavailable):
        await client.request(AllocateProducerIdsRequest(), 0, timeout_ms=100)

    def refuse(request: object) -> object:
        cache.point_to(2, new.endpoint)
        return AllocateProducerIdsResponse(error_code=code)

    old.answer = refuse
    new.answer = lambda request: AllocateProducerIdsResponse(producer_id_start=request.broker_epoch)
    cache.point_to(1, old.endpoint)
    epochs = iter((5, 6))
    response = await client.request(
        lambda: AllocateProducerIdsRequest(broker_id=3, broker_epoch=next(epochs)), 0
    )
    assert isinstance(response, AllocateProducerIdsResponse)
    assert response.producer_id_start == 6, "the request is made anew for each try"
    client.close()
    nursery.cancel_scope.cancel()
