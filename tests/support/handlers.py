"""Calls broker handlers as the wire does, without a socket: a request is encoded, decoded, handled
by the real handler, and its response encoded and decoded again in the request's version.
"""

from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any

import trio

from pybroker_kafka.broker.network.request import ConnectionInfo, Request, Route, Wait
from pybroker_kafka.broker.network.turns import Failed, Steps, Turns
from pybroker_kafka.broker.observability.request_metrics import RequestMetrics
from pybroker_kafka.protocol import codec
from pybroker_kafka.protocol.api import ApiKey, request_class, response_class
from tests.support.frames import joined

NOTHING = "no response"
CLOSED = "closed"


class RecordingSink:
    """The network side of a request: it only remembers what left."""

    def __init__(self, listener: str, number: int, key: ApiKey, version: int) -> None:
        self.peer = ConnectionInfo("127.0.0.1", 40_000, listener, number=number)
        self.closed = False
        self.received_at = perf_counter()
        self.memo: Any = None
        self.answer: Any = None
        self.answered = trio.Event()
        self.known_waits: list[Wait] = []
        self._key = key
        self._version = version

    def respond(self, request: Request, parts: list[Any] | None) -> None:
        if parts is None:
            self._take(NOTHING)
            return
        frame = joined(parts)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        tagged = request.route.tagged_response
        of = response_class(self._key)
        self._take(codec.decode(of, self._version, frame[4:], 5 if tagged else 4))

    def appended(self, request: Request) -> None:
        """The next request may come; there is none."""

    def close_instead_of(self, request: Request) -> None:
        self._take(CLOSED)

    def fail(self, error: Exception) -> None:
        raise error

    def add_wait(self, wait: Wait) -> None:
        self.known_waits.append(wait)

    def remove_wait(self, wait: Wait) -> None:
        self.known_waits.remove(wait)

    def _take(self, answer: Any) -> None:
        assert self.answer is None, "answered twice"
        self.answer = answer
        self.answered.set()


class AtOnce(Turns):
    """Turns of a request that is alone: all of them one after the other."""

    def begin(self, steps: Steps, failed: Failed) -> None:
        del failed  # the test has failed, too
        for _ in steps:
            pass

    def add(self, steps: Steps, failed: Failed) -> None:
        self.begin(steps, failed)


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
        as_body: Callable[[Any], Any] = lambda body: body,
        template_of: Callable[[Any], Any] = lambda _: None,
        access: Any = None,
    ) -> None:
        """`as_body` makes of the message what the dispatcher would, `template_of` the template of
        its connection. `access`: the client's permissions, all of them without it."""
        handler = handlers.handlers()[key]
        frame = bytearray(codec.encode(message, version))
        body = codec.decode(request_class(key), version, memoryview(frame))
        self._connection = RecordingSink(listener, connection, key, version)
        self._connection.peer.access = access
        turns = AtOnce()
        route = Route(key, version, handler, RequestMetrics(key.name, version), turns)
        body = as_body(body)
        self._connection.memo = template_of(body)
        self.request = Request(
            self._connection, route, 7, client_id, body, len(frame), perf_counter()
        )
        steps = handler(self.request)
        if isinstance(steps, Generator):
            turns.begin(steps, self._connection.fail)

    @property
    def known_waits(self) -> list[Wait]:
        """Those that its connection knows."""
        return self._connection.known_waits

    @property
    def waits(self) -> bool:
        return self.answer is None

    async def wait(self) -> Any:
        await self._connection.answered.wait()
        return self.answer

    @property
    def answer(self) -> Any:
        return self._connection.answer
