"""CreateDelegationToken v0-3, RenewDelegationToken v0-2, ExpireDelegationToken v0-2 and
DescribeDelegationToken v0-3 (KIP-48, KIP-373).

A client authenticated by a token, on a PLAINTEXT listener, or over SSL without a certificate gets
no token. Any broker serves these requests; a change is in ZooKeeper when it is answered, and
reaches the other brokers a little later.

Mirrors the token handlers of KafkaApis. Beyond it there are limits, since every authenticated
client may create tokens, and every broker holds them all: a token with more than MAX_RENEWERS is an
INVALID_REQUEST, as is one whose node would be too large; an owner at the limit of tokens gets
POLICY_VIOLATION (`security.delegation_tokens`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from ...protocol.acls import AclOperation, ResourceType
from ...protocol.api import ApiKey
from ...protocol.apis.create_delegation_token import CreateDelegationTokenResponse
from ...protocol.apis.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from ...protocol.apis.expire_delegation_token import ExpireDelegationTokenResponse
from ...protocol.apis.renew_delegation_token import RenewDelegationTokenResponse
from ...protocol.errors import ErrorCode
from ..security.delegation_tokens import TokenInfo
from ..security.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal

if TYPE_CHECKING:
    from ..network.request import Handler, Request
    from ..network.turns import Steps
    from ..zk.delegation_token_store import DelegationTokenStore

NO_TIME = -1  # beside an error
MAX_RENEWERS = 1000
REQUESTER_SINCE_VERSION = 3


class DelegationTokenHandlers:
    __slots__ = ("_store",)

    def __init__(self, store: DelegationTokenStore) -> None:
        self._store = store

    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.CREATE_DELEGATION_TOKEN: self.create,
            ApiKey.RENEW_DELEGATION_TOKEN: self.renew,
            ApiKey.EXPIRE_DELEGATION_TOKEN: self.expire,
            ApiKey.DESCRIBE_DELEGATION_TOKEN: self.describe,
        }

    async def create(self, request: Request) -> None:
        body, requester = request.body, request.peer.principal
        owner = requester
        if body.owner_principal_name:
            owner = KafkaPrincipal(body.owner_principal_type or "", body.owner_principal_name)
        renewers = [
            KafkaPrincipal(one.principal_type, one.principal_name)
            for one in body.renewers[: MAX_RENEWERS + 1]
        ]
        response = CreateDelegationTokenResponse(
            principal_type=owner.type,
            principal_name=owner.name,
            issue_timestamp_ms=NO_TIME,
            expiry_timestamp_ms=NO_TIME,
            max_timestamp_ms=NO_TIME,
        )
        if request.api_version >= REQUESTER_SINCE_VERSION:
            response.token_requester_principal_type = requester.type
            response.token_requester_principal_name = requester.name
        error = self._refusal(request)
        if error is not ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
            if owner[:2] != requester[:2] and not _may_create_for(request, owner):
                error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
            elif any(renewer.type != USER_TYPE for renewer in renewers):
                error = ErrorCode.INVALID_PRINCIPAL_TYPE
            elif not error and len(renewers) > MAX_RENEWERS:
                error = ErrorCode.INVALID_REQUEST
        if error:
            response.error_code = error
            request.respond(response)
            return
        token = await self._store.create(owner, requester, renewers, body.max_lifetime_ms)
        if isinstance(token, ErrorCode):
            response.error_code = token
            request.respond(response)
            return
        response.issue_timestamp_ms = token.issue_ms
        response.expiry_timestamp_ms = token.expiry_ms
        response.max_timestamp_ms = token.max_ms
        response.token_id = token.token_id
        response.hmac = self._store.tokens.hmac_of(token.token_id)
        request.respond(response)

    async def renew(self, request: Request) -> None:
        period_ms, response = request.body.renew_period_ms, RenewDelegationTokenResponse
        await self._move_end(request, self._store.renew, period_ms, response)

    async def expire(self, request: Request) -> None:
        period_ms, response = request.body.expiry_time_period_ms, ExpireDelegationTokenResponse
        await self._move_end(request, self._store.expire, period_ms, response)

    async def _move_end(
        self,
        request: Request,
        move: Callable[[bytes, KafkaPrincipal, int], Awaitable[TokenInfo | ErrorCode]],
        period_ms: int,
        response: type[RenewDelegationTokenResponse | ExpireDelegationTokenResponse],
    ) -> None:
        outcome: TokenInfo | ErrorCode = self._refusal(request)
        if not outcome:
            outcome = await move(bytes(request.body.hmac), request.peer.principal, period_ms)
        if isinstance(outcome, ErrorCode):
            request.respond(response(error_code=outcome, expiry_timestamp_ms=NO_TIME))
        else:
            request.respond(response(expiry_timestamp_ms=outcome.expiry_ms))

    def describe(self, request: Request) -> Steps:
        error = self._refusal(request)
        if error:
            request.respond(DescribeDelegationTokenResponse(error_code=error))
            return
        owners = None
        if request.body.owners is not None:
            owners = ((one.principal_type, one.principal_name) for one in request.body.owners)
        found = yield from self._store.tokens.described(
            request.peer.principal, owners, lambda token: _may_see(request, token)
        )
        shows_requester = request.api_version >= REQUESTER_SINCE_VERSION
        tokens = []
        for token in found:
            tokens.append(self._described(token, shows_requester))
            yield
        request.respond(DescribeDelegationTokenResponse(tokens=tokens))

    def _refusal(self, request: Request) -> ErrorCode:
        """The error that refuses all token requests of this client; NONE if tokens are served."""
        if not _allows_token_requests(request):
            return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        if not self._store.tokens.enabled:
            return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
        return ErrorCode.NONE

    def _described(self, token: TokenInfo, shows_requester: bool) -> DescribedDelegationToken:
        shown = DescribedDelegationToken(
            principal_type=token.owner.type,
            principal_name=token.owner.name,
            issue_timestamp=token.issue_ms,
            expiry_timestamp=token.expiry_ms,
            max_timestamp=token.max_ms,
            token_id=token.token_id,
            hmac=self._store.tokens.hmac_of(token.token_id),
            renewers=[
                DescribedDelegationTokenRenewer(principal_type=one.type, principal_name=one.name)
                for one in token.renewers
            ],
        )
        if shows_requester:
            shown.token_requester_principal_type = token.requester.type
            shown.token_requester_principal_name = token.requester.name
        return shown


def _allows_token_requests(request: Request) -> bool:
    """False for a client with a token, over PLAINTEXT, or over SSL without a certificate."""
    peer = request.peer
    if peer.principal.token_authenticated or peer.security_protocol == "PLAINTEXT":
        return False
    return peer.security_protocol != "SSL" or peer.principal[:2] != ANONYMOUS[:2]


def _may_create_for(request: Request, owner: KafkaPrincipal) -> bool:
    """Whether the client may create tokens for another user."""
    return request.permits(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner))


def _may_see(request: Request, token: TokenInfo) -> bool:
    """Whether the client may see a token of another user: this one, or all of its owner."""
    return request.permits(
        AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, is_logged=False
    ) or request.permits(
        AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner), is_logged=False
    )
