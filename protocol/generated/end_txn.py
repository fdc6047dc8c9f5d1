"""Of `apis/end_txn.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.end_txn import (
    EndTxnRequest,
    EndTxnResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_EndTxnRequest: Final[Any] = made_by_readers(EndTxnRequest)
_EndTxnResponse: Final[Any] = made_by_readers(EndTxnResponse)


def read_EndTxnRequest(r: Reader, version: i64) -> Any:
    m: Any = _EndTxnRequest()
    m.transactional_id = r.string("transactional_id", False)
    m.producer_id = r.int64()
    m.producer_epoch = r.int16()
    m.committed = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_EndTxnRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("transactional_id", m.transactional_id, False)
    write_i64_be(out, m.producer_id)
    write_i16_be(out, m.producer_epoch)
    w.boolean(m.committed)
    w.unknown_tags("EndTxnRequest", m.unknown_tagged_fields)


def read_EndTxnResponse(r: Reader, version: i64) -> Any:
    m: Any = _EndTxnResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    if version >= 5:
        m.producer_id = r.int64()
        m.producer_epoch = r.int16()
    else:
        m.producer_id = -1
        m.producer_epoch = -1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_EndTxnResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    if version >= 5:
        write_i64_be(out, m.producer_id)
        write_i16_be(out, m.producer_epoch)
    w.unknown_tags("EndTxnResponse", m.unknown_tagged_fields)
