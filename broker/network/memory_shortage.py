"""What is done for a connection whose receive buffer may not grow because others hold too much.

At once buffers are taken back in which no request lies. If that is not enough, requests that have
not become whole for STALLED_SECONDS are given up with their connections, the largest first, until a
quarter of the limit is free: so half of a request, sent by many and never ended, cannot keep the
others waiting.

Goes beyond Kafka, where whoever has reserved `queued.max.request.bytes` keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable

from .connection import Connection
from .mute_state import READING
from .receive_buffer import COMMON_BUFFER_BYTES, ReceiveMemory

STALLED_SECONDS = 3.0
FREED_SHARE = 4


def take_back_unused(connections: Iterable[Connection]) -> None:
    """The buffers of connections that are between two requests."""
    for connection in connections:
        if (
            len(connection.buffer) > COMMON_BUFFER_BYTES
            and connection.state is READING
            and not connection.blocked
        ):
            connection.give_back_buffer()


def to_give_up(
    connections: Iterable[Connection], memory: ReceiveMemory, now: float
) -> list[Connection]:
    """Whose unfinished requests have to go, the largest first."""
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
