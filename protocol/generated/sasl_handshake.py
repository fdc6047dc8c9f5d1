"""Of `apis/sasl_handshake.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ..packed import write_i16_be
from ..reader import Reader
from ..schema import NO_TAGS, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_SaslHandshakeRequest: Final[Any] = made_by_readers(SaslHandshakeRequest)
_SaslHandshakeResponse: Final[Any] = made_by_readers(SaslHandshakeResponse)


def read_SaslHandshakeRequest(r: Reader, version: i64) -> Any:
    m: Any = _SaslHandshakeRequest()
    m.mechanism = r.string("mechanism", False)
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_SaslHandshakeRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("mechanism", m.mechanism, False)
    w.unknown_tags("SaslHandshakeRequest", m.unknown_tagged_fields)


def read_SaslHandshakeResponse(r: Reader, version: i64) -> Any:
    m: Any = _SaslHandshakeResponse()
    m.error_code = r.int16()
    m.mechanisms = r.strings("mechanisms", False)
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_SaslHandshakeResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.strings("mechanisms", m.mechanisms, False)
    w.unknown_tags("SaslHandshakeResponse", m.unknown_tagged_fields)
