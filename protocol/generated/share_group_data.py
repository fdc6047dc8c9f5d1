"""Of `messages/share_group_data.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.share_group_data import (
    CurrentTopicPartitions,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMemberValue,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMetadataValue,
    TargetTopicPartition,
    TopicInfo,
    TopicPartitionsInfo,
)
from ..packed import write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import NO_TAGS, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_CurrentTopicPartitions: Final[Any] = made_by_readers(CurrentTopicPartitions)
_ShareGroupCurrentMemberAssignmentKey: Final[Any] = made_by_readers(
    ShareGroupCurrentMemberAssignmentKey
)
_ShareGroupCurrentMemberAssignmentValue: Final[Any] = made_by_readers(
    ShareGroupCurrentMemberAssignmentValue
)
_ShareGroupMemberMetadataKey: Final[Any] = made_by_readers(ShareGroupMemberMetadataKey)
_ShareGroupMemberMetadataValue: Final[Any] = made_by_readers(ShareGroupMemberMetadataValue)
_ShareGroupMetadataKey: Final[Any] = made_by_readers(ShareGroupMetadataKey)
_ShareGroupMetadataValue: Final[Any] = made_by_readers(ShareGroupMetadataValue)
_ShareGroupStatePartitionMetadataKey: Final[Any] = made_by_readers(
    ShareGroupStatePartitionMetadataKey
)
_ShareGroupStatePartitionMetadataValue: Final[Any] = made_by_readers(
    ShareGroupStatePartitionMetadataValue
)
_ShareGroupTargetAssignmentMemberKey: Final[Any] = made_by_readers(
    ShareGroupTargetAssignmentMemberKey
)
_ShareGroupTargetAssignmentMemberValue: Final[Any] = made_by_readers(
    ShareGroupTargetAssignmentMemberValue
)
_ShareGroupTargetAssignmentMetadataKey: Final[Any] = made_by_readers(
    ShareGroupTargetAssignmentMetadataKey
)
_ShareGroupTargetAssignmentMetadataValue: Final[Any] = made_by_readers(
    ShareGroupTargetAssignmentMetadataValue
)
_TargetTopicPartition: Final[Any] = made_by_readers(TargetTopicPartition)
_TopicInfo: Final[Any] = made_by_readers(TopicInfo)
_TopicPartitionsInfo: Final[Any] = made_by_readers(TopicPartitionsInfo)


def read_ShareGroupMemberMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupMemberMetadataKey()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupMemberMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    w.unknown_tags("ShareGroupMemberMetadataKey", m.unknown_tagged_fields)


def read_ShareGroupMemberMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupMemberMetadataValue()
    m.rack_id = r.string("rack_id", True)
    m.client_id = r.string("client_id", False)
    m.client_host = r.string("client_host", False)
    m.subscribed_topic_names = r.strings("subscribed_topic_names", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupMemberMetadataValue(w: Writer, m: Any, version: i64) -> None:
    w.string("rack_id", m.rack_id, True)
    w.string("client_id", m.client_id, False)
    w.string("client_host", m.client_host, False)
    w.strings("subscribed_topic_names", m.subscribed_topic_names, False)
    w.unknown_tags("ShareGroupMemberMetadataValue", m.unknown_tagged_fields)


def read_ShareGroupMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupMetadataKey()
    m.group_id = r.string("group_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.unknown_tags("ShareGroupMetadataKey", m.unknown_tagged_fields)


def read_ShareGroupMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupMetadataValue()
    m.epoch = r.int32()
    m.metadata_hash = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupMetadataValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.epoch)
    write_i64_be(out, m.metadata_hash)
    w.unknown_tags("ShareGroupMetadataValue", m.unknown_tagged_fields)


def read_ShareGroupTargetAssignmentMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupTargetAssignmentMetadataKey()
    m.group_id = r.string("group_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupTargetAssignmentMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.unknown_tags("ShareGroupTargetAssignmentMetadataKey", m.unknown_tagged_fields)


def read_tags_of_ShareGroupTargetAssignmentMetadataValue(r: Reader, m: Any, version: i64) -> None:
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
            r.end_tag("ShareGroupTargetAssignmentMetadataValue.assignment_timestamp", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_ShareGroupTargetAssignmentMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupTargetAssignmentMetadataValue()
    m.assignment_epoch = r.int32()
    read_tags_of_ShareGroupTargetAssignmentMetadataValue(r, m, version)
    return m


def _write_known_tags_of_ShareGroupTargetAssignmentMetadataValue(
    outer: Writer, m: Any, version: i64
) -> None:
    known: list[tuple[int, Writer]] = []
    if m.assignment_timestamp != 0:
        w = outer.inner()
        out = w.out
        write_i64_be(out, m.assignment_timestamp)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_ShareGroupTargetAssignmentMetadataValue(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (m.assignment_timestamp != 0):
        _write_known_tags_of_ShareGroupTargetAssignmentMetadataValue(w, m, version)
    else:
        w.unknown_tags("ShareGroupTargetAssignmentMetadataValue", m.unknown_tagged_fields)


def write_ShareGroupTargetAssignmentMetadataValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.assignment_epoch)
    write_tags_of_ShareGroupTargetAssignmentMetadataValue(w, m, version)


def read_ShareGroupTargetAssignmentMemberKey(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupTargetAssignmentMemberKey()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupTargetAssignmentMemberKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    w.unknown_tags("ShareGroupTargetAssignmentMemberKey", m.unknown_tagged_fields)


def read_TargetTopicPartition(r: Reader, version: i64) -> Any:
    m: Any = _TargetTopicPartition()
    m.topic_id = r.uuid()
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TargetTopicPartition(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("TargetTopicPartition", m.unknown_tagged_fields)


def read_ShareGroupTargetAssignmentMemberValue(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupTargetAssignmentMemberValue()
    count = r.count("topic_partitions", False, 18)
    m.topic_partitions = [read_TargetTopicPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupTargetAssignmentMemberValue(w: Writer, m: Any, version: i64) -> None:
    topic_partitions = m.topic_partitions
    w.array("topic_partitions", topic_partitions, False)
    for item in topic_partitions:
        write_TargetTopicPartition(w, item, version)
    w.unknown_tags("ShareGroupTargetAssignmentMemberValue", m.unknown_tagged_fields)


def read_ShareGroupCurrentMemberAssignmentKey(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupCurrentMemberAssignmentKey()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupCurrentMemberAssignmentKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    w.unknown_tags("ShareGroupCurrentMemberAssignmentKey", m.unknown_tagged_fields)


def read_CurrentTopicPartitions(r: Reader, version: i64) -> Any:
    m: Any = _CurrentTopicPartitions()
    m.topic_id = r.uuid()
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CurrentTopicPartitions(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("CurrentTopicPartitions", m.unknown_tagged_fields)


def read_ShareGroupCurrentMemberAssignmentValue(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupCurrentMemberAssignmentValue()
    m.member_epoch = r.int32()
    m.previous_member_epoch = r.int32()
    m.state = r.int8()
    count = r.count("assigned_partitions", False, 18)
    m.assigned_partitions = [read_CurrentTopicPartitions(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupCurrentMemberAssignmentValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.member_epoch)
    write_i32_be(out, m.previous_member_epoch)
    w.int8(m.state)
    assigned_partitions = m.assigned_partitions
    w.array("assigned_partitions", assigned_partitions, False)
    for item in assigned_partitions:
        write_CurrentTopicPartitions(w, item, version)
    w.unknown_tags("ShareGroupCurrentMemberAssignmentValue", m.unknown_tagged_fields)


def read_ShareGroupStatePartitionMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupStatePartitionMetadataKey()
    m.group_id = r.string("group_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupStatePartitionMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.unknown_tags("ShareGroupStatePartitionMetadataKey", m.unknown_tagged_fields)


def read_TopicPartitionsInfo(r: Reader, version: i64) -> Any:
    m: Any = _TopicPartitionsInfo()
    m.topic_id = r.uuid()
    m.topic_name = r.string("topic_name", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicPartitionsInfo(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    w.string("topic_name", m.topic_name, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("TopicPartitionsInfo", m.unknown_tagged_fields)


def read_TopicInfo(r: Reader, version: i64) -> Any:
    m: Any = _TopicInfo()
    m.topic_id = r.uuid()
    m.topic_name = r.string("topic_name", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicInfo(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    w.string("topic_name", m.topic_name, False)
    w.unknown_tags("TopicInfo", m.unknown_tagged_fields)


def read_ShareGroupStatePartitionMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupStatePartitionMetadataValue()
    count = r.count("initializing_topics", False, 19)
    m.initializing_topics = [read_TopicPartitionsInfo(r, version) for _ in range(count)]
    count = r.count("initialized_topics", False, 19)
    m.initialized_topics = [read_TopicPartitionsInfo(r, version) for _ in range(count)]
    count = r.count("deleting_topics", False, 18)
    m.deleting_topics = [read_TopicInfo(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupStatePartitionMetadataValue(w: Writer, m: Any, version: i64) -> None:
    initializing_topics = m.initializing_topics
    w.array("initializing_topics", initializing_topics, False)
    for item in initializing_topics:
        write_TopicPartitionsInfo(w, item, version)
    initialized_topics = m.initialized_topics
    w.array("initialized_topics", initialized_topics, False)
    for item in initialized_topics:
        write_TopicPartitionsInfo(w, item, version)
    deleting_topics = m.deleting_topics
    w.array("deleting_topics", deleting_topics, False)
    for item in deleting_topics:
        write_TopicInfo(w, item, version)
    w.unknown_tags("ShareGroupStatePartitionMetadataValue", m.unknown_tagged_fields)
