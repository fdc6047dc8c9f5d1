"""Certificates and keys from files: PEM, and PKCS12 as Java writes it.

Mirrors DefaultSslEngineFactory's stores.
"""

from __future__ import annotations

from pathlib import Path

MAX_STORE_BYTES = 10 << 20
PEM, PKCS12 = "PEM", "PKCS12"


class StoreError(Exception):
    """A store cannot be used."""


def read_certificates(path: Path, kind: str, password: str | None) -> str:
    """All certificates that the store trusts, as PEM."""
    data = _read(path)
    if kind.upper() == PEM:
        return data.decode("utf-8", "replace")
    _key, certificates = _pkcs12(path, data, kind, password)
    return certificates


def read_identity(
    path: Path, kind: str, password: str | None, key_password: str | None
) -> tuple[bytes, str | None]:
    """Key and certificates as PEM, and what the key is encrypted with."""
    data = _read(path)
    if kind.upper() == PEM:
        return data, key_password
    key, certificates = _pkcs12(path, data, kind, password)
    if not key:
        raise StoreError(f"{path} has no private key")
    return (key + certificates).encode(), None


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_STORE_BYTES + 1)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
    if len(data) > MAX_STORE_BYTES:
        raise StoreError(f"{path} has more than {MAX_STORE_BYTES} bytes")
    return data


def _pkcs12(path: Path, data: bytes, kind: str, password: str | None) -> tuple[str, str]:
    """Key, or nothing, and certificates."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise StoreError(
            f"{path} cannot be read as {kind} with its password; other types are PEM and PKCS12"
        ) from None
    key = ""
    if store.key is not None:
        encoded = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        key = encoded.decode()
    found = [store.cert, *store.additional_certs] if store.cert else store.additional_certs
    certificates = [one.certificate.public_bytes(Encoding.PEM).decode() for one in found]
    return key, "".join(certificates)
