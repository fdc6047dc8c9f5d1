"""TLS between members of an ensemble, on the quorum and the election port.

Mirrors `QuorumX509Util` and `X509Util` of 3.9: `sslQuorum=true` with the keys `ssl.quorum.*`. Both
sides show a certificate, and both check it with the trust store; the one that connects also checks
the host's name. With `portUnification=true` connections without TLS are accepted on the same ports,
and without `sslQuorum=true` our own are such: so an ensemble changes to TLS member by member.

Leaves out, refused with a reason: lists of revoked certificates and OCSP, a context of a Java
class, and stores that are read again (`sslQuorumReloadCertFiles`). Of a member that connects to us
the host's name is not checked: Java asks the DNS for it.
"""

from __future__ import annotations

import socket
import ssl
from typing import NamedTuple

import trio

from ...tls.settings import TlsSettingsError
from ...zookeeper.quorum.ensemble_config import ConfigurationError, QuorumTlsConfig
from .x509_keys import x509_settings

_PREFIX = "ssl.quorum."
_HANDSHAKE = b"\x16"  # the first byte of a TLS connection


class QuorumTls(NamedTuple):
    """The contexts of accepted and of our own connections."""

    server: ssl.SSLContext
    client: ssl.SSLContext | None
    """None: our own connections are without TLS."""
    takes_plain: bool = False
    """Whether connections without TLS are accepted, too."""


def quorum_tls(config: QuorumTlsConfig) -> QuorumTls:
    """The contexts of the keys `ssl.quorum.*`. Raises ConfigurationError."""
    # It loads `cryptography`, whose memory members without TLS do not pay.
    from ...tls.contexts import client_context, server_context

    asking = "sslQuorum=true" if config.connects else "portUnification=true"
    try:
        settings, name = x509_settings(config.keys, _PREFIX, asking, connects=True)
        server, _ = server_context(settings, name=name)
        client = client_context(settings, name=name) if config.connects else None
        return QuorumTls(server, client, config.takes_plain)
    except TlsSettingsError as error:
        raise ConfigurationError(str(error)) from None


async def accepted(stream: trio.SocketStream, tls: QuorumTls | None) -> trio.abc.Stream:
    """The stream of a connection to us, once its other side has shown a certificate. Raises
    BrokenResourceError or OSError."""
    if tls is None or (tls.takes_plain and not await _begins_with_tls(stream)):
        return stream
    # A member that dies says no good-bye, as with https.
    return await _shaken(
        trio.SSLStream(stream, tls.server, server_side=True, https_compatible=True)
    )


async def connected(stream: trio.SocketStream, host: str, tls: QuorumTls | None) -> trio.abc.Stream:
    """The stream of our connection to a host. Raises BrokenResourceError."""
    if tls is None or tls.client is None:
        return stream
    return await _shaken(
        trio.SSLStream(stream, tls.client, server_hostname=host, https_compatible=True)
    )


async def _begins_with_tls(stream: trio.SocketStream) -> bool:
    """Wait for the first byte, which stays where it is."""
    return await stream.socket.recv(1, socket.MSG_PEEK) == _HANDSHAKE


async def _shaken(stream: trio.SSLStream[trio.SocketStream]) -> trio.abc.Stream:
    try:
        await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream
