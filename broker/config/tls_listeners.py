"""The TLS listeners of a running broker: their contexts, and how they change.

Job: `TlsListeners` holds a `ServerTls` for each. A change has three steps, since key stores are
files: `wanted` (the configured settings, on the loop), `load` (read and checked against the present
ones, in a thread) and `apply` (new connections use it; open ones keep theirs).
If `load` refuses a change, the present one stays in use.

Invariants: a key store is loaded again only if its keys or its file's time or size have changed. It
must keep the subject and the host names, by which clients know the broker, unless
ssl.allow.dn.changes and ssl.allow.san.changes allow other ones. A running listener keeps a key
store, and gains no trust store. A new key store of the brokers' own listener is tried by handshakes
in memory, with itself and with the present one. An expired certificate is used, as in Kafka, and
logged.

Mirrors `SslFactory.reconfigure` with its `CertificateEntries` and `SslEngineValidator`, and
DynamicBrokerConfig's `reloadUpdatedFilesWithoutConfigChange`. Beyond Kafka: changed files are
noticed without a request, too.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from .errors import ConfigError
from .tls import server_tls, store_key, tls_settings

if TYPE_CHECKING:
    from ...tls.settings import TlsSettings
    from ..security.tls.server_tls import ServerTls
    from .kafka_config import KafkaConfig
    from .listeners import Listener

logger = logging.getLogger("pybroker.broker.configs")

MAX_FLIGHTS = 4  # of a handshake, there and back

Stamp = tuple[tuple[str, int, int, int], ...]


class Wanted(NamedTuple):
    """The wanted settings of one listener."""

    listener: Listener
    settings: TlsSettings
    config: KafkaConfig  # for names of keys in errors


class Loaded(NamedTuple):
    name: str
    server: ServerTls
    stamp: Stamp


class TlsListeners:
    __slots__ = ("_servers", "_stamps")

    def __init__(self, config: KafkaConfig) -> None:
        """Reads the key stores. Raises ConfigError."""
        self._servers: dict[str, ServerTls] = {}
        self._stamps: dict[str, Stamp] = {}
        for wanted in self.wanted(config):
            stamp = stamp_of(wanted.settings)
            self._servers[wanted.listener.name] = _read(wanted)
            self._stamps[wanted.listener.name] = stamp

    def __bool__(self) -> bool:
        return bool(self._servers)

    def of(self, listener: str) -> ServerTls | None:
        """The TLS of a listener; None for plain text."""
        return self._servers.get(listener)

    @staticmethod
    def wanted(config: KafkaConfig) -> list[Wanted]:
        """The wanted settings of all TLS listeners. Raises ConfigError for keys that no file can
        fix.
        """
        found = [(listener, tls_settings(config, listener)) for listener in config.listeners]
        return [Wanted(each, settings, config) for each, settings in found if settings is not None]

    def load(self, wanted: Iterable[Wanted]) -> list[Loaded]:
        """Read the changed settings from their files. Raises ConfigError if one of them cannot be
        used.
        """
        loaded = []
        for each in wanted:
            name = each.listener.name
            now, stamp = self._servers[name], stamp_of(each.settings)
            if each.settings == now.settings and stamp == self._stamps[name]:
                continue
            server = _read(each)
            _check_follows(now, server, store_key(each.config, each.listener, "keystore"))
            if each.settings.truststore.is_set and not now.settings.truststore.is_set:
                key = store_key(each.config, each.listener, "truststore")
                raise ConfigError(f"{key}: a running listener without a trust store gets none")
            if name == each.config.inter_broker_listener:
                _check_brokers_agree(now, server, each)
            loaded.append(Loaded(name, server, stamp))
        return loaded

    def apply(self, loaded: Iterable[Loaded]) -> list[str]:
        """New connections have it from now on; the names of the listeners."""
        names = []
        for name, server, stamp in loaded:
            self._servers[name].take_over(server)
            self._stamps[name] = stamp
            names.append(name)
        return names


def stamp_of(settings: TlsSettings) -> Stamp:
    """The present state of its files on the disk."""
    found = []
    for path in settings.files:
        try:
            status = os.stat(path)
        except OSError:
            found.append((path, 0, 0, 0))
        else:
            found.append((path, status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)


def _read(wanted: Wanted) -> ServerTls:
    server = server_tls(wanted.config, wanted.listener, wanted.settings)
    last = server.identity.certificate.not_valid_after_utc
    if last < datetime.now(UTC):
        logger.error(
            "The certificate of listener %s has expired on %s: no client that looks at it "
            "connects, nor do other brokers", wanted.listener.name, last.date(),
        )  # fmt: skip
    return server


def _check_brokers_agree(now: ServerTls, after: ServerTls, wanted: Wanted) -> None:
    """Check that brokers with the new key store reach each other, and brokers with the old one."""
    from ...tls.contexts import client_context

    # The address of a broker is unknown here, so its name is not checked.
    client = client_context(wanted.settings._replace(endpoint_identification=""))
    for server, whom in ((after, "another broker with it"), (now, "a broker that has not got it")):
        problem = handshake_problem(client, server.context)
        if problem is not None:
            key = store_key(wanted.config, wanted.listener, "keystore")
            raise ConfigError(f"{key}: a broker with it could not connect to {whom}: {problem}")


def handshake_problem(client: ssl.SSLContext, server: ssl.SSLContext) -> str | None:
    """Why a handshake between the two fails; None if it succeeds."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server)
    there = server.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(MAX_FLIGHTS):
            for side in (here, there):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        here.read(1)  # of TLS 1.3: whether the server has taken our certificate
    except ssl.SSLWantReadError:
        return None
    except ssl.SSLError as error:
        return (error.reason or "no handshake").lower().replace("_", " ")
    return None


def _check_follows(now: ServerTls, after: ServerTls, key: str) -> None:
    """Check that the new certificate has the names by which clients know the present one."""
    before, settings = now.names, after.settings
    if not settings.allow_dn_changes and after.names.subject.lower() != before.subject.lower():
        raise ConfigError(
            f"{key}: Keystore DistinguishedName does not match: existing={before.subject}, "
            f"new={after.names.subject} (ssl.allow.dn.changes)"
        )
    lost = before.alternatives - after.names.alternatives
    if not settings.allow_san_changes and lost:
        raise ConfigError(
            f"{key}: Keystore SubjectAltNames do not match: the new one lacks "
            f"{', '.join(sorted(lost))} (ssl.allow.san.changes)"
        )
