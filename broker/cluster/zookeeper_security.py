"""How this broker meets ZooKeeper: over TLS or not, as whom, and with what ACLs on its znodes.

From the `zookeeper.ssl.*` keys, `zookeeper.set.acl`, the JAAS file (`Client`: DIGEST-MD5) and the
credentials file (`digest`, which the embedded ZooKeeper asks for when it is closed).

Mirrors `KafkaServer.zkClientConfigFromKafkaConfig`, `JaasUtils.isZkSaslEnabled`,
`ZkData.defaultAcls` and ZooKeeper's `X509Util`. Leaves out Kerberos, keystores that are not PEM,
cipher suites, revocation lists and the migration tool (`zookeeper-security-migration`): znodes
that exist keep the ACLs that they have.

Invariants: secrets are in no repr and no message; with `zookeeper.set.acl` no broker starts that
could not prove who it is, because nobody could ever change its znodes again.
"""

from __future__ import annotations

import importlib.util
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..config import ConfigError
from ..resources.secret_file import UnsafeSecret, read_secret
from ..security.login_config import BadLoginConfig, LoginModule, parse_login_config

if TYPE_CHECKING:
    from ..config import KafkaConfig

CREDENTIALS_FILE: Final = "pybroker.zookeeper.credentials.file"
JAAS_FILE: Final = "pybroker.jaas.file"
CLIENT_SECTION: Final = "Client"
DIGEST_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
LOGIN_FILE_MAX_BYTES: Final = 64 * 1024

# Who reads these could log in as somebody: nobody but the brokers may.
SENSITIVE_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
OLD_CONSUMERS_PATH: Final = "/consumers"

_STORE_TYPES: Final = {".pem": "PEM", ".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12"}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_ANY_VERSION: Final = "TLS"


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """What a connection needs; without any of it, it is as anybody's."""

    tls: ssl.SSLContext | None = None
    digest: str | None = field(default=None, repr=False)  # user:password
    sasl: tuple[str, str] | None = field(default=None, repr=False)  # user, password
    set_acl: bool = False


NO_SECURITY: Final = ZooKeeperSecurity()


def zookeeper_security(config: KafkaConfig) -> ZooKeeperSecurity:
    """Raises ConfigError: a file that cannot be used, or ACLs without anybody to own the znodes."""
    tls = _tls_context(config) if config.get_boolean("zookeeper.ssl.client.enable") else None
    digest, sasl = _digest_credentials(config), _sasl_credentials(config)
    set_acl = config.get_boolean("zookeeper.set.acl")
    has_certificate = config.get_optional_string("zookeeper.ssl.keystore.location") is not None
    if set_acl and not (digest or sasl or (tls and has_certificate)):
        raise ConfigError(
            "zookeeper.set.acl=true, but nothing proves to ZooKeeper who this broker is: give "
            "zookeeper.ssl.client.enable=true with zookeeper.ssl.keystore.location, "
            f"{JAAS_FILE} with a section {CLIENT_SECTION}, or {CREDENTIALS_FILE}"
        )
    return ZooKeeperSecurity(tls, digest, sasl, set_acl)


def is_open_to_all(path: str) -> bool:
    """Old consumers of anybody write below it."""
    return path == OLD_CONSUMERS_PATH


def is_sensitive(path: str) -> bool:
    """As Kafka compares: by the first characters."""
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
    name = config.get_optional_string(JAAS_FILE)
    if name is None:
        return None
    modules = _login_modules(Path(name))
    if not modules:
        return None
    module = modules[0]
    if module.name != DIGEST_MODULE:
        raise ConfigError(
            f"{JAAS_FILE}: {CLIENT_SECTION} of {name} names {module.name}; only {DIGEST_MODULE} "
            "works here"
        )
    username, password = module.options.get("username"), module.options.get("password")
    if not username or not password:
        raise ConfigError(
            f"{JAAS_FILE}: {CLIENT_SECTION} of {name} needs a username and a password"
        )
    if importlib.util.find_spec("puresasl") is None:
        raise ConfigError(
            f"{JAAS_FILE}: logging in to ZooKeeper needs the package pure-sasl: "
            "pip install 'pybroker[zookeeper-sasl]'"
        )
    return username, password


def _login_modules(path: Path) -> tuple[LoginModule, ...]:
    try:
        with path.open("rb") as file:
            text = file.read(LOGIN_FILE_MAX_BYTES + 1).decode()
        return parse_login_config(text).get(CLIENT_SECTION, ())
    except OSError as error:
        raise ConfigError(f"{JAAS_FILE}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{JAAS_FILE}: {path} is not UTF-8") from None
    except BadLoginConfig as error:
        raise ConfigError(f"{JAAS_FILE}: {path} is no JAAS file: {error}") from None


# TLS


def _tls_context(config: KafkaConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = _versions(config)
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.check_hostname = _checks_host_name(config)
    location = "zookeeper.ssl.truststore.location"
    truststore = _pem_store(config, location, "zookeeper.ssl.truststore.type")
    if truststore is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(truststore)
        except (OSError, ValueError) as error:
            raise _cannot_use(location, truststore, error) from None
    location = "zookeeper.ssl.keystore.location"
    keystore = _pem_store(config, location, "zookeeper.ssl.keystore.type")
    if keystore is not None:
        password = config.value("zookeeper.ssl.keystore.password") or ""
        try:
            # Never without a password: OpenSSL would ask for one on the terminal.
            context.load_cert_chain(keystore, password=password)
        except (OSError, ValueError) as error:
            raise _cannot_use(location, keystore, error) from None
    return context


def _versions(config: KafkaConfig) -> list[ssl.TLSVersion]:
    """`enabled.protocols`, by default what `protocol` says; TLS 1.0 and 1.1 are gone."""
    enabled = config.get_list("zookeeper.ssl.enabled.protocols")
    names = enabled or [config.get_string("zookeeper.ssl.protocol")]
    key = "zookeeper.ssl.enabled.protocols" if enabled else "zookeeper.ssl.protocol"
    versions: list[ssl.TLSVersion] = []
    for name in names:
        if name == _ANY_VERSION and not enabled:
            versions += _VERSIONS.values()
        elif name in _VERSIONS:
            versions.append(_VERSIONS[name])
        else:
            raise ConfigError(f"{key}={','.join(names)}: {name} is none of {', '.join(_VERSIONS)}")
    return versions


def _checks_host_name(config: KafkaConfig) -> bool:
    key = "zookeeper.ssl.endpoint.identification.algorithm"
    algorithm = config.text(key) or ""
    if algorithm.upper() not in ("", "HTTPS"):
        raise ConfigError(f"{key}={algorithm}: HTTPS, or nothing, which checks no host name")
    return bool(algorithm)


def _pem_store(config: KafkaConfig, location: str, type_key: str) -> str | None:
    """The path of a store, if it is one that can be read; None if none is named."""
    path = config.get_optional_string(location)
    if path is None:
        return None
    store_type = config.get_optional_string(type_key)
    store_type = store_type or _STORE_TYPES.get(Path(path).suffix.lower())
    if store_type is None:
        raise ConfigError(f"{location}={path}: say with {type_key} what it is")
    if store_type.upper() != "PEM":
        raise ConfigError(f"{location}={path}: {store_type} cannot be read here; make it PEM")
    return path


def _cannot_use(location: str, path: str, error: Exception) -> ConfigError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ConfigError(f"{location}={path}: cannot be used: {reason}")
