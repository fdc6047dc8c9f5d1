"""A client socket with TLS: OpenSSL between the socket and the frames of a `Client`.

OpenSSL works in memory (`ssl.MemoryBIO`): frames are encrypted together when a round is sent, so
that a `Client` has only encrypted bytes in its queue, and received bytes are decrypted at once.

Invariants:
- no byte is a frame before the handshake is finished, which shares its limit of time with the
  connect request;
- what a client makes TLS itself answer is bounded by MAX_CONTROL_BYTES.

A client with a certificate that was checked has its name as an identity of the scheme x509.

Mirrors the TLS part of `NettyServerCnxnFactory`, and `X509AuthenticationProvider`. Leaves out: its
super user, and clients with and without TLS at one port (client.portUnification).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Mapping

import trio

from ...protocol.errors import ProtocolError
from ...protocol.zookeeper.jute import Id
from ...tls.distinguished_name import MalformedName, subject_name
from ...tls.settings import TlsSettingsError
from ...zookeeper.connection_stats import ConnectionStats
from ...zookeeper.quorum.ensemble_config import ConfigurationError
from .connection import RECEIVE_BYTES, Client, ClientGone
from .x509_keys import x509_settings

MAX_CONTROL_BYTES = 64 * 1024

_PREFIX = "ssl."
_NO_TLS = frozenset({"HTTP_REQUEST", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL"})


def client_port_context(keys: Mapping[str, str]) -> ssl.SSLContext:
    """The context of the keys `ssl.*`. Raises ConfigurationError."""
    from ...tls.contexts import server_context

    try:
        settings, name = x509_settings(keys, _PREFIX, "secureClientPort", connects=False)
        return server_context(settings, name=name)[0]
    except TlsSettingsError as error:
        raise ConfigurationError(str(error)) from None


class TlsClient(Client):
    __slots__ = ("_encrypted", "_incoming", "_is_shaken", "_plain", "_tls")

    def __init__(
        self,
        sock: socket.socket,
        host: str,
        port: int,
        stats: ConnectionStats,
        context: ssl.SSLContext,
    ) -> None:
        super().__init__(sock, host, port, stats)
        self._incoming, self._encrypted = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._encrypted, server_side=True)
        self._plain = bytearray()
        self._is_shaken = False

    async def shake_hands(self) -> list[Id]:
        while not self._is_shaken:
            try:
                self._tls.do_handshake()
                self._is_shaken = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                self._add_records()  # they say why
                self._try_send()
                raise ProtocolError(_told(error)) from None
            self._add_records()
            self._try_send()
            while self._outgoing:
                await trio.lowlevel.wait_writable(self._socket)
                self._try_send()
            if not self._is_shaken:
                self._incoming.write(await self._receive_bytes())
        certificate = self._tls.getpeercert(binary_form=True)
        if certificate is None:
            return []
        try:
            return [Id("x509", subject_name(certificate))]
        except MalformedName as error:
            raise ProtocolError(f"the name in its certificate cannot be read: {error}") from None

    # In

    async def _receive(self) -> None:
        # The last bytes of the handshake may have brought a frame along.
        if not self._decrypt():
            self._incoming.write(await self._receive_bytes())
            self._decrypt()

    def _decrypt(self) -> bool:
        """Decrypt what was received; False if that makes no byte."""
        size = len(self._buffer)
        try:
            while data := self._tls.read(RECEIVE_BYTES):
                self._buffer += data
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            if len(self._buffer) == size:
                raise ClientGone("closed by the client") from None
        except ssl.SSLError as error:
            raise ProtocolError(_told(error)) from None
        if self._encrypted.pending > MAX_CONTROL_BYTES:
            raise ProtocolError("TLS records that request answers, and reads none")
        return len(self._buffer) > size

    # Out

    def queue(self, frame: bytes) -> None:
        if not self.closed:
            self._plain += frame

    def send(self, data: bytes) -> None:
        self._plain += data
        self._encrypt()
        self._try_send()

    def flush(self, nursery: trio.Nursery) -> None:
        if not self.closed:
            self._encrypt()
        super().flush(nursery)

    def close(self) -> None:
        if self._is_shaken and not self.closed and not self._outgoing:
            with contextlib.suppress(OSError):  # it waits for the other's farewell; we do not
                self._tls.unwrap()
            self._add_records()
            self._try_send()
        self._plain.clear()
        super().close()

    def _encrypt(self) -> None:
        if not self._plain:
            return
        try:
            self._tls.write(self._plain)
        except ssl.SSLError:
            self.scope.cancel()  # it has sent what is no TLS
        self._plain.clear()
        self._add_records()

    def _add_records(self) -> None:
        self._outgoing += self._encrypted.read()


def _told(error: ssl.SSLError) -> str:
    reason: str = error.reason or type(error).__name__
    if reason in _NO_TLS:
        return "this is not TLS, and the port takes nothing else"
    return f"TLS failed ({reason.lower().replace('_', ' ')})"
