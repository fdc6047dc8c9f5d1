"""Of `messages/consumer_group_data.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.consumer_group_data import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartition,
)
from ..packed import write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import NO_TAGS, made_by_readers, shared_default
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_ClassicMemberMetadata: Final[Any] = made_by_readers(ClassicMemberMetadata)
_ClassicProtocol: Final[Any] = made_by_readers(ClassicProtocol)
_ConsumerGroupCurrentMemberAssignmentKey: Final[Any] = made_by_readers(
    ConsumerGroupCurrentMemberAssignmentKey
)
_ConsumerGroupCurrentMemberAssignmentValue: Final[Any] = made_by_readers(
    ConsumerGroupCurrentMemberAssignmentValue
)
_ConsumerGroupMemberMetadataKey: Final[Any] = made_by_readers(ConsumerGroupMemberMetadataKey)
_ConsumerGroupMemberMetadataValue: Final[Any] = made_by_readers(ConsumerGroupMemberMetadataValue)
_ConsumerGroupMetadataKey: Final[Any] = made_by_readers(ConsumerGroupMetadataKey)
_ConsumerGroupMetadataValue: Final[Any] = made_by_readers(ConsumerGroupMetadataValue)
_ConsumerGroupPartitionMetadataKey: Final[Any] = made_by_readers(ConsumerGroupPartitionMetadataKey)
_ConsumerGroupRegularExpressionKey: Final[Any] = made_by_readers(ConsumerGroupRegularExpressionKey)
_ConsumerGroupRegularExpressionValue: Final[Any] = made_by_readers(
    ConsumerGroupRegularExpressionValue
)
_ConsumerGroupTargetAssignmentMemberKey: Final[Any] = made_by_readers(
    ConsumerGroupTargetAssignmentMemberKey
)
_ConsumerGroupTargetAssignmentMemberValue: Final[Any] = made_by_readers(
    ConsumerGroupTargetAssignmentMemberValue
)
_ConsumerGroupTargetAssignmentMetadataKey: Final[Any] = made_by_readers(
    ConsumerGroupTargetAssignmentMetadataKey
)
_ConsumerGroupTargetAssignmentMetadataValue: Final[Any] = made_by_readers(
    ConsumerGroupTargetAssignmentMetadataValue
)
_CurrentTopicPartitions: Final[Any] = made_by_readers(CurrentTopicPartitions)
_TargetTopicPartition: Final[Any] = made_by_readers(TargetTopicPartition)
DEFAULT_ClassicMemberMetadata: Final[Any] = shared_default(ClassicMemberMetadata)


def read_ConsumerGroupMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupMetadataKey()
    m.group_id = r.string("group_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.unknown_tags("ConsumerGroupMetadataKey", m.unknown_tagged_fields)


def read_tags_of_ConsumerGroupMetadataValue(r: Reader, m: Any, version: i64) -> None:
    m.metadata_hash = 0
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
            m.metadata_hash = r.int64()
            r.end_tag("ConsumerGroupMetadataValue.metadata_hash", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_ConsumerGroupMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupMetadataValue()
    m.epoch = r.int32()
    read_tags_of_ConsumerGroupMetadataValue(r, m, version)
    return m


def _write_known_tags_of_ConsumerGroupMetadataValue(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.metadata_hash != 0:
        w = outer.inner()
        out = w.out
        write_i64_be(out, m.metadata_hash)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_ConsumerGroupMetadataValue(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (m.metadata_hash != 0):
        _write_known_tags_of_ConsumerGroupMetadataValue(w, m, version)
    else:
        w.unknown_tags("ConsumerGroupMetadataValue", m.unknown_tagged_fields)


def write_ConsumerGroupMetadataValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.epoch)
    write_tags_of_ConsumerGroupMetadataValue(w, m, version)


def read_ConsumerGroupPartitionMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupPartitionMetadataKey()
    m.group_id = r.string("group_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupPartitionMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.unknown_tags("ConsumerGroupPartitionMetadataKey", m.unknown_tagged_fields)


def read_ConsumerGroupMemberMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupMemberMetadataKey()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupMemberMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    w.unknown_tags("ConsumerGroupMemberMetadataKey", m.unknown_tagged_fields)


def read_ClassicProtocol(r: Reader, version: i64) -> Any:
    m: Any = _ClassicProtocol()
    m.name = r.string("name", False)
    m.metadata = r.binary("metadata", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ClassicProtocol(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.binary("metadata", m.metadata, False)
    w.unknown_tags("ClassicProtocol", m.unknown_tagged_fields)


def read_ClassicMemberMetadata(r: Reader, version: i64) -> Any:
    m: Any = _ClassicMemberMetadata()
    m.session_timeout_ms = r.int32()
    count = r.count("supported_protocols", False, 3)
    m.supported_protocols = [read_ClassicProtocol(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ClassicMemberMetadata(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.session_timeout_ms)
    supported_protocols = m.supported_protocols
    w.array("supported_protocols", supported_protocols, False)
    for item in supported_protocols:
        write_ClassicProtocol(w, item, version)
    w.unknown_tags("ClassicMemberMetadata", m.unknown_tagged_fields)


def read_tags_of_ConsumerGroupMemberMetadataValue(r: Reader, m: Any, version: i64) -> None:
    m.classic_member_metadata = DEFAULT_ClassicMemberMetadata
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
            m.classic_member_metadata = (
                None if r.int8() < 1 else read_ClassicMemberMetadata(r, version)
            )
            r.end_tag("ConsumerGroupMemberMetadataValue.classic_member_metadata", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_ConsumerGroupMemberMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupMemberMetadataValue()
    m.instance_id = r.string("instance_id", True)
    m.rack_id = r.string("rack_id", True)
    m.client_id = r.string("client_id", False)
    m.client_host = r.string("client_host", False)
    m.subscribed_topic_names = r.strings("subscribed_topic_names", False)
    m.subscribed_topic_regex = r.string("subscribed_topic_regex", True)
    m.rebalance_timeout_ms = r.int32()
    m.server_assignor = r.string("server_assignor", True)
    read_tags_of_ConsumerGroupMemberMetadataValue(r, m, version)
    return m


def _write_known_tags_of_ConsumerGroupMemberMetadataValue(
    outer: Writer, m: Any, version: i64
) -> None:
    known: list[tuple[int, Writer]] = []
    if (
        m.classic_member_metadata is not DEFAULT_ClassicMemberMetadata
        and m.classic_member_metadata != DEFAULT_ClassicMemberMetadata
    ):
        w = outer.inner()
        if m.classic_member_metadata is None:
            w.int8(0)
        else:
            w.int8(1)
            write_ClassicMemberMetadata(w, m.classic_member_metadata, version)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_ConsumerGroupMemberMetadataValue(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (
        m.classic_member_metadata is not DEFAULT_ClassicMemberMetadata
        and m.classic_member_metadata != DEFAULT_ClassicMemberMetadata
    ):
        _write_known_tags_of_ConsumerGroupMemberMetadataValue(w, m, version)
    else:
        w.unknown_tags("ConsumerGroupMemberMetadataValue", m.unknown_tagged_fields)


def write_ConsumerGroupMemberMetadataValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("instance_id", m.instance_id, True)
    w.string("rack_id", m.rack_id, True)
    w.string("client_id", m.client_id, False)
    w.string("client_host", m.client_host, False)
    w.strings("subscribed_topic_names", m.subscribed_topic_names, False)
    w.string("subscribed_topic_regex", m.subscribed_topic_regex, True)
    write_i32_be(out, m.rebalance_timeout_ms)
    w.string("server_assignor", m.server_assignor, True)
    write_tags_of_ConsumerGroupMemberMetadataValue(w, m, version)


def read_ConsumerGroupTargetAssignmentMetadataKey(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupTargetAssignmentMetadataKey()
    m.group_id = r.string("group_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupTargetAssignmentMetadataKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.unknown_tags("ConsumerGroupTargetAssignmentMetadataKey", m.unknown_tagged_fields)


def read_tags_of_ConsumerGroupTargetAssignmentMetadataValue(
    r: Reader, m: Any, version: i64
) -> None:
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
            r.end_tag("ConsumerGroupTargetAssignmentMetadataValue.assignment_timestamp", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_ConsumerGroupTargetAssignmentMetadataValue(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupTargetAssignmentMetadataValue()
    m.assignment_epoch = r.int32()
    read_tags_of_ConsumerGroupTargetAssignmentMetadataValue(r, m, version)
    return m


def _write_known_tags_of_ConsumerGroupTargetAssignmentMetadataValue(
    outer: Writer, m: Any, version: i64
) -> None:
    known: list[tuple[int, Writer]] = []
    if m.assignment_timestamp != 0:
        w = outer.inner()
        out = w.out
        write_i64_be(out, m.assignment_timestamp)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_ConsumerGroupTargetAssignmentMetadataValue(
    w: Writer, m: Any, version: i64
) -> None:
    if w.flexible and (m.assignment_timestamp != 0):
        _write_known_tags_of_ConsumerGroupTargetAssignmentMetadataValue(w, m, version)
    else:
        w.unknown_tags("ConsumerGroupTargetAssignmentMetadataValue", m.unknown_tagged_fields)


def write_ConsumerGroupTargetAssignmentMetadataValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.assignment_epoch)
    write_tags_of_ConsumerGroupTargetAssignmentMetadataValue(w, m, version)


def read_ConsumerGroupTargetAssignmentMemberKey(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupTargetAssignmentMemberKey()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupTargetAssignmentMemberKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    w.unknown_tags("ConsumerGroupTargetAssignmentMemberKey", m.unknown_tagged_fields)


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


def read_ConsumerGroupTargetAssignmentMemberValue(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupTargetAssignmentMemberValue()
    count = r.count("topic_partitions", False, 18)
    m.topic_partitions = [read_TargetTopicPartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupTargetAssignmentMemberValue(w: Writer, m: Any, version: i64) -> None:
    topic_partitions = m.topic_partitions
    w.array("topic_partitions", topic_partitions, False)
    for item in topic_partitions:
        write_TargetTopicPartition(w, item, version)
    w.unknown_tags("ConsumerGroupTargetAssignmentMemberValue", m.unknown_tagged_fields)


def read_ConsumerGroupCurrentMemberAssignmentKey(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupCurrentMemberAssignmentKey()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupCurrentMemberAssignmentKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    w.unknown_tags("ConsumerGroupCurrentMemberAssignmentKey", m.unknown_tagged_fields)


def read_tags_of_CurrentTopicPartitions(r: Reader, m: Any, version: i64) -> None:
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
            r.end_tag("CurrentTopicPartitions.assignment_epochs", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_CurrentTopicPartitions(r: Reader, version: i64) -> Any:
    m: Any = _CurrentTopicPartitions()
    m.topic_id = r.uuid()
    m.partitions = r.int32s("partitions", False)
    read_tags_of_CurrentTopicPartitions(r, m, version)
    return m


def _write_known_tags_of_CurrentTopicPartitions(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.assignment_epochs != []:
        w = outer.inner()
        w.int32s("assignment_epochs", m.assignment_epochs, True)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_CurrentTopicPartitions(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (m.assignment_epochs != []):
        _write_known_tags_of_CurrentTopicPartitions(w, m, version)
    else:
        w.unknown_tags("CurrentTopicPartitions", m.unknown_tagged_fields)


def write_CurrentTopicPartitions(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    w.int32s("partitions", m.partitions, False)
    write_tags_of_CurrentTopicPartitions(w, m, version)


def read_ConsumerGroupCurrentMemberAssignmentValue(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupCurrentMemberAssignmentValue()
    m.member_epoch = r.int32()
    m.previous_member_epoch = r.int32()
    m.state = r.int8()
    count = r.count("assigned_partitions", False, 18)
    m.assigned_partitions = [read_CurrentTopicPartitions(r, version) for _ in range(count)]
    count = r.count("partitions_pending_revocation", False, 18)
    m.partitions_pending_revocation = [
        read_CurrentTopicPartitions(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupCurrentMemberAssignmentValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.member_epoch)
    write_i32_be(out, m.previous_member_epoch)
    w.int8(m.state)
    assigned_partitions = m.assigned_partitions
    w.array("assigned_partitions", assigned_partitions, False)
    for item in assigned_partitions:
        write_CurrentTopicPartitions(w, item, version)
    partitions_pending_revocation = m.partitions_pending_revocation
    w.array("partitions_pending_revocation", partitions_pending_revocation, False)
    for item in partitions_pending_revocation:
        write_CurrentTopicPartitions(w, item, version)
    w.unknown_tags("ConsumerGroupCurrentMemberAssignmentValue", m.unknown_tagged_fields)


def read_ConsumerGroupRegularExpressionKey(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupRegularExpressionKey()
    m.group_id = r.string("group_id", False)
    m.regular_expression = r.string("regular_expression", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupRegularExpressionKey(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    w.string("regular_expression", m.regular_expression, False)
    w.unknown_tags("ConsumerGroupRegularExpressionKey", m.unknown_tagged_fields)


def read_ConsumerGroupRegularExpressionValue(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupRegularExpressionValue()
    m.topics = r.strings("topics", False)
    m.version = r.int64()
    m.timestamp = r.int64()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupRegularExpressionValue(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.strings("topics", m.topics, False)
    write_i64_be(out, m.version)
    write_i64_be(out, m.timestamp)
    w.unknown_tags("ConsumerGroupRegularExpressionValue", m.unknown_tagged_fields)
