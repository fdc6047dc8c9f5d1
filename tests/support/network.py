"""A socket server with a few handlers in the test's own loop, and a raw client for it."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import trio

from pybroker_kafka.broker.handlers.api_versions import ApiVersionsHandler
from pybroker_kafka.broker.handlers.describe_cluster import DescribeClusterHandler
from pybroker_kafka.broker.handlers.metadata import MetadataHandler
from pybroker_kafka.broker.network.connection_quotas import ConnectionQuotas
from pybroker_kafka.broker.network.dispatcher import Dispatcher
from pybroker_kafka.broker.network.request import Handler, Request
from pybroker_kafka.broker.network.socket_server import ListenerSpec, SocketServer, SocketSettings
from pybroker_kafka.broker.observability.metrics import BrokerMetrics
from pybroker_kafka.broker.quotas.client_quotas import ClientQuotas
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersionsRequest
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from pybroker_kafka.protocol.framing import decode_response, encode_request
from pybroker_kafka.protocol.schema import Message
from pybroker_kafka.replication.metadata_cache import MetadataCache
from tests.support.frames import joined
from tests.support.patience import eventually

LISTENER = "PLAINTEXT"
PATIENCE_SECONDS = 120


class Heartbeats:
    """Answers Heartbeat at once, or keeps it until the test says so ("park" as group id)."""

    def __init__(self) -> None:
        self.parked: list[Request] = []
        self.seen: list[str] = []
        self.arrived = trio.Event()

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {ApiKey.HEARTBEAT: self.heartbeat}

    def heartbeat(self, request: Request) -> None:
        group = request.body.group_id
        self.seen.append(group)
        if group == "park":
            self.parked.append(request)
            self.arrived.set()
        elif group == "fail":
            raise RuntimeError("a handler that fails on purpose")
        elif group.startswith("throttle"):
            request.throttle_ms = int(group[len("throttle") :])
            request.respond(HeartbeatResponse(throttle_time_ms=request.throttle_ms))
        else:
            request.respond(HeartbeatResponse(throttle_time_ms=len(self.seen)))


class RunningNetwork:
    def __init__(
        self, server: SocketServer, dispatcher: Dispatcher, port: int, heartbeats: Heartbeats
    ) -> None:
        self.server = server
        self.dispatcher = dispatcher
        self.port = port
        self.heartbeats = heartbeats

    @property
    def connections(self) -> int:
        return self.server.quotas.total

    async def wait_for_connections(self, count: int) -> None:
        await eventually(lambda: self.connections == count)

    async def connect(self) -> RawClient:
        return RawClient(await trio.open_tcp_stream("127.0.0.1", self.port))


class RawClient:
    """Speaks frames over a socket; knows nothing of pipelining limits or retries."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._buffer = bytearray()

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def receive_frame(self) -> bytes | None:
        """The next frame without its size; None at the end of the stream."""
        with trio.fail_after(PATIENCE_SECONDS):
            while True:
                if len(self._buffer) >= 4:
                    size = struct.unpack_from(">i", self._buffer)[0]
                    if len(self._buffer) >= 4 + size:
                        frame = bytes(self._buffer[4 : 4 + size])
                        del self._buffer[: 4 + size]
                        return frame
                data = await self._receive_some()
                if not data:
                    return None
                self._buffer += data

    async def _receive_some(self) -> bytes:
        try:
            return bytes(await self.stream.receive_some(65536))
        except trio.BrokenResourceError:
            return b""

    async def is_closed(self) -> bool:
        """Whether the server closes the connection without another byte."""
        return await self.receive_frame() is None and not self._buffer

    async def ask(self, message: Message, version: int, correlation_id: int = 1) -> Any:
        key = message._spec.api_key
        await self.send(frame_of(message, version, correlation_id))
        frame = await self.receive_frame()
        assert frame is not None, "the server closed the connection"
        answered, response = decode_response(key, version, frame)
        assert answered == correlation_id
        return response


async def answers(client: RawClient, count: int, version: int = 4) -> list[int]:
    """The correlation ids of the next responses."""
    ids = []
    for _ in range(count):
        frame = await client.receive_frame()
        assert frame is not None
        ids.append(decode_response(ApiKey.HEARTBEAT, version, frame)[0])
    return ids


def frame_of(
    message: Message, version: int, correlation_id: int, client_id: str | None = "test"
) -> bytes:
    parts = encode_request(message._spec.api_key, version, correlation_id, client_id, message)
    return joined(parts)


def heartbeat(group: str, correlation_id: int, version: int = 4) -> bytes:
    message = HeartbeatRequest(group_id=group, generation_id=1, member_id="m")
    return frame_of(message, version, correlation_id)


def api_versions(version: int = 3) -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="test", client_software_version="1.0")


@asynccontextmanager
async def running_network(
    settings: SocketSettings | None = None,
    quotas: ConnectionQuotas | None = None,
    client_quotas: ClientQuotas | None = None,
    protocol: str = "PLAINTEXT",
) -> AsyncIterator[RunningNetwork]:
    metrics = BrokerMetrics()
    dispatcher = Dispatcher(metrics)
    if client_quotas is not None:
        dispatcher.meter_with(client_quotas)
    heartbeats = Heartbeats()
    dispatcher.register(heartbeats.handlers())
    cache = MetadataCache(1, "cluster")
    for handler in (
        ApiVersionsHandler(dispatcher.served),
        MetadataHandler(cache),
        DescribeClusterHandler(cache),
    ):
        dispatcher.register(handler.handlers())
    server = SocketServer(
        dispatcher, quotas or ConnectionQuotas(), settings or SocketSettings(), metrics
    )
    bound = server.bind([ListenerSpec(LISTENER, protocol, "127.0.0.1", 0)])
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield RunningNetwork(server, dispatcher, bound[LISTENER][1], heartbeats)
        nursery.cancel_scope.cancel()
