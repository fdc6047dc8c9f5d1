"""Connections that wait for memory, and the ways to free memory for them.

Two budgets let a connection wait, unread: `ReceiveMemory` of all receive buffers, and where it is
set `MemoryPool` of all requests that are buffered or handled. A waiting connection is read again
when memory was released.

Receive buffers are also freed actively. Buffers without a request are released at once. If that is
not enough, connections whose request has been incomplete for STALLED_SECONDS are closed, the
largest request first, until a quarter of the limit is free: so many clients that each send half a
request cannot keep the others waiting.

Goes beyond Kafka, where a connection keeps its reserved part of `queued.max.request.bytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .connection import Connection
from .connection_quotas import MemoryPool
from .mute_state import READING
from .receive_buffer import COMMON_BUFFER_BYTES, ReceiveMemory
from .selector import READ

STALLED_SECONDS = 3.0
FREED_SHARE = 4
# The shortest time between two searches of all connections for unused buffers.
MIN_TAKING_BACK_SECONDS = 0.05


class MemoryShortage:
    """The connections of one broker's network that wait for memory."""

    __slots__ = ("_everyone", "_took_back_at", "_waiting", "receive_memory", "request_memory")

    def __init__(
        self,
        receive_memory: ReceiveMemory,
        request_memory: MemoryPool | None,
        everyone: Callable[[], Iterable[Connection]],
    ) -> None:
        """`everyone` are the open connections."""
        self.receive_memory = receive_memory
        self.request_memory = request_memory  # None: not bounded, nothing is reserved
        self._everyone = everyone
        self._waiting: list[Connection] = []  # with `waits_for_memory`, and not watched for READ
        self._took_back_at = 0.0

    def reserve(self, connection: Connection) -> bool:
        """Reserve the bytes of the frame at the front; if there is no room it waits unread."""
        assert self.request_memory is not None
        if connection.reserved_bytes:
            return True
        if self.request_memory.try_reserve(connection.needed):
            connection.reserved_bytes = connection.needed
            return True
        self._wait(connection)
        return False

    def keep_within(self, connection: Connection, now: float) -> None:
        """For a connection whose request is incomplete."""
        if connection.lacks_memory:
            self._wait(connection)
            self.take_back(now)
        elif connection.end > connection.start and connection.needed and self.request_memory:
            self.reserve(connection)

    def _wait(self, connection: Connection) -> None:
        if not connection.waits_for_memory:
            connection.waits_for_memory = True
            self._waiting.append(connection)
            connection.watch(connection.events & ~READ)

    def end_waiting(self) -> list[Connection]:
        """Memory was released: the connections to read again; they wait again if it is too
        little."""
        waiting, self._waiting = self._waiting, []
        self.receive_memory.is_short = False
        for connection in waiting:
            connection.waits_for_memory = False
        return waiting

    def take_back(self, now: float) -> None:
        """A receive buffer may not grow: release the unused ones."""
        if now - self._took_back_at >= MIN_TAKING_BACK_SECONDS:
            self._took_back_at = now
            take_back_unused(self._everyone())

    def relieve(self, now: float) -> None:
        """Close connections with stalled incomplete requests while others wait for receive
        buffers."""
        memory = self.receive_memory
        for connection in starved_connections(self._everyone(), memory, now):
            connection.close(
                f"only {connection.end - connection.start} of a request's {connection.needed} "
                f"bytes have come while others wait for memory ({memory.limit} bytes for all)"
            )
        self.take_back(now)


def take_back_unused(connections: Iterable[Connection]) -> None:
    """The buffers of connections that are between two requests."""
    for connection in connections:
        if (
            len(connection.buffer) > COMMON_BUFFER_BYTES
            and connection.state is READING
            and not connection.out.blocked
        ):
            connection.give_back_buffer()


def starved_connections(
    connections: Iterable[Connection], memory: ReceiveMemory, now: float
) -> list[Connection]:
    """The connections to close with their unfinished requests, the largest first."""
    stalled = [
        connection
        for connection in connections
        if connection.partial_since
        and now - connection.partial_since >= STALLED_SECONDS
        and len(connection.buffer) > COMMON_BUFFER_BYTES
    ]
    stalled.sort(key=_held, reverse=True)
    excess = memory.used - memory.limit + memory.limit // FREED_SHARE
    chosen = []
    for connection in stalled:
        if excess <= 0:
            break
        chosen.append(connection)
        excess -= len(connection.buffer)
    return chosen


def _held(connection: Connection) -> int:
    return len(connection.buffer)
