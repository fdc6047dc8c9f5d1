"""Delegation tokens: create, list, renew and expire. A principal is its type and its name.

Mirrors: createDelegationToken, describeDelegationToken and their like of KafkaAdminClient.
Leaves out: callbacks that watch a token for its renewal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...protocol.api import ApiKey
from ...protocol.apis.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ...protocol.apis.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ...protocol.apis.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ...protocol.apis.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ..cluster import Cluster
from ..errors import ClientError


@dataclass(frozen=True, slots=True)
class Token:
    """A token; times are in ms since 1970. Its HMAC is a password: it is not in the repr."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: tuple[str, str]
    renewers: tuple[tuple[str, str], ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int


class Tokens:
    """`Tokens(cluster)`; each method raises ClientError if the cluster refuses."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(
        self,
        owner: tuple[str, str] | None,
        renewers: Iterable[tuple[str, str]],
        max_lifetime_ms: int,
    ) -> Token:
        """Create a token. `owner` None: the caller itself; a lifetime of -1: the brokers' limit."""
        who = list(renewers)
        answer = await self._cluster.ask_controller(
            ApiKey.CREATE_DELEGATION_TOKEN,
            CreateDelegationTokenRequest(
                owner_principal_type=owner[0] if owner else None,
                owner_principal_name=owner[1] if owner else None,
                renewers=[CreatableRenewers(principal_type=k, principal_name=n) for k, n in who],
                max_lifetime_ms=max_lifetime_ms,
            ),
            CreateDelegationTokenResponse,
        )
        asked = self._cluster.asks("create_tokens", ":".join(owner or ()))
        asked.check(answer.error_code, None, "cannot create a token")
        return Token(
            token_id=answer.token_id,
            hmac=bytes(answer.hmac),
            owner=(answer.principal_type, answer.principal_name),
            renewers=tuple(who),
            issued_ms=answer.issue_timestamp_ms,
            expires_ms=answer.expiry_timestamp_ms,
            ends_ms=answer.max_timestamp_ms,
        )

    async def list(self, owners: Iterable[tuple[str, str]] | None = None) -> list[Token]:
        """The tokens that we may see; `owners` None: of all owners."""
        wanted = None
        if owners is not None:
            wanted = [
                DescribeDelegationTokenOwner(principal_type=k, principal_name=n) for k, n in owners
            ]
        answer = await self._cluster.ask_anyone(
            ApiKey.DESCRIBE_DELEGATION_TOKEN,
            DescribeDelegationTokenRequest(owners=wanted),
            DescribeDelegationTokenResponse,
        )
        asked = self._cluster.asks("describe")
        asked.check(answer.error_code, None, "cannot list the tokens")
        return [
            Token(
                token_id=one.token_id,
                hmac=bytes(one.hmac),
                owner=(one.principal_type, one.principal_name),
                renewers=tuple((who.principal_type, who.principal_name) for who in one.renewers),
                issued_ms=one.issue_timestamp,
                expires_ms=one.expiry_timestamp,
                ends_ms=one.max_timestamp,
            )
            for one in answer.tokens
        ]

    async def find(self, token_id: str) -> Token:
        """The token with its HMAC: every user who may see a token gets it. Raises ClientError."""
        for token in await self.list():
            if token.token_id == token_id:
                return token
        raise ClientError(
            f"there is no token {token_id!r} that you may see; see: pybroker tokens list"
        )

    async def renew(self, token: Token, period_ms: int) -> int:
        """Renew a token; returns its new expiry, in ms since 1970. A period of -1: the brokers'
        default."""
        answer = await self._cluster.ask_controller(
            ApiKey.RENEW_DELEGATION_TOKEN,
            RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=period_ms),
            RenewDelegationTokenResponse,
        )
        asked = self._cluster.asks("describe", token.token_id)
        asked.check(answer.error_code, None, f"cannot renew token {token.token_id}")
        return answer.expiry_timestamp_ms

    async def expire(self, token: Token, period_ms: int) -> int:
        """Set a token's expiry; returns it, in ms since 1970. A period of -1 expires it at once."""
        answer = await self._cluster.ask_controller(
            ApiKey.EXPIRE_DELEGATION_TOKEN,
            ExpireDelegationTokenRequest(hmac=token.hmac, expiry_time_period_ms=period_ms),
            ExpireDelegationTokenResponse,
        )
        asked = self._cluster.asks("describe", token.token_id)
        asked.check(answer.error_code, None, f"cannot expire token {token.token_id}")
        return answer.expiry_timestamp_ms
