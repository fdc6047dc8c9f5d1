"""OAUTHBEARER: a client sends a token, which a `TokenCheck` validates.

Invariants:
- A refused token is answered with a JSON object without an error code; the client acknowledges it,
  and then gets the same answer with a code, as RFC 7628 has it.
- Both answers say only that the token is not valid, or which scopes it lacks.

Mirrors `OAuthBearerSaslServer`. Extensions of clients are read and have no effect.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ....protocol.sasl.errors import SaslAuthenticationError, SaslError
from ....protocol.sasl.oauthbearer import ACKNOWLEDGED, OAuthBearerMessage
from ..principal import USER_TYPE, KafkaPrincipal

logger = logging.getLogger("pybroker.broker.security")


class ValidToken(NamedTuple):
    """The claims of a token that are used."""

    name: str
    expires_at_ms: int


class TokenRefused(Exception):
    """`scope`: the missing scopes. The text is for the log; it quotes nothing of the token."""

    def __init__(self, reason: str, scope: str | None = None) -> None:
        super().__init__(reason)
        self.scope = scope


TokenCheck: TypeAlias = Callable[[str, int], ValidToken]


class OAuthBearerServer:
    """`check(token, now_ms)` raises TokenRefused."""

    __slots__ = ("_check", "_reason", "_valid")

    blocks = False

    def __init__(self, check: TokenCheck) -> None:
        self._check = check
        self._reason: str | None = None
        self._valid: ValidToken | None = None

    @property
    def done(self) -> bool:
        return self._valid is not None

    @property
    def principal(self) -> KafkaPrincipal:
        assert self._valid is not None
        return KafkaPrincipal(USER_TYPE, self._valid.name)

    @property
    def expires_at_ms(self) -> int | None:
        assert self._valid is not None
        return self._valid.expires_at_ms

    def step(self, token: bytes, now_ms: int) -> bytes:
        if self._reason is not None and token == ACKNOWLEDGED:
            raise SaslAuthenticationError(self._reason)
        if self.done:
            raise SaslError("the OAUTHBEARER exchange has ended")
        self._reason = None
        message = OAuthBearerMessage.parse(token)
        try:
            valid = self._check(message.token, now_ms)
        except TokenRefused as refused:
            logger.info("A login with OAUTHBEARER failed: %s", refused)
            self._reason = _json_reason(refused.scope)
            return self._reason.encode()
        if message.authorization_id and message.authorization_id != valid.name:
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id "
                f"({message.authorization_id}) that is different from the token's principal name "
                f"({valid.name})"
            )
        self._valid = valid
        return b""


def _json_reason(scope: str | None) -> str:
    if scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":"{scope}"}}'


# Parts of both kinds of tokens

MAX_CLAIM_TEXT = 1000


def decoded_part(part: str) -> dict[str, Any]:
    """The JSON object of a part of a token; both alphabets of base64 are read."""
    try:
        padded = part.replace("-", "+").replace("_", "/") + "=" * (-len(part) % 4)
        found = json.loads(base64.b64decode(padded, validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise TokenRefused("a part of the token is no JSON in base64") from None
    if not isinstance(found, dict):
        raise TokenRefused("a part of the token is no JSON object")
    return found


def number(claims: dict[str, Any], name: str) -> float | None:
    """A time in seconds; None if the claim is missing."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15:
        raise TokenRefused(f"the claim {name} is no time")
    return float(value)


def principal_name(claims: dict[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not name.strip() or len(name) > MAX_CLAIM_TEXT:
        raise TokenRefused(f"the claim {claim} has no name in it")
    return name
