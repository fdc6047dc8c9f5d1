"""Of `apis/envelope.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.envelope import (
    EnvelopeRequest,
    EnvelopeResponse,
)
from ..packed import write_i16_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_EnvelopeRequest: Final[Any] = made_by_readers(EnvelopeRequest)
_EnvelopeResponse: Final[Any] = made_by_readers(EnvelopeResponse)


def read_EnvelopeRequest(r: Reader, version: i64) -> Any:
    m: Any = _EnvelopeRequest()
    m.request_data = r.binary("request_data", False)
    m.request_principal = r.binary("request_principal", True)
    m.client_host_address = r.binary("client_host_address", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_EnvelopeRequest(w: Writer, m: Any, version: i64) -> None:
    w.binary("request_data", m.request_data, False)
    w.binary("request_principal", m.request_principal, True)
    w.binary("client_host_address", m.client_host_address, False)
    w.unknown_tags("EnvelopeRequest", m.unknown_tagged_fields)


def read_EnvelopeResponse(r: Reader, version: i64) -> Any:
    m: Any = _EnvelopeResponse()
    m.response_data = r.binary("response_data", True)
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_EnvelopeResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.binary("response_data", m.response_data, True)
    write_i16_be(out, m.error_code)
    w.unknown_tags("EnvelopeResponse", m.unknown_tagged_fields)
