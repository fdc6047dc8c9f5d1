"""TLS between members of an ensemble, on the quorum and the election port.

Mirrors `QuorumX509Util` and `X509Util` of 3.9: `sslQuorum=true` with the keys `ssl.quorum.*`. Both
sides show a certificate, and both check it with the trust store; the one that connects also checks
the host's name. Types of stores follow from the names of the files, as there.

Leaves out, refused with a reason: connections with and without TLS on one port (`portUnification`),
lists of revoked certificates and OCSP, a context of a Java class, and stores that are read again
(`sslQuorumReloadCertFiles`). Of a member that connects to us the host's name is not checked: Java
asks the DNS for it.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import trio

from ...tls.settings import JKS, PEM, PKCS12, TlsSettingsError, read_settings
from ...zookeeper.quorum.ensemble_config import ConfigurationError

_PREFIX = "ssl.quorum."
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


class QuorumTls(NamedTuple):
    """The contexts of accepted and of our own connections."""

    server: ssl.SSLContext
    client: ssl.SSLContext


def quorum_tls(keys: Mapping[str, str]) -> QuorumTls:
    """The contexts of the keys `ssl.quorum.*`. Raises ConfigurationError."""
    # It loads `cryptography`, whose memory members without TLS do not pay.
    from ...tls.contexts import client_context, server_context

    values = {ours: keys.get(_PREFIX + name) for ours, name in _NAMES.items()}
    for store in ("keystore", "truststore"):
        location = values[f"ssl.{store}.location"]
        if location is None:
            lacking = _NAMES[f"ssl.{store}.location"]
            raise ConfigurationError(f"sslQuorum=true needs {_PREFIX}{lacking}")
        if values[f"ssl.{store}.type"] is None:
            values[f"ssl.{store}.type"] = _type_of(location)
    if values["ssl.keystore.type"] == PEM and not values["ssl.key.password"]:
        values["ssl.key.password"] = values["ssl.keystore.password"] = None
    if values["ssl.truststore.type"] == PEM:
        values["ssl.truststore.password"] = None
    asked = (values["ssl.client.auth"] or "need").lower()
    if asked not in _CLIENT_AUTH:
        raise ConfigurationError(f"{_PREFIX}clientAuth={asked} is not none, want or need")
    values["ssl.client.auth"] = _CLIENT_AUTH[asked]
    checks_name = keys.get(f"{_PREFIX}hostnameVerification", "true").lower() != "false"
    values["ssl.endpoint.identification.algorithm"] = "https" if checks_name else ""

    def name(key: str) -> str:
        return _PREFIX + _NAMES.get(key, key)

    try:
        settings = read_settings(values, name=name)
        server, _ = server_context(settings, name=name)
        return QuorumTls(server, client_context(settings, name=name))
    except TlsSettingsError as error:
        raise ConfigurationError(str(error)) from None


def _type_of(location: str) -> str:
    for ending, kind in _TYPES.items():
        if location.lower().endswith(ending):
            return kind
    raise ConfigurationError(f"{location}: its type is not set, and its name ends in none")


async def accepted(stream: trio.SocketStream, tls: QuorumTls | None) -> trio.abc.Stream:
    """The stream of a connection to us, once its other side has shown a certificate. Raises
    BrokenResourceError."""
    if tls is None:
        return stream
    # A member that dies says no good-bye, as with https.
    return await _shaken(
        trio.SSLStream(stream, tls.server, server_side=True, https_compatible=True)
    )


async def connected(stream: trio.SocketStream, host: str, tls: QuorumTls | None) -> trio.abc.Stream:
    """The stream of our connection to a host. Raises BrokenResourceError."""
    if tls is None:
        return stream
    return await _shaken(
        trio.SSLStream(stream, tls.client, server_hostname=host, https_compatible=True)
    )


async def _shaken(stream: trio.SSLStream[trio.SocketStream]) -> trio.abc.Stream:
    try:
        await stream.do_handshake()
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream
