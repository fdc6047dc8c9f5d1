"""Certificates that Java takes and OpenSSL, at its usual security level, does not: signed with
SHA-1, or with a key of RSA of 1024 bits and more.

Job: `allow_as_java` sets a context to the security level at which OpenSSL takes the certificates of
a configured key store or trust store. The system's own authorities never lower the level.

Invariants: without such a certificate nothing changes; with one a warning names it; a certificate
in a key store that Java refuses (MD2, MD5, shorter keys) is refused by its name. The cipher suites
stay as they were.

Mirrors `jdk.certpath.disabledAlgorithms` and `jdk.tls.disabledAlgorithms` of Java 17, where SHA-1
is refused only below the authorities that Java itself brings (`SHA1 jdkCA`).
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa

from .settings import TlsSettingsError

logger = logging.getLogger("pybroker.tls")

LEAST_RSA_BITS: Final = 1024  # the least that Java takes
USUAL_RSA_BITS: Final = 2048  # the least at level 2
SHORT_KEYS_LEVEL: Final = 1
SHA_1_LEVEL: Final = 0  # since OpenSSL 3.0
REFUSED_HASHES: Final = ("md2", "md5")


def allow_as_java(
    context: ssl.SSLContext,
    certificates: Iterable[x509.Certificate],
    key_name: str,
    *,
    are_ours: bool,
) -> None:
    """Call this before the certificates are loaded. Raises TlsSettingsError for a certificate of
    our own that Java refuses as well."""
    level = context.security_level
    for one in certificates:
        reason, needed = _weakness(one)
        if needed is None:
            if not are_ours:
                continue  # the signature of a trusted certificate is never checked
            raise TlsSettingsError(
                f"{key_name}: the certificate {_name(one)} has {reason}, which Java refuses too: "
                "replace it"
            )
        if needed < context.security_level:
            level = min(level, needed)
            logger.warning(
                "%s: the certificate %s has %s. It is taken, as Java takes it, at OpenSSL's "
                "security level %d: replace it by one with SHA-256 and 2048 bits",
                key_name, _name(one), reason, needed,
            )  # fmt: skip
    if level < context.security_level:
        older = [one["name"] for one in context.get_ciphers() if one["protocol"] != "TLSv1.3"]
        context.set_ciphers(f"@SECLEVEL={level}:{':'.join(older)}")


def _weakness(certificate: x509.Certificate) -> tuple[str, int | None]:
    """The weakness of a certificate, and the level at which OpenSSL takes it; None: at no level."""
    key = certificate.public_key()
    bits = key.key_size if isinstance(key, rsa.RSAPublicKey) else USUAL_RSA_BITS
    if bits < LEAST_RSA_BITS:
        return f"a key of {bits} bits", None
    try:
        algorithm = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        algorithm = None
    if algorithm is not None and algorithm.name in REFUSED_HASHES:
        return f"a signature with {algorithm.name.upper()}", None
    if isinstance(algorithm, hashes.SHA1):
        return "a signature with SHA-1", SHA_1_LEVEL
    if bits < USUAL_RSA_BITS:
        return f"a key of {bits} bits", SHORT_KEYS_LEVEL
    return "", 5


def _name(certificate: x509.Certificate) -> str:
    return certificate.subject.rfc4514_string()
