"""Of `apis/describe_transactions.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopicData,
    DescribeTransactionsResponseTransactionState,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DescribeTransactionsRequest: Final[Any] = made_by_readers(DescribeTransactionsRequest)
_DescribeTransactionsResponse: Final[Any] = made_by_readers(DescribeTransactionsResponse)
_DescribeTransactionsResponseTopicData: Final[Any] = made_by_readers(
    DescribeTransactionsResponseTopicData
)
_DescribeTransactionsResponseTransactionState: Final[Any] = made_by_readers(
    DescribeTransactionsResponseTransactionState
)


def read_DescribeTransactionsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DescribeTransactionsRequest()
    m.transactional_ids = r.strings("transactional_ids", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeTransactionsRequest(w: Writer, m: Any, version: i64) -> None:
    w.strings("transactional_ids", m.transactional_ids, False)
    w.unknown_tags("DescribeTransactionsRequest", m.unknown_tagged_fields)


def read_DescribeTransactionsResponseTopicData(r: Reader, version: i64) -> Any:
    m: Any = _DescribeTransactionsResponseTopicData()
    m.topic = r.string("topic", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeTransactionsResponseTopicData(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("DescribeTransactionsResponseTopicData", m.unknown_tagged_fields)


def read_DescribeTransactionsResponseTransactionState(r: Reader, version: i64) -> Any:
    m: Any = _DescribeTransactionsResponseTransactionState()
    m.error_code = r.int16()
    m.transactional_id = r.string("transactional_id", False)
    m.transaction_state = r.string("transaction_state", False)
    m.transaction_timeout_ms = r.int32()
    m.transaction_start_time_ms = r.int64()
    m.producer_id = r.int64()
    m.producer_epoch = r.int16()
    count = r.count("topics", False, 3)
    m.topics = [read_DescribeTransactionsResponseTopicData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeTransactionsResponseTransactionState(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("transactional_id", m.transactional_id, False)
    w.string("transaction_state", m.transaction_state, False)
    write_i32_be(out, m.transaction_timeout_ms)
    write_i64_be(out, m.transaction_start_time_ms)
    write_i64_be(out, m.producer_id)
    write_i16_be(out, m.producer_epoch)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_DescribeTransactionsResponseTopicData(w, item, version)
    w.unknown_tags("DescribeTransactionsResponseTransactionState", m.unknown_tagged_fields)


def read_DescribeTransactionsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DescribeTransactionsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("transaction_states", False, 28)
    m.transaction_states = [
        read_DescribeTransactionsResponseTransactionState(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribeTransactionsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    transaction_states = m.transaction_states
    w.array("transaction_states", transaction_states, False)
    for item in transaction_states:
        write_DescribeTransactionsResponseTransactionState(w, item, version)
    w.unknown_tags("DescribeTransactionsResponse", m.unknown_tagged_fields)
