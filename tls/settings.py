"""The ssl.* keys of one listener, or of one client, as values.

Job: `TlsSettings`, and `read_settings`, which reads them from any mapping of Kafka's keys to text:
a listener's part of server.properties or a client's properties. A value that cannot work here is
refused, with a line that names values that can.

Invariants: no password and no key is in the `repr` of the settings, or in an error.

Mirrors `SslConfigs` and the rules of `DefaultSslEngineFactory` on which keys go together. Leaves
out the keys that name classes and algorithms of Java: they may have Java's own values and no
others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

HTTPS: Final = "https"
PEM, JKS, PKCS12 = "PEM", "JKS", "PKCS12"
STORE_TYPES: Final = (JKS, PKCS12, PEM)
CLIENT_AUTH: Final = ("none", "requested", "required")
PROTOCOLS: Final = ("TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
# Values of ssl.protocol, as Java makes a context of them. The enabled versions are in
# ssl.enabled.protocols.
CONTEXT_PROTOCOLS: Final = ("TLS", *PROTOCOLS)

MAX_STORE_BYTES: Final = 16 * 1024 * 1024
MAX_LIST_ENTRIES: Final = 200

# Keys that name classes or algorithms of Java: the values that change nothing, and a hint for
# others.
OF_JAVA: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "ssl.engine.factory.class": (
        (),
        "it names a Java class; use the ssl.* keys instead",
    ),
    "ssl.provider": ((), "it names a Java provider; this broker uses OpenSSL for TLS"),
    "security.providers": ((), "it names Java providers; this broker uses OpenSSL for TLS"),
    "ssl.secure.random.implementation": (
        ("SHA1PRNG", "NativePRNG", "NativePRNGNonBlocking", "DRBG"),
        "it names a Java random generator; OpenSSL has its own",
    ),
    "ssl.keymanager.algorithm": (("SunX509", "NewSunX509", "PKIX"), "use SunX509 or PKIX"),
    "ssl.trustmanager.algorithm": (("PKIX", "SunX509", "X509", "SunPKIX"), "use PKIX"),
}
# All keys that `read_settings` reads.
TLS_KEYS: Final = (
    "ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password", "ssl.key.password",
    "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.truststore.type",
    "ssl.truststore.location", "ssl.truststore.password", "ssl.truststore.certificates",
    "ssl.client.auth", "ssl.protocol", "ssl.enabled.protocols", "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm", "ssl.allow.dn.changes", "ssl.allow.san.changes",
    *OF_JAVA,
)  # fmt: skip


class TlsSettingsError(Exception):
    """The keys ask for something that cannot be done; the text names the key, and no secret."""


class Store(NamedTuple):
    """The source of keys or certificates: a file, or the PEM text in the settings themselves."""

    type: str = JKS
    location: str | None = None
    password: str | None = None
    key_password: str | None = None
    pem_key: str | None = None
    pem_certificates: str | None = None

    @property
    def is_set(self) -> bool:
        return self.location is not None or self.pem_certificates is not None

    def __repr__(self) -> str:
        return f"Store({self.type}, {self.location or ('inline' if self.is_set else 'none')})"


class TlsSettings(NamedTuple):
    """The TLS settings of one listener, or of one client."""

    keystore: Store = Store()
    truststore: Store = Store()
    client_auth: str = "none"
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    cipher_suites: tuple[str, ...] = ()
    endpoint_identification: str = HTTPS  # empty: the host's name is not checked
    allow_dn_changes: bool = False
    allow_san_changes: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The files that are read from disk."""
        found = (self.keystore.location, self.truststore.location)
        return tuple(path for path in found if path is not None)


def read_settings(
    values: Mapping[str, str | None], *, name: Callable[[str], str] = str
) -> TlsSettings:
    """`values` are texts by Kafka's bare key; `name` gives the user's spelling of a key.

    Raises TlsSettingsError.
    """
    keys = _Keys(values, name)
    for key, (allowed, hint) in OF_JAVA.items():
        if keys.text(key) is not None:
            keys.one_of(key, "", allowed, hint)
    keys.one_of("ssl.protocol", "TLSv1.3", CONTEXT_PROTOCOLS)
    enabled = keys.entries("ssl.enabled.protocols", "TLSv1.2,TLSv1.3")
    if not set(enabled) <= set(PROTOCOLS):
        raise keys.error("ssl.enabled.protocols", f"it may name {', '.join(PROTOCOLS)}")
    identification = values.get("ssl.endpoint.identification.algorithm")
    identification = HTTPS if identification is None else identification.strip().lower()
    if identification not in ("", HTTPS):
        raise keys.error(
            "ssl.endpoint.identification.algorithm", "use https, or nothing for no check"
        )
    return TlsSettings(
        keystore=_keystore(keys),
        truststore=_truststore(keys),
        client_auth=keys.one_of("ssl.client.auth", "none", CLIENT_AUTH),
        enabled_protocols=enabled,
        cipher_suites=keys.entries("ssl.cipher.suites", ""),
        endpoint_identification=identification,
        allow_dn_changes=keys.text("ssl.allow.dn.changes") == "true",
        allow_san_changes=keys.text("ssl.allow.san.changes") == "true",
    )


class _Keys:
    """The texts, and errors that name the keys as the user writes them."""

    def __init__(self, values: Mapping[str, str | None], name: Callable[[str], str]) -> None:
        self._values = values
        self.name = name

    def text(self, key: str) -> str | None:
        value = self._values.get(key)
        return value.strip() if value is not None and value.strip() else None

    def secret(self, key: str) -> str | None:
        return self._values.get(key) or None

    def entries(self, key: str, default: str) -> tuple[str, ...]:
        text = self.text(key) or default
        found = tuple(part.strip() for part in text.split(",") if part.strip())
        if len(found) > MAX_LIST_ENTRIES:
            raise self.error(key, f"more than {MAX_LIST_ENTRIES} entries")
        return found

    def one_of(
        self, key: str, default: str, allowed: Sequence[str], hint: str | None = None
    ) -> str:
        value = self.text(key) or default
        if value not in allowed:
            raise self.error(key, hint or f"use one of {', '.join(allowed)}")
        return value

    def error(self, key: str, problem: str) -> TlsSettingsError:
        return TlsSettingsError(f"{self.name(key)}: {problem}")


def _keystore(keys: _Keys) -> Store:
    store = _store(
        keys,
        "keystore",
        "ssl.keystore.certificate.chain",
        key_password=keys.secret("ssl.key.password"),
        pem_key=keys.text("ssl.keystore.key"),
    )
    if (store.pem_key is None) != (store.pem_certificates is None):
        there, missing = "ssl.keystore.key", "ssl.keystore.certificate.chain"
        if store.pem_key is None:
            there, missing = missing, there
        raise keys.error(there, f"{keys.name(missing)} is missing")
    if store.location is not None and store.password is None and store.type != PEM:
        raise keys.error(
            "ssl.keystore.location", f"{keys.name('ssl.keystore.password')} is not set"
        )
    return store


def _truststore(keys: _Keys) -> Store:
    return _store(keys, "truststore", "ssl.truststore.certificates")


def _store(
    keys: _Keys,
    kind: str,
    inline: str,
    *,
    key_password: str | None = None,
    pem_key: str | None = None,
) -> Store:
    type_key, location_key = f"ssl.{kind}.type", f"ssl.{kind}.location"
    password_key = f"ssl.{kind}.password"
    store = Store(
        type=(keys.text(type_key) or JKS).upper(),
        location=keys.text(location_key),
        password=keys.secret(password_key),
        key_password=key_password,
        pem_key=pem_key,
        pem_certificates=keys.text(inline),
    )
    if store.type not in STORE_TYPES:
        raise keys.error(type_key, f"use one of {', '.join(STORE_TYPES)}")
    if store.pem_certificates is not None:
        if store.type != PEM:
            raise keys.error(inline, f"PEM text needs {keys.name(type_key)}=PEM")
        if store.location is not None:
            raise keys.error(inline, f"{keys.name(location_key)} is set too; one is enough")
    if store.password is not None and store.type == PEM:
        instead = f"; use {keys.name('ssl.key.password')}" if kind == "keystore" else ""
        raise keys.error(password_key, f"a PEM store has no password{instead}")
    if store.password is not None and not store.is_set:
        raise keys.error(password_key, f"{keys.name(location_key)} is not set")
    return store
