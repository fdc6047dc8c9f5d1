"""Unsigned tokens, for development: every client that reaches the listener may claim any name.

Mirrors `OAuthBearerUnsecuredValidatorCallbackHandler` with its options, `OAuthBearerUnsecuredJws`
and `OAuthBearerValidationUtils`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from .oauthbearer import TokenRefused, ValidToken, decoded_part, number, principal_name

_PREFIX = "unsecuredValidator"
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


class UnsecuredTokens(NamedTuple):
    """The claims and limits that a token is checked by."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scopes: tuple[str, ...] = ()
    clock_skew_ms: int = 0

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> UnsecuredTokens:
        """The settings in the options of the login module; ValueError names a wrong one."""
        skew = options.get(f"{_PREFIX}AllowableClockSkewMs", "0").strip() or "0"
        if not re.fullmatch(r"[0-9]{1,10}", skew):
            raise ValueError(f"{_PREFIX}AllowableClockSkewMs must be a number of milliseconds")
        scopes = tuple(filter(None, options.get(f"{_PREFIX}RequiredScope", "").split(" ")))
        for scope in scopes:
            if not _SCOPE.fullmatch(scope):
                raise ValueError(f"{_PREFIX}RequiredScope has a scope with other characters")
        return cls(
            options.get(f"{_PREFIX}PrincipalClaimName", "").strip() or "sub",
            options.get(f"{_PREFIX}ScopeClaimName", "").strip() or "scope",
            scopes,
            int(skew),
        )

    def check(self, token: str, now_ms: int) -> ValidToken:
        parts = token.split(".")
        if len(parts) != 3 or "" in parts[:2]:
            raise TokenRefused("the token has not three parts")
        if decoded_part(parts[0]).get("alg") != "none" or parts[2]:
            raise TokenRefused("the token has a signature, or an algorithm other than none")
        claims = decoded_part(parts[1])
        name = principal_name(claims, self.principal_claim)
        expires, issued = number(claims, "exp"), number(claims, "iat")
        if expires is None:
            raise TokenRefused("the token has no exp claim")
        # The clock is read in whole milliseconds: a token of the current one is not of the next.
        if issued is not None and math.floor(1000 * issued) > now_ms + self.clock_skew_ms:
            raise TokenRefused("the token's iat claim is in the future")
        if now_ms - self.clock_skew_ms >= 1000 * expires:
            raise TokenRefused("the token has expired")
        if issued is not None and expires <= issued:
            raise TokenRefused("the token ends before it begins")
        held = scopes_of(claims, self.scope_claim)
        if not held.issuperset(self.required_scopes):
            raise TokenRefused("the token lacks a scope", f"[{', '.join(self.required_scopes)}]")
        return ValidToken(name, math.floor(1000 * expires + 0.5))


def scopes_of(claims: dict[str, Any], claim: str) -> frozenset[str]:
    """A text is one scope, as Kafka has it, a list one or more."""
    found = claims.get(claim)
    if isinstance(found, str):
        found = [found]
    if found is None:
        return frozenset()
    if not isinstance(found, list):
        raise TokenRefused(f"the claim {claim} has no scopes")
    return frozenset(str(scope).strip() for scope in found) - {""}
