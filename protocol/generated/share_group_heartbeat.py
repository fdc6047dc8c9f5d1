"""Of `apis/share_group_heartbeat.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_Assignment: Final[Any] = made_by_readers(Assignment)
_ShareGroupHeartbeatRequest: Final[Any] = made_by_readers(ShareGroupHeartbeatRequest)
_ShareGroupHeartbeatResponse: Final[Any] = made_by_readers(ShareGroupHeartbeatResponse)
_TopicPartitions: Final[Any] = made_by_readers(TopicPartitions)


def read_ShareGroupHeartbeatRequest(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupHeartbeatRequest()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.member_epoch = r.int32()
    m.rack_id = r.string("rack_id", True)
    m.subscribed_topic_names = r.strings("subscribed_topic_names", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupHeartbeatRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    write_i32_be(out, m.member_epoch)
    w.string("rack_id", m.rack_id, True)
    w.strings("subscribed_topic_names", m.subscribed_topic_names, True)
    w.unknown_tags("ShareGroupHeartbeatRequest", m.unknown_tagged_fields)


def read_TopicPartitions(r: Reader, version: i64) -> Any:
    m: Any = _TopicPartitions()
    m.topic_id = r.uuid()
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_TopicPartitions(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("TopicPartitions", m.unknown_tagged_fields)


def read_Assignment(r: Reader, version: i64) -> Any:
    m: Any = _Assignment()
    count = r.count("topic_partitions", False, 18)
    m.topic_partitions = [read_TopicPartitions(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_Assignment(w: Writer, m: Any, version: i64) -> None:
    topic_partitions = m.topic_partitions
    w.array("topic_partitions", topic_partitions, False)
    for item in topic_partitions:
        write_TopicPartitions(w, item, version)
    w.unknown_tags("Assignment", m.unknown_tagged_fields)


def read_ShareGroupHeartbeatResponse(r: Reader, version: i64) -> Any:
    m: Any = _ShareGroupHeartbeatResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.member_id = r.string("member_id", True)
    m.member_epoch = r.int32()
    m.heartbeat_interval_ms = r.int32()
    m.assignment = None if r.int8() < 0 else read_Assignment(r, version)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ShareGroupHeartbeatResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.string("member_id", m.member_id, True)
    write_i32_be(out, m.member_epoch)
    write_i32_be(out, m.heartbeat_interval_ms)
    if m.assignment is None:
        w.int8(-1)
    else:
        w.int8(1)
        write_Assignment(w, m.assignment, version)
    w.unknown_tags("ShareGroupHeartbeatResponse", m.unknown_tagged_fields)
