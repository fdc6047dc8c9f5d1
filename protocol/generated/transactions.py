"""Of `messages/transactions.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.transactions import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AddOffsetsToTxnRequest: Final[Any] = made_by_readers(AddOffsetsToTxnRequest)
_AddOffsetsToTxnResponse: Final[Any] = made_by_readers(AddOffsetsToTxnResponse)
_AddPartitionsToTxnPartitionResult: Final[Any] = made_by_readers(AddPartitionsToTxnPartitionResult)
_AddPartitionsToTxnRequest: Final[Any] = made_by_readers(AddPartitionsToTxnRequest)
_AddPartitionsToTxnResponse: Final[Any] = made_by_readers(AddPartitionsToTxnResponse)
_AddPartitionsToTxnResult: Final[Any] = made_by_readers(AddPartitionsToTxnResult)
_AddPartitionsToTxnTopic: Final[Any] = made_by_readers(AddPartitionsToTxnTopic)
_AddPartitionsToTxnTopicResult: Final[Any] = made_by_readers(AddPartitionsToTxnTopicResult)
_AddPartitionsToTxnTransaction: Final[Any] = made_by_readers(AddPartitionsToTxnTransaction)
_EndTxnRequest: Final[Any] = made_by_readers(EndTxnRequest)
_EndTxnResponse: Final[Any] = made_by_readers(EndTxnResponse)
_InitProducerIdRequest: Final[Any] = made_by_readers(InitProducerIdRequest)
_InitProducerIdResponse: Final[Any] = made_by_readers(InitProducerIdResponse)
_TxnOffsetCommitRequest: Final[Any] = made_by_readers(TxnOffsetCommitRequest)
_TxnOffsetCommitRequestPartition: Final[Any] = made_by_readers(TxnOffsetCommitRequestPartition)
_TxnOffsetCommitRequestTopic: Final[Any] = made_by_readers(TxnOffsetCommitRequestTopic)
_TxnOffsetCommitResponse: Final[Any] = made_by_readers(TxnOffsetCommitResponse)
_TxnOffsetCommitResponsePartition: Final[Any] = made_by_readers(TxnOffsetCommitResponsePartition)
_TxnOffsetCommitResponseTopic: Final[Any] = made_by_readers(TxnOffsetCommitResponseTopic)
_WritableTxnMarker: Final[Any] = made_by_readers(WritableTxnMarker)
_WritableTxnMarkerPartitionResult: Final[Any] = made_by_readers(WritableTxnMarkerPartitionResult)
_WritableTxnMarkerResult: Final[Any] = made_by_readers(WritableTxnMarkerResult)
_WritableTxnMarkerTopic: Final[Any] = made_by_readers(WritableTxnMarkerTopic)
_WritableTxnMarkerTopicResult: Final[Any] = made_by_readers(WritableTxnMarkerTopicResult)
_WriteTxnMarkersRequest: Final[Any] = made_by_readers(WriteTxnMarkersRequest)
_WriteTxnMarkersResponse: Final[Any] = made_by_readers(WriteTxnMarkersResponse)


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
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_EndTxnResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.unknown_tags("EndTxnResponse", m.unknown_tagged_fields)


def read_WritableTxnMarkerTopic(r: Reader, version: i64) -> Any:
    m: Any = _WritableTxnMarkerTopic()
    m.name = r.string("name", False)
    m.partition_indexes = r.int32s("partition_indexes", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WritableTxnMarkerTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int32s("partition_indexes", m.partition_indexes, False)
    w.unknown_tags("WritableTxnMarkerTopic", m.unknown_tagged_fields)


def read_WritableTxnMarker(r: Reader, version: i64) -> Any:
    m: Any = _WritableTxnMarker()
    m.producer_id = r.int64()
    m.producer_epoch = r.int16()
    m.transaction_result = r.boolean()
    count = r.count("topics", False, 3)
    m.topics = [read_WritableTxnMarkerTopic(r, version) for _ in range(count)]
    m.coordinator_epoch = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WritableTxnMarker(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.producer_id)
    write_i16_be(out, m.producer_epoch)
    w.boolean(m.transaction_result)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_WritableTxnMarkerTopic(w, item, version)
    write_i32_be(out, m.coordinator_epoch)
    w.unknown_tags("WritableTxnMarker", m.unknown_tagged_fields)


def read_WriteTxnMarkersRequest(r: Reader, version: i64) -> Any:
    m: Any = _WriteTxnMarkersRequest()
    count = r.count("markers", False, 17)
    m.markers = [read_WritableTxnMarker(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WriteTxnMarkersRequest(w: Writer, m: Any, version: i64) -> None:
    markers = m.markers
    w.array("markers", markers, False)
    for item in markers:
        write_WritableTxnMarker(w, item, version)
    w.unknown_tags("WriteTxnMarkersRequest", m.unknown_tagged_fields)


def read_WritableTxnMarkerPartitionResult(r: Reader, version: i64) -> Any:
    m: Any = _WritableTxnMarkerPartitionResult()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WritableTxnMarkerPartitionResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.unknown_tags("WritableTxnMarkerPartitionResult", m.unknown_tagged_fields)


def read_WritableTxnMarkerTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _WritableTxnMarkerTopicResult()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 6)
    m.partitions = [read_WritableTxnMarkerPartitionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WritableTxnMarkerTopicResult(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_WritableTxnMarkerPartitionResult(w, item, version)
    w.unknown_tags("WritableTxnMarkerTopicResult", m.unknown_tagged_fields)


def read_WritableTxnMarkerResult(r: Reader, version: i64) -> Any:
    m: Any = _WritableTxnMarkerResult()
    m.producer_id = r.int64()
    count = r.count("topics", False, 3)
    m.topics = [read_WritableTxnMarkerTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WritableTxnMarkerResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.producer_id)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_WritableTxnMarkerTopicResult(w, item, version)
    w.unknown_tags("WritableTxnMarkerResult", m.unknown_tagged_fields)


def read_WriteTxnMarkersResponse(r: Reader, version: i64) -> Any:
    m: Any = _WriteTxnMarkersResponse()
    count = r.count("markers", False, 10)
    m.markers = [read_WritableTxnMarkerResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_WriteTxnMarkersResponse(w: Writer, m: Any, version: i64) -> None:
    markers = m.markers
    w.array("markers", markers, False)
    for item in markers:
        write_WritableTxnMarkerResult(w, item, version)
    w.unknown_tags("WriteTxnMarkersResponse", m.unknown_tagged_fields)


def read_TxnOffsetCommitRequestPartition(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitRequestPartition()
    m.partition_index = r.int32()
    m.committed_offset = r.int64()
    if version >= 2:
        m.committed_leader_epoch = r.int32()
    else:
        m.committed_leader_epoch = -1
    m.committed_metadata = r.string("committed_metadata", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitRequestPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.committed_offset)
    if version >= 2:
        write_i32_be(out, m.committed_leader_epoch)
    w.string("committed_metadata", m.committed_metadata, True)
    w.unknown_tags("TxnOffsetCommitRequestPartition", m.unknown_tagged_fields)


def read_TxnOffsetCommitRequestTopic(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitRequestTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 14)
    m.partitions = [read_TxnOffsetCommitRequestPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitRequestTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_TxnOffsetCommitRequestPartition(w, item, version)
    w.unknown_tags("TxnOffsetCommitRequestTopic", m.unknown_tagged_fields)


def read_TxnOffsetCommitRequest(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitRequest()
    m.transactional_id = r.string("transactional_id", False)
    m.group_id = r.string("group_id", False)
    m.producer_id = r.int64()
    m.producer_epoch = r.int16()
    if version >= 3:
        m.generation_id = r.int32()
        m.member_id = r.string("member_id", False)
        m.group_instance_id = r.string("group_instance_id", True)
    else:
        m.generation_id = -1
        m.member_id = ""
        m.group_instance_id = None
    count = r.count("topics", False, 3)
    m.topics = [read_TxnOffsetCommitRequestTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("transactional_id", m.transactional_id, False)
    w.string("group_id", m.group_id, False)
    write_i64_be(out, m.producer_id)
    write_i16_be(out, m.producer_epoch)
    if version >= 3:
        write_i32_be(out, m.generation_id)
        w.string("member_id", m.member_id, False)
        w.string("group_instance_id", m.group_instance_id, True)
    else:
        if m.generation_id != -1:
            w.refuse("TxnOffsetCommitRequest.generation_id")
        if m.member_id != "":
            w.refuse("TxnOffsetCommitRequest.member_id")
        if m.group_instance_id is not None:
            w.refuse("TxnOffsetCommitRequest.group_instance_id")
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_TxnOffsetCommitRequestTopic(w, item, version)
    w.unknown_tags("TxnOffsetCommitRequest", m.unknown_tagged_fields)


def read_TxnOffsetCommitResponsePartition(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitResponsePartition()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitResponsePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.unknown_tags("TxnOffsetCommitResponsePartition", m.unknown_tagged_fields)


def read_TxnOffsetCommitResponseTopic(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitResponseTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 6)
    m.partitions = [read_TxnOffsetCommitResponsePartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitResponseTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_TxnOffsetCommitResponsePartition(w, item, version)
    w.unknown_tags("TxnOffsetCommitResponseTopic", m.unknown_tagged_fields)


def read_TxnOffsetCommitResponse(r: Reader, version: i64) -> Any:
    m: Any = _TxnOffsetCommitResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("topics", False, 3)
    m.topics = [read_TxnOffsetCommitResponseTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TxnOffsetCommitResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_TxnOffsetCommitResponseTopic(w, item, version)
    w.unknown_tags("TxnOffsetCommitResponse", m.unknown_tagged_fields)
