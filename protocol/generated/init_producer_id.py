"""Of `apis/init_producer_id.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_InitProducerIdRequest: Final[Any] = made_by_readers(InitProducerIdRequest)
_InitProducerIdResponse: Final[Any] = made_by_readers(InitProducerIdResponse)


def read_InitProducerIdRequest(r: Reader, version: i64) -> Any:
    m: Any = _InitProducerIdRequest()
    m.transactional_id = r.string("transactional_id", True)
    m.transaction_timeout_ms = r.int32()
    if version >= 3:
        m.producer_id = r.int64()
        m.producer_epoch = r.int16()
    else:
        m.producer_id = -1
        m.producer_epoch = -1
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_InitProducerIdRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("transactional_id", m.transactional_id, True)
    write_i32_be(out, m.transaction_timeout_ms)
    if version >= 3:
        write_i64_be(out, m.producer_id)
        write_i16_be(out, m.producer_epoch)
    else:
        if m.producer_id != -1:
            w.refuse("InitProducerIdRequest.producer_id")
        if m.producer_epoch != -1:
            w.refuse("InitProducerIdRequest.producer_epoch")
    w.unknown_tags("InitProducerIdRequest", m.unknown_tagged_fields)


def read_InitProducerIdResponse(r: Reader, version: i64) -> Any:
    m: Any = _InitProducerIdResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.producer_id = r.int64()
    m.producer_epoch = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_InitProducerIdResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    write_i64_be(out, m.producer_id)
    write_i16_be(out, m.producer_epoch)
    w.unknown_tags("InitProducerIdResponse", m.unknown_tagged_fields)
