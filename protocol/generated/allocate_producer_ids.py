"""Of `apis/allocate_producer_ids.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AllocateProducerIdsRequest: Final[Any] = made_by_readers(AllocateProducerIdsRequest)
_AllocateProducerIdsResponse: Final[Any] = made_by_readers(AllocateProducerIdsResponse)


def read_AllocateProducerIdsRequest(r: Reader, version: i64) -> Any:
    m: Any = _AllocateProducerIdsRequest()
    m.broker_id = r.int32()
    m.broker_epoch = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AllocateProducerIdsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.broker_id)
    write_i64_be(out, m.broker_epoch)
    w.unknown_tags("AllocateProducerIdsRequest", m.unknown_tagged_fields)


def read_AllocateProducerIdsResponse(r: Reader, version: i64) -> Any:
    m: Any = _AllocateProducerIdsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.producer_id_start = r.int64()
    m.producer_id_len = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AllocateProducerIdsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    write_i64_be(out, m.producer_id_start)
    write_i32_be(out, m.producer_id_len)
    w.unknown_tags("AllocateProducerIdsResponse", m.unknown_tagged_fields)
