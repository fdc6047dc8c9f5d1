"""Java's own key store format, JKS: entries of a file that keytool or Kafka's users have made.

Job: `read_jks` gives the private keys (PKCS#8, decrypted) with their chains, and the trusted
certificates, all as DER. Pure. An own reader: the one library there is (pyjks) needs unmaintained
packages and a compiler, and the format is a page long.

Layout: magic FEEDFEED, version 1 or 2, count, entries (tag, alias, date in ms, then for 1 a
protected key and a chain, for 2 a certificate), SHA-1 over password, a constant and all before.
A protected key is an EncryptedPrivateKeyInfo of the algorithm 1.3.6.1.4.1.42.2.17.1.1: 20 bytes of
salt, the key XORed with a chain of SHA-1, 20 bytes of check.

Mirrors `sun.security.provider.JavaKeyStore` and `KeyProtector`. Leaves out JCEKS, which is refused.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct
from typing import Final, NamedTuple

MAGIC: Final = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_PROTECTOR_OID: Final = bytes.fromhex("06 0a 2b 06 01 04 01 2a 02 11 01 01")
_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_MAX_ENTRIES: Final = 10_000
_U16, _U32 = Struct(">H").unpack_from, Struct(">I").unpack_from
_PRIVATE_KEY, _TRUSTED = 1, 2


class JksError(Exception):
    """The file is not what it should be, or the password is not right."""


class WrongPassword(JksError):
    """The password of the store, or of a key in it, is wrong."""


class KeyEntry(NamedTuple):
    """The key in PKCS#8, its certificate first in the chain; all DER."""

    alias: str
    key: bytes
    chain: tuple[bytes, ...]


class JksContent(NamedTuple):
    keys: tuple[KeyEntry, ...]
    trusted: tuple[bytes, ...]


class _Reader:
    """Reads from the front and never past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise JksError("it is cut short")
        found = self._data[self._at : end]
        self._at = end
        return found

    def u16(self) -> int:
        value: int = _U16(self.take(2))[0]
        return value

    def u32(self) -> int:
        value: int = _U32(self.take(4))[0]
        return value

    def text(self) -> str:
        return self.take(self.u16()).decode("utf-8", "replace")

    def certificate(self, version: int) -> bytes:
        if version == 2:
            kind = self.text()
            if kind != "X.509":
                raise JksError("it holds a certificate that is not X.509")
        return self.take(self.u32())


def read_jks(data: bytes, password: str | None, key_password: str | None) -> JksContent:
    """The content of a JKS file. Without a password the file is not verified and its keys are left
    out; a `key_password` of None means the store's password. Raises JksError."""
    reader = _Reader(data[:-_DIGEST_BYTES])
    if reader.take(4) != MAGIC:
        raise JksError("it is not a JKS file")
    version = reader.u32()
    if version not in (1, 2):
        raise JksError(f"its version {version} is not known")
    if password is not None and not hmac.compare_digest(
        hashlib.sha1(_utf16(password) + _WHITENER + data[:-_DIGEST_BYTES]).digest(),
        data[-_DIGEST_BYTES:],
    ):
        raise WrongPassword("the password is wrong or the file is damaged")
    count = reader.u32()
    if count > _MAX_ENTRIES:
        raise JksError(f"it has more than {_MAX_ENTRIES} entries")
    keys: list[KeyEntry] = []
    trusted: list[bytes] = []
    for _ in range(count):
        tag, alias = reader.u32(), reader.text()
        reader.take(8)  # the date
        if tag == _PRIVATE_KEY:
            protected = reader.take(reader.u32())
            length = reader.u32()
            if length > _MAX_ENTRIES:
                raise JksError("a chain is too long")
            chain = tuple(reader.certificate(version) for _ in range(length))
            if password is not None:
                key = unprotect(protected, password if key_password is None else key_password)
                keys.append(KeyEntry(alias, key, chain))
        elif tag == _TRUSTED:
            trusted.append(reader.certificate(version))
        else:
            raise JksError(f"an entry of the kind {tag} is not known")
    return JksContent(tuple(keys), tuple(trusted))


def unprotect(protected: bytes, password: str) -> bytes:
    """The PKCS#8 key in an EncryptedPrivateKeyInfo of Sun's algorithm."""
    at = protected.find(_PROTECTOR_OID, 0, 64)
    if at < 0:
        raise JksError("a key is protected by an algorithm that is not Sun's")
    tail = at + len(_PROTECTOR_OID)
    if protected[tail : tail + 2] == b"\x05\x00":
        tail += 2
    content = _octets(protected, tail)
    if len(content) < 2 * _DIGEST_BYTES:
        raise JksError("a key is cut short")
    secret = _utf16(password)
    salt, check = content[:_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    hidden = content[_DIGEST_BYTES:-_DIGEST_BYTES]
    key = bytes(a ^ b for a, b in zip(hidden, _stream(secret, salt, len(hidden)), strict=True))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise WrongPassword("the password of its key is wrong")
    return key


def _stream(secret: bytes, salt: bytes, size: int) -> bytes:
    stream = b""
    digest = salt
    while len(stream) < size:
        digest = hashlib.sha1(secret + digest).digest()
        stream += digest
    return stream[:size]


def _octets(data: bytes, at: int) -> bytes:
    """The content of the DER OCTET STRING at `at`."""
    if data[at : at + 1] != b"\x04" or at + 2 > len(data):
        raise JksError("a key is malformed")
    size, start = data[at + 1], at + 2
    if size >= 0x80:
        width = size & 0x7F
        if width > 4 or start + width > len(data):
            raise JksError("a key is malformed")
        size = int.from_bytes(data[start : start + width], "big")
        start += width
    if start + size > len(data):
        raise JksError("a key is cut short")
    return data[start : start + size]


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")
