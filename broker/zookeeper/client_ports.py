"""The ports for clients: listening sockets, with and without TLS.

Mirrors `ServerCnxnFactory.configure` with `clientPort` and `secureClientPort`.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from ...zookeeper.connection_stats import ConnectionStats
from ...zookeeper.quorum.ensemble_config import SecurePort
from .connection import Client

if TYPE_CHECKING:
    import ssl

LISTEN_BACKLOG = 128


class NotLoopback(Exception):
    """A closed server would listen where other hosts hear its credentials."""


class ClientPort(NamedTuple):
    """`tls` is None where clients connect in plain text."""

    listener: socket.socket
    tls: ssl.SSLContext | None = None

    @property
    def number(self) -> int:
        name: tuple[str, int] = self.listener.getsockname()
        return name[1]

    def client(self, sock: socket.socket, host: str, port: int, stats: ConnectionStats) -> Client:
        """An accepted connection. Raises OSError if it has been closed again."""
        if self.tls is None:
            return Client(sock, host, port, stats)
        from .tls_client import TlsClient

        return TlsClient(sock, host, port, stats, self.tls)


@contextlib.contextmanager
def client_ports(
    host: str, port: int | None, secure: SecurePort | None, *, is_closed: bool
) -> Iterator[list[ClientPort]]:
    """The open ports, that without TLS first. Raises OSError, ConfigurationError for TLS that
    cannot be, or NotLoopback."""
    if is_closed and port is not None:
        check_loopback(host)
    with contextlib.ExitStack() as stack:
        found: list[ClientPort] = []
        if port is not None:
            found.append(ClientPort(stack.enter_context(listen(host, port))))
        if secure is not None:
            # It loads `cryptography`, whose memory servers without TLS do not pay.
            from .tls_client import client_port_context

            context = client_port_context(secure.keys)
            listener = stack.enter_context(listen(secure.host, secure.port))
            found.append(ClientPort(listener, context))
        yield found


def check_loopback(host: str) -> None:
    """Raises NotLoopback."""
    if not _is_loopback(host):
        raise NotLoopback(
            f"ZooKeeper's credentials would cross the network from {host} in plain text: with them "
            "it listens on 127.0.0.1, ::1 or localhost only"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises OSError with the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(LISTEN_BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(
            error.errno, f"ZooKeeper cannot listen on {host}:{port}: {error.strerror}"
        ) from error
    return listener
