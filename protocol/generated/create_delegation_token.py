"""Of `apis/create_delegation_token.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_CreatableRenewers: Final[Any] = made_by_readers(CreatableRenewers)
_CreateDelegationTokenRequest: Final[Any] = made_by_readers(CreateDelegationTokenRequest)
_CreateDelegationTokenResponse: Final[Any] = made_by_readers(CreateDelegationTokenResponse)


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
