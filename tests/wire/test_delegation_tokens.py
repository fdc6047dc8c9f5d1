"""Delegation tokens on a plain listener: nobody can prove who it is there, so there are none."""

from __future__ import annotations

from pybroker.protocol.api import ApiKey
from pybroker.protocol.errors import ErrorCode
from pybroker.protocol.messages.credentials import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from tests.support.wire import WireClient, covers

REFUSED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@covers(ApiKey.CREATE_DELEGATION_TOKEN)
def test_none_is_made(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.CREATE_DELEGATION_TOKEN):
        renewers = [CreatableRenewers(principal_type="Group", principal_name="bob")]
        request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=5)
        owner = "ANONYMOUS"
        if version >= 3:
            request.owner_principal_type, request.owner_principal_name = "User", "alice"
            owner = "alice"
        answer = kafka.call(request, version)
        assert answer.error_code == REFUSED
        assert (answer.principal_type, answer.principal_name) == ("User", owner)
        times = (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms)
        assert times == (-1, -1, -1)
        assert (answer.token_id, bytes(answer.hmac), answer.throttle_time_ms) == ("", b"", 0)
        if version >= 3:
            assert answer.token_requester_principal_name == "ANONYMOUS"


@covers(ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN)
def test_none_is_changed(kafka: WireClient) -> None:
    for version in kafka.versions(ApiKey.RENEW_DELEGATION_TOKEN):
        answer = kafka.call(RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=1), version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (REFUSED, -1)
    for version in kafka.versions(ApiKey.EXPIRE_DELEGATION_TOKEN):
        request = ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1)
        answer = kafka.call(request, version)
        assert (answer.error_code, answer.expiry_timestamp_ms) == (REFUSED, -1)


@covers(ApiKey.DESCRIBE_DELEGATION_TOKEN)
def test_none_is_shown(kafka: WireClient) -> None:
    owner = DescribeDelegationTokenOwner(principal_type="User", principal_name="alice")
    for version in kafka.versions(ApiKey.DESCRIBE_DELEGATION_TOKEN):
        for owners in (None, [], [owner]):
            answer = kafka.call(DescribeDelegationTokenRequest(owners=owners), version)
            assert (answer.error_code, answer.tokens) == (REFUSED, [])
