"""Certificates for tests: an authority, servers and clients, written as key stores of all kinds.

`Authority().server()` is good for localhost and 127.0.0.1. Elliptic keys, since making them takes
no time. `write_jks` writes Java's own format, which keytool no longer makes by itself.
`AuthorityFiles` is the same for who only wants files: it writes them into a directory.
"""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PASSWORD = "keystore-secret"
_DAY = datetime.timedelta(days=1)

_SHA_256_WITH_RSA = bytes.fromhex("06092a864886f70d01010b")
_SHA_1_WITH_RSA = bytes.fromhex("06092a864886f70d010105")

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Pair(NamedTuple):
    """A private key with its certificate and who signed it."""

    key: Key
    certificate: x509.Certificate
    issuer: x509.Certificate

    def key_pem(self, password: str | None = None) -> str:
        protection: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            protection = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection
        ).decode()

    def chain_pem(self) -> str:
        return pem(self.certificate) + pem(self.issuer)

    def write_pem(self, path: Path, password: str | None = None) -> Path:
        path.write_text(self.key_pem(password) + self.chain_pem())
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD, alias: str = "own") -> Path:
        # PBES1, which is quick; what Java writes itself is read as well.
        protection = (
            serialization.PrivateFormat.PKCS12.encryption_builder()
            .kdf_rounds(2000)
            .key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC)
            .hmac_hash(hashes.SHA256())
            .build(password.encode())
        )
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(
                alias.encode(), self.key, self.certificate, [self.issuer], protection
            )
        )
        return path

    def write_jks(
        self, path: Path, password: str = PASSWORD, key_password: str | None = None
    ) -> Path:
        key = self.key.private_bytes(
            serialization.Encoding.DER,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        protected = protect_jks_key(key, key_password or password, os.urandom(20))
        entry = pack(">I", 1) + _jks_text("own") + bytes(8) + pack(">I", len(protected)) + protected
        entry += pack(">I", 2) + _jks_certificate(self.certificate) + _jks_certificate(self.issuer)
        path.write_bytes(_jks_file([entry], password))
        return path


class Authority:
    """Signs what it is asked for."""

    def __init__(self, name: str = "Test authority", *, key: Key | None = None) -> None:
        self.key = key or ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = (
            _builder(self.name, self.name, self.key, 3650)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def server(
        self,
        name: str = "localhost",
        *,
        names: Sequence[str] = ("localhost",),
        addresses: Sequence[str] = ("127.0.0.1", "::1"),
        days: int = 365,
        key: Key | None = None,
    ) -> Pair:
        """`days` may be negative: it has expired."""
        others: list[x509.GeneralName] = [x509.DNSName(each) for each in names]
        others += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        return self._sign(_common_name(name), others, ExtendedKeyUsageOID.SERVER_AUTH, days, key)

    def client(self, name: str | x509.Name, *, days: int = 365, key: Key | None = None) -> Pair:
        """`name` is a common name or a whole subject."""
        subject = name if isinstance(name, x509.Name) else _common_name(name)
        return self._sign(subject, [], ExtendedKeyUsageOID.CLIENT_AUTH, days, key)

    def both(
        self, name: str, *, addresses: Sequence[str] = ("127.0.0.1",), days: int = 365
    ) -> Pair:
        """For a broker that other brokers know by its certificate."""
        others: list[x509.GeneralName] = [x509.DNSName("localhost")]
        others += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        return self._sign(_common_name(name), others, None, days, None)

    def _sign(
        self,
        subject: x509.Name,
        others: Sequence[x509.GeneralName],
        usage: x509.ObjectIdentifier | None,
        days: int,
        key: Key | None,
    ) -> Pair:
        own = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        # Python 3.13 asks for it, and for a key usage of an authority.
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = _builder(subject, self.name, own, days).add_extension(signer, critical=False)
        if others:
            builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        return Pair(own, builder.sign(self.key, hashes.SHA256()), self.certificate)

    def write_pem(self, path: Path) -> Path:
        """As a trust store."""
        path.write_text(pem(self.certificate))
        return path

    def write_jks(self, path: Path, password: str = PASSWORD) -> Path:
        """As a trust store."""
        entry = pack(">I", 2) + _jks_text("authority") + bytes(8)
        path.write_bytes(_jks_file([entry + _jks_certificate(self.certificate)], password))
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        """As a trust store of Java."""
        trusted = [pkcs12.PKCS12Certificate(self.certificate, b"authority")]
        protection = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_java_truststore(trusted, protection))
        return path


class Sha1Authority(Authority):
    """Signs with SHA-1 and RSA, which no library does for certificates any more."""

    def __init__(self, name: str = "Old authority", *, own_algorithm_is_old: bool = True) -> None:
        self._rsa_key = rsa.generate_private_key(65537, 2048)
        super().__init__(name, key=self._rsa_key)
        if own_algorithm_is_old:
            self.certificate = self._signed_anew(self.certificate)

    def _sign(self, *arguments: Any) -> Pair:
        pair = super()._sign(*arguments)
        return pair._replace(certificate=self._signed_anew(pair.certificate))

    def _signed_anew(self, certificate: x509.Certificate) -> x509.Certificate:
        """The algorithms' identifiers differ in one byte."""
        content = certificate.tbs_certificate_bytes.replace(_SHA_256_WITH_RSA, _SHA_1_WITH_RSA)
        signature = self._rsa_key.sign(content, padding.PKCS1v15(), hashes.SHA1())
        whole = certificate.public_bytes(serialization.Encoding.DER)
        head = whole[: whole.index(certificate.tbs_certificate_bytes)]
        tail = whole[len(head) + len(content) : -len(signature)]
        made = head + content + tail.replace(_SHA_256_WITH_RSA, _SHA_1_WITH_RSA) + signature
        return x509.load_der_x509_certificate(made)


class AuthorityFiles:
    """An authority with files in `directory`: its certificate in `ca` and `trust` (PKCS12), and
    what it issues."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = Authority(name)
        self.ca = self._authority.write_pem(directory / f"{name}.pem")
        self.trust = self._authority.write_pkcs12(directory / f"{name}-trust.p12")

    def issue(self, name: str, *, addresses: Sequence[str] = ("127.0.0.1",)) -> Path:
        """Key and certificate for `CN=<name>` in one PEM file; a .p12 of the same stands beside."""
        pair = self._authority.both(name, addresses=addresses)
        path = pair.write_pem(self._directory / f"{name}.pem")
        pair.write_pkcs12(path.with_suffix(".p12"))
        return path


def rsa_key(bits: int = 2048) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, bits)


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _builder(subject: x509.Name, issuer: x509.Name, key: Key, days: int) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 400 * _DAY)
        .not_valid_after(now + days * _DAY)
        .add_extension(own, critical=False)
    )


# JKS


def protect_jks_key(key: bytes, password: str, salt: bytes) -> bytes:
    """An EncryptedPrivateKeyInfo of Sun's algorithm."""
    secret = password.encode("utf-16-be")
    digest, hidden = salt, b""
    for start in range(0, len(key), 20):
        digest = hashlib.sha1(secret + digest).digest()
        hidden += bytes(a ^ b for a, b in zip(key[start : start + 20], digest, strict=False))
    content = salt + hidden + hashlib.sha1(secret + key).digest()
    algorithm = _der(0x30, bytes.fromhex("060a2b060104012a021101010500"))
    return _der(0x30, algorithm + _der(0x04, content))


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    width = (size.bit_length() + 7) // 8
    return bytes([tag, 0x80 | width]) + size.to_bytes(width, "big") + content


def _jks_text(text: str) -> bytes:
    return pack(">H", len(text)) + text.encode()


def _jks_certificate(certificate: x509.Certificate) -> bytes:
    der = certificate.public_bytes(serialization.Encoding.DER)
    return _jks_text("X.509") + pack(">I", len(der)) + der


def _jks_file(entries: Sequence[bytes], password: str) -> bytes:
    body = bytes.fromhex("feedfeed") + pack(">II", 2, len(entries)) + b"".join(entries)
    secret = password.encode("utf-16-be")
    return body + hashlib.sha1(secret + b"Mighty Aphrodite" + body).digest()
