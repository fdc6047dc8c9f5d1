"""Of `apis/offset_fetch.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ..packed import write_i16_be, write_i32_be, write_i64_be
from ..reader import Reader
from ..schema import ZERO_UUID, made_by_readers
from ..writer import Writer

_OffsetFetchRequest: Final[Any] = made_by_readers(OffsetFetchRequest)
_OffsetFetchRequestGroup: Final[Any] = made_by_readers(OffsetFetchRequestGroup)
_OffsetFetchRequestTopic: Final[Any] = made_by_readers(OffsetFetchRequestTopic)
_OffsetFetchRequestTopics: Final[Any] = made_by_readers(OffsetFetchRequestTopics)
_OffsetFetchResponse: Final[Any] = made_by_readers(OffsetFetchResponse)
_OffsetFetchResponseGroup: Final[Any] = made_by_readers(OffsetFetchResponseGroup)
_OffsetFetchResponsePartition: Final[Any] = made_by_readers(OffsetFetchResponsePartition)
_OffsetFetchResponsePartitions: Final[Any] = made_by_readers(OffsetFetchResponsePartitions)
_OffsetFetchResponseTopic: Final[Any] = made_by_readers(OffsetFetchResponseTopic)
_OffsetFetchResponseTopics: Final[Any] = made_by_readers(OffsetFetchResponseTopics)


def read_OffsetFetchRequestTopic(r: Reader, version: i64) -> Any:
    m: Any = _OffsetFetchRequestTopic()
    m.name = r.string("name", False)
    m.partition_indexes = r.int32s("partition_indexes", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetFetchRequestTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int32s("partition_indexes", m.partition_indexes, False)
    w.unknown_tags("OffsetFetchRequestTopic", m.unknown_tagged_fields)


def read_OffsetFetchRequestTopics(r: Reader, version: i64) -> Any:
    m: Any = _OffsetFetchRequestTopics()
    if version <= 9:
        m.name = r.string("name", False)
    else:
        m.name = ""
    if version >= 10:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    m.partition_indexes = r.int32s("partition_indexes", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetFetchRequestTopics(w: Writer, m: Any, version: i64) -> None:
    if version <= 9:
        w.string("name", m.name, False)
    if version >= 10:
        w.uuid(m.topic_id)
    w.int32s("partition_indexes", m.partition_indexes, False)
    w.unknown_tags("OffsetFetchRequestTopics", m.unknown_tagged_fields)


def read_OffsetFetchRequestGroup(r: Reader, version: i64) -> Any:
    m: Any = _OffsetFetchRequestGroup()
    m.group_id = r.string("group_id", False)
    if version >= 9:
        m.member_id = r.string("member_id", True)
        m.member_epoch = r.int32()
    else:
        m.member_id = None
        m.member_epoch = -1
    count = r.count("topics", True, 3)
    m.topics = (
        None if count < 0 else [read_OffsetFetchRequestTopics(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetFetchRequestGroup(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    if version >= 9:
        w.string("member_id", m.member_id, True)
        write_i32_be(out, m.member_epoch)
    topics = m.topics
    w.array("topics", topics, True)
    for item in topics or ():
        write_OffsetFetchRequestTopics(w, item, version)
    w.unknown_tags("OffsetFetchRequestGroup", m.unknown_tagged_fields)


def read_OffsetFetchRequest(r: Reader, version: i64) -> Any:
    m: Any = _OffsetFetchRequest()
    if version <= 7:
        m.group_id = r.string("group_id", False)
        count = r.count("topics", version >= 2, 3)
        m.topics = (
            None if count < 0 else [read_OffsetFetchRequestTopic(r, version) for _ in range(count)]
        )
    else:
        m.group_id = ""
        m.topics = []
    if version >= 8:
        count = r.count("groups", False, 3)
        m.groups = [read_OffsetFetchRequestGroup(r, version) for _ in range(count)]
    else:
        m.groups = []
    if version >= 7:
        m.require_stable = r.boolean()
    else:
        m.require_stable = False
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetFetchRequest(w: Writer, m: Any, version: i64) -> None:
    if version <= 7:
        w.string("group_id", m.group_id, False)
        topics = m.topics
        w.array("topics", topics, version >= 2)
        for item in topics or ():
            write_OffsetFetchRequestTopic(w, item, version)
    else:
        if m.group_id != "":
            w.refuse("OffsetFetchRequest.group_id")
        if m.topics != []:
            w.refuse("OffsetFetchRequest.topics")
    if version >= 8:
        groups = m.groups
        w.array("groups", groups, False)
        for item in groups:
            write_OffsetFetchRequestGroup(w, item, version)
    elif m.groups != []:
        w.refuse("OffsetFetchRequest.groups")
    if version >= 7:
        w.boolean(m.require_stable)
    elif m.require_stable:
        w.refuse("OffsetFetchRequest.require_stable")
    w.unknown_tags("OffsetFetchRequest", m.unknown_tagged_fields)


def read_OffsetFetchResponsePartition(r: Reader, version: i64) -> Any:
    m: Any = _OffsetFetchResponsePartition()
    m.partition_index = r.int32()
    m.committed_offset = r.int64()
    if version >= 5:
        m.committed_leader_epoch = r.int32()
    else:
        m.committed_leader_epoch = -1
    m.metadata = r.string("metadata", True)
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetFetchResponsePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.committed_offset)
    if version >= 5:
        write_i32_be(out, m.committed_leader_epoch)
    w.string("metadata", m.metadata, True)
    write_i16_be(out, m.error_code)
    w.unknown_tags("OffsetFetchResponsePartition", m.unknown_tagged_fields)


def read_OffsetFetchResponseTopic(r: Reader, version: i64) -> Any:
    m: Any = _OffsetFetchResponseTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 16)
    m.partitions = [read_OffsetFetchResponsePartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetFetchResponseTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OffsetFetchResponsePartition(w, item, version)
    w.unknown_tags("OffsetFetchResponseTopic", m.unknown_tagged_fields)


def read_OffsetFetchResponsePartitions(r: Reader, version: i64) -> Any:
    m: Any = _OffsetFetchResponsePartitions()
    m.partition_index = r.int32()
    m.committed_offset = r.int64()
    m.committed_leader_epoch = r.int32()
    m.metadata = r.string("metadata", True)
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetFetchResponsePartitions(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i64_be(out, m.committed_offset)
    write_i32_be(out, m.committed_leader_epoch)
    w.string("metadata", m.metadata, True)
    write_i16_be(out, m.error_code)
    w.unknown_tags("OffsetFetchResponsePartitions", m.unknown_tagged_fields)


def read_OffsetFetchResponseTopics(r: Reader, version: i64) -> Any:
    m: Any = _OffsetFetchResponseTopics()
    if version <= 9:
        m.name = r.string("name", False)
    else:
        m.name = ""
    if version >= 10:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    count = r.count("partitions", False, 20)
    m.partitions = [read_OffsetFetchResponsePartitions(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetFetchResponseTopics(w: Writer, m: Any, version: i64) -> None:
    if version <= 9:
        w.string("name", m.name, False)
    if version >= 10:
        w.uuid(m.topic_id)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OffsetFetchResponsePartitions(w, item, version)
    w.unknown_tags("OffsetFetchResponseTopics", m.unknown_tagged_fields)


def read_OffsetFetchResponseGroup(r: Reader, version: i64) -> Any:
    m: Any = _OffsetFetchResponseGroup()
    m.group_id = r.string("group_id", False)
    count = r.count("topics", False, 3)
    m.topics = [read_OffsetFetchResponseTopics(r, version) for _ in range(count)]
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetFetchResponseGroup(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("group_id", m.group_id, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OffsetFetchResponseTopics(w, item, version)
    write_i16_be(out, m.error_code)
    w.unknown_tags("OffsetFetchResponseGroup", m.unknown_tagged_fields)


def read_OffsetFetchResponse(r: Reader, version: i64) -> Any:
    m: Any = _OffsetFetchResponse()
    if version >= 3:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    if version <= 7:
        count = r.count("topics", False, 3)
        m.topics = [read_OffsetFetchResponseTopic(r, version) for _ in range(count)]
    else:
        m.topics = []
    if 2 <= version <= 7:
        m.error_code = r.int16()
    else:
        m.error_code = 0
    if version >= 8:
        count = r.count("groups", False, 5)
        m.groups = [read_OffsetFetchResponseGroup(r, version) for _ in range(count)]
    else:
        m.groups = []
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OffsetFetchResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 3:
        write_i32_be(out, m.throttle_time_ms)
    if version <= 7:
        topics = m.topics
        w.array("topics", topics, False)
        for item in topics:
            write_OffsetFetchResponseTopic(w, item, version)
    elif m.topics != []:
        w.refuse("OffsetFetchResponse.topics")
    if 2 <= version <= 7:
        write_i16_be(out, m.error_code)
    if version >= 8:
        groups = m.groups
        w.array("groups", groups, False)
        for item in groups:
            write_OffsetFetchResponseGroup(w, item, version)
    elif m.groups != []:
        w.refuse("OffsetFetchResponse.groups")
    w.unknown_tags("OffsetFetchResponse", m.unknown_tagged_fields)
