"""Of `apis/add_partitions_to_txn.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AddPartitionsToTxnPartitionResult: Final[Any] = made_by_readers(AddPartitionsToTxnPartitionResult)
_AddPartitionsToTxnRequest: Final[Any] = made_by_readers(AddPartitionsToTxnRequest)
_AddPartitionsToTxnResponse: Final[Any] = made_by_readers(AddPartitionsToTxnResponse)
_AddPartitionsToTxnResult: Final[Any] = made_by_readers(AddPartitionsToTxnResult)
_AddPartitionsToTxnTopic: Final[Any] = made_by_readers(AddPartitionsToTxnTopic)
_AddPartitionsToTxnTopicResult: Final[Any] = made_by_readers(AddPartitionsToTxnTopicResult)
_AddPartitionsToTxnTransaction: Final[Any] = made_by_readers(AddPartitionsToTxnTransaction)


def read_AddPartitionsToTxnTopic(r: Reader, version: i64) -> Any:
    m: Any = _AddPartitionsToTxnTopic()
    m.name = r.string("name", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AddPartitionsToTxnTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("AddPartitionsToTxnTopic", m.unknown_tagged_fields)


def read_AddPartitionsToTxnTransaction(r: Reader, version: i64) -> Any:
    m: Any = _AddPartitionsToTxnTransaction()
    m.transactional_id = r.string("transactional_id", False)
    m.producer_id = r.int64()
    m.producer_epoch = r.int16()
    m.verify_only = r.boolean()
    count = r.count("topics", False, 3)
    m.topics = [read_AddPartitionsToTxnTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AddPartitionsToTxnTransaction(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("transactional_id", m.transactional_id, False)
    write_i64_be(out, m.producer_id)
    write_i16_be(out, m.producer_epoch)
    w.boolean(m.verify_only)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_AddPartitionsToTxnTopic(w, item, version)
    w.unknown_tags("AddPartitionsToTxnTransaction", m.unknown_tagged_fields)


def read_AddPartitionsToTxnRequest(r: Reader, version: i64) -> Any:
    m: Any = _AddPartitionsToTxnRequest()
    if version >= 4:
        count = r.count("transactions", False, 14)
        m.transactions = [read_AddPartitionsToTxnTransaction(r, version) for _ in range(count)]
    else:
        m.transactions = []
    if version <= 3:
        m.v3_and_below_transactional_id = r.string("v3_and_below_transactional_id", False)
        m.v3_and_below_producer_id = r.int64()
        m.v3_and_below_producer_epoch = r.int16()
        count = r.count("v3_and_below_topics", False, 3)
        m.v3_and_below_topics = [read_AddPartitionsToTxnTopic(r, version) for _ in range(count)]
    else:
        m.v3_and_below_transactional_id = ""
        m.v3_and_below_producer_id = 0
        m.v3_and_below_producer_epoch = 0
        m.v3_and_below_topics = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AddPartitionsToTxnRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 4:
        transactions = m.transactions
        w.array("transactions", transactions, False)
        for item in transactions:
            write_AddPartitionsToTxnTransaction(w, item, version)
    elif m.transactions != []:
        w.refuse("AddPartitionsToTxnRequest.transactions")
    if version <= 3:
        w.string("v3_and_below_transactional_id", m.v3_and_below_transactional_id, False)
        write_i64_be(out, m.v3_and_below_producer_id)
        write_i16_be(out, m.v3_and_below_producer_epoch)
        v3_and_below_topics = m.v3_and_below_topics
        w.array("v3_and_below_topics", v3_and_below_topics, False)
        for item in v3_and_below_topics:
            write_AddPartitionsToTxnTopic(w, item, version)
    else:
        if m.v3_and_below_transactional_id != "":
            w.refuse("AddPartitionsToTxnRequest.v3_and_below_transactional_id")
        if m.v3_and_below_producer_id != 0:
            w.refuse("AddPartitionsToTxnRequest.v3_and_below_producer_id")
        if m.v3_and_below_producer_epoch != 0:
            w.refuse("AddPartitionsToTxnRequest.v3_and_below_producer_epoch")
        if m.v3_and_below_topics != []:
            w.refuse("AddPartitionsToTxnRequest.v3_and_below_topics")
    w.unknown_tags("AddPartitionsToTxnRequest", m.unknown_tagged_fields)


def read_AddPartitionsToTxnPartitionResult(r: Reader, version: i64) -> Any:
    m: Any = _AddPartitionsToTxnPartitionResult()
    m.partition_index = r.int32()
    m.partition_error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AddPartitionsToTxnPartitionResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.partition_error_code)
    w.unknown_tags("AddPartitionsToTxnPartitionResult", m.unknown_tagged_fields)


def read_AddPartitionsToTxnTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _AddPartitionsToTxnTopicResult()
    m.name = r.string("name", False)
    count = r.count("results_by_partition", False, 6)
    m.results_by_partition = [
        read_AddPartitionsToTxnPartitionResult(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AddPartitionsToTxnTopicResult(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    results_by_partition = m.results_by_partition
    w.array("results_by_partition", results_by_partition, False)
    for item in results_by_partition:
        write_AddPartitionsToTxnPartitionResult(w, item, version)
    w.unknown_tags("AddPartitionsToTxnTopicResult", m.unknown_tagged_fields)


def read_AddPartitionsToTxnResult(r: Reader, version: i64) -> Any:
    m: Any = _AddPartitionsToTxnResult()
    m.transactional_id = r.string("transactional_id", False)
    count = r.count("topic_results", False, 3)
    m.topic_results = [read_AddPartitionsToTxnTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AddPartitionsToTxnResult(w: Writer, m: Any, version: i64) -> None:
    w.string("transactional_id", m.transactional_id, False)
    topic_results = m.topic_results
    w.array("topic_results", topic_results, False)
    for item in topic_results:
        write_AddPartitionsToTxnTopicResult(w, item, version)
    w.unknown_tags("AddPartitionsToTxnResult", m.unknown_tagged_fields)


def read_AddPartitionsToTxnResponse(r: Reader, version: i64) -> Any:
    m: Any = _AddPartitionsToTxnResponse()
    m.throttle_time_ms = r.int32()
    if version >= 4:
        m.error_code = r.int16()
        count = r.count("results_by_transaction", False, 3)
        m.results_by_transaction = [read_AddPartitionsToTxnResult(r, version) for _ in range(count)]
    else:
        m.error_code = 0
        m.results_by_transaction = []
    if version <= 3:
        count = r.count("results_by_topic_v3_and_below", False, 3)
        m.results_by_topic_v3_and_below = [
            read_AddPartitionsToTxnTopicResult(r, version) for _ in range(count)
        ]
    else:
        m.results_by_topic_v3_and_below = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AddPartitionsToTxnResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    if version >= 4:
        write_i16_be(out, m.error_code)
        results_by_transaction = m.results_by_transaction
        w.array("results_by_transaction", results_by_transaction, False)
        for item in results_by_transaction:
            write_AddPartitionsToTxnResult(w, item, version)
    elif m.results_by_transaction != []:
        w.refuse("AddPartitionsToTxnResponse.results_by_transaction")
    if version <= 3:
        results_by_topic_v3_and_below = m.results_by_topic_v3_and_below
        w.array("results_by_topic_v3_and_below", results_by_topic_v3_and_below, False)
        for item in results_by_topic_v3_and_below:
            write_AddPartitionsToTxnTopicResult(w, item, version)
    elif m.results_by_topic_v3_and_below != []:
        w.refuse("AddPartitionsToTxnResponse.results_by_topic_v3_and_below")
    w.unknown_tags("AddPartitionsToTxnResponse", m.unknown_tagged_fields)
