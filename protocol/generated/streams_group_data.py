"""Of `messages/streams_group_data.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.streams_group_data import (
    CopartitionGroup,
    CurrentTaskIds,
    Endpoint,
    KeyValue,
    LastAssignmentConfig,
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    Subtopology,
    TargetTaskIds,
    TopicConfig,
    TopicInfo,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import NO_TAGS, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_CopartitionGroup: Final[Any] = made_by_readers(CopartitionGroup)
_CurrentTaskIds: Final[Any] = made_by_readers(CurrentTaskIds)
_Endpoint: Final[Any] = made_by_readers(Endpoint)
_KeyValue: Final[Any] = made_by_readers(KeyValue)
_LastAssignmentConfig: Final[Any] = made_by_readers(LastAssignmentConfig)
_StreamsGroupCurrentMemberAssignmentKey: Final[Any] = made_by_readers(
    StreamsGroupCurrentMemberAssignmentKey
)
_StreamsGroupCurrentMemberAssignmentValue: Final[Any] = made_by_readers(
    StreamsGroupCurrentMemberAssignmentValue
)
_StreamsGroupMemberMetadataKey: Final[Any] = made_by_readers(StreamsGroupMemberMetadataKey)
_StreamsGroupMemberMetadataValue: Final[Any] = made_by_readers(StreamsGroupMemberMetadataValue)
_StreamsGroupMetadataKey: Final[Any] = made_by_readers(StreamsGroupMetadataKey)
_StreamsGroupMetadataValue: Final[Any] = made_by_readers(StreamsGroupMetadataValue)
_StreamsGroupTargetAssignmentMemberKey: Final[Any] = made_by_readers(
    StreamsGroupTargetAssignmentMemberKey
)
_StreamsGroupTargetAssignmentMemberValue: Final[Any] = made_by_readers(
    StreamsGroupTargetAssignmentMemberValue
)
_StreamsGroupTargetAssignmentMetadataKey: Final[Any] = made_by_readers(
    StreamsGroupTargetAssignmentMetadataKey
)
_StreamsGroupTargetAssignmentMetadataValue: Final[Any] = made_by_readers(
    StreamsGroupTargetAssignmentMetadataValue
)
_StreamsGroupTopologyKey: Final[Any] = made_by_readers(StreamsGroupTopologyKey)
_StreamsGroupTopologyValue: Final[Any] = made_by_readers(StreamsGroupTopologyValue)
_Subtopology: Final[Any] = made_by_readers(Subtopology)
_TargetTaskIds: Final[Any] = made_by_readers(TargetTaskIds)
_TopicConfig: Final[Any] = made_by_readers(TopicConfig)
_TopicInfo: Final[Any] = made_by_readers(TopicInfo)


def read_StreamsGroupMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupMetadataKey()
    m.group_id = r.string("group_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.unknown_tags("StreamsGroupMetadataKey", m.unknown_tagged_fields)


def read_LastAssignmentConfig(r: Reader, version: i64) -> Any:
    m: Any = _LastAssignmentConfig()
    m.key = r.string("key", False)
    m.value = r.string("value", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_LastAssignmentConfig(w: Writer, m: Any, version: i64) -> None:
    w.string("key", m.key, False)
    w.string("value", m.value, False)
    w.unknown_tags("LastAssignmentConfig", m.unknown_tagged_fields)


def read_tags_of_StreamsGroupMetadataValue(r: Reader, m: Any, version: i64) -> None:
    m.validated_topology_epoch = -1
    m.last_assignment_configs = []
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
            m.validated_topology_epoch = r.int32()
            r.end_tag("StreamsGroupMetadataValue.validated_topology_epoch", end)
        elif tag == 1:
            count = r.count("last_assignment_configs", True, 3)
            m.last_assignment_configs = (
                None if count < 0 else [read_LastAssignmentConfig(r, version) for _ in range(count)]
            )
            r.end_tag("StreamsGroupMetadataValue.last_assignment_configs", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_StreamsGroupMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupMetadataValue()
    m.epoch = r.int32()
    m.metadata_hash = r.int64()
    read_tags_of_StreamsGroupMetadataValue(r, m, version)
    return m


def _write_known_tags_of_StreamsGroupMetadataValue(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.validated_topology_epoch != -1:
        w = outer.inner()
        out = w.out
        write_i32_be(out, m.validated_topology_epoch)
        known.append((0, w))
    if m.last_assignment_configs != []:
        w = outer.inner()
        last_assignment_configs = m.last_assignment_configs
        w.array("last_assignment_configs", last_assignment_configs, True)
        for item in last_assignment_configs or ():
            write_LastAssignmentConfig(w, item, version)
        known.append((1, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_StreamsGroupMetadataValue(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (m.validated_topology_epoch != -1 or m.last_assignment_configs != []):
        _write_known_tags_of_StreamsGroupMetadataValue(w, m, version)
    else:
        w.unknown_tags("StreamsGroupMetadataValue", m.unknown_tagged_fields)


def write_StreamsGroupMetadataValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.epoch)
    write_i64_be(out, m.metadata_hash)
    write_tags_of_StreamsGroupMetadataValue(w, m, version)


def read_StreamsGroupMemberMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupMemberMetadataKey()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupMemberMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    w.unknown_tags("StreamsGroupMemberMetadataKey", m.unknown_tagged_fields)


def read_Endpoint(r: Reader, version: i64) -> Any:
    m: Any = _Endpoint()
    m.host = r.string("host", False)
    m.port = r.uint16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_Endpoint(w: Writer, m: Any, version: i64) -> None:
    w.string("host", m.host, False)
    w.uint16(m.port)
    w.unknown_tags("Endpoint", m.unknown_tagged_fields)


def read_KeyValue(r: Reader, version: i64) -> Any:
    m: Any = _KeyValue()
    m.key = r.string("key", False)
    m.value = r.string("value", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_KeyValue(w: Writer, m: Any, version: i64) -> None:
    w.string("key", m.key, False)
    w.string("value", m.value, False)
    w.unknown_tags("KeyValue", m.unknown_tagged_fields)


def read_StreamsGroupMemberMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupMemberMetadataValue()
    m.instance_id = r.string("instance_id", True)
    m.rack_id = r.string("rack_id", True)
    m.client_id = r.string("client_id", False)
    m.client_host = r.string("client_host", False)
    m.rebalance_timeout_ms = r.int32()
    m.topology_epoch = r.int32()
    m.process_id = r.string("process_id", False)
    m.user_endpoint = None if r.int8() < 0 else read_Endpoint(r, version)
    count = r.count("client_tags", False, 3)
    m.client_tags = [read_KeyValue(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupMemberMetadataValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("instance_id", m.instance_id, True)
    w.string("rack_id", m.rack_id, True)
    w.string("client_id", m.client_id, False)
    w.string("client_host", m.client_host, False)
    write_i32_be(out, m.rebalance_timeout_ms)
    write_i32_be(out, m.topology_epoch)
    w.string("process_id", m.process_id, False)
    if m.user_endpoint is None:
        w.int8(-1)
    else:
        w.int8(1)
        write_Endpoint(w, m.user_endpoint, version)
    client_tags = m.client_tags
    w.array("client_tags", client_tags, False)
    for item in client_tags:
        write_KeyValue(w, item, version)
    w.unknown_tags("StreamsGroupMemberMetadataValue", m.unknown_tagged_fields)


def read_StreamsGroupTargetAssignmentMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupTargetAssignmentMetadataKey()
    m.group_id = r.string("group_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupTargetAssignmentMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.unknown_tags("StreamsGroupTargetAssignmentMetadataKey", m.unknown_tagged_fields)


def read_tags_of_StreamsGroupTargetAssignmentMetadataValue(r: Reader, m: Any, version: i64) -> None:
    m.assignment_timestamp = 0
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
            m.assignment_timestamp = r.int64()
            r.end_tag("StreamsGroupTargetAssignmentMetadataValue.assignment_timestamp", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_StreamsGroupTargetAssignmentMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupTargetAssignmentMetadataValue()
    m.assignment_epoch = r.int32()
    read_tags_of_StreamsGroupTargetAssignmentMetadataValue(r, m, version)
    return m


def _write_known_tags_of_StreamsGroupTargetAssignmentMetadataValue(
    outer: Writer, m: Any, version: i64
) -> None:
    known: list[tuple[int, Writer]] = []
    if m.assignment_timestamp != 0:
        w = outer.inner()
        out = w.out
        write_i64_be(out, m.assignment_timestamp)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_StreamsGroupTargetAssignmentMetadataValue(
    w: Writer, m: Any, version: i64
) -> None:
    if w.flexible and (m.assignment_timestamp != 0):
        _write_known_tags_of_StreamsGroupTargetAssignmentMetadataValue(w, m, version)
    else:
        w.unknown_tags("StreamsGroupTargetAssignmentMetadataValue", m.unknown_tagged_fields)


def write_StreamsGroupTargetAssignmentMetadataValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.assignment_epoch)
    write_tags_of_StreamsGroupTargetAssignmentMetadataValue(w, m, version)


def read_StreamsGroupTargetAssignmentMemberKey(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupTargetAssignmentMemberKey()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupTargetAssignmentMemberKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    w.unknown_tags("StreamsGroupTargetAssignmentMemberKey", m.unknown_tagged_fields)


def read_TargetTaskIds(r: Reader, version: i64) -> Any:
    m: Any = _TargetTaskIds()
    m.subtopology_id = r.string("subtopology_id", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TargetTaskIds(w: Writer, m: Any, version: i64) -> None:
    w.string("subtopology_id", m.subtopology_id, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("TargetTaskIds", m.unknown_tagged_fields)


def read_StreamsGroupTargetAssignmentMemberValue(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupTargetAssignmentMemberValue()
    count = r.count("active_tasks", False, 3)
    m.active_tasks = [read_TargetTaskIds(r, version) for _ in range(count)]
    count = r.count("standby_tasks", False, 3)
    m.standby_tasks = [read_TargetTaskIds(r, version) for _ in range(count)]
    count = r.count("warmup_tasks", False, 3)
    m.warmup_tasks = [read_TargetTaskIds(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupTargetAssignmentMemberValue(w: Writer, m: Any, version: i64) -> None:
    active_tasks = m.active_tasks
    w.array("active_tasks", active_tasks, False)
    for item in active_tasks:
        write_TargetTaskIds(w, item, version)
    standby_tasks = m.standby_tasks
    w.array("standby_tasks", standby_tasks, False)
    for item in standby_tasks:
        write_TargetTaskIds(w, item, version)
    warmup_tasks = m.warmup_tasks
    w.array("warmup_tasks", warmup_tasks, False)
    for item in warmup_tasks:
        write_TargetTaskIds(w, item, version)
    w.unknown_tags("StreamsGroupTargetAssignmentMemberValue", m.unknown_tagged_fields)


def read_StreamsGroupCurrentMemberAssignmentKey(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupCurrentMemberAssignmentKey()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupCurrentMemberAssignmentKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    w.unknown_tags("StreamsGroupCurrentMemberAssignmentKey", m.unknown_tagged_fields)


def read_tags_of_CurrentTaskIds(r: Reader, m: Any, version: i64) -> None:
    m.assignment_epochs = []
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
            m.assignment_epochs = r.int32s("assignment_epochs", True)
            r.end_tag("CurrentTaskIds.assignment_epochs", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_CurrentTaskIds(r: Reader, version: i64) -> Any:
    m: Any = _CurrentTaskIds()
    m.subtopology_id = r.string("subtopology_id", False)
    m.partitions = r.int32s("partitions", False)
    read_tags_of_CurrentTaskIds(r, m, version)
    return m


def _write_known_tags_of_CurrentTaskIds(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.assignment_epochs != []:
        w = outer.inner()
        w.int32s("assignment_epochs", m.assignment_epochs, True)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_CurrentTaskIds(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (m.assignment_epochs != []):
        _write_known_tags_of_CurrentTaskIds(w, m, version)
    else:
        w.unknown_tags("CurrentTaskIds", m.unknown_tagged_fields)


def write_CurrentTaskIds(w: Writer, m: Any, version: i64) -> None:
    w.string("subtopology_id", m.subtopology_id, False)
    w.int32s("partitions", m.partitions, False)
    write_tags_of_CurrentTaskIds(w, m, version)


def read_StreamsGroupCurrentMemberAssignmentValue(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupCurrentMemberAssignmentValue()
    m.member_epoch = r.int32()
    m.previous_member_epoch = r.int32()
    m.state = r.int8()
    count = r.count("active_tasks", False, 3)
    m.active_tasks = [read_CurrentTaskIds(r, version) for _ in range(count)]
    count = r.count("standby_tasks", False, 3)
    m.standby_tasks = [read_CurrentTaskIds(r, version) for _ in range(count)]
    count = r.count("warmup_tasks", False, 3)
    m.warmup_tasks = [read_CurrentTaskIds(r, version) for _ in range(count)]
    count = r.count("active_tasks_pending_revocation", False, 3)
    m.active_tasks_pending_revocation = [read_CurrentTaskIds(r, version) for _ in range(count)]
    count = r.count("standby_tasks_pending_revocation", False, 3)
    m.standby_tasks_pending_revocation = [read_CurrentTaskIds(r, version) for _ in range(count)]
    count = r.count("warmup_tasks_pending_revocation", False, 3)
    m.warmup_tasks_pending_revocation = [read_CurrentTaskIds(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupCurrentMemberAssignmentValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.member_epoch)
    write_i32_be(out, m.previous_member_epoch)
    w.int8(m.state)
    active_tasks = m.active_tasks
    w.array("active_tasks", active_tasks, False)
    for item in active_tasks:
        write_CurrentTaskIds(w, item, version)
    standby_tasks = m.standby_tasks
    w.array("standby_tasks", standby_tasks, False)
    for item in standby_tasks:
        write_CurrentTaskIds(w, item, version)
    warmup_tasks = m.warmup_tasks
    w.array("warmup_tasks", warmup_tasks, False)
    for item in warmup_tasks:
        write_CurrentTaskIds(w, item, version)
    active_tasks_pending_revocation = m.active_tasks_pending_revocation
    w.array("active_tasks_pending_revocation", active_tasks_pending_revocation, False)
    for item in active_tasks_pending_revocation:
        write_CurrentTaskIds(w, item, version)
    standby_tasks_pending_revocation = m.standby_tasks_pending_revocation
    w.array("standby_tasks_pending_revocation", standby_tasks_pending_revocation, False)
    for item in standby_tasks_pending_revocation:
        write_CurrentTaskIds(w, item, version)
    warmup_tasks_pending_revocation = m.warmup_tasks_pending_revocation
    w.array("warmup_tasks_pending_revocation", warmup_tasks_pending_revocation, False)
    for item in warmup_tasks_pending_revocation:
        write_CurrentTaskIds(w, item, version)
    w.unknown_tags("StreamsGroupCurrentMemberAssignmentValue", m.unknown_tagged_fields)


def read_StreamsGroupTopologyKey(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupTopologyKey()
    m.group_id = r.string("group_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupTopologyKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.unknown_tags("StreamsGroupTopologyKey", m.unknown_tagged_fields)


def read_TopicConfig(r: Reader, version: i64) -> Any:
    m: Any = _TopicConfig()
    m.key = r.string("key", False)
    m.value = r.string("value", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicConfig(w: Writer, m: Any, version: i64) -> None:
    w.string("key", m.key, False)
    w.string("value", m.value, False)
    w.unknown_tags("TopicConfig", m.unknown_tagged_fields)


def read_TopicInfo(r: Reader, version: i64) -> Any:
    m: Any = _TopicInfo()
    m.name = r.string("name", False)
    m.partitions = r.int32()
    m.replication_factor = r.int16()
    count = r.count("topic_configs", False, 3)
    m.topic_configs = [read_TopicConfig(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicInfo(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    write_i32_be(out, m.partitions)
    write_i16_be(out, m.replication_factor)
    topic_configs = m.topic_configs
    w.array("topic_configs", topic_configs, False)
    for item in topic_configs:
        write_TopicConfig(w, item, version)
    w.unknown_tags("TopicInfo", m.unknown_tagged_fields)


def read_CopartitionGroup(r: Reader, version: i64) -> Any:
    m: Any = _CopartitionGroup()
    m.source_topics = r.int16s("source_topics", False)
    m.source_topic_regex = r.int16s("source_topic_regex", False)
    m.repartition_source_topics = r.int16s("repartition_source_topics", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CopartitionGroup(w: Writer, m: Any, version: i64) -> None:
    w.int16s("source_topics", m.source_topics, False)
    w.int16s("source_topic_regex", m.source_topic_regex, False)
    w.int16s("repartition_source_topics", m.repartition_source_topics, False)
    w.unknown_tags("CopartitionGroup", m.unknown_tagged_fields)


def read_Subtopology(r: Reader, version: i64) -> Any:
    m: Any = _Subtopology()
    m.subtopology_id = r.string("subtopology_id", False)
    m.source_topics = r.strings("source_topics", False)
    m.source_topic_regex = r.strings("source_topic_regex", False)
    count = r.count("state_changelog_topics", False, 9)
    m.state_changelog_topics = [read_TopicInfo(r, version) for _ in range(count)]
    m.repartition_sink_topics = r.strings("repartition_sink_topics", False)
    count = r.count("repartition_source_topics", False, 9)
    m.repartition_source_topics = [read_TopicInfo(r, version) for _ in range(count)]
    count = r.count("copartition_groups", False, 4)
    m.copartition_groups = [read_CopartitionGroup(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_Subtopology(w: Writer, m: Any, version: i64) -> None:
    w.string("subtopology_id", m.subtopology_id, False)
    w.strings("source_topics", m.source_topics, False)
    w.strings("source_topic_regex", m.source_topic_regex, False)
    state_changelog_topics = m.state_changelog_topics
    w.array("state_changelog_topics", state_changelog_topics, False)
    for item in state_changelog_topics:
        write_TopicInfo(w, item, version)
    w.strings("repartition_sink_topics", m.repartition_sink_topics, False)
    repartition_source_topics = m.repartition_source_topics
    w.array("repartition_source_topics", repartition_source_topics, False)
    for item in repartition_source_topics:
        write_TopicInfo(w, item, version)
    copartition_groups = m.copartition_groups
    w.array("copartition_groups", copartition_groups, False)
    for item in copartition_groups:
        write_CopartitionGroup(w, item, version)
    w.unknown_tags("Subtopology", m.unknown_tagged_fields)


def read_StreamsGroupTopologyValue(r: Reader, version: i64) -> Any:
    m: Any = _StreamsGroupTopologyValue()
    m.epoch = r.int32()
    count = r.count("subtopologies", False, 8)
    m.subtopologies = [read_Subtopology(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_StreamsGroupTopologyValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.epoch)
    subtopologies = m.subtopologies
    w.array("subtopologies", subtopologies, False)
    for item in subtopologies:
        write_Subtopology(w, item, version)
    w.unknown_tags("StreamsGroupTopologyValue", m.unknown_tagged_fields)
