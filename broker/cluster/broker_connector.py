"""How this broker connects to others: by TLS and with a login, as its own listener asks for.

Job: one `Connect` for each listener between brokers, made of this broker's own settings of that
listener.
Invariants: key stores that cannot be read stop the start (ConfigError); a changed key store or
login of the listener holds from the next connection on; an unreadable one changes nothing then. A
broker that refuses this one is logged as an error at once, then once in TOLD_EVERY_SECONDS: callers
retry forever, as in Kafka, and report nothing.

Mirrors ChannelBuilders.clientChannelBuilder with the keys of a listener, and the reconfiguration of
SslFactory for clients.
"""

from __future__ import annotations

import logging
import ssl

import trio

from ...client.errors import LoginError
from ...client.security.connector import Connector, Link
from ...replication.metadata_cache import Endpoint
from ..config import ConfigError, KafkaConfig
from ..config.definitions import LISTENER_PREFIX
from ..config.sasl_config import BROKER_MECHANISM, JAAS_CONFIG, broker_login, uses_sasl
from ..config.tls import client_tls
from ..config.tls_listeners import TlsListeners
from .broker_connection import Connect

logger = logging.getLogger("pybroker.broker.cluster.broker_connector")

TOLD_EVERY_SECONDS = 60.0


class BrokerConnectors:
    """`tls` are the listeners of this broker, as they are now."""

    __slots__ = ("_broker_id", "_config", "_connectors", "_tls")

    def __init__(self, config: KafkaConfig, tls: TlsListeners, broker_id: int) -> None:
        self._config = config
        self._tls = tls
        self._broker_id = broker_id
        self._connectors: dict[str, _ToListener] = {}

    def to(self, listener: str) -> Connect:
        """Raises ConfigError."""
        connector = self._connectors.get(listener)
        if connector is None:
            connector = _ToListener(self._config, self._tls, listener, str(self._broker_id))
            self._connectors[listener] = connector
        return connector.connect


class _ToListener:
    __slots__ = (
        "_client_id",
        "_config",
        "_context",
        "_listener",
        "_made_for",
        "_server",
        "_told_at",
    )

    def __init__(self, config: KafkaConfig, tls: TlsListeners, name: str, client_id: str) -> None:
        self._config = config
        self._listener = next(one for one in config.listeners if one.name == name)
        self._client_id = client_id
        self._server = tls.of(name)
        self._made_for = self._present()
        self._context = client_tls(config, self._listener)
        self._told_at: dict[Endpoint, float] = {}  # of brokers that refuse this one

    async def connect(self, endpoint: Endpoint) -> Link:
        present = self._present()
        if present is not self._made_for:
            self._made_for = present
            try:
                # A key store is decrypted with much work.
                self._context = await trio.to_thread.run_sync(
                    client_tls, self._config, self._listener
                )
            except ConfigError as error:
                logger.error(
                    "Connections to other brokers keep their present TLS configuration: %s", error
                )
        try:
            link = await self._connector().open(endpoint.host, endpoint.port, self._client_id)
        except LoginError as error:
            self._refused(endpoint, error)
            raise
        if self._told_at.pop(endpoint, None) is not None:
            logger.info(
                "Broker at %s:%d accepts the login of this broker now", endpoint.host, endpoint.port
            )
        return link

    def _refused(self, endpoint: Endpoint, error: LoginError) -> None:
        now = trio.current_time()
        if now - self._told_at.get(endpoint, -TOLD_EVERY_SECONDS) < TOLD_EVERY_SECONDS:
            return
        self._told_at[endpoint] = now
        logger.error(
            "Another broker refuses the login of this broker at listener %s (%s): %s. %s. This "
            "broker retries; until then it replicates nothing from there, and receives "
            "no orders if that broker is the controller",
            self._listener.name, self._how(), error, self._what_to_do(),
        )  # fmt: skip

    def _how(self) -> str:
        protocol = self._listener.security_protocol
        if not uses_sasl(protocol):
            return protocol
        return f"{protocol}, {self._config.get_string(BROKER_MECHANISM)}"

    def _what_to_do(self) -> str:
        name = self._listener.name.lower()
        if not uses_sasl(self._listener.security_protocol):
            return f"Look at {LISTENER_PREFIX}{name}.ssl.* of both"
        mechanism = self._config.get_string(BROKER_MECHANISM).lower()
        key = f"{LISTENER_PREFIX}{name}.{mechanism}.{JAAS_CONFIG}"
        return f"Look at the login in {key} here, and whether it is known there"

    def _present(self) -> ssl.SSLContext | None:
        """The context that the listener serves with; each change makes another."""
        return None if self._server is None else self._server.context

    def _connector(self) -> Connector:
        has_login = uses_sasl(self._listener.security_protocol)
        login = broker_login(self._config, self._listener.name) if has_login else None
        return Connector(self._context, login)
