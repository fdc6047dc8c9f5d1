"""The ssl.* keys of a listener, from the broker's configuration.

Job: `tls_settings` (the configured values, checked as far as possible without a file), and
`server_tls` and `client_tls` (with its key stores read). A key `listener.name.<name>.ssl...` comes
before the plain one.

Mirrors `KafkaConfig.valuesWithPrefixOverride` and `SaslChannelBuilder`: a client of SASL_SSL is
asked for a certificate only if the listener's own key says so.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from ...tls.settings import TLS_KEYS, TlsSettings, TlsSettingsError, read_settings
from ..security.tls import principal_mapping
from .definitions import LISTENER_PREFIX
from .errors import ConfigError

if TYPE_CHECKING:
    from ..security.tls.server_tls import ServerTls
    from .kafka_config import KafkaConfig
    from .listeners import Listener

WITH_TLS = ("SSL", "SASL_SSL")
MAPPING_RULES = "ssl.principal.mapping.rules"
CLIENT_AUTH = "ssl.client.auth"


def tls_settings(config: KafkaConfig, listener: Listener) -> TlsSettings | None:
    """The TLS settings of a listener; None for plain text. ConfigError for keys that no file can
    fix.
    """
    if listener.security_protocol not in WITH_TLS:
        return None
    values = {
        key: config.text(_written(config, listener, key)) for key in (*TLS_KEYS, MAPPING_RULES)
    }
    if listener.security_protocol == "SASL_SSL" and not config.is_set(
        f"{LISTENER_PREFIX}{listener.name.lower()}.{CLIENT_AUTH}"
    ):
        values[CLIENT_AUTH] = None
    try:
        found = read_settings(values, name=lambda key: _written(config, listener, key))
        principal_mapping.parse_rules(values[MAPPING_RULES] or principal_mapping.DEFAULT_RULES)
    except TlsSettingsError as error:
        raise ConfigError(str(error)) from None
    except principal_mapping.BadRule as error:
        raise ConfigError(f"{_written(config, listener, MAPPING_RULES)}: {error}") from None
    if not found.keystore.is_set:
        key = f"{LISTENER_PREFIX}{listener.name.lower()}.ssl.keystore.location"
        raise ConfigError(
            f"listeners={listener}: it needs a certificate; set {key} or ssl.keystore.location"
        )
    return found


def server_tls(config: KafkaConfig, listener: Listener, settings: TlsSettings) -> ServerTls:
    """Reads the key stores; ConfigError if one of them cannot be used."""
    from ..security.tls.server_tls import ServerTls

    rules = None
    if listener.security_protocol == "SSL":
        text = config.text(_written(config, listener, MAPPING_RULES))
        rules = principal_mapping.parse_rules(text or principal_mapping.DEFAULT_RULES)
    try:
        return ServerTls(settings, rules, name=lambda key: _written(config, listener, key))
    except TlsSettingsError as error:
        raise ConfigError(str(error)) from None


def store_key(config: KafkaConfig, listener: Listener, kind: str) -> str:
    """The key of the location of a listener's `keystore` or `truststore`."""
    return _written(config, listener, f"ssl.{kind}.location")


def _written(config: KafkaConfig, listener: Listener, key: str) -> str:
    """The key in effect: the listener's own if it is set."""
    prefixed = f"{LISTENER_PREFIX}{listener.name.lower()}.{key}"
    return prefixed if config.is_set(prefixed) else key


def client_tls(config: KafkaConfig, listener: Listener) -> ssl.SSLContext | None:
    """The TLS of our own connections to this listener of other brokers; None for plain text."""
    settings = tls_settings(config, listener)
    if settings is None:
        return None
    from ...tls.contexts import client_context

    try:
        return client_context(settings, name=lambda key: _written(config, listener, key))
    except TlsSettingsError as error:
        raise ConfigError(str(error)) from None
