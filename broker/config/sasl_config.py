"""The `sasl.*` keys of listeners: the enabled mechanisms and the settings of each.

Mirrors `JaasContext.loadServerContext` and the reading half of `SaslChannelBuilder`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from ...client.errors import SettingsError
from ...client.security.login import Login
from ...client.security.settings import login_from
from ...protocol.sasl.jaas import MODULES, JaasError, LoginModule, login_module
from ..security.sasl.gssapi import GSSAPI, KerberosConfig
from ..security.sasl.kerberos_names import NameRules
from ..security.sasl.rules import MechanismConfig
from ..security.sasl.signed_tokens import TokenRules
from ..security.sasl.unsecured_tokens import UnsecuredTokens
from .definitions import LISTENER_PREFIX
from .errors import ConfigError
from .jaas_file import JAAS_FILE, section_of, server_sections
from .kafka_config import KafkaConfig

JAAS_CONFIG = "sasl.jaas.config"
CALLBACK_HANDLER = "sasl.server.callback.handler.class"
MAX_SESSION_MS = "connections.max.reauth.ms"
BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
SERVICE_NAME = "sasl.kerberos.service.name"

_NO_OPTIONS: Mapping[str, str] = MappingProxyType({})

_SCRAM_HANDLER = "org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler"
_UNSECURED_HANDLER = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
_SIGNED_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
_KEYS_URL = "sasl.oauthbearer.jwks.endpoint.url"
_HANDLERS = {
    "PLAIN": (
        "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler",
        "give passwords in sasl.jaas.config as user_<name>",
    ),
    "SCRAM-SHA-256": (_SCRAM_HANDLER, "users are kept in ZooKeeper (kafka-configs.sh)"),
    "SCRAM-SHA-512": (_SCRAM_HANDLER, "users are kept in ZooKeeper (kafka-configs.sh)"),
    "GSSAPI": (
        "org.apache.kafka.common.security.authenticator.SaslServerCallbackHandler",
        "names are made by sasl.kerberos.principal.to.local.rules",
    ),
    "OAUTHBEARER": (_UNSECURED_HANDLER, f"for signed tokens use {_SIGNED_HANDLERS[0]}"),
}
_OF_SIGNED = {("OAUTHBEARER", handler) for handler in _SIGNED_HANDLERS}
_NEED_JAAS = {
    "PLAIN": "no client could log in",
    "GSSAPI": "it says where the broker's key is",
    "OAUTHBEARER": "its options say which tokens are valid",
}


def uses_sasl(protocol: str) -> bool:
    return protocol.startswith("SASL_")


def mechanism_configs(config: KafkaConfig, listener: str) -> Mapping[str, MechanismConfig]:
    """The settings of each enabled mechanism of a listener; ConfigError if one cannot work."""
    enabled = config.of_listener(listener, "sasl.enabled.mechanisms") or ()
    if not enabled:
        raise ConfigError(f"listener {listener}: sasl.enabled.mechanisms names none")
    return {name: _mechanism_config(config, listener, name) for name in dict.fromkeys(enabled)}


def _mechanism_config(config: KafkaConfig, listener: str, mechanism: str) -> MechanismConfig:
    if mechanism not in _HANDLERS:
        raise ConfigError(
            f"sasl.enabled.mechanisms: {mechanism} is not known; there are {', '.join(_HANDLERS)}"
        )
    prefix = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}."
    handler, instead = _HANDLERS[mechanism]
    given = config.text(prefix + CALLBACK_HANDLER)
    if given and given != handler and (mechanism, given) not in _OF_SIGNED:
        raise ConfigError(
            f"{prefix}{CALLBACK_HANDLER}={given} is a Java class, which cannot run here: {instead}"
        )
    where, options = prefix + JAAS_CONFIG, _NO_OPTIONS
    found = _login_module(config, listener, mechanism)
    if found is not None:
        where, options = found[0], found[1].options
    elif mechanism in _NEED_JAAS:
        raise ConfigError(
            f"{where} is not set{_nor_in_file(config, listener)}: listener {listener} has "
            f"{mechanism}, and {_NEED_JAAS[mechanism]}"
        )
    longest = _of_mechanism(config, listener, mechanism, MAX_SESSION_MS)
    if mechanism == GSSAPI:
        kerberos = _kerberos(config, listener, where, options)
        return MechanismConfig(options, longest, kerberos=kerberos)
    if mechanism != "OAUTHBEARER":
        return MechanismConfig(options, longest)
    signed = given in _SIGNED_HANDLERS
    tokens = _signed(config, listener) if signed else _unsecured(config, listener, prefix, options)
    return MechanismConfig(options, longest, tokens)


def _login_module(
    config: KafkaConfig, listener: str, mechanism: str
) -> tuple[str, LoginModule] | None:
    """The login module of a mechanism of a listener, and where it stands: in its key, else in a
    section of the JAAS file. None if neither is there.
    """
    key = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS_CONFIG}"
    text = config.text(key)
    if text:
        return key, _module(key, text, mechanism)
    section = section_of(config, *server_sections(listener))
    if section is None:
        return None
    if mechanism not in _NEED_JAAS and not any(
        one.name == MODULES[mechanism] for one in section.modules
    ):
        return None
    return section.where, section.module_for(mechanism)


def _nor_in_file(config: KafkaConfig, listener: str) -> str:
    file = config.get_optional_string(JAAS_FILE)
    if file is None:
        return ""
    return f", and {file} has no section {' or '.join(server_sections(listener))}"


def _module(key: str, jaas: str, mechanism: str) -> LoginModule:
    try:
        return login_module(jaas, mechanism)
    except JaasError as error:
        raise ConfigError(f"{key}: {error}") from None


def _kerberos(
    config: KafkaConfig, listener: str, jaas: str, options: Mapping[str, str]
) -> KerberosConfig:
    principal, key_table = options.get("principal"), options.get("keyTab")
    if options.get("useKeyTab", "").lower() != "true" or not principal or not key_table:
        raise ConfigError(f"{jaas}: it needs useKeyTab=true, a keyTab and a principal")
    if importlib.util.find_spec("gssapi") is None:
        raise ConfigError(
            f"{jaas}: GSSAPI needs one more package: pip install 'pybroker-kafka[gssapi]'"
        )
    name = "sasl.kerberos.principal.to.local.rules"
    rules = tuple(config.of_listener(listener, name) or ())
    try:
        NameRules("", rules)
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None
    return KerberosConfig(principal, key_table.removeprefix("file:"), rules)


def _of_mechanism(config: KafkaConfig, listener: str, mechanism: str, name: str) -> Any:
    """The value of a key of one mechanism, of its listener, or of all."""
    prefixed = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{name}"
    return config.value(prefixed) if config.is_set(prefixed) else config.of_listener(listener, name)


def _unsecured(
    config: KafkaConfig, listener: str, prefix: str, options: Mapping[str, str]
) -> UnsecuredTokens:
    if _of_mechanism(config, listener, "OAUTHBEARER", _KEYS_URL):
        raise ConfigError(
            f"listener {listener}: {_KEYS_URL} is set, but tokens need no "
            f"signature without {prefix}{CALLBACK_HANDLER}={_SIGNED_HANDLERS[0]}"
        )
    try:
        return UnsecuredTokens.from_options(options)
    except ValueError as error:
        raise ConfigError(f"{prefix}{JAAS_CONFIG}: {error}") from None


def _signed(config: KafkaConfig, listener: str) -> TokenRules:
    def value(name: str) -> Any:
        return _of_mechanism(config, listener, "OAUTHBEARER", name)

    url = value(_KEYS_URL)
    if not url or urlsplit(url).scheme not in ("file", "http", "https"):
        raise ConfigError(
            f"listener {listener}: {_KEYS_URL} must be the file:, http: or "
            "https: address of the keys that sign tokens"
        )
    return TokenRules(
        url=url,
        refresh_ms=value("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        retry_ms=value("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        retry_max_ms=value("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
        subject_claim=value("sasl.oauthbearer.sub.claim.name"),
        scope_claim=value("sasl.oauthbearer.scope.claim.name"),
        audiences=tuple(value("sasl.oauthbearer.expected.audience") or ()),
        issuer=value("sasl.oauthbearer.expected.issuer") or None,
        clock_skew_ms=1000 * value("sasl.oauthbearer.clock.skew.seconds"),
    )


def check_jaas(config: KafkaConfig) -> None:
    """Check that every JAAS text of a listener can be parsed, also for unused mechanisms. A broker
    does not use the key without a prefix.
    """
    for name, text in config.explicit().items():
        if name.startswith(LISTENER_PREFIX) and name.endswith(f".{JAAS_CONFIG}"):
            mechanism = name.removesuffix(f".{JAAS_CONFIG}").rpartition(".")[2].upper()
            _module(name, text, mechanism if mechanism in MODULES else "")
    section_of(config)


def check_broker_login(config: KafkaConfig) -> None:
    """Check that this broker can log in at the listeners between brokers, and would accept
    itself.
    """
    for listener in config.listeners:
        among_brokers = listener.name in (
            config.inter_broker_listener,
            config.control_plane_listener,
        )
        if not among_brokers or not uses_sasl(listener.security_protocol):
            continue
        mechanism = config.get_string(BROKER_MECHANISM)
        if mechanism not in (config.of_listener(listener.name, "sasl.enabled.mechanisms") or ()):
            raise ConfigError(
                f"{BROKER_MECHANISM}={mechanism} must be one of sasl.enabled.mechanisms of the "
                f"listener {listener.name}"
            )
        try:
            broker_login(config, listener.name)
        except SettingsError as error:
            raise ConfigError(
                f"to log in at other brokers through {listener.name}: {error}"
            ) from None


def broker_login(config: KafkaConfig, listener: str) -> Login:
    """The login of this broker at others: with its own name in its own listener's text.

    Raises SettingsError, or ConfigError for a JAAS file.
    """
    mechanism = config.get_string(BROKER_MECHANISM)
    key = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS_CONFIG}"
    where, module = key, None
    if mechanism in MODULES:
        found = _login_module(config, listener, mechanism)
        where, module = found or (where, module)
    settings = {
        "sasl.mechanism": mechanism,
        SERVICE_NAME: config.of_listener(listener, SERVICE_NAME),
        TOKEN_URL: config.of_listener(listener, TOKEN_URL),
    }
    names = {"sasl.mechanism": BROKER_MECHANISM, JAAS_CONFIG: where}
    return login_from(settings.get, names, module)
