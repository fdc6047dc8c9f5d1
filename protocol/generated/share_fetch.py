"""Of `apis/share_fetch.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    FetchPartition,
    FetchTopic,
    ForgottenTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AcknowledgementBatch: Final[Any] = made_by_readers(AcknowledgementBatch)
_AcquiredRecords: Final[Any] = made_by_readers(AcquiredRecords)
_FetchPartition: Final[Any] = made_by_readers(FetchPartition)
_FetchTopic: Final[Any] = made_by_readers(FetchTopic)
_ForgottenTopic: Final[Any] = made_by_readers(ForgottenTopic)
_LeaderIdAndEpoch: Final[Any] = made_by_readers(LeaderIdAndEpoch)
_NodeEndpoint: Final[Any] = made_by_readers(NodeEndpoint)
_PartitionData: Final[Any] = made_by_readers(PartitionData)
_ShareFetchRequest: Final[Any] = made_by_readers(ShareFetchRequest)
_ShareFetchResponse: Final[Any] = made_by_readers(ShareFetchResponse)
_ShareFetchableTopicResponse: Final[Any] = made_by_readers(ShareFetchableTopicResponse)


def read_AcknowledgementBatch(r: Reader, version: i64) -> Any:
    m: Any = _AcknowledgementBatch()
    m.first_offset = r.int64()
    m.last_offset = r.int64()
    m.acknowledge_types = r.int8s("acknowledge_types", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AcknowledgementBatch(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.first_offset)
    write_i64_be(out, m.last_offset)
    w.int8s("acknowledge_types", m.acknowledge_types, False)
    w.unknown_tags("AcknowledgementBatch", m.unknown_tagged_fields)


def read_FetchPartition(r: Reader, version: i64) -> Any:
    m: Any = _FetchPartition()
    m.partition_index = r.int32()
    m.partition_max_bytes = 0
    count = r.count("acknowledgement_batches", False, 18)
    m.acknowledgement_batches = [read_AcknowledgementBatch(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FetchPartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    if m.partition_max_bytes != 0:
        w.refuse("FetchPartition.partition_max_bytes")
    acknowledgement_batches = m.acknowledgement_batches
    w.array("acknowledgement_batches", acknowledgement_batches, False)
    for item in acknowledgement_batches:
        write_AcknowledgementBatch(w, item, version)
    w.unknown_tags("FetchPartition", m.unknown_tagged_fields)


def read_FetchTopic(r: Reader, version: i64) -> Any:
    m: Any = _FetchTopic()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 6)
    m.partitions = [read_FetchPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_FetchTopic(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_FetchPartition(w, item, version)
    w.unknown_tags("FetchTopic", m.unknown_tagged_fields)


def read_ForgottenTopic(r: Reader, version: i64) -> Any:
    m: Any = _ForgottenTopic()
    m.topic_id = r.uuid()
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ForgottenTopic(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("ForgottenTopic", m.unknown_tagged_fields)


def read_ShareFetchRequest(r: Reader, version: i64) -> Any:
    m: Any = _ShareFetchRequest()
    m.group_id = r.string("group_id", True)
    m.member_id = r.string("member_id", True)
    m.share_session_epoch = r.int32()
    m.max_wait_ms = r.int32()
    m.min_bytes = r.int32()
    m.max_bytes = r.int32()
    m.max_records = r.int32()
    m.batch_size = r.int32()
    if version >= 2:
        m.share_acquire_mode = r.int8()
        m.is_renew_ack = r.boolean()
    else:
        m.share_acquire_mode = 0
        m.is_renew_ack = False
    count = r.count("topics", False, 18)
    m.topics = [read_FetchTopic(r, version) for _ in range(count)]
    count = r.count("forgotten_topics_data", False, 18)
    m.forgotten_topics_data = [read_ForgottenTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareFetchRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, True)
    w.string("member_id", m.member_id, True)
    write_i32_be(out, m.share_session_epoch)
    write_i32_be(out, m.max_wait_ms)
    write_i32_be(out, m.min_bytes)
    write_i32_be(out, m.max_bytes)
    write_i32_be(out, m.max_records)
    write_i32_be(out, m.batch_size)
    if version >= 2:
        w.int8(m.share_acquire_mode)
        w.boolean(m.is_renew_ack)
    elif m.is_renew_ack:
        w.refuse("ShareFetchRequest.is_renew_ack")
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_FetchTopic(w, item, version)
    forgotten_topics_data = m.forgotten_topics_data
    w.array("forgotten_topics_data", forgotten_topics_data, False)
    for item in forgotten_topics_data:
        write_ForgottenTopic(w, item, version)
    w.unknown_tags("ShareFetchRequest", m.unknown_tagged_fields)


def read_LeaderIdAndEpoch(r: Reader, version: i64) -> Any:
    m: Any = _LeaderIdAndEpoch()
    m.leader_id = r.int32()
    m.leader_epoch = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LeaderIdAndEpoch(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.leader_id)
    write_i32_be(out, m.leader_epoch)
    w.unknown_tags("LeaderIdAndEpoch", m.unknown_tagged_fields)


def read_AcquiredRecords(r: Reader, version: i64) -> Any:
    m: Any = _AcquiredRecords()
    m.first_offset = r.int64()
    m.last_offset = r.int64()
    m.delivery_count = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AcquiredRecords(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i64_be(out, m.first_offset)
    write_i64_be(out, m.last_offset)
    write_i16_be(out, m.delivery_count)
    w.unknown_tags("AcquiredRecords", m.unknown_tagged_fields)


def read_PartitionData(r: Reader, version: i64) -> Any:
    m: Any = _PartitionData()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.acknowledge_error_code = r.int16()
    m.acknowledge_error_message = r.string("acknowledge_error_message", True)
    m.current_leader = read_LeaderIdAndEpoch(r, version)
    m.records = r.binary("records", False)
    count = r.count("acquired_records", False, 19)
    m.acquired_records = [read_AcquiredRecords(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    write_i16_be(out, m.acknowledge_error_code)
    w.string("acknowledge_error_message", m.acknowledge_error_message, True)
    if m.current_leader is None:
        w.refuse_null("current_leader")
    write_LeaderIdAndEpoch(w, m.current_leader, version)
    w.records("records", m.records, False)
    acquired_records = m.acquired_records
    w.array("acquired_records", acquired_records, False)
    for item in acquired_records:
        write_AcquiredRecords(w, item, version)
    w.unknown_tags("PartitionData", m.unknown_tagged_fields)


def read_ShareFetchableTopicResponse(r: Reader, version: i64) -> Any:
    m: Any = _ShareFetchableTopicResponse()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 22)
    m.partitions = [read_PartitionData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareFetchableTopicResponse(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionData(w, item, version)
    w.unknown_tags("ShareFetchableTopicResponse", m.unknown_tagged_fields)


def read_NodeEndpoint(r: Reader, version: i64) -> Any:
    m: Any = _NodeEndpoint()
    m.node_id = r.int32()
    m.host = r.string("host", False)
    m.port = r.int32()
    m.rack = r.string("rack", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_NodeEndpoint(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.node_id)
    w.string("host", m.host, False)
    write_i32_be(out, m.port)
    w.string("rack", m.rack, True)
    w.unknown_tags("NodeEndpoint", m.unknown_tagged_fields)


def read_ShareFetchResponse(r: Reader, version: i64) -> Any:
    m: Any = _ShareFetchResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.acquisition_lock_timeout_ms = r.int32()
    count = r.count("responses", False, 18)
    m.responses = [read_ShareFetchableTopicResponse(r, version) for _ in range(count)]
    count = r.count("node_endpoints", False, 11)
    m.node_endpoints = [read_NodeEndpoint(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareFetchResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    write_i32_be(out, m.acquisition_lock_timeout_ms)
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_ShareFetchableTopicResponse(w, item, version)
    node_endpoints = m.node_endpoints
    w.array("node_endpoints", node_endpoints, False)
    for item in node_endpoints:
        write_NodeEndpoint(w, item, version)
    w.unknown_tags("ShareFetchResponse", m.unknown_tagged_fields)
