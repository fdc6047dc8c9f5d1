"""Of `apis/renew_delegation_token.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_RenewDelegationTokenRequest: Final[Any] = made_by_readers(RenewDelegationTokenRequest)
_RenewDelegationTokenResponse: Final[Any] = made_by_readers(RenewDelegationTokenResponse)


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
