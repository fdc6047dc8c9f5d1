"""Delegation tokens (KIP-48) and SCRAM credentials (KIP-554).

CreateDelegationToken and DescribeDelegationToken: version 3 has an owner beside the requester
(KIP-373).

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from ..primitives import Buffer
from ..schema import (
    Message,
    Struct,
    array,
    binary,
    int8,
    int16,
    int32,
    int64,
    message,
    string,
)


class CreatableRenewers(Struct):
    principal_type: str = string()
    principal_name: str = string()


@message(api_key=38, kind="request", valid="0-3", flexible="2+")
class CreateDelegationTokenRequest(Message):
    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


@message(api_key=38, kind="response", valid="0-3", flexible="2+")
class CreateDelegationTokenResponse(Message):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: Buffer = binary()
    throttle_time_ms: int = int32()


@message(api_key=39, kind="request", valid="0-2", flexible="2+")
class RenewDelegationTokenRequest(Message):
    hmac: Buffer = binary()
    renew_period_ms: int = int64()


@message(api_key=39, kind="response", valid="0-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


@message(api_key=40, kind="request", valid="0-2", flexible="2+")
class ExpireDelegationTokenRequest(Message):
    hmac: Buffer = binary()
    expiry_time_period_ms: int = int64()


@message(api_key=40, kind="response", valid="0-2", flexible="2+")
class ExpireDelegationTokenResponse(Message):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string()
    principal_name: str = string()


@message(api_key=41, kind="request", valid="0-3", flexible="2+")
class DescribeDelegationTokenRequest(Message):
    owners: list[DescribeDelegationTokenOwner] | None = array(
        DescribeDelegationTokenOwner, nullable="0+"
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: Buffer = binary()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


@message(api_key=41, kind="response", valid="0-3", flexible="2+")
class DescribeDelegationTokenResponse(Message):
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()


class UserName(Struct):
    name: str = string()


@message(api_key=50, kind="request", valid="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Message):
    users: list[UserName] | None = array(UserName, nullable="0+")


class CredentialInfo(Struct):
    mechanism: int = int8()
    iterations: int = int32()


class DescribeUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


@message(api_key=50, kind="response", valid="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)


class ScramCredentialDeletion(Struct):
    name: str = string()
    mechanism: int = int8()


class ScramCredentialUpsertion(Struct):
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: Buffer = binary()
    salted_password: Buffer = binary()


@message(api_key=51, kind="request", valid="0", flexible="0+")
class AlterUserScramCredentialsRequest(Message):
    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    user: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


@message(api_key=51, kind="response", valid="0", flexible="0+")
class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
