"""This broker's connection to ZooKeeper: its TLS, its login, and the ACLs on its znodes.

From the `zookeeper.ssl.*` keys, `zookeeper.set.acl`, the JAAS file (`Client`: DIGEST-MD5) and the
credentials file (`digest`, which the embedded ZooKeeper asks for when it is closed).

Mirrors `KafkaServer.zkClientConfigFromKafkaConfig`, `JaasUtils.isZkSaslEnabled`,
`ZkData.defaultAcls` and ZooKeeper's `X509Util`. Leaves out Kerberos, keystores of BouncyCastle,
revocation lists and the migration tool (`zookeeper-security-migration`): znodes that exist keep the
ACLs that they have.

Invariants: secrets are in no repr and no message; with `zookeeper.set.acl` a broker without a login
does not start, because its znodes could never be changed again.
"""

from __future__ import annotations

import importlib.util
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...protocol.sasl.jaas import DIGEST_MODULE
from ...tls.settings import (
    JKS,
    PEM,
    PKCS12,
    PROTOCOLS,
    TlsSettings,
    TlsSettingsError,
    read_settings,
)
from ..config import ConfigError
from ..config.jaas_file import JAAS_FILE, section_of
from ..resources.secret_file import UnsafeSecret, read_secret

if TYPE_CHECKING:
    from ..config import KafkaConfig

CREDENTIALS_FILE: Final = "pybroker.zookeeper.credentials.file"
CLIENT_SECTION: Final = "Client"

# Readers of these could log in as a user: only brokers may read them.
SENSITIVE_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
OLD_CONSUMERS_PATH: Final = "/consumers"

_STORE_TYPES: Final = {".pem": PEM, ".jks": JKS, ".p12": PKCS12, ".pfx": PKCS12}
_LOCATIONS: Final = {
    "keystore": "zookeeper.ssl.keystore.location",
    "truststore": "zookeeper.ssl.truststore.location",
}
_TYPES: Final = {
    "keystore": "zookeeper.ssl.keystore.type",
    "truststore": "zookeeper.ssl.truststore.type",
}
_KEYSTORE_PASSWORD: Final = "zookeeper.ssl.keystore.password"


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """The security of a connection; without any field it is anonymous and in plain text."""

    tls: ssl.SSLContext | None = None
    digest: str | None = field(default=None, repr=False)  # user:password
    sasl: tuple[str, str] | None = field(default=None, repr=False)  # user, password
    set_acl: bool = False


NO_SECURITY: Final = ZooKeeperSecurity()


def zookeeper_security(config: KafkaConfig) -> ZooKeeperSecurity:
    """Raises ConfigError for an unusable file, or for ACLs without a login to own the znodes."""
    tls = _tls_context(config) if config.get_boolean("zookeeper.ssl.client.enable") else None
    digest, sasl = _digest_credentials(config), _sasl_credentials(config)
    set_acl = config.get_boolean("zookeeper.set.acl")
    has_certificate = config.get_optional_string("zookeeper.ssl.keystore.location") is not None
    if set_acl and not (digest or sasl or (tls and has_certificate)):
        raise ConfigError(
            "zookeeper.set.acl=true, but this broker has no credentials for ZooKeeper: set "
            "zookeeper.ssl.client.enable=true with zookeeper.ssl.keystore.location, "
            f"{JAAS_FILE} with a section {CLIENT_SECTION}, or {CREDENTIALS_FILE}"
        )
    return ZooKeeperSecurity(tls, digest, sasl, set_acl)


def is_open_to_all(path: str) -> bool:
    """Whether all clients may write below a path: old consumers do so."""
    return path == OLD_CONSUMERS_PATH


def is_sensitive(path: str) -> bool:
    """Whether a path is sensitive: as in Kafka, by its first characters."""
    return path.startswith(SENSITIVE_PATHS)


# Credentials


def _digest_credentials(config: KafkaConfig) -> str | None:
    name = config.get_optional_string(CREDENTIALS_FILE)
    if name is None:
        return None
    try:
        text = read_secret(Path(name)).decode()
    except UnsafeSecret as error:
        raise ConfigError(f"{CREDENTIALS_FILE}: {error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{CREDENTIALS_FILE}: {name} is not UTF-8") from None
    user, colon, password = text.partition(":")
    if not (user and colon and password) or "\n" in text:
        raise ConfigError(f"{CREDENTIALS_FILE}: {name} is not one line user:password")
    return text


def _sasl_credentials(config: KafkaConfig) -> tuple[str, str] | None:
    section = section_of(config, CLIENT_SECTION)
    if section is None or not section.modules:
        return None
    module = section.modules[0]
    if module.name != DIGEST_MODULE:
        raise ConfigError(f"{section.where} names {module.name}; only {DIGEST_MODULE} works here")
    username, password = module.options.get("username"), module.options.get("password")
    if not username or not password:
        raise ConfigError(f"{section.where} needs a username and a password")
    if importlib.util.find_spec("puresasl") is None:
        raise ConfigError(
            f"{JAAS_FILE}: logging in to ZooKeeper needs the package pure-sasl: "
            "pip install 'pybroker-kafka[zookeeper-sasl]'"
        )
    return username, password


# TLS


def _tls_context(config: KafkaConfig) -> ssl.SSLContext:
    from ...tls.contexts import client_context

    try:
        return client_context(_tls_settings(config), name=_zookeeper_key)
    except TlsSettingsError as error:
        # A store's reader knows the keys of listeners alone.
        told = re.sub(r"(?<![.\w])ssl\.key\.password", _KEYSTORE_PASSWORD, str(error))
        raise ConfigError(told) from None


def _tls_settings(config: KafkaConfig) -> TlsSettings:
    password, keystore_type = config.value(_KEYSTORE_PASSWORD), _store_type(config, "keystore")
    protocol = config.get_string("zookeeper.ssl.protocol")
    enabled = config.get_list("zookeeper.ssl.enabled.protocols")
    if not enabled and protocol in PROTOCOLS:
        enabled = [protocol]
    return read_settings(
        {
            "ssl.keystore.location": config.get_optional_string(_LOCATIONS["keystore"]),
            "ssl.keystore.type": keystore_type,
            "ssl.keystore.password": None if keystore_type == PEM else password,
            # ZooKeeper knows one password for the store and for the key in it.
            "ssl.key.password": password,
            "ssl.truststore.location": config.get_optional_string(_LOCATIONS["truststore"]),
            "ssl.truststore.type": _store_type(config, "truststore"),
            "ssl.truststore.password": config.value("zookeeper.ssl.truststore.password"),
            "ssl.protocol": protocol,
            "ssl.enabled.protocols": ",".join(enabled),
            "ssl.cipher.suites": ",".join(config.get_list("zookeeper.ssl.cipher.suites")),
            "ssl.endpoint.identification.algorithm": config.text(
                "zookeeper.ssl.endpoint.identification.algorithm"
            ),
        },
        name=_zookeeper_key,
    )


def _store_type(config: KafkaConfig, store: str) -> str | None:
    """The configured type, else that of the file's ending; None if there is no such store."""
    location = config.get_optional_string(_LOCATIONS[store])
    if location is None:
        return None
    said = config.get_optional_string(_TYPES[store])
    found = said.upper() if said else _STORE_TYPES.get(Path(location).suffix.lower())
    if found is None:
        raise ConfigError(f"{_LOCATIONS[store]}={location}: say with {_TYPES[store]} what it is")
    return found


def _zookeeper_key(key: str) -> str:
    return _KEYSTORE_PASSWORD if key == "ssl.key.password" else f"zookeeper.{key}"
