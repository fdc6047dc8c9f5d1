"""Of `apis/share_acknowledge.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AcknowledgePartition: Final[Any] = made_by_readers(AcknowledgePartition)
_AcknowledgeTopic: Final[Any] = made_by_readers(AcknowledgeTopic)
_AcknowledgementBatch: Final[Any] = made_by_readers(AcknowledgementBatch)
_LeaderIdAndEpoch: Final[Any] = made_by_readers(LeaderIdAndEpoch)
_NodeEndpoint: Final[Any] = made_by_readers(NodeEndpoint)
_PartitionData: Final[Any] = made_by_readers(PartitionData)
_ShareAcknowledgeRequest: Final[Any] = made_by_readers(ShareAcknowledgeRequest)
_ShareAcknowledgeResponse: Final[Any] = made_by_readers(ShareAcknowledgeResponse)
_ShareAcknowledgeTopicResponse: Final[Any] = made_by_readers(ShareAcknowledgeTopicResponse)


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


def read_AcknowledgePartition(r: Reader, version: i64) -> Any:
    m: Any = _AcknowledgePartition()
    m.partition_index = r.int32()
    count = r.count("acknowledgement_batches", False, 18)
    m.acknowledgement_batches = [read_AcknowledgementBatch(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AcknowledgePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    acknowledgement_batches = m.acknowledgement_batches
    w.array("acknowledgement_batches", acknowledgement_batches, False)
    for item in acknowledgement_batches:
        write_AcknowledgementBatch(w, item, version)
    w.unknown_tags("AcknowledgePartition", m.unknown_tagged_fields)


def read_AcknowledgeTopic(r: Reader, version: i64) -> Any:
    m: Any = _AcknowledgeTopic()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 6)
    m.partitions = [read_AcknowledgePartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AcknowledgeTopic(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_AcknowledgePartition(w, item, version)
    w.unknown_tags("AcknowledgeTopic", m.unknown_tagged_fields)


def read_ShareAcknowledgeRequest(r: Reader, version: i64) -> Any:
    m: Any = _ShareAcknowledgeRequest()
    m.group_id = r.string("group_id", True)
    m.member_id = r.string("member_id", True)
    m.share_session_epoch = r.int32()
    if version >= 2:
        m.is_renew_ack = r.boolean()
    else:
        m.is_renew_ack = False
    count = r.count("topics", False, 18)
    m.topics = [read_AcknowledgeTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareAcknowledgeRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, True)
    w.string("member_id", m.member_id, True)
    write_i32_be(out, m.share_session_epoch)
    if version >= 2:
        w.boolean(m.is_renew_ack)
    elif m.is_renew_ack:
        w.refuse("ShareAcknowledgeRequest.is_renew_ack")
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_AcknowledgeTopic(w, item, version)
    w.unknown_tags("ShareAcknowledgeRequest", m.unknown_tagged_fields)


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


def read_PartitionData(r: Reader, version: i64) -> Any:
    m: Any = _PartitionData()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.current_leader = read_LeaderIdAndEpoch(r, version)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    if m.current_leader is None:
        w.refuse_null("current_leader")
    write_LeaderIdAndEpoch(w, m.current_leader, version)
    w.unknown_tags("PartitionData", m.unknown_tagged_fields)


def read_ShareAcknowledgeTopicResponse(r: Reader, version: i64) -> Any:
    m: Any = _ShareAcknowledgeTopicResponse()
    m.topic_id = r.uuid()
    count = r.count("partitions", False, 17)
    m.partitions = [read_PartitionData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareAcknowledgeTopicResponse(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_PartitionData(w, item, version)
    w.unknown_tags("ShareAcknowledgeTopicResponse", m.unknown_tagged_fields)


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


def read_ShareAcknowledgeResponse(r: Reader, version: i64) -> Any:
    m: Any = _ShareAcknowledgeResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    if version >= 2:
        m.acquisition_lock_timeout_ms = r.int32()
    else:
        m.acquisition_lock_timeout_ms = 0
    count = r.count("responses", False, 18)
    m.responses = [read_ShareAcknowledgeTopicResponse(r, version) for _ in range(count)]
    count = r.count("node_endpoints", False, 11)
    m.node_endpoints = [read_NodeEndpoint(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareAcknowledgeResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    if version >= 2:
        write_i32_be(out, m.acquisition_lock_timeout_ms)
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_ShareAcknowledgeTopicResponse(w, item, version)
    node_endpoints = m.node_endpoints
    w.array("node_endpoints", node_endpoints, False)
    for item in node_endpoints:
        write_NodeEndpoint(w, item, version)
    w.unknown_tags("ShareAcknowledgeResponse", m.unknown_tagged_fields)
