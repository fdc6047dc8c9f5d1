"""Of `messages/transaction_data.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.transaction_data import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_PartitionsSchema: Final[Any] = made_by_readers(PartitionsSchema)
_TransactionLogKey: Final[Any] = made_by_readers(TransactionLogKey)
_TransactionLogValue: Final[Any] = made_by_readers(TransactionLogValue)


def read_TransactionLogKey(r: Reader, version: i64) -> Any:
    m: Any = _TransactionLogKey()
    m.transactional_id = r.string("transactional_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TransactionLogKey(w: Writer, m: Any, version: i64) -> None:
    w.string("transactional_id", m.transactional_id, False)
    w.unknown_tags("TransactionLogKey", m.unknown_tagged_fields)


def read_PartitionsSchema(r: Reader, version: i64) -> Any:
    m: Any = _PartitionsSchema()
    m.topic = r.string("topic", False)
    m.partition_ids = r.int32s("partition_ids", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionsSchema(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    w.int32s("partition_ids", m.partition_ids, False)
    w.unknown_tags("PartitionsSchema", m.unknown_tagged_fields)


def read_TransactionLogValue(r: Reader, version: i64) -> Any:
    m: Any = _TransactionLogValue()
    m.producer_id = r.int64()
    m.producer_epoch = r.int16()
    m.transaction_timeout_ms = r.int32()
    m.transaction_status = r.int8()
    count = r.count("transaction_partitions", True, 3)
    m.transaction_partitions = (
        None if count < 0 else [read_PartitionsSchema(r, version) for _ in range(count)]
    )
    m.transaction_last_update_timestamp_ms = r.int64()
    m.transaction_start_timestamp_ms = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TransactionLogValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.producer_id)
    write_i16_be(out, m.producer_epoch)
    write_i32_be(out, m.transaction_timeout_ms)
    w.int8(m.transaction_status)
    transaction_partitions = m.transaction_partitions
    w.array("transaction_partitions", transaction_partitions, True)
    for item in transaction_partitions or ():
        write_PartitionsSchema(w, item, version)
    write_i64_be(out, m.transaction_last_update_timestamp_ms)
    write_i64_be(out, m.transaction_start_timestamp_ms)
    w.unknown_tags("TransactionLogValue", m.unknown_tagged_fields)
