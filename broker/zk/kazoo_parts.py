"""Our parts for kazoo: sockets over TLS, a login, the turns of members, ACLs, a logger without
secrets.

kazoo makes its own TLS context: it trusts the machine's authorities beside the configured ones,
takes PEM files alone, and cannot restrict the protocol's version. And its loop waits for the socket
although the next answer may have been read already, decrypted inside of the TLS object, when a
server puts two into one TLS record: the second would wait for the next ping. So `select` asks the
TLS objects first.
"""

from __future__ import annotations

import logging
import socket
import ssl
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol import serialization
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from .zookeeper_security import ZooKeeperSecurity, is_open_to_all, is_sensitive

MIN_CONNECT_SECONDS = 1.0


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's handler with other connections. `problem`: why the last one failed."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__()
        self._context = context
        self.problem: str | None = None

    def create_connection(
        self,
        address: tuple[str, int],
        hostname: str | None = None,
        timeout: float | None = None,
        **_options: Any,
    ) -> socket.socket:
        plain = socket.create_connection(address, timeout)  # the timeout holds for the handshake
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            secured = self._context.wrap_socket(plain, server_hostname=hostname or address[0])
        except (OSError, ValueError) as error:
            plain.close()
            self.problem = str(error)
            if isinstance(error, OSError):
                raise
            raise OSError(str(error)) from error
        self.problem = None
        return secured

    def select(
        self, readers: Any, writers: Any, others: Any, timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        decrypted = [one for one in readers if isinstance(one, ssl.SSLSocket) and one.pending()]
        wait_s = 0.0 if decrypted else timeout
        ready, writable, rest = super().select(readers, writers, others, wait_s)
        missed = [one for one in decrypted if one not in ready]
        return [*ready, *missed], writable, rest


def acl_of(path: str, security: ZooKeeperSecurity) -> list[ACL]:
    """The ACL of a new znode: Kafka's `ZkData.defaultAcls`. The path is without chroot."""
    if not security.set_acl or is_open_to_all(path):
        acl: list[ACL] = OPEN_ACL_UNSAFE
    elif is_sensitive(path):
        acl = CREATOR_ALL_ACL
    else:
        acl = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
    return acl


def sasl_options(security: ZooKeeperSecurity) -> dict[str, str] | None:
    if security.sasl is None:
        return None
    username, password = security.sasl
    return {"mechanism": "DIGEST-MD5", "username": username, "password": password}


def keep_session_when_cut(connection: Any) -> None:
    """Treat a connection that breaks during the SASL exchange as lost, not as a refusal.

    kazoo takes it for a refusal, stops and forgets its session, because old ZooKeepers only close
    the connection; 3.9 sends its refusal.
    """
    log_in = connection._authenticate_with_sasl

    def log_in_or_lose(host: str, timeout_s: float) -> None:
        try:
            log_in(host, timeout_s)
        except AuthFailedError as error:
            if isinstance(error.__cause__, ConnectionDropped):
                raise error.__cause__ from None
            raise

    connection._authenticate_with_sasl = log_in_or_lose


def take_turns(client: KazooClient) -> None:
    """Try to connect to each member for its share of the session timeout, and last to the one
    that was tried last, as ZooKeeper's own client does.

    kazoo waits as long as a session lives for a machine that does not answer, and may begin with
    the one whose connection was just lost: the session would end before another is tried.
    """
    connection, handler = client._connection, client.handler
    connect, expand = handler.create_connection, connection._expand_client_hosts
    tried: tuple[str, int] | None = None

    def connect_in_time(
        *, address: tuple[str, int], timeout: float, **options: Any
    ) -> socket.socket:
        nonlocal tried
        tried = address
        share = max(timeout / len(client.hosts), min(timeout, MIN_CONNECT_SECONDS))
        connected: socket.socket = connect(address=address, timeout=share, **options)
        return connected

    def expand_in_turn() -> list[tuple[str, str, int]]:
        return sorted(expand(), key=lambda one: one[1:] == tried)

    handler.create_connection = connect_in_time
    connection._expand_client_hosts = expand_in_turn


def quiet_logger() -> logging.Logger:
    """kazoo's own logger, quieter: it warns of every retry of a connection."""
    logger = logging.getLogger("kazoo.client")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.ERROR)
    logger.addFilter(_shows_no_login)
    return logger


def _shows_no_login(record: logging.LogRecord) -> bool:
    """kazoo's debug lines show whole requests."""
    shown = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(one, serialization.Auth | serialization.SASL) for one in shown)
