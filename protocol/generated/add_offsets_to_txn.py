"""Of `apis/add_offsets_to_txn.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AddOffsetsToTxnRequest: Final[Any] = made_by_readers(AddOffsetsToTxnRequest)
_AddOffsetsToTxnResponse: Final[Any] = made_by_readers(AddOffsetsToTxnResponse)


def read_AddOffsetsToTxnRequest(r: Reader, version: i64) -> Any:
    m: Any = _AddOffsetsToTxnRequest()
    m.transactional_id = r.string("transactional_id", False)
    m.producer_id = r.int64()
    m.producer_epoch = r.int16()
    m.group_id = r.string("group_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AddOffsetsToTxnRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("transactional_id", m.transactional_id, False)
    write_i64_be(out, m.producer_id)
    write_i16_be(out, m.producer_epoch)
    w.string("group_id", m.group_id, False)
    w.unknown_tags("AddOffsetsToTxnRequest", m.unknown_tagged_fields)


def read_AddOffsetsToTxnResponse(r: Reader, version: i64) -> Any:
    m: Any = _AddOffsetsToTxnResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AddOffsetsToTxnResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.unknown_tags("AddOffsetsToTxnResponse", m.unknown_tagged_fields)
