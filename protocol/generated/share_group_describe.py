"""Of `apis/share_group_describe.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_Assignment: Final[Any] = made_by_readers(Assignment)
_DescribedGroup: Final[Any] = made_by_readers(DescribedGroup)
_Member: Final[Any] = made_by_readers(Member)
_ShareGroupDescribeRequest: Final[Any] = made_by_readers(ShareGroupDescribeRequest)
_ShareGroupDescribeResponse: Final[Any] = made_by_readers(ShareGroupDescribeResponse)
_TopicPartitions: Final[Any] = made_by_readers(TopicPartitions)


def read_ShareGroupDescribeRequest(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupDescribeRequest()
    m.group_ids = r.strings("group_ids", False)
    m.include_authorized_operations = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupDescribeRequest(w: Writer, m: Any, version: i64) -> None:
    w.strings("group_ids", m.group_ids, False)
    w.boolean(m.include_authorized_operations)
    w.unknown_tags("ShareGroupDescribeRequest", m.unknown_tagged_fields)


def read_TopicPartitions(r: Reader, version: i64) -> Any:
    m: Any = _TopicPartitions()
    m.topic_id = r.uuid()
    m.topic_name = r.string("topic_name", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicPartitions(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    w.string("topic_name", m.topic_name, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("TopicPartitions", m.unknown_tagged_fields)


def read_Assignment(r: Reader, version: i64) -> Any:
    m: Any = _Assignment()
    count = r.count("topic_partitions", False, 19)
    m.topic_partitions = [read_TopicPartitions(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_Assignment(w: Writer, m: Any, version: i64) -> None:
    topic_partitions = m.topic_partitions
    w.array("topic_partitions", topic_partitions, False)
    for item in topic_partitions:
        write_TopicPartitions(w, item, version)
    w.unknown_tags("Assignment", m.unknown_tagged_fields)


def read_Member(r: Reader, version: i64) -> Any:
    m: Any = _Member()
    m.member_id = r.string("member_id", False)
    m.rack_id = r.string("rack_id", True)
    m.member_epoch = r.int32()
    m.client_id = r.string("client_id", False)
    m.client_host = r.string("client_host", False)
    m.subscribed_topic_names = r.strings("subscribed_topic_names", False)
    m.assignment = read_Assignment(r, version)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_Member(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("member_id", m.member_id, False)
    w.string("rack_id", m.rack_id, True)
    write_i32_be(out, m.member_epoch)
    w.string("client_id", m.client_id, False)
    w.string("client_host", m.client_host, False)
    w.strings("subscribed_topic_names", m.subscribed_topic_names, False)
    if m.assignment is None:
        w.refuse_null("assignment")
    write_Assignment(w, m.assignment, version)
    w.unknown_tags("Member", m.unknown_tagged_fields)


def read_DescribedGroup(r: Reader, version: i64) -> Any:
    m: Any = _DescribedGroup()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.group_id = r.string("group_id", False)
    m.group_state = r.string("group_state", False)
    m.group_epoch = r.int32()
    m.assignment_epoch = r.int32()
    m.assignor_name = r.string("assignor_name", False)
    count = r.count("members", False, 12)
    m.members = [read_Member(r, version) for _ in range(count)]
    m.authorized_operations = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DescribedGroup(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.string("group_id", m.group_id, False)
    w.string("group_state", m.group_state, False)
    write_i32_be(out, m.group_epoch)
    write_i32_be(out, m.assignment_epoch)
    w.string("assignor_name", m.assignor_name, False)
    members = m.members
    w.array("members", members, False)
    for item in members:
        write_Member(w, item, version)
    write_i32_be(out, m.authorized_operations)
    w.unknown_tags("DescribedGroup", m.unknown_tagged_fields)


def read_ShareGroupDescribeResponse(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupDescribeResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("groups", False, 20)
    m.groups = [read_DescribedGroup(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupDescribeResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    groups = m.groups
    w.array("groups", groups, False)
    for item in groups:
        write_DescribedGroup(w, item, version)
    w.unknown_tags("ShareGroupDescribeResponse", m.unknown_tagged_fields)
