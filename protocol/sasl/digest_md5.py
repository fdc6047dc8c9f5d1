"""Both sides of DIGEST-MD5 (RFC 2831), without layers of integrity or confidentiality.

ZooKeeper logs in with it: clients at servers, and members of an ensemble at each other. Python has
neither side; pure-sasl, which kazoo uses, has a client alone, and is not needed for a server.

Invariants:
- A server has a `user` only after the response has matched, compared in constant time; for an
  unknown user it does the same work.
- A client is complete only after the server has proved that it knows the password.
- A side that has failed stays failed, and one that is complete takes no further token.
- No error quotes a token, and messages are bounded by MAX_TOKEN_BYTES.

Mirrors `DigestMD5Server` and `DigestMD5Client` of Java. Leaves out: any `qop` other than `auth`, a
name to act for (`authzid`) other than one's own, and logins that go on with an old nonce.
"""

from __future__ import annotations

import hmac
import re
from base64 import b64encode
from collections.abc import Mapping
from enum import Enum, auto
from hashlib import md5

from .errors import SaslError

MAX_TOKEN_BYTES = 4096
NONCE_BYTES = 30

_COUNT = b"00000001"
_PART = re.compile(
    rb'[\s,]*([a-z][a-z0-9-]*)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))\s*(?:,|\Z)',
    re.DOTALL,
)
_ESCAPED = re.compile(rb"\\(.)", re.DOTALL)
_SPECIAL = re.compile(rb'(["\\])')


class _State(Enum):
    """Each side moves from one state to the next, or to FAILED."""

    FIRST = auto()
    RESPONSE = auto()
    DONE = auto()
    FAILED = auto()


class DigestServer:
    """A server of a service, such as `zookeeper`, and a name of its own, which is its realm.
    `entropy`: NONCE_BYTES that never come twice."""

    __slots__ = ("_nonce", "_realm", "_state", "_uri", "_users", "user")

    def __init__(self, service: str, name: str, users: Mapping[str, str], entropy: bytes) -> None:
        self._uri = f"{service}/{name}".encode()
        self._realm = name
        self._users = users
        self._nonce = b64encode(entropy)
        self._state = _State.FIRST
        # Set once the client has proved that it knows the password.
        self.user: str | None = None

    @property
    def is_complete(self) -> bool:
        return self._state is _State.DONE

    def respond(self, token: bytes) -> bytes:
        """The answer to a token of the client. Raises SaslError."""
        state, self._state = self._state, _State.FAILED
        if state is _State.FIRST:
            if token:
                raise SaslError("DIGEST-MD5 begins with an empty token")
            self._state = _State.RESPONSE
            realm = _SPECIAL.sub(rb"\\\1", self._realm.encode())
            return b'realm="%b",nonce="%b",charset=utf-8,algorithm=md5-sess' % (realm, self._nonce)
        if state is not _State.RESPONSE:
            raise SaslError("the login is over")
        answer = self._verify(_directives(token))
        self._state = _State.DONE
        return answer

    def _verify(self, found: Mapping[str, bytes]) -> bytes:
        charset = found.get("charset")
        if charset not in (None, b"utf-8"):
            raise SaslError("a charset other than utf-8")
        encoding = "iso-8859-1" if charset is None else "utf-8"
        try:
            user = found["username"].decode(encoding)
            realm = found.get("realm", b"").decode(encoding)
            cnonce, response = found["cnonce"], found["response"]
            given = (found["nonce"], found["nc"], found.get("qop", b"auth"))
            uri = found["digest-uri"]
            authzid = found.get("authzid", b"").decode()
        except KeyError as error:
            raise SaslError(f"the response has no {error.args[0]}") from None
        except UnicodeDecodeError:
            raise SaslError("a name is not in its charset") from None
        if given != (self._nonce, _COUNT, b"auth"):
            raise SaslError("another nonce, count or qop than that of the challenge")
        if realm != self._realm or uri.lower() != self._uri.lower():
            raise SaslError("another realm or service")
        if authzid not in ("", user):
            raise SaslError("a user would act for another one")
        password = self._users.get(user)
        secret = _secret(user, realm, password or "", self._nonce, cnonce, authzid)
        expected = _proof(secret, self._nonce, cnonce, b"AUTHENTICATE:" + uri)
        if not hmac.compare_digest(expected, response) or password is None:
            raise SaslError("an unknown user, or a wrong password")
        self.user = user
        return b"rspauth=" + _proof(secret, self._nonce, cnonce, b":" + uri)


class DigestClient:
    """A client of a service and the name of its server. `entropy` as that of `DigestServer`."""

    __slots__ = ("_cnonce", "_expected", "_password", "_state", "_uri", "_user")

    def __init__(self, service: str, name: str, user: str, password: str, entropy: bytes) -> None:
        self._uri = f"{service}/{name}".encode()
        self._user, self._password = user, password
        self._cnonce = b64encode(entropy)
        self._expected = b""
        self._state = _State.FIRST

    @property
    def is_complete(self) -> bool:
        return self._state is _State.DONE

    def respond(self, token: bytes) -> bytes | None:
        """The answer to a token of the server; None: it was its last, and right. Raises
        SaslError."""
        state, self._state = self._state, _State.FAILED
        found = _directives(token)
        if state is _State.FIRST:
            answer = self._answer(found)
            self._state = _State.RESPONSE
            return answer
        if state is not _State.RESPONSE:
            raise SaslError("the login is over")
        if not hmac.compare_digest(found.get("rspauth", b""), self._expected):
            raise SaslError("the server does not know the password")
        self._state = _State.DONE
        return None

    def _answer(self, found: Mapping[str, bytes]) -> bytes:
        if "nonce" not in found or found.get("algorithm") != b"md5-sess":
            raise SaslError("the challenge has no nonce, or another algorithm than md5-sess")
        if b"auth" not in re.split(rb"[\s,]+", found.get("qop", b"auth")):
            raise SaslError("the server asks for another qop than auth")
        is_utf8 = found.get("charset") == b"utf-8"
        nonce, realm = found["nonce"], found.get("realm", b"")
        try:
            user = self._user.encode("utf-8" if is_utf8 else "iso-8859-1")
            realm_text = realm.decode("utf-8" if is_utf8 else "iso-8859-1")
        except UnicodeError:
            raise SaslError("a name is not in the server's charset") from None
        secret = _secret(self._user, realm_text, self._password, nonce, self._cnonce, "")
        self._expected = _proof(secret, nonce, self._cnonce, b":" + self._uri)
        quoted = {"username": user, "realm": realm, "nonce": nonce, "cnonce": self._cnonce}
        parts = [b"charset=utf-8"] if is_utf8 else []
        parts += [
            b'%b="%b"' % (key.encode(), _SPECIAL.sub(rb"\\\1", value))
            for key, value in {**quoted, "digest-uri": self._uri}.items()
        ]
        proof = _proof(secret, nonce, self._cnonce, b"AUTHENTICATE:" + self._uri)
        return b",".join([*parts, b"nc=" + _COUNT, b"response=" + proof, b"qop=auth"])


def _directives(token: bytes) -> dict[str, bytes]:
    """The parts `key=value`, in quotes or not; each key may be there once."""
    if len(token) > MAX_TOKEN_BYTES:
        raise SaslError(f"a token of {len(token)} bytes")
    found: dict[str, bytes] = {}
    position = 0
    while position < len(token):
        match = _PART.match(token, position)
        if match is None:
            raise SaslError("a token that is no list of key=value")
        key = match[1].decode()
        if key in found:
            raise SaslError(f"a second {key}")
        found[key] = match[3] if match[2] is None else _ESCAPED.sub(rb"\1", match[2])
        position = match.end()
    return found


def _hashed(text: str) -> bytes:
    """In ISO 8859-1 if that has all characters, as the RFC wants it for UTF-8, too."""
    try:
        return text.encode("iso-8859-1")
    except UnicodeEncodeError:
        return text.encode()


def _md5(data: bytes) -> bytes:
    return md5(data, usedforsecurity=False).digest()


def _secret(
    user: str, realm: str, password: str, nonce: bytes, cnonce: bytes, authzid: str
) -> bytes:
    """The hash of A1, in hex."""
    inner = _md5(b":".join([_hashed(user), _hashed(realm), _hashed(password)]))
    parts = [inner, nonce, cnonce] + ([authzid.encode()] if authzid else [])
    return _md5(b":".join(parts)).hex().encode()


def _proof(secret: bytes, nonce: bytes, cnonce: bytes, a2: bytes) -> bytes:
    """The value of `response` or, with the other A2, of `rspauth`."""
    hashed = _md5(a2).hex().encode()
    return _md5(b":".join([secret, nonce, _COUNT, cnonce, b"auth", hashed])).hex().encode()
