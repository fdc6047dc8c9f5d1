"""Passwords as Kafka writes them to ZooKeeper: encrypted with password.encoder.secret.

Job: `encode` and `decode` of one text; pure (salt and vector are given). An encoded text names its
own parameters: `keyFactoryAlgorithm:...,cipherAlgorithm:...,salt:...`, so the keys
password.encoder.* matter only for the next `encode`.

Invariants: no secret and no password is in an error or a `repr`. The key is derived with at most
MAX_ITERATIONS, which is about a second: in a thread, if it may be many.

Mirrors `EncryptingPasswordEncoder` with IvParamsEncoder and GcmParamsEncoder. Leaves out the
ciphers that are not AES.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import Final, NamedTuple

DEFAULT_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
SALT_BYTES: Final = 256
VECTOR_BYTES: Final = 16
MAX_ITERATIONS: Final = 2_000_000
MAX_ENCODED_CHARACTERS: Final = 512 * 1024
KEY_LENGTHS: Final = (128, 192, 256)
_KEY_FACTORY: Final = re.compile(r"PBKDF2WithHmacSHA(1|224|256|384|512)", re.IGNORECASE)
_CBC, _GCM = "AES/CBC/PKCS5PADDING", "AES/GCM/NOPADDING"
_GCM_VECTOR_BYTES: Final = 12
_GCM_TAG_BITS: Final = 128


class CannotDecode(Exception):
    """Written with another secret, or damaged."""


class EncoderSettings(NamedTuple):
    """The keys password.encoder.*, checked by `problem_of`."""

    secret: str
    key_factory: str = DEFAULT_KEY_FACTORY
    cipher: str = "AES/CBC/PKCS5Padding"
    key_length: int = 128
    iterations: int = 4096

    def __repr__(self) -> str:
        return f"EncoderSettings({self.key_factory}, {self.cipher}, {self.key_length})"


def problem_of(settings: EncoderSettings) -> tuple[str, str] | None:
    """The key that cannot be, behind `password.encoder.`, and why; None if all can."""
    if _KEY_FACTORY.fullmatch(settings.key_factory) is None:
        return "keyfactory.algorithm", "use PBKDF2WithHmacSHA512, or with SHA1, 224, 256 or 384"
    if settings.cipher.upper() not in (_CBC, _GCM):
        return "cipher.algorithm", "use AES/CBC/PKCS5Padding or AES/GCM/NoPadding"
    if settings.key_length not in KEY_LENGTHS:
        return "key.length", "use 128, 192 or 256"
    if settings.iterations > MAX_ITERATIONS:
        return "iterations", f"it may be at most {MAX_ITERATIONS}"
    return None


def encode(settings: EncoderSettings, password: str, salt: bytes, vector: bytes) -> str:
    """`salt` and `vector` are random, SALT_BYTES and VECTOR_BYTES long."""
    key = _key(
        settings.secret, settings.key_factory, salt, settings.iterations, settings.key_length
    )
    fields = {
        "keyFactoryAlgorithm": settings.key_factory,
        "cipherAlgorithm": settings.cipher,
        "keyLength": str(settings.key_length),
        "salt": _base64(salt),
        "iterations": str(settings.iterations),
        "passwordLength": str(_java_length(password)),
    }
    if settings.cipher.upper() == _GCM:
        vector = vector[:_GCM_VECTOR_BYTES]
        fields["authenticationTagLength"] = str(_GCM_TAG_BITS)
    fields["initializationVector"] = _base64(vector)
    encrypted = _encrypt(settings.cipher, key, vector, password.encode("utf-8", "surrogatepass"))
    fields["encryptedPassword"] = _base64(encrypted)
    return ",".join(f"{name}:{value}" for name, value in fields.items())


def decode(secret: str, encoded: str) -> str:
    """Raises CannotDecode."""
    if len(encoded) > MAX_ENCODED_CHARACTERS:
        raise CannotDecode("it is too long")
    fields: dict[str, str] = {}
    for entry in encoded.split(","):
        name, _, value = entry.strip().rpartition(":")
        fields[name.strip()] = value.strip()
    try:
        iterations, key_length = int(fields["iterations"]), int(fields["keyLength"])
        if not 0 < iterations <= MAX_ITERATIONS or key_length not in KEY_LENGTHS:
            raise CannotDecode("its key cannot be made")
        salt = base64.b64decode(fields["salt"], validate=True)
        vector = base64.b64decode(fields["initializationVector"], validate=True)
        encrypted = base64.b64decode(fields["encryptedPassword"], validate=True)
        key = _key(secret, fields["keyFactoryAlgorithm"], salt, iterations, key_length)
        tag_bits = int(fields.get("authenticationTagLength", _GCM_TAG_BITS))
        password = _decrypt(fields["cipherAlgorithm"], key, vector, encrypted, tag_bits).decode(
            "utf-8", "surrogatepass"
        )
        length = int(fields["passwordLength"])
    except KeyError as error:
        raise CannotDecode(f"{error} is missing") from None
    except (ValueError, binascii.Error):
        raise CannotDecode("it was written with another secret, or is damaged") from None
    if _java_length(password) != length:
        raise CannotDecode("it was written with another secret, or is damaged")
    return password


def _key(secret: str, key_factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
    match = _KEY_FACTORY.fullmatch(key_factory)
    if match is None:
        raise CannotDecode("its keyFactoryAlgorithm is not known")
    return hashlib.pbkdf2_hmac(f"sha{match[1]}", secret.encode(), salt, iterations, bits // 8)


def _encrypt(cipher: str, key: bytes, vector: bytes, plain: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    if cipher.upper() == _GCM:
        return AESGCM(key).encrypt(vector, plain, None)
    block = VECTOR_BYTES
    padding = block - len(plain) % block
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    return encryptor.update(plain + bytes([padding]) * padding) + encryptor.finalize()


def _decrypt(cipher: str, key: bytes, vector: bytes, data: bytes, tag_bits: int) -> bytes:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if cipher.upper() == _GCM:
        tag_bytes = tag_bits // 8
        if not 12 <= tag_bytes <= 16 or len(data) < tag_bytes:
            raise ValueError(tag_bits)
        body, tag = data[:-tag_bytes], data[-tag_bytes:]
        mode = modes.GCM(vector, tag, min_tag_length=tag_bytes)
        decryptor = Cipher(algorithms.AES(key), mode).decryptor()
        try:
            return decryptor.update(body) + decryptor.finalize()
        except InvalidTag:
            raise ValueError("tag") from None
    if cipher.upper() != _CBC:
        raise CannotDecode("its cipherAlgorithm is not known")
    padded = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()
    plain = padded.update(data) + padded.finalize()
    count = plain[-1] if plain else 0
    if not 1 <= count <= VECTOR_BYTES or plain[-count:] != bytes([count]) * count:
        raise ValueError("padding")
    return plain[:-count]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _java_length(text: str) -> int:
    """The length as Java counts it: a character beyond the basic plane is two."""
    return len(text.encode("utf-16-be", "surrogatepass")) // 2
