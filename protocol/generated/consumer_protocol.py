"""Of `messages/consumer_protocol.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    ConsumerProtocolSubscriptionTopicPartition,
)
from ..packed import write_i32_be
from ..reader import Reader
from ..schema import NO_TAGS, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_ConsumerProtocolAssignment: Final[Any] = made_by_readers(ConsumerProtocolAssignment)
_ConsumerProtocolAssignmentTopicPartition: Final[Any] = made_by_readers(
    ConsumerProtocolAssignmentTopicPartition
)
_ConsumerProtocolSubscription: Final[Any] = made_by_readers(ConsumerProtocolSubscription)
_ConsumerProtocolSubscriptionTopicPartition: Final[Any] = made_by_readers(
    ConsumerProtocolSubscriptionTopicPartition
)


def read_ConsumerProtocolSubscriptionTopicPartition(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerProtocolSubscriptionTopicPartition()
    m.topic = r.string("topic", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_ConsumerProtocolSubscriptionTopicPartition(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("ConsumerProtocolSubscriptionTopicPartition", m.unknown_tagged_fields)


def read_ConsumerProtocolSubscription(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerProtocolSubscription()
    m.topics = r.strings("topics", False)
    m.user_data = r.binary("user_data", True)
    if version >= 1:
        count = r.count("owned_partitions", False, 6)
        m.owned_partitions = [
            read_ConsumerProtocolSubscriptionTopicPartition(r, version) for _ in range(count)
        ]
    else:
        m.owned_partitions = []
    if version >= 2:
        m.generation_id = r.int32()
    else:
        m.generation_id = -1
    if version >= 3:
        m.rack_id = r.string("rack_id", True)
    else:
        m.rack_id = None
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_ConsumerProtocolSubscription(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.strings("topics", m.topics, False)
    w.binary("user_data", m.user_data, True)
    if version >= 1:
        owned_partitions = m.owned_partitions
        w.array("owned_partitions", owned_partitions, False)
        for item in owned_partitions:
            write_ConsumerProtocolSubscriptionTopicPartition(w, item, version)
    if version >= 2:
        write_i32_be(out, m.generation_id)
    if version >= 3:
        w.string("rack_id", m.rack_id, True)
    w.unknown_tags("ConsumerProtocolSubscription", m.unknown_tagged_fields)


def read_ConsumerProtocolAssignmentTopicPartition(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerProtocolAssignmentTopicPartition()
    m.topic = r.string("topic", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_ConsumerProtocolAssignmentTopicPartition(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("ConsumerProtocolAssignmentTopicPartition", m.unknown_tagged_fields)


def read_ConsumerProtocolAssignment(r: Reader, version: i64) -> Any:
    m: Any = _ConsumerProtocolAssignment()
    count = r.count("assigned_partitions", False, 6)
    m.assigned_partitions = [
        read_ConsumerProtocolAssignmentTopicPartition(r, version) for _ in range(count)
    ]
    m.user_data = r.binary("user_data", True)
    m.unknown_tagged_fields = _NO_TAGS
    return m


def write_ConsumerProtocolAssignment(w: Writer, m: Any, version: i64) -> None:
    assigned_partitions = m.assigned_partitions
    w.array("assigned_partitions", assigned_partitions, False)
    for item in assigned_partitions:
        write_ConsumerProtocolAssignmentTopicPartition(w, item, version)
    w.binary("user_data", m.user_data, True)
    w.unknown_tags("ConsumerProtocolAssignment", m.unknown_tagged_fields)
