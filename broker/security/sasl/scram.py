"""SCRAM: the credentials of users and of delegation tokens, and logins with them.

Invariants:
- For an unknown name a client gets a salt all the same, always the same one as long as the broker
  runs, and fails where a wrong password does.
- A login by token has the principal of the token's owner, and ends with the token.

Mirrors `ScramServerCallbackHandler`, `CredentialCache`, and the SCRAM half of
`DelegationTokenCache`, whose credentials are computed here when a token is first used.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Protocol

from ....protocol.sasl.scram import (
    MIN_ITERATIONS,
    SALT_CHARACTERS,
    ScramCredential,
    ScramHash,
    credential_from_password,
    salt_text,
)
from ....protocol.sasl.scram_exchange import FoundCredential, ScramServer
from ..principal import USER_TYPE, KafkaPrincipal

logger = logging.getLogger("pybroker.broker.security")

MAX_TOKEN_CREDENTIALS = 1000


class Token(Protocol):
    """The data of a delegation token for a login."""

    @property
    def owner(self) -> KafkaPrincipal: ...

    @property
    def expiry_ms(self) -> int: ...

    @property
    def password(self) -> str: ...


class ScramCredentials:
    """The credentials of all users, as ZooKeeper has them. `secret` makes the salts of unknown
    users and of tokens.
    """

    __slots__ = ("_of_tokens", "_secret", "_token", "_users")

    def __init__(
        self, secret: bytes, token_of: Callable[[str], Token | None] = lambda token_id: None
    ) -> None:
        self._secret = secret
        self._token = token_of
        self._users: dict[ScramHash, dict[str, ScramCredential]] = {one: {} for one in ScramHash}
        self._of_tokens: dict[tuple[ScramHash, str, str], ScramCredential] = {}

    def apply(self, username: str, config: Mapping[str, str]) -> None:
        """Replace the credentials of a user by the stored ones, by mechanism; other keys are
        ignored.
        """
        for kind, users in self._users.items():
            text = config.get(kind.mechanism)
            users.pop(username, None)
            if text is None:
                continue
            try:
                users[username] = ScramCredential.parse(text)
            except ValueError:
                logger.error(
                    "The %s credential of the user %r cannot be read, no login works: set it anew",
                    kind.mechanism, username,
                )  # fmt: skip

    def token(self, token_id: str) -> Token | None:
        return self._token(token_id)

    def find(self, kind: ScramHash, name: str, by_token: bool) -> FoundCredential:
        users = self._users[kind]
        credential = self._of_token(kind, name) if by_token else users.get(name)
        if credential is not None:
            return FoundCredential(credential)
        salt = self._salt(f"{kind.mechanism} {by_token} {name}")
        nothing = bytes(kind.size)
        decoy = ScramCredential(salt, nothing, nothing, MIN_ITERATIONS)
        return FoundCredential(decoy, is_decoy=True)

    def _of_token(self, kind: ScramHash, token_id: str) -> ScramCredential | None:
        token = self._token(token_id)
        if token is None:
            return None
        key = (kind, token_id, token.password)
        credential = self._of_tokens.get(key)
        if credential is None:
            if len(self._of_tokens) >= MAX_TOKEN_CREDENTIALS:
                self._of_tokens.clear()
            salt = self._salt(f"{kind.mechanism} True {token_id}")
            credential = credential_from_password(kind, token.password, salt)
            self._of_tokens[key] = credential
        return credential

    def _salt(self, what: str) -> bytes:
        digest = hmac.digest(self._secret, what.encode("utf-8", "surrogatepass"), hashlib.sha256)
        return salt_text(int.from_bytes(digest, "big"))[:SALT_CHARACTERS].encode()


class ScramLogin:
    """`nonce` must never come twice."""

    __slots__ = ("_credentials", "_kind", "_server", "_token")

    blocks = False

    def __init__(self, kind: ScramHash, credentials: ScramCredentials, nonce: str) -> None:
        self._kind = kind
        self._credentials = credentials
        self._token: Token | None = None  # that the client has named
        self._server = ScramServer(kind, nonce, self._find)

    @property
    def done(self) -> bool:
        return self._server.done

    @property
    def principal(self) -> KafkaPrincipal:
        if self._token is None:
            return KafkaPrincipal(USER_TYPE, self._server.username)
        owner = self._token.owner
        return KafkaPrincipal(owner.type, owner.name, token_authenticated=True)

    @property
    def expires_at_ms(self) -> int | None:
        return None if self._token is None else self._token.expiry_ms

    def step(self, token: bytes, now_ms: int) -> bytes:
        return self._server.step(token)

    def _find(self, name: str, by_token: bool) -> FoundCredential:
        if by_token:
            self._token = self._credentials.token(name)
        return self._credentials.find(self._kind, name, by_token)
