"""The connections to close when there are no file descriptors for new ones.

First connections that have hung up while their request waits, then connections without a client id
so far, then those that have been idle the longest, and these only after a minute: among them are
other brokers, which also have difficulty to reconnect. Never any other connection with a request in
progress. Clients reconnect when they need to.

Goes beyond Kafka, which stops accepting until a connection closes.
"""

from __future__ import annotations

from collections.abc import Iterable

from .connection import Connection

SILENT_SECONDS = 5.0
IDLE_SECONDS = 60.0
# Of all connections at once, an eighth.
CLOSED_SHARE = 8


def idlest(connections: Iterable[Connection], now: float) -> list[Connection]:
    """The connections to close, those that are missed least first; `now` in seconds of the loop."""
    everyone = list(connections)
    idle = [
        connection
        for connection in everyone
        if connection.hung_up_at
        or (
            connection.is_quiet
            and now - connection.last_active
            >= (SILENT_SECONDS if connection.client_id is None else IDLE_SECONDS)
        )
    ]
    idle.sort(key=_worth)
    return idle[: len(everyone) // CLOSED_SHARE + 1]


def _worth(connection: Connection) -> tuple[bool, bool, float]:
    has_hung_up = connection.hung_up_at != 0.0
    return not has_hung_up, connection.client_id is not None, connection.last_active
