"""Connections of real clients to simulated brokers: streams of bytes for trio, over the network.

A `Host` is a machine with clients on it; its `reach` is what a client takes instead of TCP. A
connection is what TCP makes of a bad network: bytes come in their order, or not at all; what a cut
link holds up comes once it is mended. Rules:
- who is refused, or reset, is told; who is not answered waits, until TCP's keepalive finds that the
  broker's machine is not reached, or does not know the connection;
- a broker handles one request of a connection at a time, or produce requests as fast as it can
  append them, and answers in their order;
- requests that a client has left behind still arrive, all of them or none, at some later time.

Client's frames are looked at when they are sent (`Host.on_sent`), and travel as messages.
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
from pybroker_kafka.protocol.apis.produce import ProduceRequest
from pybroker_kafka.protocol.framing import decode_request_header, encode_response
from tests.simulation.broker import Produced
from tests.simulation.kernel import Process
from tests.simulation.network import CONNECT_REFUSED_MS, LONG_DELAY_MS
from tests.support.frames import joined

if TYPE_CHECKING:
    from tests.simulation.client_cluster import ClientCluster, ServingBroker

FRAME_SIZE_BYTES = 4
LOOK_AGAIN_MS = 40  # at a link that is cut
ABANDONED_SHARE = 0.5  # of connections that clients leave: their requests arrive all the same
PIECES_SHARE = 0.02  # of answers that come in two pieces


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
        self._is_reset = False
        self._is_closed = False

    # For the network

    def take(self, data: bytes) -> None:
        self._arrived += data
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
        while not self._arrived and not self._is_reset and not self._is_closed:
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

    def put(self, item: Any) -> None:
        self._waiting.append(item)
        if len(self._waiting) == 1:
            self._next(self._connection.network.delay_ms())

    def _next(self, delay_ms: int) -> None:
        self._connection.kernel.after(delay_ms, self._receiver, self._arrived)

    def _arrived(self) -> None:
        if not self._connection.is_up:
            self._next(LOOK_AGAIN_MS)
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
        self._generation = broker.process.generation
        self._up = Lane(self, None, self._request_arrived)
        self._down = Lane(self, host.process, self._answer_arrived)
        self.is_silent = False  # its answers are lost
        self._arrives_late = False
        self._unanswered = 0  # probes in a row
        self.kernel.after(KEEPALIVE_IDLE_SECONDS * 1000, None, self._probe)
        # At the broker: what is not handled yet, and what is not answered, in their order.
        self._received: deque[Sent] = deque()
        self._handled: deque[Answering] = deque()

    @property
    def is_up(self) -> bool:
        return self.network.is_up(self.host.name, self.broker.name)

    @property
    def in_flight(self) -> int:
        return len(self._handled) + len(self._received)

    @property
    def _is_of_this_life(self) -> bool:
        process = self.broker.process
        return process.alive and process.generation == self._generation

    # The client's end

    def send(self, frame: bytes) -> None:
        sent = read_request(frame)
        self.host.on_sent(self, sent)
        if self.is_open:
            self._up.put(sent)

    def client_closed(self) -> None:
        """What is under way arrives, or does not."""
        if not self.is_open:
            return
        self._close()
        self._arrives_late = self.kernel.chance(ABANDONED_SHARE)

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

    def _request_arrived(self, sent: Sent) -> None:
        if not self._is_of_this_life:
            self.reset()  # nobody knows this connection
        elif self.is_open:
            self.kernel.after(0, self.broker.process, self._receive, sent)
        elif self._arrives_late:
            delay_ms = self.kernel.random.randint(0, LONG_DELAY_MS)
            self.kernel.after(delay_ms, self.broker.process, self._receive, sent)

    def _receive(self, sent: Sent) -> None:
        self._received.append(sent)
        self._handle_next()

    def _handle_next(self) -> None:
        if not self.is_open and not self._arrives_late:
            self._received.clear()
        while self._received and (
            not self._handled
            or (
                self.host.pipelines
                and isinstance(self._received[0].message, ProduceRequest)
                and self._handled[-1].is_appended
            )
        ):
            answering = Answering(self, self._received.popleft())
            self._handled.append(answering)
            exchange: Any = answering
            self.broker.receive(exchange)

    def look_again(self) -> None:
        """Another request may be handled."""
        if self._received:
            self.kernel.after(0, self.broker.process, self._handle_next)

    def answered(self) -> None:
        """The oldest request that is handled, or a later one, has its answer."""
        while self._handled and self._handled[0].frame is not None:
            frame = self._handled.popleft().frame
            if self.is_open and frame:
                self._send_answer(frame)
        self.look_again()

    def _send_answer(self, frame: bytes) -> None:
        if self.kernel.chance(PIECES_SHARE):
            cut = self.kernel.random.randint(1, len(frame) - 1)
            self._down.put(frame[:cut])
            self._down.put(frame[cut:])
        else:
            self._down.put(frame)

    def _answer_arrived(self, data: bytes) -> None:
        if self.is_open and not self.host.swallows(self):
            self.stream.take(data)


class Answering:
    """A client's request at the broker: what brokers use of an `Exchange`."""

    __slots__ = ("connection", "frame", "is_appended", "message", "network", "number", "sent",
                 "source", "version")  # fmt: skip

    def __init__(self, connection: Connection, sent: Sent) -> None:
        self.connection = connection
        self.network = connection.network
        self.number = connection.number
        self.sent = sent
        self.source = connection.host.process
        self.message = sent.message
        self.version = sent.version
        self.is_appended = False
        self.frame: bytes | None = None  # of the answer

    def respond(self, response: Any) -> None:
        if self.frame is not None:
            return  # its connection was closed
        if isinstance(response, Produced):
            response = response.response
        self.connection.host.cluster.judge.answered(self, response)
        sent = self.sent
        parts = encode_response(sent.api_key, sent.version, sent.correlation_id, response)
        self.frame = joined(parts)
        self.connection.answered()

    def appended(self) -> None:
        """Its records are in the log: the next one may be handled."""
        self.is_appended = True
        self.connection.look_again()

    def fail(self) -> None:
        """The broker closes the connection instead."""
        self.frame = b""
        self.connection.reset()


class Host:
    """Where clients run: a name that links can be cut from."""

    def __init__(self, cluster: ClientCluster, name: str) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.name = name
        self.process = Process(name)
        self.process.tasks = cluster.programs
        self.connections: dict[Connection, None] = {}
        self.pipelines = cluster.kernel.chance(0.5)
        # By broker: until when it is refused, and until when its answers are lost.
        self.refused_until_ms: dict[str, int] = {}
        self.swallowed_until_ms: dict[str, int] = {}
        self.on_sent: Callable[[Connection, Sent], None] = cluster.judge.sent

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
