"""Signed tokens: JWTs whose keys stand in a JWKS (RFC 7515, RFC 7517, RFC 7519).

Job: `KeySet` holds the present keys; `SignedTokens` checks a token with them: its signature with
PyJWT, its claims here, against the given clock.

Invariants:
- Only algorithms with a public key: a key that everyone may read signs nothing.
- The algorithm of a token must be that of its key, where the key names one, and of its kind.
- A token with an audience is refused where none is expected, as jose4j does.
- Times count in whole seconds, the clock's too, as jose4j has it: a token of the present second is
  not from the future.

Mirrors `ValidatorAccessTokenValidator`, `ClaimValidationUtils` and the key choice of jose4j.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from .oauthbearer import TokenRefused, ValidToken, decoded_part, number, principal_name
from .unsecured_tokens import scopes_of

MAX_KEYS = 1000
MAX_KEY_ID = 200
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_ALGORITHMS = {
    "RSA": _RSA,
    "EC": frozenset({"ES256", "ES384", "ES512"}),
    "OKP": frozenset({"EdDSA"}),
}


class TokenRules(NamedTuple):
    """`sasl.oauthbearer.*` of a listener."""

    url: str
    refresh_ms: int
    retry_ms: int
    retry_max_ms: int
    subject_claim: str = "sub"
    scope_claim: str = "scope"
    audiences: tuple[str, ...] = ()
    issuer: str | None = None
    clock_skew_ms: int = 30_000


class KeySet:
    """`on_unknown` is called when a token names a key that is not here."""

    __slots__ = ("_keys", "on_unknown")

    def __init__(self) -> None:
        self._keys: list[dict[str, Any]] = []
        self.on_unknown: Callable[[], None] = lambda: None

    def load(self, text: bytes) -> int:
        """Replace all keys by those of a JWKS; ValueError if it is none. Returns their number."""
        try:
            found = json.loads(text)
        except RecursionError:
            raise ValueError("it is not a JWKS") from None
        keys = found.get("keys") if isinstance(found, dict) else None
        if not isinstance(keys, list) or len(keys) > MAX_KEYS:
            raise ValueError("it is not a JWKS")
        self._keys = [
            key
            for key in keys
            if isinstance(key, dict)
            and key.get("kty") in _ALGORITHMS
            and key.get("use", "sig") == "sig"
        ]
        return len(self._keys)

    def candidates(self, algorithm: str, key_id: str | None) -> list[dict[str, Any]]:
        fitting = [
            key
            for key in self._keys
            if algorithm in _ALGORITHMS[key["kty"]] and key.get("alg", algorithm) == algorithm
        ]
        if key_id is None:
            return fitting
        chosen = [key for key in fitting if key.get("kid") == key_id]
        if not chosen:
            self.on_unknown()
        return chosen


class SignedTokens:
    __slots__ = ("_keys", "_rules")

    def __init__(self, rules: TokenRules, keys: KeySet) -> None:
        self._rules = rules
        self._keys = keys

    def check(self, token: str, now_ms: int) -> ValidToken:
        parts = token.split(".")
        if len(parts) != 3 or "" in parts:
            raise TokenRefused("the token has not three parts")
        header = decoded_part(parts[0])
        if "crit" in header:
            raise TokenRefused("the token has an extension that must be understood")
        self._verify(token, header)
        claims = decoded_part(parts[1])
        rules = self._rules
        expires, issued = _whole_seconds(claims, "exp"), _whole_seconds(claims, "iat")
        if expires is None or issued is None:
            raise TokenRefused("the token has no iat or no exp claim")
        if now_ms - rules.clock_skew_ms >= 1000 * expires:
            raise TokenRefused("the token has expired")
        begins = _whole_seconds(claims, "nbf")
        if expires < issued or (begins is not None and expires < begins):
            raise TokenRefused("the token ends before it begins")
        if begins is not None and 1000 * begins > now_ms + rules.clock_skew_ms:
            raise TokenRefused("the token's nbf claim is in the future")
        if rules.issuer is not None and claims.get("iss") != rules.issuer:
            raise TokenRefused("the token is of another issuer")
        self._check_audience(claims.get("aud"))
        scopes_of(claims, rules.scope_claim)
        name = principal_name(claims, rules.subject_claim)
        return ValidToken(name, 1000 * expires)

    def _check_audience(self, audience: Any) -> None:
        expected = self._rules.audiences
        found = [audience] if isinstance(audience, str) else audience
        if found is None and not expected:
            return
        if not isinstance(found, list) or not any(one in expected for one in found):
            raise TokenRefused("the token is for another audience")

    def _verify(self, token: str, header: dict[str, Any]) -> None:
        import jwt

        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str):
            raise TokenRefused("the token names no algorithm")
        if key_id is not None and not (isinstance(key_id, str) and len(key_id) <= MAX_KEY_ID):
            raise TokenRefused("the token names no key")
        for key in self._keys.candidates(algorithm, key_id):
            try:
                jwt.PyJWS().decode_complete(
                    token, jwt.PyJWK(key, algorithm).key, algorithms=[algorithm]
                )
            except (jwt.PyJWTError, ValueError, TypeError):
                continue
            return
        raise TokenRefused("no key of the JWKS has signed the token")


def _whole_seconds(claims: dict[str, Any], name: str) -> int | None:
    seconds = number(claims, name)
    return None if seconds is None else math.floor(seconds)
