"""Free ports for servers whose ports others must know before they listen.

Systems give higher ports to outgoing connections, one of which may take a port before its server
does. A port that another process takes meanwhile is found by the server that cannot listen.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress

from .cluster_state import ClusterError

LOOPBACK = "127.0.0.1"
LOWEST_PORT, HIGHEST_PORT = 10_000, 20_000
MAX_TRIES = 200


def take_ports(count: int, taken: set[int]) -> int:
    """The first of so many free ports, one after the other, none of them in `taken`, which has them
    afterwards. Raises ClusterError if none are found.
    """
    for _ in range(MAX_TRIES):
        first = random.randrange(LOWEST_PORT, HIGHEST_PORT)
        wanted = range(first, first + count)
        with suppress(OSError), ExitStack() as probes:
            if taken.isdisjoint(wanted):
                for port in wanted:
                    probes.enter_context(socket.socket()).bind((LOOPBACK, port))
                taken.update(wanted)
                return first
    raise ClusterError(f"no port is free from {LOWEST_PORT} to {HIGHEST_PORT}")
