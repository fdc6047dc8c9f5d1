"""A connection of the network over a socket of the test, with nobody behind it."""

from __future__ import annotations

import socket
from typing import Any

from pybroker.broker.network.connection import Connection
from pybroker.broker.network.request import ConnectionInfo

MAX_FRAME_BYTES = 1 << 27


def connection_over(transport: socket.socket) -> Connection:
    selector: Any = None
    owner: Any = None
    peer = ConnectionInfo("h", 1, "L")
    return Connection(transport, peer, selector, owner, MAX_FRAME_BYTES, 0.0)
