"""Of `apis/describe_delegation_token.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DescribeDelegationTokenOwner: Final[Any] = made_by_readers(DescribeDelegationTokenOwner)
_DescribeDelegationTokenRequest: Final[Any] = made_by_readers(DescribeDelegationTokenRequest)
_DescribeDelegationTokenResponse: Final[Any] = made_by_readers(DescribeDelegationTokenResponse)
_DescribedDelegationToken: Final[Any] = made_by_readers(DescribedDelegationToken)
_DescribedDelegationTokenRenewer: Final[Any] = made_by_readers(DescribedDelegationTokenRenewer)


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
