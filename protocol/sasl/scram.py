"""SCRAM: its formulas, its credentials, its four messages (RFC 5802, RFC 7677).

Invariants:
- Messages are matched like in `ScramMessages`: a message that does not match is a `SaslError`, in
  time linear in its length, which is bounded: matching half a megabyte, which a server without a
  bound accepts from strangers, would block all other clients for 50 ms.
- Nothing shows a key, a salt or a proof in its repr.

Mirrors `ScramFormatter`, `ScramMechanism`, `ScramCredential(Utils)`, `ScramMessages`. The signed
text is made of the messages as received, where Kafka rebuilds it from the parsed fields: the two
differ only for clients that send several extensions. Like Kafka's, passwords are not normalized
(SASLprep), and names with characters beyond ASCII match no message.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass, field
from enum import Enum

from .errors import SaslError

MIN_ITERATIONS = 4096
# A client computes for a server that has not proved its identity: this bounds its work.
MAX_CLIENT_ITERATIONS = 200_000
SALT_CHARACTERS = 26  # as Kafka's tools make them
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
# The limit of a message. Kafka's is that of frames, sasl.server.max.receive.size.
MAX_MESSAGE_BYTES = 16 * 1024
TOKEN_AUTH = "tokenauth"  # the extension of a login by delegation token


def salt_text(number: int) -> str:
    """130 bits or so in the digits that Kafka writes random texts in: salts and nonces."""
    digits = []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)) or "0"


class ScramHash(Enum):
    """The mechanisms that there are; the value is the name in `hashlib`."""

    SHA_256 = "sha256"
    SHA_512 = "sha512"

    @property
    def mechanism(self) -> str:
        return f"SCRAM-{self.name.replace('_', '-')}"

    @property
    def size(self) -> int:
        """Bytes of a key."""
        return hashlib.new(self.value).digest_size

    def digest(self, data: bytes) -> bytes:
        return hashlib.new(self.value, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.value)

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Hi of RFC 5802. Takes milliseconds."""
        return hashlib.pbkdf2_hmac(self.value, password.encode(), salt, iterations)


MECHANISMS = {one.mechanism: one for one in ScramHash}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The data that a server keeps instead of a password."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def parse(cls, text: str) -> ScramCredential:
        """Parse the form in /config/users; ValueError, which does not quote `text`, if it is
        invalid."""
        fields: dict[str, str] = {}
        for part in text.split(","):
            name, found, value = part.partition("=")
            if not name or not found:
                raise ValueError("no SCRAM credential")
            fields[name] = value
        if set(fields) != {"salt", "stored_key", "server_key", "iterations"}:
            raise ValueError("no SCRAM credential")
        try:
            return cls(
                b64decode(fields["salt"], validate=True),
                b64decode(fields["stored_key"], validate=True),
                b64decode(fields["server_key"], validate=True),
                int(fields["iterations"]),
            )
        except ValueError:
            raise ValueError("no SCRAM credential") from None

    def to_text(self) -> str:
        return (
            f"salt={_text(self.salt)},stored_key={_text(self.stored_key)},"
            f"server_key={_text(self.server_key)},iterations={self.iterations}"
        )


def credential_from_salted_password(
    kind: ScramHash, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    client_key = kind.hmac(salted_password, b"Client Key")
    server_key = kind.hmac(salted_password, b"Server Key")
    return ScramCredential(salt, kind.digest(client_key), server_key, iterations)


def credential_from_password(
    kind: ScramHash, password: str, salt: bytes, iterations: int = MIN_ITERATIONS
) -> ScramCredential:
    """Takes milliseconds, more with more iterations."""
    salted = kind.salted_password(password, salt, iterations)
    return credential_from_salted_password(kind, salted, salt, iterations)


def xor(first: bytes, second: bytes) -> bytes:
    size = len(first)
    number = int.from_bytes(first, "big") ^ int.from_bytes(second, "big")
    return number.to_bytes(size, "big")


# Messages

_ALPHA = "[A-Za-z]+"
_VALUE_SAFE = r"[\x01-\x2b\x2d-\x3c\x3e-\x7f]+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64 = "(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED = f"(?:m={_VALUE},)?"
_EXTENSIONS = f"(?:,{_ALPHA}={_VALUE})*"

_CLIENT_FIRST = re.compile(
    f"(?P<gs2>n,(?:a=(?P<authzid>{_SASL_NAME}))?,)"
    f"(?P<bare>{_RESERVED}n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})"
    f"(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST = re.compile(
    f"{_RESERVED}r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,10}})"
    f"{_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(
    f"(?P<unproved>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS})"
    f",p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL = re.compile(
    f"e=(?P<error>{_VALUE_SAFE})|v=(?P<signature>{_BASE64}){_EXTENSIONS}"
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClientFirst:
    """The first message of a client; `bare` is its signed part."""

    authorization_id: str
    username: str
    nonce: str
    extensions: dict[str, str]
    bare: str

    @classmethod
    def parse(cls, token: bytes) -> ClientFirst:
        match = _match(_CLIENT_FIRST, token, "client first")
        pairs = match["extensions"].split(",")[1:]
        return cls(
            # Kafka compares it as it came, escapes and all.
            match["authzid"] or "",
            _username(match["name"]),
            match["nonce"],
            dict(pair.split("=", 1) for pair in pairs),
            match["bare"],
        )

    @classmethod
    def make(cls, username: str, nonce: str, extensions: dict[str, str]) -> ClientFirst:
        named = "".join(f",{name}={value}" for name, value in extensions.items())
        bare = f"n={_sasl_name(username)},r={nonce}{named}"
        return cls("", username, nonce, extensions, bare)

    @property
    def by_token(self) -> bool:
        """Whether its name is the id of a delegation token."""
        return self.extensions.get(TOKEN_AUTH, "").lower() == "true"

    def to_bytes(self) -> bytes:
        authorization_id = f"a={self.authorization_id}" if self.authorization_id else ""
        return f"n,{authorization_id},{self.bare}".encode()


@dataclass(frozen=True, slots=True)
class ServerFirst:
    """The first answer of a server: the parameters of the client's proof."""

    nonce: str  # the client's, and the server's behind it
    salt: bytes = field(repr=False)
    iterations: int
    text: str  # the signed part: all of it

    @classmethod
    def parse(cls, token: bytes) -> ServerFirst:
        match = _match(_SERVER_FIRST, token, "server first")
        iterations = int(match["iterations"])
        if not 0 < iterations < 1 << 31:
            raise SaslError("Invalid SCRAM server first message format: invalid iterations")
        return cls(match["nonce"], _bytes(match["salt"]), iterations, match[0])

    @classmethod
    def make(cls, nonce: str, salt: bytes, iterations: int) -> ServerFirst:
        return cls(nonce, salt, iterations, f"r={nonce},s={_text(salt)},i={iterations}")

    def to_bytes(self) -> bytes:
        return self.text.encode()


@dataclass(frozen=True, slots=True)
class ClientFinal:
    """The proof; `nonce` is that of the server's message."""

    nonce: str
    unproved: str  # the signed part
    proof: bytes = field(repr=False)

    @classmethod
    def parse(cls, token: bytes) -> ClientFinal:
        match = _match(_CLIENT_FINAL, token, "client final")
        return cls(match["nonce"], match["unproved"], _bytes(match["proof"]))

    @classmethod
    def make(cls, nonce: str) -> ClientFinal:
        """Without proof."""
        return cls(nonce, f"c={_text(b'n,,')},r={nonce}", b"")

    def proved_by(self, proof: bytes) -> bytes:
        return f"{self.unproved},p={_text(proof)}".encode()


@dataclass(frozen=True, slots=True)
class ServerFinal:
    error: str | None
    signature: bytes = field(repr=False)

    @classmethod
    def parse(cls, token: bytes) -> ServerFinal:
        match = _match(_SERVER_FINAL, token, "server final")
        return cls(match["error"], _bytes(match["signature"] or ""))

    def to_bytes(self) -> bytes:
        return f"v={_text(self.signature)}".encode()


def signed_text(first: ClientFirst, answer: ServerFirst, final: ClientFinal) -> bytes:
    """AuthMessage of RFC 5802."""
    return f"{first.bare},{answer.text},{final.unproved}".encode()


def _match(pattern: re.Pattern[str], token: bytes, which: str) -> re.Match[str]:
    match = None
    if len(token) <= MAX_MESSAGE_BYTES:
        match = pattern.fullmatch(str(token, "utf-8", "replace"))
    if match is None:
        raise SaslError(f"Invalid SCRAM {which} message format")
    return match


def _sasl_name(username: str) -> str:
    return username.replace("=", "=3D").replace(",", "=2C")


def _username(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise SaslError("Invalid base64 in a SCRAM message") from None
