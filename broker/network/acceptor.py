"""An acceptor: one listening socket; it assigns new connections to its processors in turn.

Mirrors `kafka.network.Acceptor` with the slot waiting of `ConnectionQuotas`: over
`max.connections.per.ip` a new connection is closed at once; with no free slot left the acceptor
waits, and the kernel's backlog holds new connections. Without a spare file descriptor a new
connection is closed at once, and idle ones are closed for the next. Over the rate of the broker or
the listener the acceptor waits as well; over the rate of its address a connection is held for a
while and closed.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Sequence
from itertools import count
from time import perf_counter

import trio

from .connection_quotas import ConnectionQuotas
from .held_sockets import HeldSockets
from .processor import Processor
from .request import ConnectionInfo

logger = logging.getLogger("pybroker.broker.network")

MAX_ACCEPTS_PER_ROUND = 64
# A connection over TLS is more work than a plain one.
ROUND_SECONDS = 0.002
OUT_OF_FILES_PAUSE_SECONDS = 0.05
TOLD_EVERY_SECONDS = 10.0
# Of connections within this machine, which need no more to be fast: the kernel lets one grow to
# megabytes, and pages and packets have left the processor's caches before they are read. Measured
# with `sendfile` over the loopback: 0.15 CPU seconds a GB without it, 0.07 with it.
LOCAL_SEND_BUFFER = 256 * 1024
_numbers = count(1)
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


def bind(host: str | None, port: int, backlog: int, receive_buffer: int | None) -> socket.socket:
    """A bound and listening socket; `receive_buffer` None leaves the kernel's autotuning on."""
    wildcard = host in (None, "", "0.0.0.0", "::")
    if wildcard and host != "0.0.0.0" and socket.has_dualstack_ipv6():
        try:
            return _listen(socket.AF_INET6, "::", port, backlog, receive_buffer, dual=True)
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
    if wildcard:
        return _listen(socket.AF_INET, "0.0.0.0", port, backlog, receive_buffer)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return _listen(family, str(address[0]), port, backlog, receive_buffer)


def _listen(
    family: int, host: str, port: int, backlog: int, receive_buffer: int | None, *,
    dual: bool = False,
) -> socket.socket:  # fmt: skip
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if dual:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.bind((host, port))
        sock.listen(backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


def plain_address(host: str) -> str:
    """An IPv4 client of a dual-stack socket shows as ::ffff:1.2.3.4."""
    return host[7:] if host.startswith("::ffff:") and "." in host else host


class Acceptor:
    __slots__ = (
        "_held", "_next", "_told_at", "listener", "processors", "protocol", "quotas",
        "send_buffer", "sock",
    )  # fmt: skip

    def __init__(
        self,
        listener: str,
        protocol: str,
        sock: socket.socket,
        processors: Sequence[Processor],
        quotas: ConnectionQuotas,
        send_buffer: int | None = None,
    ) -> None:
        self.listener = listener
        self.protocol = protocol
        self.sock = sock
        self.processors = processors
        self.quotas = quotas
        self.send_buffer = send_buffer
        self._held = HeldSockets()
        self._next = 0
        self._told_at = -TOLD_EVERY_SECONDS
        quotas.add_listener(listener)

    @property
    def address(self) -> tuple[str, int]:
        name = self.sock.getsockname()
        return name[0], name[1]

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._held.run)
            await self._accept_for_ever()

    async def _accept_for_ever(self) -> None:
        while True:
            await self.quotas.wait_for_slot(self.listener)
            await trio.lowlevel.wait_readable(self.sock)
            ends = perf_counter() + ROUND_SECONDS
            for _ in range(MAX_ACCEPTS_PER_ROUND):
                if not self.quotas.slot_available(self.listener) or perf_counter() > ends:
                    break
                try:
                    sock, address = self.sock.accept()
                except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                    break
                except OSError as error:
                    if error.errno not in _OUT_OF_FILES:
                        raise
                    self._refused()
                    await trio.sleep(OUT_OF_FILES_PAUSE_SECONDS)
                    break
                if not self.quotas.may_have(sock.fileno()):
                    sock.close()
                    self._refused()
                    await trio.sleep(OUT_OF_FILES_PAUSE_SECONDS)
                    break
                delay = self.quotas.accept_delay(self.listener, perf_counter())
                if delay:
                    await self._wait_with(sock, delay)
                self.accepted(sock, address)

    async def _wait_with(self, sock: socket.socket, delay: float) -> None:
        """Too many have come: this one, and all behind it, wait."""
        try:
            await trio.sleep(delay)
            await self.quotas.wait_for_slot(self.listener)
        except BaseException:
            sock.close()
            raise

    def _refused(self) -> None:
        """There are too few file descriptors for one more connection."""
        self.quotas.refused_descriptors += 1
        now = perf_counter()
        if now - self._told_at >= TOLD_EVERY_SECONDS:
            self._told_at = now
            logger.error(
                "Refusing connections on listener %s: there are %d, and the other file descriptors "
                "of this process are for the logs. Allow it to open more files (ulimit -n)",
                self.listener, self.quotas.total,
            )  # fmt: skip

    def accepted(self, sock: socket.socket, address: tuple[object, ...]) -> None:
        """Admit one new socket or close it."""
        host = plain_address(str(address[0]))
        delay = self.quotas.turn_away_delay(self.listener, host, perf_counter())
        if delay:
            self._held.hold(sock, delay)
            return
        if not self.quotas.address_allowed(host):
            logger.warning(
                "Closing a new connection of %s: it has %d already (max.connections.per.ip)",
                host, self.quotas.count_of(host),
            )  # fmt: skip
            sock.close()
            return
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            local = sock.getsockname()
            send_buffer = self.send_buffer
            if send_buffer is None and plain_address(local[0]) == host:
                send_buffer = LOCAL_SEND_BUFFER
            if send_buffer is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        except OSError:
            sock.close()
            return
        port = address[1]
        assert isinstance(port, int)
        info = ConnectionInfo(
            host, port, self.listener, self.protocol,
            local_host=plain_address(local[0]), local_port=local[1], number=next(_numbers),
        )  # fmt: skip
        self.quotas.opened(self.listener, host)
        processor = self.processors[self._next % len(self.processors)]
        self._next += 1
        processor.add(sock, info)

    def close(self) -> None:
        self.sock.close()
