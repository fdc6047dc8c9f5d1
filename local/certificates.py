"""The certificates of a secured local cluster: its own authority, and the members' certificates.

Invariants: files with keys are of mode 0600 from their first byte, and whole or not there; valid
certificates are kept, so that clients trust the cluster after a restart, too. A certificate that
ends within `RENEWAL`, or lacks the name of one of its hosts, is made again; with a new authority
all of them.

Elliptic keys (P-256) take no time to make. Mirrors nothing of Kafka's, whose users run keytool.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from .private_files import write_private

AUTHORITY_FILE = "ca.pem"
AUTHORITY_KEY_FILE = "ca-key.pem"
AUTHORITY_LIFE = timedelta(days=3650)
LIFE = timedelta(days=397)  # the most that browsers and Apple's libraries accept
RENEWAL = timedelta(days=30)
CLOCKS_DIFFER = timedelta(hours=1)


class Pair(NamedTuple):
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def prepare_certificates(
    directory: Path,
    subject: str,
    members: Iterable[str],
    names: Collection[str],
    now: datetime | None = None,
) -> None:
    """Have `<member>.pem` for all members, all of one subject and good for all names, and `ca.pem`
    to trust them by."""
    now = now or datetime.now(UTC)
    authority = _authority(directory, now)
    for member in members:
        path = directory / f"{member}.pem"
        if not _is_good(path, authority.certificate, names, now):
            pair = _signed(authority, subject, names, now)
            write_private(path, _key_pem(pair.key) + _pem(pair.certificate))


def _authority(directory: Path, now: datetime) -> Pair:
    """The present authority, if it outlives the certificates that it would sign now; else a new
    one.
    """
    certificate_path, key_path = directory / AUTHORITY_FILE, directory / AUTHORITY_KEY_FILE
    with contextlib.suppress(OSError, ValueError, TypeError):
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        if (
            isinstance(key, ec.EllipticCurvePrivateKey)
            and key.public_key() == certificate.public_key()
            and certificate.not_valid_after_utc > now + LIFE
        ):
            return Pair(key, certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    # A client that has an older one must not take this for it.
    name = _name(f"pybroker authority {os.urandom(4).hex()}")
    certificate = (
        _builder(name, name, key, now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    write_private(key_path, _key_pem(key))
    write_private(certificate_path, _pem(certificate))
    return Pair(key, certificate)


def _signed(authority: Pair, subject: str, names: Collection[str], now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = authority.certificate
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    certificate = (
        _builder(_name(subject), issuer.subject, key, now, LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(
            x509.ExtendedKeyUsage(
                [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            critical=False,
        )
        .add_extension(signer, critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_alternative(name) for name in sorted(names)]),
            critical=False,
        )
        .sign(authority.key, hashes.SHA256())
    )
    return Pair(key, certificate)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
) -> x509.CertificateBuilder:
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + life + RENEWAL)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _is_good(
    path: Path, authority: x509.Certificate, names: Collection[str], now: datetime
) -> bool:
    try:
        content = path.read_bytes()
        key = serialization.load_pem_private_key(content, None)
        certificate = x509.load_pem_x509_certificate(content)
        certificate.verify_directly_issued_by(authority)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except Exception:  # a file of any content: another is made
        return False
    return (
        key.public_key() == certificate.public_key()
        and certificate.not_valid_after_utc > now + RENEWAL
        and {_alternative(name) for name in names} <= set(found)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
