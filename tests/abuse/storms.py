"""Many raw connections at once, and what they cost a process in memory."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

MEGABYTE = 1024 * 1024
CONNECT_SECONDS = 60.0
# What the broker itself may need meanwhile.
SLACK_MB = 30
SETTLE_SECONDS = 60.0


@contextlib.contextmanager
def connections(port: int, count: int, receive_buffer: int = 0) -> Iterator[list[socket.socket]]:
    """Open connections, closed at the end."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = socket.socket()
            opened.append(connection)
            if receive_buffer:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            connection.settimeout(CONNECT_SECONDS)
            connection.connect(("127.0.0.1", port))
        yield opened
    finally:
        for connection in opened:
            connection.close()


def send_what_goes(connection: socket.socket, data: bytes) -> int:
    """Without waiting for a broker that does not read; how much has gone."""
    connection.setblocking(False)
    try:
        return connection.send(data)
    except (BlockingIOError, ConnectionError):
        return 0


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def settled_mb(pid: int, limit_mb: float) -> float:
    """The memory of a process as soon as it is below a limit, or after SETTLE_SECONDS."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (size := resident_mb(pid)) > limit_mb and time.monotonic() < deadline:
        time.sleep(0.1)
    return size
