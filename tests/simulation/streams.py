"""Connections of real clients to simulated brokers: streams of bytes for trio, over the network.

A `Host` is a machine with clients on it; its `reach` is what a client takes instead of TCP. The
broker's end is a `sockets.Socket`, below the real `broker.network`. A connection is what TCP makes
of a bad network: bytes come in their order, or not at all; what a cut link holds up comes once it
is mended. Rules:
- who is refused, or reset, is told; who is not answered waits, until TCP's keepalive finds that the
  broker's machine is not reached, or does not know the connection;
- requests that a client has left behind still arrive, all of them or none, at some later time.

Frames are looked at where they enter the network, of the client (`Host.on_sent`) and of the broker
(`Host.on_answered`): a connection's answers come in the order of its requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import trio

from pybroker_kafka.client.security.connector import (
    KEEPALIVE_COUNT,
    KEEPALIVE_IDLE_SECONDS,
    KEEPALIVE_INTERVAL_SECONDS,
)
from pybroker_kafka.protocol import codec
from pybroker_kafka.protocol.api import ApiKey, request_class
from pybroker_kafka.protocol.framing import decode_request_header
from tests.simulation.kernel import Process
from tests.simulation.network import CONNECT_REFUSED_MS, LONG_DELAY_MS

if TYPE_CHECKING:
    from tests.simulation.client_cluster import ClientCluster, ServingBroker

FRAME_SIZE_BYTES = 4
LOOK_AGAIN_MS = 40  # at a link that is cut
ABANDONED_SHARE = 0.5  # of connections that clients leave: their requests arrive all the same
PIECES_SHARE = 0.02  # of requests and answers that come in two pieces
ROOMS = (1_000, 64_000, 64_000)  # for bytes under way from a broker

END = object()
RESET = object()


class Sent(NamedTuple):
    """A request on its way."""

    api_key: ApiKey
    version: int
    correlation_id: int
    client_id: str
    message: Any
    size: int


def read_request(frame: bytes) -> Sent:
    """Of a whole frame, size first."""
    view = memoryview(frame)[FRAME_SIZE_BYTES:]
    assert int.from_bytes(frame[:FRAME_SIZE_BYTES], "big") == len(view), "not one frame"
    header, position = decode_request_header(view)
    key = ApiKey(header.api_key)
    message = codec.decode(request_class(key), header.api_version, view, position)
    return Sent(
        key, header.api_version, header.correlation_id, header.client_id or "", message, len(frame)
    )


class Stream(trio.abc.Stream):
    """The client's end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._arrived = bytearray()
        self._news = trio.Event()
        self._is_ended = False
        self._is_reset = False
        self._is_closed = False

    # For the network

    def take(self, data: bytes) -> None:
        self._arrived += data
        self._news.set()

    def end(self) -> None:
        self._is_ended = True
        self._news.set()

    def reset(self) -> None:
        self._is_reset = True
        self._news.set()

    # For the client

    async def send_all(self, data: Any) -> None:
        await trio.lowlevel.checkpoint()
        if self._is_closed:
            raise trio.ClosedResourceError("this end was closed")
        if self._is_reset:
            raise trio.BrokenResourceError("reset by the broker")
        self._connection.send(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        while not (self._arrived or self._is_ended or self._is_reset or self._is_closed):
            self._news = trio.Event()
            await self._news.wait()
        if self._is_closed:
            raise trio.ClosedResourceError("this end was closed")
        if self._is_reset:
            raise trio.BrokenResourceError("reset by the broker")
        data = bytes(self._arrived[:max_bytes])
        del self._arrived[: len(data)]
        return data

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._news.set()
            self._connection.client_closed()
        await trio.lowlevel.checkpoint()


class Lane:
    """One direction of a connection: what is put in comes out in order, each some time later."""

    def __init__(
        self, connection: Connection, receiver: Process | None, deliver: Callable[[Any], None]
    ) -> None:
        self._connection = connection
        self._receiver = receiver
        self._deliver = deliver
        self._waiting: deque[Any] = deque()
        self._held_up_ms = 0

    def put(self, item: Any) -> None:
        self._waiting.append(item)
        if len(self._waiting) == 1:
            self._next(self._connection.network.delay_ms())

    def hold_up(self, delay_ms: int) -> None:
        """What is under way comes later, by so much."""
        self._held_up_ms = delay_ms

    def replace(self, item: Any) -> None:
        """This comes instead of what is under way."""
        if self._waiting:
            self._waiting = deque((item,))
        else:
            self.put(item)

    def _next(self, delay_ms: int) -> None:
        self._connection.kernel.after(delay_ms, self._receiver, self._arrived)

    def _arrived(self) -> None:
        if self._held_up_ms or not self._connection.is_up:
            delay_ms, self._held_up_ms = self._held_up_ms or LOOK_AGAIN_MS, 0
            self._next(delay_ms)
            return
        item = self._waiting.popleft()
        if self._waiting:
            self._next(self._connection.network.delay_ms() // 2)
        self._deliver(item)


class Connection:
    """Between a host and one life of a broker."""

    def __init__(self, host: Host, broker: ServingBroker, number: int) -> None:
        self.host = host
        self.broker = broker
        self.kernel = broker.kernel
        self.network = broker.cluster.network
        self.number = number
        self.stream = Stream(self)
        self.is_open = True
        self.is_silent = False  # its answers are lost
        self._generation = broker.process.generation
        self._socket = broker.ground.connect(self, self.kernel.random.choice(ROOMS))
        self._up = Lane(self, None, self._request_arrived)
        self._down = Lane(self, host.process, self._answer_arrived)
        self._arrives_late = False
        self._unanswered = 0  # probes in a row
        self.kernel.after(KEEPALIVE_IDLE_SECONDS * 1000, None, self._probe)
        # What the broker has not answered yet, in its order, and the part of an answer that it
        # has sent.
        self._asked: deque[Sent] = deque()
        self._sent_by_broker = bytearray()

    @property
    def is_up(self) -> bool:
        return self.network.is_up(self.host.name, self.broker.name)

    @property
    def _is_of_this_life(self) -> bool:
        process = self.broker.process
        return process.alive and process.generation == self._generation

    # The client's end

    def send(self, frame: bytes) -> None:
        sent = read_request(frame)
        self.host.on_sent(self, sent)
        if not self.is_open:
            return
        self._asked.append(sent)
        self._put(self._up, frame)

    def _put(self, lane: Lane, data: bytes) -> None:
        if len(data) > 1 and self.kernel.chance(PIECES_SHARE):
            cut = self.kernel.random.randint(1, len(data) - 1)
            lane.put(data[:cut])
            lane.put(data[cut:])
        else:
            lane.put(data)

    def client_closed(self) -> None:
        """What is under way arrives, or does not."""
        if not self.is_open:
            return
        self._close()
        self._arrives_late = self.kernel.chance(ABANDONED_SHARE)
        if self._arrives_late:
            self._up.hold_up(self.kernel.random.randint(0, LONG_DELAY_MS))
            self._up.put(END)
        else:
            self._up.replace(RESET)

    def reset(self) -> None:
        """Both ends learn of it; half of what is under way arrives all the same."""
        if not self.is_open:
            return
        self.client_closed()
        self.kernel.after(0, self.host.process, self.stream.reset)

    def _probe(self) -> None:
        """TCP's keepalive: the peer's machine does not know the connection, or is not reached."""
        if not self.is_open:
            return
        if not self.is_up or self.is_silent:
            self._unanswered += 1
        elif not self._is_of_this_life:
            self._unanswered = KEEPALIVE_COUNT
        else:
            self._unanswered = 0
        if self._unanswered >= KEEPALIVE_COUNT:
            self.reset()
            return
        seconds = KEEPALIVE_INTERVAL_SECONDS if self._unanswered else KEEPALIVE_IDLE_SECONDS
        self.kernel.after(seconds * 1000, None, self._probe)

    def _close(self) -> None:
        self.is_open = False
        self.host.connections.pop(self, None)

    # The broker's end

    def _request_arrived(self, item: Any) -> None:
        if not self._is_of_this_life or self._socket.is_closed:
            self.reset()  # nobody knows this connection
        elif item is RESET:
            self._socket.reset()
        elif item is END:
            self._socket.end()
        else:
            self._socket.take(item)

    def answer(self, data: bytes) -> None:
        """The broker sends."""
        answered = self._sent_by_broker
        answered += data
        while len(answered) >= FRAME_SIZE_BYTES:
            size = FRAME_SIZE_BYTES + int.from_bytes(answered[:FRAME_SIZE_BYTES], "big")
            if len(answered) < size:
                break
            frame = bytes(answered[FRAME_SIZE_BYTES:size])
            del answered[:size]
            correlation_id = int.from_bytes(frame[:FRAME_SIZE_BYTES], "big", signed=True)
            sent = self._asked.popleft()
            assert sent.correlation_id == correlation_id, f"{correlation_id} is answered: {sent}"
            self.host.on_answered(self, sent, frame)
        if self.is_open:
            self._put(self._down, data)
        else:
            self.kernel.after(self.network.delay_ms(), None, self._socket.reset)

    def broker_closed(self) -> None:
        if self.is_open:
            self._down.put(END)

    def _answer_arrived(self, item: Any) -> None:
        if item is END:
            if self.is_open and not self.host.swallows(self):
                self.stream.end()
            return
        if self._is_of_this_life and not self._socket.is_closed:
            self._socket.has_arrived(len(item))
        if self.is_open and not self.host.swallows(self):
            self.stream.take(item)


class Host:
    """Where clients run: a name that links can be cut from."""

    def __init__(self, cluster: ClientCluster, name: str) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.name = name
        self.process = Process(name)
        self.process.tasks = cluster.programs
        self.connections: dict[Connection, None] = {}
        # By broker: until when it is refused, and until when its answers are lost.
        self.refused_until_ms: dict[str, int] = {}
        self.swallowed_until_ms: dict[str, int] = {}
        self.on_sent: Callable[[Connection, Sent], None] = cluster.judge.sent
        self.on_answered: Callable[[Connection, Sent, bytes], None] = cluster.judge.answered

    async def reach(self, host: str, port: int) -> Stream:
        """Connect, as TCP does. Raises OSError."""
        del port
        broker = self.cluster.brokers[int(host[1:])]
        network = self.cluster.network
        while not network.is_up(self.name, host):  # noqa: ASYNC110
            await trio.sleep(LOOK_AGAIN_MS / 1000)
        await trio.sleep(network.delay_ms() / 1000)
        refused = self.kernel.now_ms < self.refused_until_ms.get(host, 0)
        if refused or not broker.process.alive or not broker.is_serving:
            await trio.sleep(CONNECT_REFUSED_MS / 1000)
            raise ConnectionRefusedError(f"{host} refuses connections")
        network.exchange_count += 1
        connection = Connection(self, broker, network.exchange_count)
        self.connections[connection] = None
        self.kernel.note(f"{self.name} connects to {host}: {connection.number}")
        return connection.stream

    def swallows(self, connection: Connection) -> bool:
        """Answers of this broker are lost, and nobody is told: once one is, so are all after it."""
        until_ms = self.swallowed_until_ms.get(connection.broker.name, 0)
        if self.kernel.now_ms < until_ms:
            connection.is_silent = True
        return connection.is_silent
