"""Of `apis/sasl_authenticate.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ..packed import write_i16_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_SaslAuthenticateRequest: Final[Any] = made_by_readers(SaslAuthenticateRequest)
_SaslAuthenticateResponse: Final[Any] = made_by_readers(SaslAuthenticateResponse)


def read_SaslAuthenticateRequest(r: Reader, version: i64) -> Any:
    m: Any = _SaslAuthenticateRequest()
    m.auth_bytes = r.binary("auth_bytes", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SaslAuthenticateRequest(w: Writer, m: Any, version: i64) -> None:
    w.binary("auth_bytes", m.auth_bytes, False)
    w.unknown_tags("SaslAuthenticateRequest", m.unknown_tagged_fields)


def read_SaslAuthenticateResponse(r: Reader, version: i64) -> Any:
    m: Any = _SaslAuthenticateResponse()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.auth_bytes = r.binary("auth_bytes", False)
    if version >= 1:
        m.session_lifetime_ms = r.int64()
    else:
        m.session_lifetime_ms = 0
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_SaslAuthenticateResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.binary("auth_bytes", m.auth_bytes, False)
    if version >= 1:
        write_i64_be(out, m.session_lifetime_ms)
    w.unknown_tags("SaslAuthenticateResponse", m.unknown_tagged_fields)
