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
from ..schema import NO_TAGS, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
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


def read_tags_of_TransactionLogValue(r: Reader, m: Any, version: i64) -> None:
    m.previous_producer_id = -1
    m.next_producer_id = -1
    m.client_transaction_version = 0
    m.next_producer_epoch = -1
    m.unknown_tagged_fields = _NO_TAGS
    tags = r.tag_count()
    if not tags:
        return
    unknown: dict[int, bytes] = {}
    tag: i64 = -1
    for _ in range(tags):
        tag = r.next_tag(tag)
        end = r.tag_end
        if tag == 0:
            m.previous_producer_id = r.int64()
            r.end_tag("TransactionLogValue.previous_producer_id", end)
        elif tag == 1:
            m.next_producer_id = r.int64()
            r.end_tag("TransactionLogValue.next_producer_id", end)
        elif tag == 2:
            m.client_transaction_version = r.int16()
            r.end_tag("TransactionLogValue.client_transaction_version", end)
        elif tag == 3:
            m.next_producer_epoch = r.int16()
            r.end_tag("TransactionLogValue.next_producer_epoch", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


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
    read_tags_of_TransactionLogValue(r, m, version)
    return m


def _write_known_tags_of_TransactionLogValue(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.previous_producer_id != -1:
        w = outer.inner()
        out = w.out
        write_i64_be(out, m.previous_producer_id)
        known.append((0, w))
    if m.next_producer_id != -1:
        w = outer.inner()
        out = w.out
        write_i64_be(out, m.next_producer_id)
        known.append((1, w))
    if m.client_transaction_version != 0:
        w = outer.inner()
        out = w.out
        write_i16_be(out, m.client_transaction_version)
        known.append((2, w))
    if m.next_producer_epoch != -1:
        w = outer.inner()
        out = w.out
        write_i16_be(out, m.next_producer_epoch)
        known.append((3, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_TransactionLogValue(w: Writer, m: Any, version: i64) -> None:
    if version <= 0 and m.previous_producer_id != -1:
        w.refuse("TransactionLogValue.previous_producer_id")
    if version <= 0 and m.next_producer_id != -1:
        w.refuse("TransactionLogValue.next_producer_id")
    if version <= 0 and m.client_transaction_version != 0:
        w.refuse("TransactionLogValue.client_transaction_version")
    if version <= 0 and m.next_producer_epoch != -1:
        w.refuse("TransactionLogValue.next_producer_epoch")
    if w.flexible and (
        m.previous_producer_id != -1
        or m.next_producer_id != -1
        or m.client_transaction_version != 0
        or m.next_producer_epoch != -1
    ):
        _write_known_tags_of_TransactionLogValue(w, m, version)
    else:
        w.unknown_tags("TransactionLogValue", m.unknown_tagged_fields)


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
    write_tags_of_TransactionLogValue(w, m, version)
