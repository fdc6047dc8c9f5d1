"""Delegation tokens: the rules for creating, renewing and expiring them, and their credentials.

Job: all tokens of the cluster as this broker knows them, and the rules of KIP-48 and KIP-373. A
token is its id and an HMAC of it, made with a secret that all brokers share; the HMAC in base64 is
the password with which the id logs in by SCRAM.
Invariants: pure, time is given; a decision changes nothing by itself: the caller stores the
resulting token (`put`, `remove`) once it is in ZooKeeper; secrets and HMACs are in no repr.

Mirrors DelegationTokenManager and DelegationTokenCache. Leaves out Java's overflow of a renewal
period near 2^63, which ends a token there: it is cut at the token's longest life.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from .principal import KafkaPrincipal

MAX_TOKENS_OF_ONE = 500  # of one requester


class TokenInfo(NamedTuple):
    """All of a token but its HMAC, which follows from the id and the secret."""

    token_id: str
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issue_ms: int
    max_ms: int
    expiry_ms: int

    def is_of(self, principal: KafkaPrincipal) -> bool:
        """Whether the principal is the owner or a renewer."""
        return principal[:2] in self.names()

    def names(self) -> Iterator[tuple[str, str]]:
        """Types and names of its owner and renewers. The login is no part of an identity."""
        return ((one.type, one.name) for one in (self.owner, *self.renewers))

    def is_expired(self, now_ms: int) -> bool:
        return self.max_ms < now_ms or self.expiry_ms < now_ms


class TokenCredentials(NamedTuple):
    """The data that a login with a token needs."""

    owner: KafkaPrincipal
    expiry_ms: int
    password: str

    def __repr__(self) -> str:
        return (
            f"TokenCredentials(owner={self.owner}, expiry_ms={self.expiry_ms}, password=[hidden])"
        )


class DelegationTokens:
    """`secret` None or empty: tokens are switched off."""

    __slots__ = ("_by_hmac", "_by_id", "_expiry_ms", "_max_lifetime_ms", "_secret")

    def __init__(self, secret: bytes | None, *, max_lifetime_ms: int, expiry_ms: int) -> None:
        self._secret = secret or b""
        self._max_lifetime_ms = max_lifetime_ms
        self._expiry_ms = expiry_ms
        self._by_id: dict[str, TokenInfo] = {}
        self._by_hmac: dict[bytes, str] = {}

    @property
    def enabled(self) -> bool:
        return bool(self._secret)

    def __len__(self) -> int:
        return len(self._by_id)

    def hmac_of(self, token_id: str) -> bytes:
        return hmac.digest(self._secret, token_id.encode(), hashlib.sha512)

    # Known tokens

    def put(self, token: TokenInfo) -> None:
        self._by_id[token.token_id] = token
        self._by_hmac[self.hmac_of(token.token_id)] = token.token_id

    def remove(self, token_id: str) -> None:
        if self._by_id.pop(token_id, None) is not None:
            del self._by_hmac[self.hmac_of(token_id)]

    def replace_all(self, tokens: Iterable[TokenInfo]) -> None:
        self._by_id.clear()
        self._by_hmac.clear()
        for token in tokens:
            self.put(token)

    def expired(self, now_ms: int) -> list[str]:
        return [token.token_id for token in self._by_id.values() if token.is_expired(now_ms)]

    def token_credentials(self, token_id: str) -> TokenCredentials | None:
        """None if there is no such token. An expired one still logs in until it is removed, as in
        Kafka: its session ends at once.
        """
        token = self._by_id.get(token_id)
        if token is None:
            return None
        password = base64.b64encode(self.hmac_of(token_id)).decode()
        return TokenCredentials(token.owner, token.expiry_ms, password)

    # Decisions

    def new_token(
        self,
        token_id: str,
        owner: KafkaPrincipal,
        requester: KafkaPrincipal,
        renewers: Collection[KafkaPrincipal],
        max_lifetime_ms: int,
        now_ms: int,
    ) -> TokenInfo | ErrorCode:
        """A lifetime of 0 or less is the longest that the brokers give. POLICY_VIOLATION if the
        requester has as many as one may have."""
        by = requester[:2]
        if sum(one.requester[:2] == by for one in self._by_id.values()) >= MAX_TOKENS_OF_ONE:
            return ErrorCode.POLICY_VIOLATION
        longest = self._max_lifetime_ms
        lifetime = longest if max_lifetime_ms <= 0 else min(max_lifetime_ms, longest)
        max_ms = now_ms + lifetime
        expiry_ms = min(max_ms, now_ms + self._expiry_ms)
        return TokenInfo(token_id, owner, requester, tuple(renewers), now_ms, max_ms, expiry_ms)

    def renewed(
        self, given_hmac: bytes, by: KafkaPrincipal, period_ms: int, now_ms: int
    ) -> TokenInfo | ErrorCode:
        """The token with a later expiry; a negative period is the brokers' default."""
        token = self._of(given_hmac, by)
        if isinstance(token, ErrorCode):
            return token
        if token.is_expired(now_ms):
            return ErrorCode.DELEGATION_TOKEN_EXPIRED
        period = self._expiry_ms if period_ms < 0 else period_ms
        return token._replace(expiry_ms=min(token.max_ms, now_ms + period))

    def ended(
        self, given_hmac: bytes, by: KafkaPrincipal, period_ms: int, now_ms: int
    ) -> TokenInfo | ErrorCode:
        """The token with the new expiry; a negative period ends it at `now_ms`: remove it then."""
        token = self._of(given_hmac, by)
        if isinstance(token, ErrorCode):
            return token
        if period_ms < 0:
            return token._replace(expiry_ms=now_ms)
        if token.is_expired(now_ms):
            return ErrorCode.DELEGATION_TOKEN_EXPIRED
        return token._replace(expiry_ms=min(token.max_ms, now_ms + period_ms))

    def _of(self, given_hmac: bytes, by: KafkaPrincipal) -> TokenInfo | ErrorCode:
        token_id = self._by_hmac.get(bytes(given_hmac))
        if token_id is None:
            return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
        token = self._by_id[token_id]
        return token if token.is_of(by) else ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH

    def described(
        self,
        requester: KafkaPrincipal,
        owners: Iterable[tuple[str, str]] | None,
        may_see: Callable[[TokenInfo], bool],
    ) -> Generator[None, None, list[TokenInfo]]:
        """Steps that find the tokens that one of `owners` (types and names; None: all) owns or may
        renew, and that the requester may see: its own always, others if `may_see`.
        """
        wanted: set[tuple[str, str]] | None = None
        if owners is not None:
            wanted = set()
            for owner in owners:
                wanted.add(owner)
                yield
        found = []
        for token in list(self._by_id.values()):
            is_wanted = wanted is None or not wanted.isdisjoint(token.names())
            if is_wanted and (token.is_of(requester) or may_see(token)):
                found.append(token)
            yield
        return found
