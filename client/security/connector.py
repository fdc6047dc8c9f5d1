"""Opens a stream for requests to a host and a port: TCP, then TLS, then a login.

Invariants: a returned stream is ready; on failure it is closed; `LoginError` says which setting is
wrong and what to do, and holds no secret. The caller sets time limits.

Before a session expires, `renewed` logs in again on the same stream (KIP-368).

Mirrors ChannelBuilders and SaslClientAuthenticator with its ReauthInfo.
"""

from __future__ import annotations

import math
import random
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import trio

from ..errors import LoginError
from .login import Ask, Login, log_in, log_in_again
from .tls import TlsFailure, start_tls
from .tls_stream import TlsStream

if TYPE_CHECKING:
    from ...protocol.schema import Message
    from ..exchanges import Exchanges

# The share of a session's lifetime after which no request is sent before another login.
SESSION_SHARE = (0.85, 0.95)


# TCP asks a silent peer after so many seconds, and again at this interval; a peer that does not
# answer so often is gone. (Java's client leaves the first to the system: two hours.)
KEEPALIVE_IDLE_SECONDS: Final = 30
KEEPALIVE_INTERVAL_SECONDS: Final = 10
KEEPALIVE_COUNT: Final = 3
_KEEPALIVE: Final = (
    (("TCP_KEEPIDLE", "TCP_KEEPALIVE"), KEEPALIVE_IDLE_SECONDS),  # the second is of macOS
    (("TCP_KEEPINTVL",), KEEPALIVE_INTERVAL_SECONDS),
    (("TCP_KEEPCNT",), KEEPALIVE_COUNT),
)


class Link(NamedTuple):
    """A stream, and the time until which requests may be sent on it, by trio's clock."""

    stream: trio.abc.Stream
    good_until: float = math.inf

    def ask(
        self, exchanges: Exchanges, message: Message, api_version: int
    ) -> Coroutine[Any, Any, Message]:
        """The next exchange over the stream, as `Exchanges.ask`; a simulated link has its own."""
        return exchanges.ask(self.stream, message, api_version)

    def close(self) -> None:
        """Close at once, without TLS's closing message and without waiting."""
        stream = self.stream
        if isinstance(stream, trio.SocketStream):
            stream.socket.close()
        elif isinstance(stream, TlsStream):
            stream.close()
        else:
            trio.lowlevel.spawn_system_task(trio.aclose_forcefully, stream)


async def reach(host: str, port: int) -> trio.SocketStream:
    """A TCP connection without delay for small requests, which notices within a minute that its
    broker's machine is gone: the answer to a JoinGroup may take five. Raises OSError."""
    tcp = await trio.open_tcp_stream(host, port)
    tcp.setsockopt(trio.socket.IPPROTO_TCP, trio.socket.TCP_NODELAY, 1)
    tcp.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_KEEPALIVE, 1)
    for names, value in _KEEPALIVE:
        option = next((getattr(socket, name) for name in names if hasattr(socket, name)), None)
        if option is not None:
            tcp.setsockopt(trio.socket.IPPROTO_TCP, option, value)
    return tcp


# From a host and a port to a stream of bytes; raises OSError. Tests that simulate a network have
# one.
Reach: TypeAlias = Callable[[str, int], Awaitable[trio.abc.Stream]]


class Connector(NamedTuple):
    """The common part of all connections of one client. By default: plain text over TCP."""

    tls: ssl.SSLContext | None = None
    login: Login | None = None
    reach: Reach = reach

    @property
    def protocol(self) -> str:
        """The `security.protocol` of its connections."""
        if self.tls is None:
            return "PLAINTEXT" if self.login is None else "SASL_PLAINTEXT"
        return "SSL" if self.login is None else "SASL_SSL"

    async def open(self, host: str, port: int, client_id: str) -> Link:
        """Raises LoginError, OSError, or trio's errors of a broken stream."""
        return await self.secure(await self.reach(host, port), host, port, client_id)

    async def secure(self, tcp: trio.abc.Stream, host: str, port: int, client_id: str) -> Link:
        """The part of `open` after TCP; `tcp` is closed if it fails."""
        try:
            stream: trio.abc.Stream = tcp
            if self.tls is not None:
                assert isinstance(tcp, trio.SocketStream)
                stream = await self._encrypted(tcp, host, port)
            if self.login is None:
                return Link(stream)
            began = trio.current_time()
            login = self.login.at(host)
            lifetime_ms = await self._logged_in(stream, login, f"{host}:{port}", client_id)
        except BaseException:
            Link(tcp).close()
            raise
        return _with_session(stream, began, lifetime_ms)

    async def renewed(self, link: Link, ask: Ask, version: int, address: str) -> Link:
        """The link's stream after another login; `ask` and `version` as in `log_in_again`.

        Raises LoginError, and what `ask` raises.
        """
        assert self.login is not None
        began = trio.current_time()
        try:
            login = self.login.at(address.rpartition(":")[0])
            lifetime_ms = await log_in_again(ask, login, version)
        except LoginError as error:
            raise LoginError(f"{address}: {error}") from None
        return _with_session(link.stream, began, lifetime_ms)

    async def _encrypted(self, tcp: trio.SocketStream, host: str, port: int) -> TlsStream:
        assert self.tls is not None
        try:
            return await start_tls(tcp, self.tls, host)
        except TlsFailure as failure:
            raise LoginError(f"{host}:{port}: {failure}") from failure.__cause__

    async def _logged_in(
        self, stream: trio.abc.Stream, login: Login, address: str, client_id: str
    ) -> int:
        try:
            return await log_in(stream, login, client_id)
        except LoginError as error:
            raise LoginError(f"{address}: {error}") from None
        except trio.BrokenResourceError as error:
            raise LoginError(
                f"{address} closes the connection during the login; does it speak {self.protocol} "
                "there (security.protocol)?"
            ) from error


def _with_session(stream: trio.abc.Stream, began: float, lifetime_ms: int) -> Link:
    if lifetime_ms <= 0:
        return Link(stream)
    return Link(stream, began + random.uniform(*SESSION_SHARE) * lifetime_ms / 1000)


OPEN = Connector()
