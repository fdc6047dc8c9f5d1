"""Of `apis/expire_delegation_token.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_ExpireDelegationTokenRequest: Final[Any] = made_by_readers(ExpireDelegationTokenRequest)
_ExpireDelegationTokenResponse: Final[Any] = made_by_readers(ExpireDelegationTokenResponse)


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
