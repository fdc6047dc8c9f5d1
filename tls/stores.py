"""Key stores and trust stores of every supported format, as PEM in memory.

Job: `read_identity` (a private key with its chain) and `read_trusted` (certificates). As in
Java, the first bytes distinguish JKS from PKCS12, and the configured type does not. The first
private key of a store is used; its chain is put in order.

Invariants: errors name the file and the problem, never the file's content; a file over
MAX_STORE_BYTES is not read.

Mirrors `DefaultSslEngineFactory`'s FileBasedStore, PemStore and FileBasedPemStore.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from . import jks
from .settings import MAX_STORE_BYTES, PEM, Store, TlsSettingsError

# One block of PEM; anything may stand between two blocks.
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
MAX_CERTIFICATES: Final = 10_000

PrivateKey = (
    rsa.RSAPrivateKey
    | ec.EllipticCurvePrivateKey
    | ed25519.Ed25519PrivateKey
    | ed448.Ed448PrivateKey
    | dsa.DSAPrivateKey
)


class Identity(NamedTuple):
    """A private key and its certificate with the chain of issuers, in PEM."""

    key: bytes
    chain: bytes
    certificate: x509.Certificate

    def __repr__(self) -> str:
        return f"Identity({self.certificate.subject.rfc4514_string()})"


def read_identity(store: Store, key_name: str) -> Identity:
    """`key_name` is the settings key that errors name. Raises TlsSettingsError."""
    if store.location is None:
        assert store.pem_key is not None
        assert store.pem_certificates is not None
        key_text, chain_text = store.pem_key.encode(), store.pem_certificates.encode()
        return _identity_of_pem(key_text, chain_text, store.key_password, key_name)
    data = read_file(store.location, key_name)
    where = f"{key_name}={store.location}"
    if store.type == PEM:
        return _identity_of_pem(data, data, store.key_password, where)
    if _is_jks(data, where):
        return _identity_of_jks(data, store, where)
    return _identity_of_pkcs12(data, store, where)


def read_trusted(store: Store, key_name: str) -> list[x509.Certificate]:
    """All trusted certificates of a store. Raises TlsSettingsError."""
    if store.location is None:
        assert store.pem_certificates is not None
        found = _certificates(store.pem_certificates.encode(), key_name)
        where = key_name
    else:
        where = f"{key_name}={store.location}"
        data = read_file(store.location, key_name)
        if store.type == PEM:
            found = _certificates(data, where)
        elif _is_jks(data, where):
            try:
                content = jks.read_jks(data, store.password, None)
            except jks.WrongPassword as error:
                # The keys beside the certificates may have passwords of their own.
                if "of its key" not in str(error):
                    raise TlsSettingsError(f"{where}: {error}") from None
                content = jks.read_jks(data, None, None)
            except jks.JksError as error:
                raise TlsSettingsError(f"{where}: {error}") from None
            found = [_of_der(der, where) for der in content.trusted]
        else:
            bag = _open_pkcs12(data, store.password, where)
            found = [each.certificate for each in bag.additional_certs]
            if not found and bag.cert is not None:
                found = [bag.cert.certificate]
    if not found:
        raise TlsSettingsError(f"{where}: there is no trusted certificate in it")
    return found


def pem_of(certificates: list[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


# Formats


def _identity_of_pem(
    key_text: bytes, chain_text: bytes, key_password: str | None, where: str
) -> Identity:
    blocks = _blocks(key_text, b"PRIVATE KEY")
    if len(blocks) != 1:
        raise TlsSettingsError(
            f"{where}: it needs one private key in PEM (-----BEGIN PRIVATE KEY-----), "
            f"and has {len(blocks)}"
        )
    password = None if key_password is None else key_password.encode()
    is_encrypted = b"ENCRYPTED" in blocks[0][:200]
    try:
        key = serialization.load_pem_private_key(blocks[0], password if is_encrypted else None)
    except TypeError:
        raise TlsSettingsError(
            f"{where}: its private key is encrypted and ssl.key.password is not set"
        ) from None
    except Exception as error:
        problem = "ssl.key.password is wrong, or" if is_encrypted else ""
        raise TlsSettingsError(
            f"{where}: {problem} the private key cannot be read ({type(error).__name__})"
        ) from None
    return _identity(key, _certificates(chain_text, where), where)


def _identity_of_jks(data: bytes, store: Store, where: str) -> Identity:
    try:
        content = jks.read_jks(data, store.password, store.key_password)
    except jks.JksError as error:
        raise TlsSettingsError(f"{where}: {error}") from None
    if not content.keys:
        raise TlsSettingsError(f"{where}: there is no private key in it")
    entry = content.keys[0]
    try:
        key = serialization.load_der_private_key(entry.key, None)
    except Exception:
        raise TlsSettingsError(f"{where}: its private key cannot be read") from None
    return _identity(key, [_of_der(der, where) for der in entry.chain], where)


def _identity_of_pkcs12(data: bytes, store: Store, where: str) -> Identity:
    bag = _open_pkcs12(data, store.password, where)
    if bag.key is None or bag.cert is None:
        raise TlsSettingsError(f"{where}: there is no private key with a certificate in it")
    chain = [bag.cert.certificate, *(each.certificate for each in bag.additional_certs)]
    return _identity(bag.key, chain, where)


def _open_pkcs12(data: bytes, password: str | None, where: str) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        if "password" in str(error).lower():
            raise TlsSettingsError(f"{where}: the password is wrong") from None
        raise TlsSettingsError(f"{where}: it is neither PKCS12 nor JKS, or damaged") from None
    except Exception as error:
        raise TlsSettingsError(f"{where}: it cannot be read ({type(error).__name__})") from None


def _identity(key: object, certificates: list[x509.Certificate], where: str) -> Identity:
    if not isinstance(key, PrivateKey):
        raise TlsSettingsError(f"{where}: a private key of this kind is not for TLS")
    spki = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    public = key.public_key().public_bytes(*spki)
    own = [each for each in certificates if each.public_key().public_bytes(*spki) == public]
    if not own:
        raise TlsSettingsError(f"{where}: the private key does not fit its certificate")
    return Identity(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
        pem_of(in_order(own[0], certificates)),
        own[0],
    )


def in_order(first: x509.Certificate, others: list[x509.Certificate]) -> list[x509.Certificate]:
    """`first`, then its issuer, and so on, as far as `others` hold the issuers."""
    chain = [first]
    left = [each for each in others if each != first]
    while chain[-1].issuer != chain[-1].subject:
        issuers = [each for each in left if each.subject == chain[-1].issuer]
        if not issuers:
            break
        chain.append(issuers[0])
        left.remove(issuers[0])
    return chain


def _blocks(text: bytes, kind: bytes) -> list[bytes]:
    """The PEM blocks of a kind, in lines: a value on one line of a properties file has spaces
    instead."""
    found = []
    for match in _BLOCK.finditer(text):
        label, body = match[1], match[2]
        if label.endswith(kind):
            if b":" not in body:  # the headers of an encrypted key have to stay as they are
                body = b"\n" + b"\n".join(body.split()) + b"\n"
            found.append(b"-----BEGIN " + label + b"-----" + body + b"-----END " + label + b"-----")
    return found


def _certificates(text: bytes, where: str) -> list[x509.Certificate]:
    blocks = _blocks(text, b"CERTIFICATE")
    if not blocks:
        raise TlsSettingsError(f"{where}: it has no certificate in PEM (-----BEGIN CERTIFICATE---)")
    if len(blocks) > MAX_CERTIFICATES:
        raise TlsSettingsError(f"{where}: it has more than {MAX_CERTIFICATES} certificates")
    try:
        return [x509.load_pem_x509_certificate(block) for block in blocks]
    except ValueError:
        raise TlsSettingsError(f"{where}: a certificate in it cannot be read") from None


def _of_der(der: bytes, where: str) -> x509.Certificate:
    try:
        return x509.load_der_x509_certificate(der)
    except ValueError:
        raise TlsSettingsError(f"{where}: a certificate in it cannot be read") from None


def _is_jks(data: bytes, where: str) -> bool:
    if data[:4] == jks.JCEKS_MAGIC:
        raise TlsSettingsError(f"{where}: JCEKS is not supported; convert it to PKCS12 by keytool")
    return data[:4] == jks.MAGIC


def read_file(path: str, key_name: str, max_bytes: int = MAX_STORE_BYTES) -> bytes:
    """The file that a key names. Raises TlsSettingsError."""
    try:
        with open(path, "rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise TlsSettingsError(f"{key_name}={path}: {error.strerror}") from None
    if len(data) > max_bytes:
        raise TlsSettingsError(f"{key_name}={path}: more than {max_bytes} bytes")
    return data
