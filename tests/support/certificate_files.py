"""Certificates for tests: a CA, and what it has signed, as PEM and PKCS12 files.

Keys are elliptic: they are made in a millisecond.
"""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store-password"
_DAY = datetime.timedelta(days=1)


class Authority:
    """A CA with files in `directory`: ca.pem, and `<name>.pem` and `<name>.p12` of `issue`."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self._certificate = self._build(self._name, self._key, ca=True, names=(), days=2)
        self.ca = directory / f"{name}.pem"
        self.ca.write_bytes(self._certificate.public_bytes(Encoding.PEM))
        self.trust = directory / f"{name}-trust.p12"
        encryption = BestAvailableEncryption(PASSWORD.encode())
        trusted = [pkcs12.PKCS12Certificate(self._certificate, b"ca")]
        self.trust.write_bytes(pkcs12.serialize_java_truststore(trusted, encryption))

    def issue(
        self, name: str, names: tuple[str, ...] = ("localhost", "127.0.0.1"), days: int = 2
    ) -> Path:
        """Key and certificate for `CN=<name>` in one PEM file; a .p12 of the same stands beside.

        With negative `days` it has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._build(_name(name), key, ca=False, names=names, days=days)
        path = self._directory / f"{name}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        chain = (certificate, self._certificate)
        path.write_bytes(private + b"".join(one.public_bytes(Encoding.PEM) for one in chain))
        path.with_suffix(".p12").write_bytes(
            pkcs12.serialize_key_and_certificates(
                name.encode(),
                key,
                certificate,
                [self._certificate],
                BestAvailableEncryption(PASSWORD.encode()),
            )
        )
        return path

    def _build(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        ca: bool,
        names: tuple[str, ...],
        days: int,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 10 * _DAY)
            .not_valid_after(now + days * _DAY)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if names:
            general = [_general_name(one) for one in names]
            builder = builder.add_extension(x509.SubjectAlternativeName(general), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
