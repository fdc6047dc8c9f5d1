"""Of `apis/streams_group_describe.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeResponseAssignment,
    StreamsGroupDescribeResponseDescribedGroup,
    StreamsGroupDescribeResponseEndpoint,
    StreamsGroupDescribeResponseKeyValue,
    StreamsGroupDescribeResponseMember,
    StreamsGroupDescribeResponseSubtopology,
    StreamsGroupDescribeResponseTaskIds,
    StreamsGroupDescribeResponseTaskOffset,
    StreamsGroupDescribeResponseTopicInfo,
    StreamsGroupDescribeResponseTopology,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_StreamsGroupDescribeRequest: Final[Any] = made_by_readers(StreamsGroupDescribeRequest)
_StreamsGroupDescribeResponse: Final[Any] = made_by_readers(StreamsGroupDescribeResponse)
_StreamsGroupDescribeResponseAssignment: Final[Any] = made_by_readers(
    StreamsGroupDescribeResponseAssignment
)
_StreamsGroupDescribeResponseDescribedGroup: Final[Any] = made_by_readers(
    StreamsGroupDescribeResponseDescribedGroup
)
_StreamsGroupDescribeResponseEndpoint: Final[Any] = made_by_readers(
    StreamsGroupDescribeResponseEndpoint
)
_StreamsGroupDescribeResponseKeyValue: Final[Any] = made_by_readers(
    StreamsGroupDescribeResponseKeyValue
)
_StreamsGroupDescribeResponseMember: Final[Any] = made_by_readers(
    StreamsGroupDescribeResponseMember
)
_StreamsGroupDescribeResponseSubtopology: Final[Any] = made_by_readers(
    StreamsGroupDescribeResponseSubtopology
)
_StreamsGroupDescribeResponseTaskIds: Final[Any] = made_by_readers(
    StreamsGroupDescribeResponseTaskIds
)
_StreamsGroupDescribeResponseTaskOffset: Final[Any] = made_by_readers(
    StreamsGroupDescribeResponseTaskOffset
)
_StreamsGroupDescribeResponseTopicInfo: Final[Any] = made_by_readers(
    StreamsGroupDescribeResponseTopicInfo
)
_StreamsGroupDescribeResponseTopology: Final[Any] = made_by_readers(
    StreamsGroupDescribeResponseTopology
)


def read_StreamsGroupDescribeRequest(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeRequest()
    m.group_ids = r.strings("group_ids", False)
    m.include_authorized_operations = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeRequest(w: Writer, m: Any, version: i64) -> None:
    w.strings("group_ids", m.group_ids, False)
    w.boolean(m.include_authorized_operations)
    w.unknown_tags("StreamsGroupDescribeRequest", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponseKeyValue(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponseKeyValue()
    m.key = r.string("key", False)
    m.value = r.string("value", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponseKeyValue(w: Writer, m: Any, version: i64) -> None:
    w.string("key", m.key, False)
    w.string("value", m.value, False)
    w.unknown_tags("StreamsGroupDescribeResponseKeyValue", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponseTopicInfo(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponseTopicInfo()
    m.name = r.string("name", False)
    m.partitions = r.int32()
    m.replication_factor = r.int16()
    count = r.count("topic_configs", False, 3)
    m.topic_configs = [read_StreamsGroupDescribeResponseKeyValue(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponseTopicInfo(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    write_i32_be(out, m.partitions)
    write_i16_be(out, m.replication_factor)
    topic_configs = m.topic_configs
    w.array("topic_configs", topic_configs, False)
    for item in topic_configs:
        write_StreamsGroupDescribeResponseKeyValue(w, item, version)
    w.unknown_tags("StreamsGroupDescribeResponseTopicInfo", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponseSubtopology(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponseSubtopology()
    m.subtopology_id = r.string("subtopology_id", False)
    m.source_topics = r.strings("source_topics", False)
    m.repartition_sink_topics = r.strings("repartition_sink_topics", False)
    count = r.count("state_changelog_topics", False, 9)
    m.state_changelog_topics = [
        read_StreamsGroupDescribeResponseTopicInfo(r, version) for _ in range(count)
    ]
    count = r.count("repartition_source_topics", False, 9)
    m.repartition_source_topics = [
        read_StreamsGroupDescribeResponseTopicInfo(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponseSubtopology(w: Writer, m: Any, version: i64) -> None:
    w.string("subtopology_id", m.subtopology_id, False)
    w.strings("source_topics", m.source_topics, False)
    w.strings("repartition_sink_topics", m.repartition_sink_topics, False)
    state_changelog_topics = m.state_changelog_topics
    w.array("state_changelog_topics", state_changelog_topics, False)
    for item in state_changelog_topics:
        write_StreamsGroupDescribeResponseTopicInfo(w, item, version)
    repartition_source_topics = m.repartition_source_topics
    w.array("repartition_source_topics", repartition_source_topics, False)
    for item in repartition_source_topics:
        write_StreamsGroupDescribeResponseTopicInfo(w, item, version)
    w.unknown_tags("StreamsGroupDescribeResponseSubtopology", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponseTopology(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponseTopology()
    m.epoch = r.int32()
    count = r.count("subtopologies", True, 6)
    m.subtopologies = (
        None
        if count < 0
        else [read_StreamsGroupDescribeResponseSubtopology(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponseTopology(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.epoch)
    subtopologies = m.subtopologies
    w.array("subtopologies", subtopologies, True)
    for item in subtopologies or ():
        write_StreamsGroupDescribeResponseSubtopology(w, item, version)
    w.unknown_tags("StreamsGroupDescribeResponseTopology", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponseEndpoint(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponseEndpoint()
    m.host = r.string("host", False)
    m.port = r.uint16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponseEndpoint(w: Writer, m: Any, version: i64) -> None:
    w.string("host", m.host, False)
    w.uint16(m.port)
    w.unknown_tags("StreamsGroupDescribeResponseEndpoint", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponseTaskOffset(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponseTaskOffset()
    m.subtopology_id = r.string("subtopology_id", False)
    m.partition = r.int32()
    m.offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponseTaskOffset(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("subtopology_id", m.subtopology_id, False)
    write_i32_be(out, m.partition)
    write_i64_be(out, m.offset)
    w.unknown_tags("StreamsGroupDescribeResponseTaskOffset", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponseTaskIds(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponseTaskIds()
    m.subtopology_id = r.string("subtopology_id", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponseTaskIds(w: Writer, m: Any, version: i64) -> None:
    w.string("subtopology_id", m.subtopology_id, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("StreamsGroupDescribeResponseTaskIds", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponseAssignment(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponseAssignment()
    count = r.count("active_tasks", False, 3)
    m.active_tasks = [read_StreamsGroupDescribeResponseTaskIds(r, version) for _ in range(count)]
    count = r.count("standby_tasks", False, 3)
    m.standby_tasks = [read_StreamsGroupDescribeResponseTaskIds(r, version) for _ in range(count)]
    count = r.count("warmup_tasks", False, 3)
    m.warmup_tasks = [read_StreamsGroupDescribeResponseTaskIds(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponseAssignment(w: Writer, m: Any, version: i64) -> None:
    active_tasks = m.active_tasks
    w.array("active_tasks", active_tasks, False)
    for item in active_tasks:
        write_StreamsGroupDescribeResponseTaskIds(w, item, version)
    standby_tasks = m.standby_tasks
    w.array("standby_tasks", standby_tasks, False)
    for item in standby_tasks:
        write_StreamsGroupDescribeResponseTaskIds(w, item, version)
    warmup_tasks = m.warmup_tasks
    w.array("warmup_tasks", warmup_tasks, False)
    for item in warmup_tasks:
        write_StreamsGroupDescribeResponseTaskIds(w, item, version)
    w.unknown_tags("StreamsGroupDescribeResponseAssignment", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponseMember(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponseMember()
    m.member_id = r.string("member_id", False)
    m.member_epoch = r.int32()
    m.instance_id = r.string("instance_id", True)
    m.rack_id = r.string("rack_id", True)
    m.client_id = r.string("client_id", False)
    m.client_host = r.string("client_host", False)
    m.topology_epoch = r.int32()
    m.process_id = r.string("process_id", False)
    m.user_endpoint = (
        None if r.int8() < 0 else read_StreamsGroupDescribeResponseEndpoint(r, version)
    )
    count = r.count("client_tags", False, 3)
    m.client_tags = [read_StreamsGroupDescribeResponseKeyValue(r, version) for _ in range(count)]
    count = r.count("task_offsets", False, 14)
    m.task_offsets = [read_StreamsGroupDescribeResponseTaskOffset(r, version) for _ in range(count)]
    count = r.count("task_end_offsets", False, 14)
    m.task_end_offsets = [
        read_StreamsGroupDescribeResponseTaskOffset(r, version) for _ in range(count)
    ]
    m.assignment = read_StreamsGroupDescribeResponseAssignment(r, version)
    m.target_assignment = read_StreamsGroupDescribeResponseAssignment(r, version)
    m.is_classic = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponseMember(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("member_id", m.member_id, False)
    write_i32_be(out, m.member_epoch)
    w.string("instance_id", m.instance_id, True)
    w.string("rack_id", m.rack_id, True)
    w.string("client_id", m.client_id, False)
    w.string("client_host", m.client_host, False)
    write_i32_be(out, m.topology_epoch)
    w.string("process_id", m.process_id, False)
    if m.user_endpoint is None:
        w.int8(-1)
    else:
        w.int8(1)
        write_StreamsGroupDescribeResponseEndpoint(w, m.user_endpoint, version)
    client_tags = m.client_tags
    w.array("client_tags", client_tags, False)
    for item in client_tags:
        write_StreamsGroupDescribeResponseKeyValue(w, item, version)
    task_offsets = m.task_offsets
    w.array("task_offsets", task_offsets, False)
    for item in task_offsets:
        write_StreamsGroupDescribeResponseTaskOffset(w, item, version)
    task_end_offsets = m.task_end_offsets
    w.array("task_end_offsets", task_end_offsets, False)
    for item in task_end_offsets:
        write_StreamsGroupDescribeResponseTaskOffset(w, item, version)
    if m.assignment is None:
        w.refuse_null("assignment")
    write_StreamsGroupDescribeResponseAssignment(w, m.assignment, version)
    if m.target_assignment is None:
        w.refuse_null("target_assignment")
    write_StreamsGroupDescribeResponseAssignment(w, m.target_assignment, version)
    w.boolean(m.is_classic)
    w.unknown_tags("StreamsGroupDescribeResponseMember", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponseDescribedGroup(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponseDescribedGroup()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.group_id = r.string("group_id", False)
    m.group_state = r.string("group_state", False)
    m.group_epoch = r.int32()
    m.assignment_epoch = r.int32()
    m.topology = None if r.int8() < 0 else read_StreamsGroupDescribeResponseTopology(r, version)
    count = r.count("members", False, 28)
    m.members = [read_StreamsGroupDescribeResponseMember(r, version) for _ in range(count)]
    m.authorized_operations = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponseDescribedGroup(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.string("group_id", m.group_id, False)
    w.string("group_state", m.group_state, False)
    write_i32_be(out, m.group_epoch)
    write_i32_be(out, m.assignment_epoch)
    if m.topology is None:
        w.int8(-1)
    else:
        w.int8(1)
        write_StreamsGroupDescribeResponseTopology(w, m.topology, version)
    members = m.members
    w.array("members", members, False)
    for item in members:
        write_StreamsGroupDescribeResponseMember(w, item, version)
    write_i32_be(out, m.authorized_operations)
    w.unknown_tags("StreamsGroupDescribeResponseDescribedGroup", m.unknown_tagged_fields)


def read_StreamsGroupDescribeResponse(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupDescribeResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("groups", False, 20)
    m.groups = [read_StreamsGroupDescribeResponseDescribedGroup(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupDescribeResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    groups = m.groups
    w.array("groups", groups, False)
    for item in groups:
        write_StreamsGroupDescribeResponseDescribedGroup(w, item, version)
    w.unknown_tags("StreamsGroupDescribeResponse", m.unknown_tagged_fields)
