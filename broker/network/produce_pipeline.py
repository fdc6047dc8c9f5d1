"""Produce requests of one connection that wait for replicas while the next ones are appended.

Kafka mutes a connection from the arrival of a request to its response, so only one of a producer's
requests in flight is appended at a time, and each waits for its own round trip to the followers.
Here the next produce request of a connection is admitted once the records of the previous one
(acks=all) are in the log; followers then fetch the records of several at once.

The behaviour that a client can observe stays Kafka's:
- records are appended in the order of the requests, and answers leave in that order: an answer that
  is ready early waits here for the answers before it;
- a request that fails after its append (time-out, too few replicas in the ISR) does not affect the
  requests behind it, which Kafka would have appended a moment later all the same; nor does one that
  fails before its append: Kafka, too, continues with the next request in the socket;
- a client that closes its connection or dies can find unacknowledged records in the log: of at most
  MAX_WAITING requests instead of one, all of which it had sent;
- any other request waits, as in Kafka, until all before it are answered.

Invariants: each request has one answer, which leaves after the answers to the requests before it;
at most MAX_WAITING requests wait, and one is being answered.

Not admitted: requests while `queued.max.request.bytes` is set (memory is released at the answer,
and the budget would have several owners), and requests of a throttled client, which must be muted.
Bad bytes or a close by a handler take effect when the requests before are answered.

Mirrors nothing in Kafka; `max.in.flight.requests.per.connection` of clients bounds the same thing.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from ...protocol.api import ApiKey
from ...protocol.invariants import BrokenConnection
from .receive_buffer import ReceiveBuffer

if TYPE_CHECKING:
    from .request import Request

# Requests of one connection that wait for replicas. Java producers send at most 5 ahead.
MAX_WAITING: Final = 16

_API_KEY: Final = Struct(">h").unpack_from
_SIZE_BYTES: Final = 4
_API_KEY_BYTES: Final = 2


class Pipeline:
    """The requests of one connection that are in the log, oldest first, with early answers."""

    __slots__ = ("_answers", "_waiting", "end_reason")

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()  # in the order of their records
        # Of the requests behind the first one, whose answer would leave at once.
        self._answers: dict[Request, list[Any] | None] = {}
        # Nothing more is taken, and after the last answer the connection is closed; "" for a close
        # that is not worth a line in the log.
        self.end_reason: str | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, request: Request) -> bool:
        return request in self._waiting

    @property
    def has_room(self) -> bool:
        """Whether another request may be looked for."""
        return len(self._waiting) < MAX_WAITING and self.end_reason is None

    def admits(self, buffer: ReceiveBuffer, start: int, size: int) -> bool:
        """Whether the whole frame of `size` at `start` may be handled behind those that wait."""
        if not self.has_room or size < _SIZE_BYTES + _API_KEY_BYTES:
            return False
        key: int = _API_KEY(buffer, start + _SIZE_BYTES)[0]
        return key == ApiKey.PRODUCE

    def add(self, request: Request) -> None:
        if len(self._waiting) > MAX_WAITING:
            raise BrokenConnection(f"{len(self._waiting)} requests wait for replicas")
        self._waiting.append(request)

    def answer(
        self, request: Request, parts: list[Any] | None
    ) -> list[tuple[Request, list[Any] | None]]:
        """The answers that may leave now that there is one to `request`."""
        waiting, answers = self._waiting, self._answers
        if waiting[0] is not request:
            if request in answers or request not in waiting:
                raise BrokenConnection(f"{request} is answered twice, or was never accepted")
            answers[request] = parts
            return []
        leaving = [(waiting.popleft(), parts)]
        while waiting and waiting[0] in answers:
            following = waiting.popleft()
            leaving.append((following, answers.pop(following)))
        return leaving
