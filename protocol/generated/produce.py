"""Of `apis/produce.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceResponseLeaderIdAndEpoch,
    ProduceResponseNodeEndpoint,
    TopicProduceData,
    TopicProduceResponse,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import NO_TAGS, ZERO_UUID, made_by_readers, shared_default
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_BatchIndexAndErrorMessage: Final[Any] = made_by_readers(BatchIndexAndErrorMessage)
_PartitionProduceData: Final[Any] = made_by_readers(PartitionProduceData)
_PartitionProduceResponse: Final[Any] = made_by_readers(PartitionProduceResponse)
_ProduceRequest: Final[Any] = made_by_readers(ProduceRequest)
_ProduceResponse: Final[Any] = made_by_readers(ProduceResponse)
_ProduceResponseLeaderIdAndEpoch: Final[Any] = made_by_readers(ProduceResponseLeaderIdAndEpoch)
_ProduceResponseNodeEndpoint: Final[Any] = made_by_readers(ProduceResponseNodeEndpoint)
_TopicProduceData: Final[Any] = made_by_readers(TopicProduceData)
_TopicProduceResponse: Final[Any] = made_by_readers(TopicProduceResponse)
DEFAULT_ProduceResponseLeaderIdAndEpoch: Final[Any] = shared_default(
    ProduceResponseLeaderIdAndEpoch
)


def read_PartitionProduceData(r: Reader, version: i64) -> Any:
    m: Any = _PartitionProduceData()
    m.index = r.int32()
    m.records = r.binary("records", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionProduceData(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.index)
    w.records("records", m.records, True)
    w.unknown_tags("PartitionProduceData", m.unknown_tagged_fields)


def read_TopicProduceData(r: Reader, version: i64) -> Any:
    m: Any = _TopicProduceData()
    if version <= 12:
        m.name = r.string("name", False)
    else:
        m.name = ""
    if version >= 13:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partition_data", False, 6)
    m.partition_data = [read_PartitionProduceData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicProduceData(w: Writer, m: Any, version: i64) -> None:
    if version <= 12:
        w.string("name", m.name, False)
    if version >= 13:
        w.uuid(m.topic_id)
    partition_data = m.partition_data
    w.array("partition_data", partition_data, False)
    for item in partition_data:
        write_PartitionProduceData(w, item, version)
    w.unknown_tags("TopicProduceData", m.unknown_tagged_fields)


def read_ProduceRequest(r: Reader, version: i64) -> Any:
    m: Any = _ProduceRequest()
    if version >= 3:
        m.transactional_id = r.string("transactional_id", True)
    else:
        m.transactional_id = None
    m.acks = r.int16()
    m.timeout_ms = r.int32()
    count = r.count("topic_data", False, 3)
    m.topic_data = [read_TopicProduceData(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ProduceRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 3:
        w.string("transactional_id", m.transactional_id, True)
    elif m.transactional_id is not None:
        w.refuse("ProduceRequest.transactional_id")
    write_i16_be(out, m.acks)
    write_i32_be(out, m.timeout_ms)
    topic_data = m.topic_data
    w.array("topic_data", topic_data, False)
    for item in topic_data:
        write_TopicProduceData(w, item, version)
    w.unknown_tags("ProduceRequest", m.unknown_tagged_fields)


def read_BatchIndexAndErrorMessage(r: Reader, version: i64) -> Any:
    m: Any = _BatchIndexAndErrorMessage()
    m.batch_index = r.int32()
    m.batch_index_error_message = r.string("batch_index_error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_BatchIndexAndErrorMessage(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.batch_index)
    w.string("batch_index_error_message", m.batch_index_error_message, True)
    w.unknown_tags("BatchIndexAndErrorMessage", m.unknown_tagged_fields)


def read_ProduceResponseLeaderIdAndEpoch(r: Reader, version: i64) -> Any:
    m: Any = _ProduceResponseLeaderIdAndEpoch()
    m.leader_id = r.int32()
    m.leader_epoch = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ProduceResponseLeaderIdAndEpoch(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.leader_id)
    write_i32_be(out, m.leader_epoch)
    w.unknown_tags("ProduceResponseLeaderIdAndEpoch", m.unknown_tagged_fields)


def read_tags_of_PartitionProduceResponse(r: Reader, m: Any, version: i64) -> None:
    m.current_leader = DEFAULT_ProduceResponseLeaderIdAndEpoch
    m.unknown_tagged_fields = _NO_TAGS
    tags = r.tag_count()
    if not tags:
        return
    unknown: dict[int, bytes] = {}
    tag: i64 = -1
    for _ in range(tags):
        tag = r.next_tag(tag)
        end = r.tag_end
        if tag == 0 and version >= 10:
            m.current_leader = read_ProduceResponseLeaderIdAndEpoch(r, version)
            r.end_tag("PartitionProduceResponse.current_leader", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_PartitionProduceResponse(r: Reader, version: i64) -> Any:
    m: Any = _PartitionProduceResponse()
    m.index = r.int32()
    m.error_code = r.int16()
    m.base_offset = r.int64()
    if version >= 2:
        m.log_append_time_ms = r.int64()
    else:
        m.log_append_time_ms = -1
    if version >= 5:
        m.log_start_offset = r.int64()
    else:
        m.log_start_offset = -1
    if version >= 8:
        count = r.count("record_errors", False, 6)
        m.record_errors = [read_BatchIndexAndErrorMessage(r, version) for _ in range(count)]
        m.error_message = r.string("error_message", True)
    else:
        m.record_errors = []
        m.error_message = None
    read_tags_of_PartitionProduceResponse(r, m, version)
    return m


def _write_known_tags_of_PartitionProduceResponse(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if version >= 10 and (
        m.current_leader is not DEFAULT_ProduceResponseLeaderIdAndEpoch
        and m.current_leader != DEFAULT_ProduceResponseLeaderIdAndEpoch
    ):
        w = outer.inner()
        if m.current_leader is None:
            w.refuse_null("current_leader")
        write_ProduceResponseLeaderIdAndEpoch(w, m.current_leader, version)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_PartitionProduceResponse(w: Writer, m: Any, version: i64) -> None:
    if version <= 9 and (
        m.current_leader is not DEFAULT_ProduceResponseLeaderIdAndEpoch
        and m.current_leader != DEFAULT_ProduceResponseLeaderIdAndEpoch
    ):
        w.refuse("PartitionProduceResponse.current_leader")
    if w.flexible and (
        version >= 10
        and (
            m.current_leader is not DEFAULT_ProduceResponseLeaderIdAndEpoch
            and m.current_leader != DEFAULT_ProduceResponseLeaderIdAndEpoch
        )
    ):
        _write_known_tags_of_PartitionProduceResponse(w, m, version)
    else:
        w.unknown_tags("PartitionProduceResponse", m.unknown_tagged_fields)


def write_PartitionProduceResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.index)
    write_i16_be(out, m.error_code)
    write_i64_be(out, m.base_offset)
    if version >= 2:
        write_i64_be(out, m.log_append_time_ms)
    if version >= 5:
        write_i64_be(out, m.log_start_offset)
    if version >= 8:
        record_errors = m.record_errors
        w.array("record_errors", record_errors, False)
        for item in record_errors:
            write_BatchIndexAndErrorMessage(w, item, version)
        w.string("error_message", m.error_message, True)
    write_tags_of_PartitionProduceResponse(w, m, version)


def read_TopicProduceResponse(r: Reader, version: i64) -> Any:
    m: Any = _TopicProduceResponse()
    if version <= 12:
        m.name = r.string("name", False)
    else:
        m.name = ""
    if version >= 13:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partition_responses", False, 14)
    m.partition_responses = [read_PartitionProduceResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicProduceResponse(w: Writer, m: Any, version: i64) -> None:
    if version <= 12:
        w.string("name", m.name, False)
    if version >= 13:
        w.uuid(m.topic_id)
    partition_responses = m.partition_responses
    w.array("partition_responses", partition_responses, False)
    for item in partition_responses:
        write_PartitionProduceResponse(w, item, version)
    w.unknown_tags("TopicProduceResponse", m.unknown_tagged_fields)


def read_ProduceResponseNodeEndpoint(r: Reader, version: i64) -> Any:
    m: Any = _ProduceResponseNodeEndpoint()
    m.node_id = r.int32()
    m.host = r.string("host", False)
    m.port = r.int32()
    m.rack = r.string("rack", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ProduceResponseNodeEndpoint(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.node_id)
    w.string("host", m.host, False)
    write_i32_be(out, m.port)
    w.string("rack", m.rack, True)
    w.unknown_tags("ProduceResponseNodeEndpoint", m.unknown_tagged_fields)


def read_tags_of_ProduceResponse(r: Reader, m: Any, version: i64) -> None:
    m.node_endpoints = []
    m.unknown_tagged_fields = _NO_TAGS
    tags = r.tag_count()
    if not tags:
        return
    unknown: dict[int, bytes] = {}
    tag: i64 = -1
    for _ in range(tags):
        tag = r.next_tag(tag)
        end = r.tag_end
        if tag == 0 and version >= 10:
            count = r.count("node_endpoints", False, 11)
            m.node_endpoints = [read_ProduceResponseNodeEndpoint(r, version) for _ in range(count)]
            r.end_tag("ProduceResponse.node_endpoints", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_ProduceResponse(r: Reader, version: i64) -> Any:
    m: Any = _ProduceResponse()
    count = r.count("responses", False, 3)
    m.responses = [read_TopicProduceResponse(r, version) for _ in range(count)]
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    read_tags_of_ProduceResponse(r, m, version)
    return m


def _write_known_tags_of_ProduceResponse(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if version >= 10 and m.node_endpoints != []:
        w = outer.inner()
        node_endpoints = m.node_endpoints
        w.array("node_endpoints", node_endpoints, False)
        for item in node_endpoints:
            write_ProduceResponseNodeEndpoint(w, item, version)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_ProduceResponse(w: Writer, m: Any, version: i64) -> None:
    if version <= 9 and m.node_endpoints != []:
        w.refuse("ProduceResponse.node_endpoints")
    if w.flexible and (version >= 10 and m.node_endpoints != []):
        _write_known_tags_of_ProduceResponse(w, m, version)
    else:
        w.unknown_tags("ProduceResponse", m.unknown_tagged_fields)


def write_ProduceResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_TopicProduceResponse(w, item, version)
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    write_tags_of_ProduceResponse(w, m, version)
