"""Of `apis/consumer_group_heartbeat.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_ConsumerGroupHeartbeatRequest: Final[Any] = made_by_readers(ConsumerGroupHeartbeatRequest)
_ConsumerGroupHeartbeatRequestTopicPartitions: Final[Any] = made_by_readers(
    ConsumerGroupHeartbeatRequestTopicPartitions
)
_ConsumerGroupHeartbeatResponse: Final[Any] = made_by_readers(ConsumerGroupHeartbeatResponse)
_ConsumerGroupHeartbeatResponseAssignment: Final[Any] = made_by_readers(
    ConsumerGroupHeartbeatResponseAssignment
)
_ConsumerGroupHeartbeatResponseTopicPartitions: Final[Any] = made_by_readers(
    ConsumerGroupHeartbeatResponseTopicPartitions
)


def read_ConsumerGroupHeartbeatRequestTopicPartitions(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupHeartbeatRequestTopicPartitions()
    m.topic_id = r.uuid()
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupHeartbeatRequestTopicPartitions(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("ConsumerGroupHeartbeatRequestTopicPartitions", m.unknown_tagged_fields)


def read_ConsumerGroupHeartbeatRequest(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupHeartbeatRequest()
    m.group_id = r.string("group_id", False)
    m.member_id = r.string("member_id", False)
    m.member_epoch = r.int32()
    m.instance_id = r.string("instance_id", True)
    m.rack_id = r.string("rack_id", True)
    m.rebalance_timeout_ms = r.int32()
    m.subscribed_topic_names = r.strings("subscribed_topic_names", True)
    if version >= 1:
        m.subscribed_topic_regex = r.string("subscribed_topic_regex", True)
    else:
        m.subscribed_topic_regex = None
    m.server_assignor = r.string("server_assignor", True)
    count = r.count("topic_partitions", True, 18)
    m.topic_partitions = (
        None
        if count < 0
        else [read_ConsumerGroupHeartbeatRequestTopicPartitions(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupHeartbeatRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    w.string("member_id", m.member_id, False)
    write_i32_be(out, m.member_epoch)
    w.string("instance_id", m.instance_id, True)
    w.string("rack_id", m.rack_id, True)
    write_i32_be(out, m.rebalance_timeout_ms)
    w.strings("subscribed_topic_names", m.subscribed_topic_names, True)
    if version >= 1:
        w.string("subscribed_topic_regex", m.subscribed_topic_regex, True)
    elif m.subscribed_topic_regex is not None:
        w.refuse("ConsumerGroupHeartbeatRequest.subscribed_topic_regex")
    w.string("server_assignor", m.server_assignor, True)
    topic_partitions = m.topic_partitions
    w.array("topic_partitions", topic_partitions, True)
    for item in topic_partitions or ():
        write_ConsumerGroupHeartbeatRequestTopicPartitions(w, item, version)
    w.unknown_tags("ConsumerGroupHeartbeatRequest", m.unknown_tagged_fields)


def read_ConsumerGroupHeartbeatResponseTopicPartitions(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupHeartbeatResponseTopicPartitions()
    m.topic_id = r.uuid()
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupHeartbeatResponseTopicPartitions(w: Writer, m: Any, version: i64) -> None:
    w.uuid(m.topic_id)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("ConsumerGroupHeartbeatResponseTopicPartitions", m.unknown_tagged_fields)


def read_ConsumerGroupHeartbeatResponseAssignment(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupHeartbeatResponseAssignment()
    count = r.count("topic_partitions", False, 18)
    m.topic_partitions = [
        read_ConsumerGroupHeartbeatResponseTopicPartitions(r, version) for _ in range(count)
    ]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupHeartbeatResponseAssignment(w: Writer, m: Any, version: i64) -> None:
    topic_partitions = m.topic_partitions
    w.array("topic_partitions", topic_partitions, False)
    for item in topic_partitions:
        write_ConsumerGroupHeartbeatResponseTopicPartitions(w, item, version)
    w.unknown_tags("ConsumerGroupHeartbeatResponseAssignment", m.unknown_tagged_fields)


def read_ConsumerGroupHeartbeatResponse(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerGroupHeartbeatResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.member_id = r.string("member_id", True)
    m.member_epoch = r.int32()
    m.heartbeat_interval_ms = r.int32()
    m.assignment = (
        None if r.int8() < 0 else read_ConsumerGroupHeartbeatResponseAssignment(r, version)
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ConsumerGroupHeartbeatResponse(w: Writer, m: Any, version: i64) -> None:
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
        write_ConsumerGroupHeartbeatResponseAssignment(w, m.assignment, version)
    w.unknown_tags("ConsumerGroupHeartbeatResponse", m.unknown_tagged_fields)
