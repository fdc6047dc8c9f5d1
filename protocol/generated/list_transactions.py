"""Of `apis/list_transactions.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_ListTransactionsRequest: Final[Any] = made_by_readers(ListTransactionsRequest)
_ListTransactionsResponse: Final[Any] = made_by_readers(ListTransactionsResponse)
_ListTransactionsResponseTransactionState: Final[Any] = made_by_readers(
    ListTransactionsResponseTransactionState
)


def read_ListTransactionsRequest(r: Reader, version: i64) -> Any:
    m: Any = _ListTransactionsRequest()
    m.state_filters = r.strings("state_filters", False)
    m.producer_id_filters = r.int64s("producer_id_filters", False)
    if version >= 1:
        m.duration_filter = r.int64()
    else:
        m.duration_filter = -1
    if version >= 2:
        m.transactional_id_pattern = r.string("transactional_id_pattern", True)
    else:
        m.transactional_id_pattern = None
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListTransactionsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.strings("state_filters", m.state_filters, False)
    w.int64s("producer_id_filters", m.producer_id_filters, False)
    if version >= 1:
        write_i64_be(out, m.duration_filter)
    elif m.duration_filter != -1:
        w.refuse("ListTransactionsRequest.duration_filter")
    if version >= 2:
        w.string("transactional_id_pattern", m.transactional_id_pattern, True)
    elif m.transactional_id_pattern is not None:
        w.refuse("ListTransactionsRequest.transactional_id_pattern")
    w.unknown_tags("ListTransactionsRequest", m.unknown_tagged_fields)


def read_ListTransactionsResponseTransactionState(r: Reader, version: i64) -> Any:
    m: Any = _ListTransactionsResponseTransactionState()
    m.transactional_id = r.string("transactional_id", False)
    m.producer_id = r.int64()
    m.transaction_state = r.string("transaction_state", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListTransactionsResponseTransactionState(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("transactional_id", m.transactional_id, False)
    write_i64_be(out, m.producer_id)
    w.string("transaction_state", m.transaction_state, False)
    w.unknown_tags("ListTransactionsResponseTransactionState", m.unknown_tagged_fields)


def read_ListTransactionsResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListTransactionsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.unknown_state_filters = r.strings("unknown_state_filters", False)
    count = r.count("transaction_states", False, 11)
    m.transaction_states = [
        read_ListTransactionsResponseTransactionState(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListTransactionsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.strings("unknown_state_filters", m.unknown_state_filters, False)
    transaction_states = m.transaction_states
    w.array("transaction_states", transaction_states, False)
    for item in transaction_states:
        write_ListTransactionsResponseTransactionState(w, item, version)
    w.unknown_tags("ListTransactionsResponse", m.unknown_tagged_fields)
