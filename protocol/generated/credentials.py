"""Of `messages/credentials.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    CredentialInfo,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AlterUserScramCredentialsRequest: Final[Any] = made_by_readers(AlterUserScramCredentialsRequest)
_AlterUserScramCredentialsResponse: Final[Any] = made_by_readers(AlterUserScramCredentialsResponse)
_AlterUserScramCredentialsResult: Final[Any] = made_by_readers(AlterUserScramCredentialsResult)
_CreatableRenewers: Final[Any] = made_by_readers(CreatableRenewers)
_CreateDelegationTokenRequest: Final[Any] = made_by_readers(CreateDelegationTokenRequest)
_CreateDelegationTokenResponse: Final[Any] = made_by_readers(CreateDelegationTokenResponse)
_CredentialInfo: Final[Any] = made_by_readers(CredentialInfo)
_DescribeDelegationTokenOwner: Final[Any] = made_by_readers(DescribeDelegationTokenOwner)
_DescribeDelegationTokenRequest: Final[Any] = made_by_readers(DescribeDelegationTokenRequest)
_DescribeDelegationTokenResponse: Final[Any] = made_by_readers(DescribeDelegationTokenResponse)
_DescribeUserScramCredentialsRequest: Final[Any] = made_by_readers(
    DescribeUserScramCredentialsRequest
)
_DescribeUserScramCredentialsResponse: Final[Any] = made_by_readers(
    DescribeUserScramCredentialsResponse
)
_DescribeUserScramCredentialsResult: Final[Any] = made_by_readers(
    DescribeUserScramCredentialsResult
)
_DescribedDelegationToken: Final[Any] = made_by_readers(DescribedDelegationToken)
_DescribedDelegationTokenRenewer: Final[Any] = made_by_readers(DescribedDelegationTokenRenewer)
_ExpireDelegationTokenRequest: Final[Any] = made_by_readers(ExpireDelegationTokenRequest)
_ExpireDelegationTokenResponse: Final[Any] = made_by_readers(ExpireDelegationTokenResponse)
_RenewDelegationTokenRequest: Final[Any] = made_by_readers(RenewDelegationTokenRequest)
_RenewDelegationTokenResponse: Final[Any] = made_by_readers(RenewDelegationTokenResponse)
_ScramCredentialDeletion: Final[Any] = made_by_readers(ScramCredentialDeletion)
_ScramCredentialUpsertion: Final[Any] = made_by_readers(ScramCredentialUpsertion)
_UserName: Final[Any] = made_by_readers(UserName)


def read_CreatableRenewers(r: Reader, version: i64) -> Any:
    m: Any = _CreatableRenewers()
    m.principal_type = r.string("principal_type", False)
    m.principal_name = r.string("principal_name", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreatableRenewers(w: Writer, m: Any, version: i64) -> None:
    w.string("principal_type", m.principal_type, False)
    w.string("principal_name", m.principal_name, False)
    w.unknown_tags("CreatableRenewers", m.unknown_tagged_fields)


def read_CreateDelegationTokenRequest(r: Reader, version: i64) -> Any:
    m: Any = _CreateDelegationTokenRequest()
    if version >= 3:
        m.owner_principal_type = r.string("owner_principal_type", True)
        m.owner_principal_name = r.string("owner_principal_name", True)
    else:
        m.owner_principal_type = ""
        m.owner_principal_name = ""
    count = r.count("renewers", False, 3)
    m.renewers = [read_CreatableRenewers(r, version) for _ in range(count)]
    m.max_lifetime_ms = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreateDelegationTokenRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 3:
        w.string("owner_principal_type", m.owner_principal_type, True)
        w.string("owner_principal_name", m.owner_principal_name, True)
    else:
        if m.owner_principal_type != "":
            w.refuse("CreateDelegationTokenRequest.owner_principal_type")
        if m.owner_principal_name != "":
            w.refuse("CreateDelegationTokenRequest.owner_principal_name")
    renewers = m.renewers
    w.array("renewers", renewers, False)
    for item in renewers:
        write_CreatableRenewers(w, item, version)
    write_i64_be(out, m.max_lifetime_ms)
    w.unknown_tags("CreateDelegationTokenRequest", m.unknown_tagged_fields)


def read_CreateDelegationTokenResponse(r: Reader, version: i64) -> Any:
    m: Any = _CreateDelegationTokenResponse()
    m.error_code = r.int16()
    m.principal_type = r.string("principal_type", False)
    m.principal_name = r.string("principal_name", False)
    if version >= 3:
        m.token_requester_principal_type = r.string("token_requester_principal_type", False)
        m.token_requester_principal_name = r.string("token_requester_principal_name", False)
    else:
        m.token_requester_principal_type = ""
        m.token_requester_principal_name = ""
    m.issue_timestamp_ms = r.int64()
    m.expiry_timestamp_ms = r.int64()
    m.max_timestamp_ms = r.int64()
    m.token_id = r.string("token_id", False)
    m.hmac = r.binary("hmac", False)
    m.throttle_time_ms = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreateDelegationTokenResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("principal_type", m.principal_type, False)
    w.string("principal_name", m.principal_name, False)
    if version >= 3:
        w.string("token_requester_principal_type", m.token_requester_principal_type, False)
        w.string("token_requester_principal_name", m.token_requester_principal_name, False)
    else:
        if m.token_requester_principal_type != "":
            w.refuse("CreateDelegationTokenResponse.token_requester_principal_type")
        if m.token_requester_principal_name != "":
            w.refuse("CreateDelegationTokenResponse.token_requester_principal_name")
    write_i64_be(out, m.issue_timestamp_ms)
    write_i64_be(out, m.expiry_timestamp_ms)
    write_i64_be(out, m.max_timestamp_ms)
    w.string("token_id", m.token_id, False)
    w.binary("hmac", m.hmac, False)
    write_i32_be(out, m.throttle_time_ms)
    w.unknown_tags("CreateDelegationTokenResponse", m.unknown_tagged_fields)


def read_RenewDelegationTokenRequest(r: Reader, version: i64) -> Any:
    m: Any = _RenewDelegationTokenRequest()
    m.hmac = r.binary("hmac", False)
    m.renew_period_ms = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_RenewDelegationTokenRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.binary("hmac", m.hmac, False)
    write_i64_be(out, m.renew_period_ms)
    w.unknown_tags("RenewDelegationTokenRequest", m.unknown_tagged_fields)


def read_RenewDelegationTokenResponse(r: Reader, version: i64) -> Any:
    m: Any = _RenewDelegationTokenResponse()
    m.error_code = r.int16()
    m.expiry_timestamp_ms = r.int64()
    m.throttle_time_ms = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_RenewDelegationTokenResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    write_i64_be(out, m.expiry_timestamp_ms)
    write_i32_be(out, m.throttle_time_ms)
    w.unknown_tags("RenewDelegationTokenResponse", m.unknown_tagged_fields)


def read_ExpireDelegationTokenRequest(r: Reader, version: i64) -> Any:
    m: Any = _ExpireDelegationTokenRequest()
    m.hmac = r.binary("hmac", False)
    m.expiry_time_period_ms = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ExpireDelegationTokenRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.binary("hmac", m.hmac, False)
    write_i64_be(out, m.expiry_time_period_ms)
    w.unknown_tags("ExpireDelegationTokenRequest", m.unknown_tagged_fields)


def read_ExpireDelegationTokenResponse(r: Reader, version: i64) -> Any:
    m: Any = _ExpireDelegationTokenResponse()
    m.error_code = r.int16()
    m.expiry_timestamp_ms = r.int64()
    m.throttle_time_ms = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ExpireDelegationTokenResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    write_i64_be(out, m.expiry_timestamp_ms)
    write_i32_be(out, m.throttle_time_ms)
    w.unknown_tags("ExpireDelegationTokenResponse", m.unknown_tagged_fields)


def read_DescribeDelegationTokenOwner(r: Reader, version: i64) -> Any:
    m: Any = _DescribeDelegationTokenOwner()
    m.principal_type = r.string("principal_type", False)
    m.principal_name = r.string("principal_name", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeDelegationTokenOwner(w: Writer, m: Any, version: i64) -> None:
    w.string("principal_type", m.principal_type, False)
    w.string("principal_name", m.principal_name, False)
    w.unknown_tags("DescribeDelegationTokenOwner", m.unknown_tagged_fields)


def read_DescribeDelegationTokenRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeDelegationTokenRequest()
    count = r.count("owners", True, 3)
    m.owners = (
        None if count < 0 else [read_DescribeDelegationTokenOwner(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeDelegationTokenRequest(w: Writer, m: Any, version: i64) -> None:
    owners = m.owners
    w.array("owners", owners, True)
    for item in owners or ():
        write_DescribeDelegationTokenOwner(w, item, version)
    w.unknown_tags("DescribeDelegationTokenRequest", m.unknown_tagged_fields)


def read_DescribedDelegationTokenRenewer(r: Reader, version: i64) -> Any:
    m: Any = _DescribedDelegationTokenRenewer()
    m.principal_type = r.string("principal_type", False)
    m.principal_name = r.string("principal_name", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribedDelegationTokenRenewer(w: Writer, m: Any, version: i64) -> None:
    w.string("principal_type", m.principal_type, False)
    w.string("principal_name", m.principal_name, False)
    w.unknown_tags("DescribedDelegationTokenRenewer", m.unknown_tagged_fields)


def read_DescribedDelegationToken(r: Reader, version: i64) -> Any:
    m: Any = _DescribedDelegationToken()
    m.principal_type = r.string("principal_type", False)
    m.principal_name = r.string("principal_name", False)
    if version >= 3:
        m.token_requester_principal_type = r.string("token_requester_principal_type", False)
        m.token_requester_principal_name = r.string("token_requester_principal_name", False)
    else:
        m.token_requester_principal_type = ""
        m.token_requester_principal_name = ""
    m.issue_timestamp = r.int64()
    m.expiry_timestamp = r.int64()
    m.max_timestamp = r.int64()
    m.token_id = r.string("token_id", False)
    m.hmac = r.binary("hmac", False)
    count = r.count("renewers", False, 3)
    m.renewers = [read_DescribedDelegationTokenRenewer(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribedDelegationToken(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("principal_type", m.principal_type, False)
    w.string("principal_name", m.principal_name, False)
    if version >= 3:
        w.string("token_requester_principal_type", m.token_requester_principal_type, False)
        w.string("token_requester_principal_name", m.token_requester_principal_name, False)
    else:
        if m.token_requester_principal_type != "":
            w.refuse("DescribedDelegationToken.token_requester_principal_type")
        if m.token_requester_principal_name != "":
            w.refuse("DescribedDelegationToken.token_requester_principal_name")
    write_i64_be(out, m.issue_timestamp)
    write_i64_be(out, m.expiry_timestamp)
    write_i64_be(out, m.max_timestamp)
    w.string("token_id", m.token_id, False)
    w.binary("hmac", m.hmac, False)
    renewers = m.renewers
    w.array("renewers", renewers, False)
    for item in renewers:
        write_DescribedDelegationTokenRenewer(w, item, version)
    w.unknown_tags("DescribedDelegationToken", m.unknown_tagged_fields)


def read_DescribeDelegationTokenResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeDelegationTokenResponse()
    m.error_code = r.int16()
    count = r.count("tokens", False, 30)
    m.tokens = [read_DescribedDelegationToken(r, version) for _ in range(count)]
    m.throttle_time_ms = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeDelegationTokenResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    tokens = m.tokens
    w.array("tokens", tokens, False)
    for item in tokens:
        write_DescribedDelegationToken(w, item, version)
    write_i32_be(out, m.throttle_time_ms)
    w.unknown_tags("DescribeDelegationTokenResponse", m.unknown_tagged_fields)


def read_UserName(r: Reader, version: i64) -> Any:
    m: Any = _UserName()
    m.name = r.string("name", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_UserName(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.unknown_tags("UserName", m.unknown_tagged_fields)


def read_DescribeUserScramCredentialsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeUserScramCredentialsRequest()
    count = r.count("users", True, 2)
    m.users = None if count < 0 else [read_UserName(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeUserScramCredentialsRequest(w: Writer, m: Any, version: i64) -> None:
    users = m.users
    w.array("users", users, True)
    for item in users or ():
        write_UserName(w, item, version)
    w.unknown_tags("DescribeUserScramCredentialsRequest", m.unknown_tagged_fields)


def read_CredentialInfo(r: Reader, version: i64) -> Any:
    m: Any = _CredentialInfo()
    m.mechanism = r.int8()
    m.iterations = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CredentialInfo(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.int8(m.mechanism)
    write_i32_be(out, m.iterations)
    w.unknown_tags("CredentialInfo", m.unknown_tagged_fields)


def read_DescribeUserScramCredentialsResult(r: Reader, version: i64) -> Any:
    m: Any = _DescribeUserScramCredentialsResult()
    m.user = r.string("user", False)
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("credential_infos", False, 6)
    m.credential_infos = [read_CredentialInfo(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeUserScramCredentialsResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("user", m.user, False)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    credential_infos = m.credential_infos
    w.array("credential_infos", credential_infos, False)
    for item in credential_infos:
        write_CredentialInfo(w, item, version)
    w.unknown_tags("DescribeUserScramCredentialsResult", m.unknown_tagged_fields)


def read_DescribeUserScramCredentialsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeUserScramCredentialsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("results", False, 6)
    m.results = [read_DescribeUserScramCredentialsResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeUserScramCredentialsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_DescribeUserScramCredentialsResult(w, item, version)
    w.unknown_tags("DescribeUserScramCredentialsResponse", m.unknown_tagged_fields)


def read_ScramCredentialDeletion(r: Reader, version: i64) -> Any:
    m: Any = _ScramCredentialDeletion()
    m.name = r.string("name", False)
    m.mechanism = r.int8()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ScramCredentialDeletion(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int8(m.mechanism)
    w.unknown_tags("ScramCredentialDeletion", m.unknown_tagged_fields)


def read_ScramCredentialUpsertion(r: Reader, version: i64) -> Any:
    m: Any = _ScramCredentialUpsertion()
    m.name = r.string("name", False)
    m.mechanism = r.int8()
    m.iterations = r.int32()
    m.salt = r.binary("salt", False)
    m.salted_password = r.binary("salted_password", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ScramCredentialUpsertion(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    w.int8(m.mechanism)
    write_i32_be(out, m.iterations)
    w.binary("salt", m.salt, False)
    w.binary("salted_password", m.salted_password, False)
    w.unknown_tags("ScramCredentialUpsertion", m.unknown_tagged_fields)


def read_AlterUserScramCredentialsRequest(r: Reader, version: i64) -> Any:
    m: Any = _AlterUserScramCredentialsRequest()
    count = r.count("deletions", False, 3)
    m.deletions = [read_ScramCredentialDeletion(r, version) for _ in range(count)]
    count = r.count("upsertions", False, 9)
    m.upsertions = [read_ScramCredentialUpsertion(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterUserScramCredentialsRequest(w: Writer, m: Any, version: i64) -> None:
    deletions = m.deletions
    w.array("deletions", deletions, False)
    for item in deletions:
        write_ScramCredentialDeletion(w, item, version)
    upsertions = m.upsertions
    w.array("upsertions", upsertions, False)
    for item in upsertions:
        write_ScramCredentialUpsertion(w, item, version)
    w.unknown_tags("AlterUserScramCredentialsRequest", m.unknown_tagged_fields)


def read_AlterUserScramCredentialsResult(r: Reader, version: i64) -> Any:
    m: Any = _AlterUserScramCredentialsResult()
    m.user = r.string("user", False)
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterUserScramCredentialsResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("user", m.user, False)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("AlterUserScramCredentialsResult", m.unknown_tagged_fields)


def read_AlterUserScramCredentialsResponse(r: Reader, version: i64) -> Any:
    m: Any = _AlterUserScramCredentialsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("results", False, 5)
    m.results = [read_AlterUserScramCredentialsResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterUserScramCredentialsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_AlterUserScramCredentialsResult(w, item, version)
    w.unknown_tags("AlterUserScramCredentialsResponse", m.unknown_tagged_fields)
