"""Calls broker handlers as the wire does, without a socket: a request is encoded, decoded, handled
by the real handler, and its response encoded and decoded again in the request's version.
"""

import inspect
from time import perf_counter
from typing import Any

import trio

from pybroker.broker.network.connection import ConnectionInfo
from pybroker.broker.network.request import Request, Route
from pybroker.broker.observability.metrics import RequestMetrics
from pybroker.protocol import codec
from pybroker.protocol.api import ApiKey, request_class, response_class

NOTHING = "no response"
CLOSED = "closed"


class _Channel:
    """The network side of a request: it only remembers what left."""

    def __init__(self, listener: str, connection: int) -> None:
        self.info = ConnectionInfo("127.0.0.1", 40_000, listener, number=connection)
        self.closed = False
        self.received_at = perf_counter()
        self.answer: Any = None
        self.answered = trio.Event()

    def take(self, answer: Any) -> None:
        assert self.answer is None, "answered twice"
        self.answer = answer
        self.answered.set()


class _AtOnce:
    """Turns of a request that is alone: all of them one after the other."""

    def begin(self, steps: Any) -> None:
        for _ in steps:
            pass


class _Pool:
    def __init__(self, key: ApiKey, version: int) -> None:
        self.turns = _AtOnce()
        self.key = key
        self.version = version

    def respond(self, request: Request, parts: list[Any] | None) -> None:
        channel: Any = request.channel
        if parts is None:
            channel.take(NOTHING)
            return
        frame = b"".join(part.read() if hasattr(part, "read") else bytes(part) for part in parts)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        tagged = request.route.tagged_response
        body = frame[4:]
        channel.take(codec.decode(response_class(self.key), self.version, body, 5 if tagged else 4))

    def close(self, request: Any) -> None:
        request.channel.take(CLOSED)

    def appended(self, request: Any) -> None:
        """The next request may come; there is none."""


class Call:
    """One request; `answer` is None while it waits."""

    def __init__(
        self,
        handlers: Any,
        key: ApiKey,
        version: int,
        message: Any,
        *,
        client_id: str = "client",
        listener: str = "PLAINTEXT",
        connection: int = 0,
    ) -> None:
        handler = handlers.handlers()[key]
        frame = bytearray(codec.encode(message, version))
        body = codec.decode(request_class(key), version, memoryview(frame))
        self._channel: Any = _Channel(listener, connection)
        pool: Any = _Pool(key, version)
        route = Route(key, version, handler, RequestMetrics(key.name, version))
        self.request = Request(
            pool, self._channel, route, 7, client_id, body, len(frame), perf_counter()
        )
        steps = handler(self.request)
        if inspect.isgenerator(steps):
            self.request.pool.turns.begin(steps)

    async def wait(self) -> Any:
        await self._channel.answered.wait()
        return self.answer

    @property
    def answer(self) -> Any:
        return self._channel.answer
