"""A connection of the network over a socket of the test, with nobody behind it."""

from __future__ import annotations

import socket
from typing import Any

from pybroker_kafka.broker.network.connection import Connection
from pybroker_kafka.broker.network.request import ConnectionInfo

MAX_FRAME_BYTES = 1 << 27


class Nobody:
    """Is told what a connection tells, and does nothing."""

    def answered(self, connection: Connection) -> None: ...

    def throttled(self, connection: Connection) -> None: ...

    def memory_released(self) -> None: ...

    def closed(self, connection: Connection) -> None: ...

    def failed(self) -> None: ...


def connection_over(transport: socket.socket) -> Connection:
    selector: Any = None
    peer = ConnectionInfo("h", 1, "L")
    return Connection(transport, peer, selector, Nobody(), MAX_FRAME_BYTES, 0.0)
