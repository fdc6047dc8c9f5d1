"""An `ssl.SSLContext` of Kafka's keys, for a listener or for a connection of our own.

Job: `server_context` and `client_context`, from `TlsSettings`. Both read files and may take some
milliseconds: call them at start, or in a thread.

Invariants: a private key is never written to a disk; settings that cannot work raise a
TlsSettingsError that names the key. Compression and renegotiation are off.

Mirrors `DefaultSslEngineFactory`. Beyond it: the key and its certificate are checked against each
other before the first connection. A truststore may hold certificates that are no CA, as in Java.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from typing import Final

from cryptography import x509

from . import cipher_suites
from .old_signatures import allow_as_java
from .settings import TlsSettings, TlsSettingsError
from .stores import Identity, pem_of, read_identity, read_trusted

_VERSIONS: Final = {
    "TLSv1": (ssl.TLSVersion.TLSv1, ssl.OP_NO_TLSv1),
    "TLSv1.1": (ssl.TLSVersion.TLSv1_1, ssl.OP_NO_TLSv1_1),
    "TLSv1.2": (ssl.TLSVersion.TLSv1_2, ssl.OP_NO_TLSv1_2),
    "TLSv1.3": (ssl.TLSVersion.TLSv1_3, ssl.OP_NO_TLSv1_3),
}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
# A client that comes again may skip the costly part; Java gives one ticket too.
_TICKETS: Final = 1

Naming = Callable[[str], str]


def server_context(settings: TlsSettings, *, name: Naming = str) -> tuple[ssl.SSLContext, Identity]:
    """The context of a listener, and its key with the certificates. `name` is as for
    `read_settings`."""
    if not settings.keystore.is_set:
        raise TlsSettingsError(f"{name('ssl.keystore.location')} is not set: TLS needs a key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    identity = _read_identity(context, settings, name)
    _load_identity(context, identity, name)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trusted(context, settings, name)
    elif settings.truststore.is_set:
        read_trusted(settings.truststore, _store_name(settings, "truststore", name))
    context.num_tickets = _TICKETS
    _restrict(context, settings, name)
    return context, identity


def client_context(settings: TlsSettings, *, name: Naming = str) -> ssl.SSLContext:
    """The context of connections of our own; the host's name is checked as the settings say."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = bool(settings.endpoint_identification)
    context.verify_mode = ssl.CERT_REQUIRED
    if settings.keystore.is_set:
        _load_identity(context, _read_identity(context, settings, name), name)
    _load_trusted(context, settings, name)
    _restrict(context, settings, name)
    return context


def _store_name(settings: TlsSettings, kind: str, name: Naming) -> str:
    if kind == "keystore":
        inline, location = "ssl.keystore.certificate.chain", settings.keystore.location
    else:
        inline, location = "ssl.truststore.certificates", settings.truststore.location
    return name(inline if location is None else f"ssl.{kind}.location")


def _read_identity(context: ssl.SSLContext, settings: TlsSettings, name: Naming) -> Identity:
    key = _store_name(settings, "keystore", name)
    identity = read_identity(settings.keystore, key)
    chain = x509.load_pem_x509_certificates(identity.chain)
    allow_as_java(context, chain, key, are_ours=True)
    return identity


def _load_identity(context: ssl.SSLContext, identity: Identity, name: Naming) -> None:
    with _unlinked_file(identity.key + identity.chain) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise TlsSettingsError(
                f"{name('ssl.keystore.location')}: OpenSSL does not take its key and certificate: "
                f"{(error.reason or 'unknown reason').lower().replace('_', ' ')}"
            ) from None


@contextlib.contextmanager
def _unlinked_file(data: bytes) -> Iterator[str]:
    """A path under which OpenSSL can open `data`; it is in memory only where the system supports
    that."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:  # mode 0600
            file.write(data)
            file.flush()
            yield file.name


def _load_trusted(context: ssl.SSLContext, settings: TlsSettings, name: Naming) -> None:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not settings.truststore.is_set:
        context.load_default_certs(
            ssl.Purpose.SERVER_AUTH if context.protocol is ssl.PROTOCOL_TLS_CLIENT
            else ssl.Purpose.CLIENT_AUTH
        )  # fmt: skip
        return
    key = _store_name(settings, "truststore", name)
    trusted = read_trusted(settings.truststore, key)
    allow_as_java(context, trusted, key, are_ours=False)
    try:
        context.load_verify_locations(cadata=pem_of(trusted).decode("ascii"))
    except ssl.SSLError:
        raise TlsSettingsError(f"{key}: OpenSSL does not take its certificates") from None


def _restrict(context: ssl.SSLContext, settings: TlsSettings, name: Naming) -> None:
    """Set the enabled versions and cipher suites."""
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    enabled = set(settings.enabled_protocols)
    suites = settings.cipher_suites
    of_1_3 = {suite for suite in suites if suite in cipher_suites.TLS_1_3}
    older = [suite for suite in suites if suite not in cipher_suites.TLS_1_3]
    if suites and not of_1_3:
        enabled.discard("TLSv1.3")
    if suites and not older:
        enabled &= {"TLSv1.3"}
    if not enabled:
        raise TlsSettingsError(
            f"{name('ssl.cipher.suites')}: none of them is for {name('ssl.enabled.protocols')}="
            f"{','.join(settings.enabled_protocols)}"
        )
    if "TLSv1.3" in enabled and of_1_3 and not of_1_3 >= cipher_suites.OFFERED_TLS_1_3:
        raise TlsSettingsError(
            f"{name('ssl.cipher.suites')}: of TLS 1.3 all of "
            f"{', '.join(sorted(cipher_suites.OFFERED_TLS_1_3))} have to be named, or none: "
            "OpenSSL cannot switch off single ones here"
        )
    if older:
        names = [cipher_suites.openssl_name(suite) for suite in older]
        unknown = [suite for suite, found in zip(older, names, strict=True) if found is None]
        if unknown:
            raise TlsSettingsError(f"{name('ssl.cipher.suites')}: {unknown[0]} is not known")
        try:
            context.set_ciphers(":".join(found for found in names if found is not None))
        except ssl.SSLError:
            raise TlsSettingsError(
                f"{name('ssl.cipher.suites')}: OpenSSL has none of {', '.join(older)}"
            ) from None
    versions = [version for each, (version, _) in _VERSIONS.items() if each in enabled]
    try:
        context.minimum_version, context.maximum_version = min(versions), max(versions)
    except ValueError:
        raise TlsSettingsError(
            f"{name('ssl.enabled.protocols')}: OpenSSL does not have them"
        ) from None
    for each, (version, option) in _VERSIONS.items():
        if each not in enabled and min(versions) < version < max(versions):
            context.options |= option
