"""The client and the server of a SCRAM exchange.

Invariants:
- A server gets a user's credential from `credential_of`, which returns a decoy for an unknown user:
  the exchange then continues as with a wrong password, so that a client cannot learn which users
  exist.
- A server is done, and has a `username`, only after the proof has matched.
- A client is done only after the server has proved that it knows the credential.
- A side that has failed stays failed: each further step is a `SaslError`.

Mirrors `ScramSaslServer`, which for an unknown user ends at the first message, and
`ScramSaslClient`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import NamedTuple

from .errors import SaslAuthenticationError, SaslError
from .scram import (
    MAX_CLIENT_ITERATIONS,
    MIN_ITERATIONS,
    TOKEN_AUTH,
    ClientFinal,
    ClientFirst,
    ScramCredential,
    ScramHash,
    ServerFinal,
    ServerFirst,
    signed_text,
    xor,
)


class _State(Enum):
    """Each side moves from one state to the next, or to FAILED."""

    FIRST = auto()
    FINAL = auto()
    SERVER_FINAL = auto()  # of a client
    DONE = auto()
    FAILED = auto()


class FoundCredential(NamedTuple):
    """The credential of a user, or a decoy for an unknown user, with which no login succeeds."""

    credential: ScramCredential
    is_decoy: bool = False


class ScramServer:
    """`credential_of(name, by_token)` finds the credential of a user, or of a token by its id.
    `nonce` must never come twice."""

    __slots__ = ("_credential_of", "_first", "_found", "_hash", "_nonce", "_state", "_text")

    def __init__(
        self, kind: ScramHash, nonce: str, credential_of: Callable[[str, bool], FoundCredential]
    ) -> None:
        self._hash = kind
        self._nonce = nonce
        self._credential_of = credential_of
        self._state = _State.FIRST
        self._first: ClientFirst | None = None
        self._text: ServerFirst | None = None
        self._found: FoundCredential | None = None

    @property
    def done(self) -> bool:
        return self._state is _State.DONE

    @property
    def username(self) -> str:
        """Or the id of a token."""
        assert self.done
        assert self._first is not None
        return self._first.username

    @property
    def by_token(self) -> bool:
        assert self.done
        assert self._first is not None
        return self._first.by_token

    def step(self, token: bytes) -> bytes:
        state, self._state = self._state, _State.FAILED
        if state is _State.FIRST:
            answer = self._take_first(token)
            self._state = _State.FINAL
        elif state is _State.FINAL:
            answer = self._take_final(token)
            self._state = _State.DONE
        else:
            raise SaslError("Unexpected token after the end of a SCRAM exchange")
        return answer

    def _take_first(self, token: bytes) -> bytes:
        first = ClientFirst.parse(token)
        found = self._credential_of(first.username, first.by_token)
        if first.authorization_id and first.authorization_id != first.username:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        credential = found.credential
        if credential.iterations < MIN_ITERATIONS:
            raise SaslError(
                f"Iterations {credential.iterations} is less than the minimum {MIN_ITERATIONS}"
            )
        answer = ServerFirst.make(first.nonce + self._nonce, credential.salt, credential.iterations)
        self._first, self._text, self._found = first, answer, found
        return answer.to_bytes()

    def _take_final(self, token: bytes) -> bytes:
        first, answer, found = self._first, self._text, self._found
        assert first is not None
        assert answer is not None
        assert found is not None
        self._found = None
        final = ClientFinal.parse(token)
        # librdkafka before 2.6.1 repeats its own nonce in front. The signed text contains our whole
        # nonce, so Kafka checks no more.
        if not final.nonce.endswith(answer.nonce):
            raise SaslError("Invalid client nonce in the final client message.")
        if len(final.proof) != self._hash.size:
            raise SaslError("Invalid client proof")
        credential = found.credential
        text = signed_text(first, answer, final)
        signature = self._hash.hmac(credential.stored_key, text)
        stored_key = self._hash.digest(xor(signature, final.proof))
        if not hmac.compare_digest(stored_key, credential.stored_key) or found.is_decoy:
            raise SaslError("Invalid client credentials")
        return ServerFinal(None, self._hash.hmac(credential.server_key, text)).to_bytes()


class ScramClient:
    """`by_token`: the username is the id of a delegation token, the password its HMAC in base64.
    The step that takes the server's first message takes milliseconds."""

    __slots__ = (
        "_expected", "_extensions", "_first", "_hash", "_nonce", "_password", "_state",
        "_username",
    )  # fmt: skip

    def __init__(
        self, kind: ScramHash, username: str, password: str, nonce: str,
        *, by_token: bool = False, extensions: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._hash = kind
        self._username = username
        self._password = password
        self._nonce = nonce
        self._extensions = dict(extensions or {})
        if by_token:
            self._extensions[TOKEN_AUTH] = "true"
        self._state = _State.FIRST
        self._first: ClientFirst | None = None
        self._expected = b""  # the server's signature

    @property
    def done(self) -> bool:
        return self._state is _State.DONE

    def step(self, token: bytes) -> bytes:
        state, self._state = self._state, _State.FAILED
        answer = b""
        if state is _State.FIRST:
            self._first = ClientFirst.make(self._username, self._nonce, self._extensions)
            answer = self._first.to_bytes()
            self._state = _State.FINAL
        elif state is _State.FINAL:
            answer = self._prove(ServerFirst.parse(token))
            self._state = _State.SERVER_FINAL
        elif state is _State.SERVER_FINAL:
            self._check(ServerFinal.parse(token))
            self._state = _State.DONE
        else:
            raise SaslError("Unexpected token after the end of a SCRAM exchange")
        return answer

    def _prove(self, answer: ServerFirst) -> bytes:
        first = self._first
        assert first is not None
        if not answer.nonce.startswith(self._nonce):
            raise SaslError("Invalid server nonce: does not start with client nonce")
        if not MIN_ITERATIONS <= answer.iterations <= MAX_CLIENT_ITERATIONS:
            raise SaslError(
                f"Requested iterations {answer.iterations} are not between {MIN_ITERATIONS} and "
                f"{MAX_CLIENT_ITERATIONS}"
            )
        kind = self._hash
        salted = kind.salted_password(self._password, answer.salt, answer.iterations)
        client_key = kind.hmac(salted, b"Client Key")
        final = ClientFinal.make(answer.nonce)
        text = signed_text(first, answer, final)
        self._expected = kind.hmac(kind.hmac(salted, b"Server Key"), text)
        return final.proved_by(xor(client_key, kind.hmac(kind.digest(client_key), text)))

    def _check(self, final: ServerFinal) -> None:
        if final.error is not None:
            raise SaslError(
                f"Sasl authentication using {self._hash.mechanism} failed with error: {final.error}"
            )
        if not hmac.compare_digest(final.signature, self._expected):
            raise SaslError("Invalid server signature in server final message")
