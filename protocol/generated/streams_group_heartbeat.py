"""Of `apis/streams_group_heartbeat.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.streams_group_heartbeat import (
    EndpointToPartitions,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestCopartitionGroup,
    StreamsGroupHeartbeatRequestEndpoint,
    StreamsGroupHeartbeatRequestKeyValue,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatRequestTaskOffset,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponseEndpoint,
    StreamsGroupHeartbeatResponseStatus,
    StreamsGroupHeartbeatResponseTaskIds,
    StreamsGroupHeartbeatResponseTopicPartition,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_EndpointToPartitions: Final[Any] = made_by_readers(EndpointToPartitions)
_StreamsGroupHeartbeatRequest: Final[Any] = made_by_readers(StreamsGroupHeartbeatRequest)
_StreamsGroupHeartbeatRequestCopartitionGroup: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatRequestCopartitionGroup
)
_StreamsGroupHeartbeatRequestEndpoint: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatRequestEndpoint
)
_StreamsGroupHeartbeatRequestKeyValue: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatRequestKeyValue
)
_StreamsGroupHeartbeatRequestSubtopology: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatRequestSubtopology
)
_StreamsGroupHeartbeatRequestTaskIds: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatRequestTaskIds
)
_StreamsGroupHeartbeatRequestTaskOffset: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatRequestTaskOffset
)
_StreamsGroupHeartbeatRequestTopicInfo: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatRequestTopicInfo
)
_StreamsGroupHeartbeatRequestTopology: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatRequestTopology
)
_StreamsGroupHeartbeatResponse: Final[Any] = made_by_readers(StreamsGroupHeartbeatResponse)
_StreamsGroupHeartbeatResponseEndpoint: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatResponseEndpoint
)
_StreamsGroupHeartbeatResponseStatus: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatResponseStatus
)
_StreamsGroupHeartbeatResponseTaskIds: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatResponseTaskIds
)
_StreamsGroupHeartbeatResponseTopicPartition: Final[Any] = made_by_readers(
    StreamsGroupHeartbeatResponseTopicPartition
)


def read_StreamsGroupHeartbeatRequestKeyValue(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatRequestKeyValue()
    m.key = r.string("key", False)
    m.value = r.string("value", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatRequestKeyValue(w: Writer, m: Any, version: i64) -> None:
    w.string("key", m.key, False)
    w.string("value", m.value, False)
    w.unknown_tags("StreamsGroupHeartbeatRequestKeyValue", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatRequestTopicInfo(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatRequestTopicInfo()
    m.name = r.string("name", False)
    m.partitions = r.int32()
    m.replication_factor = r.int16()
    count = r.count("topic_configs", False, 3)
    m.topic_configs = [read_StreamsGroupHeartbeatRequestKeyValue(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatRequestTopicInfo(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    write_i32_be(out, m.partitions)
    write_i16_be(out, m.replication_factor)
    topic_configs = m.topic_configs
    w.array("topic_configs", topic_configs, False)
    for item in topic_configs:
        write_StreamsGroupHeartbeatRequestKeyValue(w, item, version)
    w.unknown_tags("StreamsGroupHeartbeatRequestTopicInfo", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatRequestCopartitionGroup(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatRequestCopartitionGroup()
    m.source_topics = r.int16s("source_topics", False)
    m.source_topic_regex = r.int16s("source_topic_regex", False)
    m.repartition_source_topics = r.int16s("repartition_source_topics", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatRequestCopartitionGroup(w: Writer, m: Any, version: i64) -> None:
    w.int16s("source_topics", m.source_topics, False)
    w.int16s("source_topic_regex", m.source_topic_regex, False)
    w.int16s("repartition_source_topics", m.repartition_source_topics, False)
    w.unknown_tags("StreamsGroupHeartbeatRequestCopartitionGroup", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatRequestSubtopology(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatRequestSubtopology()
    m.subtopology_id = r.string("subtopology_id", False)
    m.source_topics = r.strings("source_topics", False)
    m.source_topic_regex = r.strings("source_topic_regex", False)
    count = r.count("state_changelog_topics", False, 9)
    m.state_changelog_topics = [
        read_StreamsGroupHeartbeatRequestTopicInfo(r, version) for _ in range(count)
    ]
    m.repartition_sink_topics = r.strings("repartition_sink_topics", False)
    count = r.count("repartition_source_topics", False, 9)
    m.repartition_source_topics = [
        read_StreamsGroupHeartbeatRequestTopicInfo(r, version) for _ in range(count)
    ]
    count = r.count("copartition_groups", False, 4)
    m.copartition_groups = [
        read_StreamsGroupHeartbeatRequestCopartitionGroup(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatRequestSubtopology(w: Writer, m: Any, version: i64) -> None:
    w.string("subtopology_id", m.subtopology_id, False)
    w.strings("source_topics", m.source_topics, False)
    w.strings("source_topic_regex", m.source_topic_regex, False)
    state_changelog_topics = m.state_changelog_topics
    w.array("state_changelog_topics", state_changelog_topics, False)
    for item in state_changelog_topics:
        write_StreamsGroupHeartbeatRequestTopicInfo(w, item, version)
    w.strings("repartition_sink_topics", m.repartition_sink_topics, False)
    repartition_source_topics = m.repartition_source_topics
    w.array("repartition_source_topics", repartition_source_topics, False)
    for item in repartition_source_topics:
        write_StreamsGroupHeartbeatRequestTopicInfo(w, item, version)
    copartition_groups = m.copartition_groups
    w.array("copartition_groups", copartition_groups, False)
    for item in copartition_groups:
        write_StreamsGroupHeartbeatRequestCopartitionGroup(w, item, version)
    w.unknown_tags("StreamsGroupHeartbeatRequestSubtopology", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatRequestTopology(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatRequestTopology()
    m.epoch = r.int32()
    count = r.count("subtopologies", False, 8)
    m.subtopologies = [
        read_StreamsGroupHeartbeatRequestSubtopology(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatRequestTopology(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.epoch)
    subtopologies = m.subtopologies
    w.array("subtopologies", subtopologies, False)
    for item in subtopologies:
        write_StreamsGroupHeartbeatRequestSubtopology(w, item, version)
    w.unknown_tags("StreamsGroupHeartbeatRequestTopology", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatRequestTaskIds(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatRequestTaskIds()
    m.subtopology_id = r.string("subtopology_id", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatRequestTaskIds(w: Writer, m: Any, version: i64) -> None:
    w.string("subtopology_id", m.subtopology_id, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("StreamsGroupHeartbeatRequestTaskIds", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatRequestEndpoint(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatRequestEndpoint()
    m.host = r.string("host", False)
    m.port = r.uint16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatRequestEndpoint(w: Writer, m: Any, version: i64) -> None:
    w.string("host", m.host, False)
    w.uint16(m.port)
    w.unknown_tags("StreamsGroupHeartbeatRequestEndpoint", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatRequestTaskOffset(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatRequestTaskOffset()
    m.subtopology_id = r.string("subtopology_id", False)
    m.partition = r.int32()
    m.offset = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatRequestTaskOffset(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("subtopology_id", m.subtopology_id, False)
    write_i32_be(out, m.partition)
    write_i64_be(out, m.offset)
    w.unknown_tags("StreamsGroupHeartbeatRequestTaskOffset", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatRequest(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatRequest()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.member_epoch = r.int32()
    m.endpoint_information_epoch = r.int32()
    m.instance_id = r.string("instance_id", True)
    m.rack_id = r.string("rack_id", True)
    m.rebalance_timeout_ms = r.int32()
    m.topology = None if r.int8() < 0 else read_StreamsGroupHeartbeatRequestTopology(r, version)
    count = r.count("active_tasks", True, 3)
    m.active_tasks = (
        None
        if count < 0
        else [read_StreamsGroupHeartbeatRequestTaskIds(r, version) for _ in range(count)]
    )
    count = r.count("standby_tasks", True, 3)
    m.standby_tasks = (
        None
        if count < 0
        else [read_StreamsGroupHeartbeatRequestTaskIds(r, version) for _ in range(count)]
    )
    count = r.count("warmup_tasks", True, 3)
    m.warmup_tasks = (
        None
        if count < 0
        else [read_StreamsGroupHeartbeatRequestTaskIds(r, version) for _ in range(count)]
    )
    m.process_id = r.string("process_id", True)
    m.user_endpoint = (
        None if r.int8() < 0 else read_StreamsGroupHeartbeatRequestEndpoint(r, version)
    )
    count = r.count("client_tags", True, 3)
    m.client_tags = (
        None
        if count < 0
        else [read_StreamsGroupHeartbeatRequestKeyValue(r, version) for _ in range(count)]
    )
    count = r.count("task_offsets", True, 14)
    m.task_offsets = (
        None
        if count < 0
        else [read_StreamsGroupHeartbeatRequestTaskOffset(r, version) for _ in range(count)]
    )
    count = r.count("task_end_offsets", True, 14)
    m.task_end_offsets = (
        None
        if count < 0
        else [read_StreamsGroupHeartbeatRequestTaskOffset(r, version) for _ in range(count)]
    )
    m.shutdown_application = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    write_i32_be(out, m.member_epoch)
    write_i32_be(out, m.endpoint_information_epoch)
    w.string("instance_id", m.instance_id, True)
    w.string("rack_id", m.rack_id, True)
    write_i32_be(out, m.rebalance_timeout_ms)
    if m.topology is None:
        w.int8(-1)
    else:
        w.int8(1)
        write_StreamsGroupHeartbeatRequestTopology(w, m.topology, version)
    active_tasks = m.active_tasks
    w.array("active_tasks", active_tasks, True)
    for item in active_tasks or ():
        write_StreamsGroupHeartbeatRequestTaskIds(w, item, version)
    standby_tasks = m.standby_tasks
    w.array("standby_tasks", standby_tasks, True)
    for item in standby_tasks or ():
        write_StreamsGroupHeartbeatRequestTaskIds(w, item, version)
    warmup_tasks = m.warmup_tasks
    w.array("warmup_tasks", warmup_tasks, True)
    for item in warmup_tasks or ():
        write_StreamsGroupHeartbeatRequestTaskIds(w, item, version)
    w.string("process_id", m.process_id, True)
    if m.user_endpoint is None:
        w.int8(-1)
    else:
        w.int8(1)
        write_StreamsGroupHeartbeatRequestEndpoint(w, m.user_endpoint, version)
    client_tags = m.client_tags
    w.array("client_tags", client_tags, True)
    for item in client_tags or ():
        write_StreamsGroupHeartbeatRequestKeyValue(w, item, version)
    task_offsets = m.task_offsets
    w.array("task_offsets", task_offsets, True)
    for item in task_offsets or ():
        write_StreamsGroupHeartbeatRequestTaskOffset(w, item, version)
    task_end_offsets = m.task_end_offsets
    w.array("task_end_offsets", task_end_offsets, True)
    for item in task_end_offsets or ():
        write_StreamsGroupHeartbeatRequestTaskOffset(w, item, version)
    w.boolean(m.shutdown_application)
    w.unknown_tags("StreamsGroupHeartbeatRequest", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatResponseStatus(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatResponseStatus()
    m.status_code = r.int8()
    m.status_detail = r.string("status_detail", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatResponseStatus(w: Writer, m: Any, version: i64) -> None:
    w.int8(m.status_code)
    w.string("status_detail", m.status_detail, False)
    w.unknown_tags("StreamsGroupHeartbeatResponseStatus", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatResponseTaskIds(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatResponseTaskIds()
    m.subtopology_id = r.string("subtopology_id", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatResponseTaskIds(w: Writer, m: Any, version: i64) -> None:
    w.string("subtopology_id", m.subtopology_id, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("StreamsGroupHeartbeatResponseTaskIds", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatResponseEndpoint(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatResponseEndpoint()
    m.host = r.string("host", False)
    m.port = r.uint16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatResponseEndpoint(w: Writer, m: Any, version: i64) -> None:
    w.string("host", m.host, False)
    w.uint16(m.port)
    w.unknown_tags("StreamsGroupHeartbeatResponseEndpoint", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatResponseTopicPartition(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatResponseTopicPartition()
    m.topic = r.string("topic", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatResponseTopicPartition(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("StreamsGroupHeartbeatResponseTopicPartition", m.unknown_tagged_fields)


def read_EndpointToPartitions(r: Reader, version: i64) -> Any:
    m: Any = _EndpointToPartitions()
    m.user_endpoint = read_StreamsGroupHeartbeatResponseEndpoint(r, version)
    count = r.count("active_partitions", False, 3)
    m.active_partitions = [
        read_StreamsGroupHeartbeatResponseTopicPartition(r, version) for _ in range(count)
    ]
    count = r.count("standby_partitions", False, 3)
    m.standby_partitions = [
        read_StreamsGroupHeartbeatResponseTopicPartition(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_EndpointToPartitions(w: Writer, m: Any, version: i64) -> None:
    if m.user_endpoint is None:
        w.refuse_null("user_endpoint")
    write_StreamsGroupHeartbeatResponseEndpoint(w, m.user_endpoint, version)
    active_partitions = m.active_partitions
    w.array("active_partitions", active_partitions, False)
    for item in active_partitions:
        write_StreamsGroupHeartbeatResponseTopicPartition(w, item, version)
    standby_partitions = m.standby_partitions
    w.array("standby_partitions", standby_partitions, False)
    for item in standby_partitions:
        write_StreamsGroupHeartbeatResponseTopicPartition(w, item, version)
    w.unknown_tags("EndpointToPartitions", m.unknown_tagged_fields)


def read_StreamsGroupHeartbeatResponse(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupHeartbeatResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.member_id = r.string("member_id", False)
    m.member_epoch = r.int32()
    m.heartbeat_interval_ms = r.int32()
    m.acceptable_recovery_lag = r.int32()
    m.task_offset_interval_ms = r.int32()
    count = r.count("status", True, 3)
    m.status = (
        None
        if count < 0
        else [read_StreamsGroupHeartbeatResponseStatus(r, version) for _ in range(count)]
    )
    count = r.count("active_tasks", True, 3)
    m.active_tasks = (
        None
        if count < 0
        else [read_StreamsGroupHeartbeatResponseTaskIds(r, version) for _ in range(count)]
    )
    count = r.count("standby_tasks", True, 3)
    m.standby_tasks = (
        None
        if count < 0
        else [read_StreamsGroupHeartbeatResponseTaskIds(r, version) for _ in range(count)]
    )
    count = r.count("warmup_tasks", True, 3)
    m.warmup_tasks = (
        None
        if count < 0
        else [read_StreamsGroupHeartbeatResponseTaskIds(r, version) for _ in range(count)]
    )
    m.endpoint_information_epoch = r.int32()
    count = r.count("partitions_by_user_endpoint", True, 7)
    m.partitions_by_user_endpoint = (
        None if count < 0 else [read_EndpointToPartitions(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupHeartbeatResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.string("member_id", m.member_id, False)
    write_i32_be(out, m.member_epoch)
    write_i32_be(out, m.heartbeat_interval_ms)
    write_i32_be(out, m.acceptable_recovery_lag)
    write_i32_be(out, m.task_offset_interval_ms)
    status = m.status
    w.array("status", status, True)
    for item in status or ():
        write_StreamsGroupHeartbeatResponseStatus(w, item, version)
    active_tasks = m.active_tasks
    w.array("active_tasks", active_tasks, True)
    for item in active_tasks or ():
        write_StreamsGroupHeartbeatResponseTaskIds(w, item, version)
    standby_tasks = m.standby_tasks
    w.array("standby_tasks", standby_tasks, True)
    for item in standby_tasks or ():
        write_StreamsGroupHeartbeatResponseTaskIds(w, item, version)
    warmup_tasks = m.warmup_tasks
    w.array("warmup_tasks", warmup_tasks, True)
    for item in warmup_tasks or ():
        write_StreamsGroupHeartbeatResponseTaskIds(w, item, version)
    write_i32_be(out, m.endpoint_information_epoch)
    partitions_by_user_endpoint = m.partitions_by_user_endpoint
    w.array("partitions_by_user_endpoint", partitions_by_user_endpoint, True)
    for item in partitions_by_user_endpoint or ():
        write_EndpointToPartitions(w, item, version)
    w.unknown_tags("StreamsGroupHeartbeatResponse", m.unknown_tagged_fields)
