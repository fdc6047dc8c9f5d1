"""Reports of this process to systemd, for units of `Type=notify`.

Job: one datagram a report to the socket in the environment: `READY=1`, `STATUS=...`. Without the
socket nothing is reported; a report that cannot be sent is not worth an error.

Mirrors sd_notify(3). Leaves out the watchdog: a member or a broker that hangs is replaced by its
peers.
"""

from __future__ import annotations

import contextlib
import os
import socket

SOCKET_VARIABLE = "NOTIFY_SOCKET"
READY = "READY=1"


def report(*lines: str) -> None:
    address = os.environ.get(SOCKET_VARIABLE, "")
    if address.startswith("@"):
        address = "\0" + address[1:]  # an abstract socket
    if address:
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock,
        ):
            sock.sendto("\n".join(lines).encode(), address)


def report_ready(status: str) -> None:
    report(READY, f"STATUS={status}")


def report_status(status: str) -> None:
    report(f"STATUS={status}")
