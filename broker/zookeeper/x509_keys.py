"""ZooKeeper's keys for key stores and TLS, as Kafka's `ssl.*` keys, which `tls` reads.

Job: `x509_settings` for the keys behind one prefix: `ssl.quorum.` between members, `ssl.` at the
client port. Types of stores follow from the names of the files, and passwords may be in files of
their own (`keyStore.passwordPath`).

Mirrors `X509Util`. Beyond it: `TLSv1.2` is on by default beside `TLSv1.3`, because Kafka's brokers
speak 1.2 by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from ...tls.settings import JKS, PEM, PKCS12, TlsSettings, read_settings
from ...zookeeper.quorum.ensemble_config import ConfigurationError

_TYPES = MappingProxyType({".jks": JKS, ".pem": PEM, ".p12": PKCS12, ".pfx": PKCS12})
_CLIENT_AUTH = MappingProxyType({"none": "none", "want": "requested", "need": "required"})
_NAMES = MappingProxyType(
    {
        "ssl.keystore.location": "keyStore.location",
        "ssl.keystore.password": "keyStore.password",
        "ssl.key.password": "keyStore.password",
        "ssl.keystore.type": "keyStore.type",
        "ssl.truststore.location": "trustStore.location",
        "ssl.truststore.password": "trustStore.password",
        "ssl.truststore.type": "trustStore.type",
        "ssl.enabled.protocols": "enabledProtocols",
        "ssl.cipher.suites": "ciphersuites",
        "ssl.client.auth": "clientAuth",
    }
)
MAX_PASSWORD_BYTES = 4096

Naming = Callable[[str], str]


def x509_settings(
    keys: Mapping[str, str], prefix: str, asking: str, *, connects: bool
) -> tuple[TlsSettings, Naming]:
    """The settings, and the user's spelling of Kafka's keys. `asking`: the key that asks for TLS;
    `connects`: the settings are for connections of our own, too. Raises ConfigurationError or
    TlsSettingsError."""
    values = {ours: keys.get(prefix + name) for ours, name in _NAMES.items()}
    asked = (values["ssl.client.auth"] or "need").lower()
    if asked not in _CLIENT_AUTH:
        raise ConfigurationError(f"{prefix}clientAuth={asked} is not none, want or need")
    values["ssl.client.auth"] = _CLIENT_AUTH[asked]
    for ours, theirs in (("keystore", "keyStore"), ("truststore", "trustStore")):
        location = values[f"ssl.{ours}.location"]
        if location is None:
            if theirs == "trustStore" and asked == "none" and not connects:
                continue
            raise ConfigurationError(f"{asking} needs {prefix}{theirs}.location")
        if values[f"ssl.{ours}.type"] is None:
            values[f"ssl.{ours}.type"] = _type_of(location)
        path = keys.get(f"{prefix}{theirs}.passwordPath")
        if path is not None:
            values[f"ssl.{ours}.password"] = _password_in(path, f"{prefix}{theirs}.passwordPath")
    if keys.get(f"{prefix}keyStore.passwordPath") is not None:
        values["ssl.key.password"] = values["ssl.keystore.password"]
    if values["ssl.keystore.type"] == PEM:
        values["ssl.key.password"] = values["ssl.key.password"] or None
        values["ssl.keystore.password"] = None
    if values["ssl.truststore.type"] == PEM:
        values["ssl.truststore.password"] = None
    protocol = keys.get(f"{prefix}protocol")
    if protocol is not None and values["ssl.enabled.protocols"] is None:
        values["ssl.enabled.protocols"] = protocol
    checks_name = keys.get(f"{prefix}hostnameVerification", "true").lower() != "false"
    values["ssl.endpoint.identification.algorithm"] = "https" if checks_name else ""
    naming = partial(_name, prefix)
    return read_settings(values, name=naming), naming


def _name(prefix: str, key: str) -> str:
    return prefix + _NAMES.get(key, key)


def _type_of(location: str) -> str:
    for ending, kind in _TYPES.items():
        if location.lower().endswith(ending):
            return kind
    raise ConfigurationError(f"{location}: its type is not set, and its name ends in none")


def _password_in(path: str, key: str) -> str:
    """The password in a file, without the end of its line."""
    # It loads `cryptography`, as everything does that reads a store.
    from ...tls.stores import read_file

    try:
        text = read_file(path, key, MAX_PASSWORD_BYTES).decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"{key}={path} is not UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")
