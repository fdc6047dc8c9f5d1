"""Of `apis/create_topics.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import NO_TAGS, ZERO_UUID, made_by_readers
from ..writer import Writer

_NO_TAGS: Final = NO_TAGS
_CreatableReplicaAssignment: Final[Any] = made_by_readers(CreatableReplicaAssignment)
_CreatableTopic: Final[Any] = made_by_readers(CreatableTopic)
_CreatableTopicConfig: Final[Any] = made_by_readers(CreatableTopicConfig)
_CreatableTopicConfigs: Final[Any] = made_by_readers(CreatableTopicConfigs)
_CreatableTopicResult: Final[Any] = made_by_readers(CreatableTopicResult)
_CreateTopicsRequest: Final[Any] = made_by_readers(CreateTopicsRequest)
_CreateTopicsResponse: Final[Any] = made_by_readers(CreateTopicsResponse)


def read_CreatableReplicaAssignment(r: Reader, version: i64) -> Any:
    m: Any = _CreatableReplicaAssignment()
    m.partition_index = r.int32()
    m.broker_ids = r.int32s("broker_ids", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreatableReplicaAssignment(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    w.int32s("broker_ids", m.broker_ids, False)
    w.unknown_tags("CreatableReplicaAssignment", m.unknown_tagged_fields)


def read_CreatableTopicConfig(r: Reader, version: i64) -> Any:
    m: Any = _CreatableTopicConfig()
    m.name = r.string("name", False)
    m.value = r.string("value", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreatableTopicConfig(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.string("value", m.value, True)
    w.unknown_tags("CreatableTopicConfig", m.unknown_tagged_fields)


def read_CreatableTopic(r: Reader, version: i64) -> Any:
    m: Any = _CreatableTopic()
    m.name = r.string("name", False)
    m.num_partitions = r.int32()
    m.replication_factor = r.int16()
    count = r.count("assignments", False, 6)
    m.assignments = [read_CreatableReplicaAssignment(r, version) for _ in range(count)]
    count = r.count("configs", False, 3)
    m.configs = [read_CreatableTopicConfig(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreatableTopic(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    write_i32_be(out, m.num_partitions)
    write_i16_be(out, m.replication_factor)
    assignments = m.assignments
    w.array("assignments", assignments, False)
    for item in assignments:
        write_CreatableReplicaAssignment(w, item, version)
    configs = m.configs
    w.array("configs", configs, False)
    for item in configs:
        write_CreatableTopicConfig(w, item, version)
    w.unknown_tags("CreatableTopic", m.unknown_tagged_fields)


def read_CreateTopicsRequest(r: Reader, version: i64) -> Any:
    m: Any = _CreateTopicsRequest()
    count = r.count("topics", False, 10)
    m.topics = [read_CreatableTopic(r, version) for _ in range(count)]
    m.timeout_ms = r.int32()
    if version >= 1:
        m.validate_only = r.boolean()
    else:
        m.validate_only = False
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreateTopicsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_CreatableTopic(w, item, version)
    write_i32_be(out, m.timeout_ms)
    if version >= 1:
        w.boolean(m.validate_only)
    elif m.validate_only:
        w.refuse("CreateTopicsRequest.validate_only")
    w.unknown_tags("CreateTopicsRequest", m.unknown_tagged_fields)


def read_CreatableTopicConfigs(r: Reader, version: i64) -> Any:
    m: Any = _CreatableTopicConfigs()
    m.name = r.string("name", False)
    m.value = r.string("value", True)
    m.read_only = r.boolean()
    m.config_source = r.int8()
    m.is_sensitive = r.boolean()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreatableTopicConfigs(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.string("value", m.value, True)
    w.boolean(m.read_only)
    w.int8(m.config_source)
    w.boolean(m.is_sensitive)
    w.unknown_tags("CreatableTopicConfigs", m.unknown_tagged_fields)


def read_tags_of_CreatableTopicResult(r: Reader, m: Any, version: i64) -> None:
    m.topic_config_error_code = 0
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
            m.topic_config_error_code = r.int16()
            r.end_tag("CreatableTopicResult.topic_config_error_code", end)
        else:
            unknown[tag] = r.unknown_tag()
    if unknown:
        m.unknown_tagged_fields = unknown


def read_CreatableTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _CreatableTopicResult()
    m.name = r.string("name", False)
    if version >= 7:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    m.error_code = r.int16()
    if version >= 1:
        m.error_message = r.string("error_message", True)
    else:
        m.error_message = ""
    if version >= 5:
        m.num_partitions = r.int32()
        m.replication_factor = r.int16()
        count = r.count("configs", True, 6)
        m.configs = (
            None if count < 0 else [read_CreatableTopicConfigs(r, version) for _ in range(count)]
        )
    else:
        m.num_partitions = -1
        m.replication_factor = -1
        m.configs = []
    read_tags_of_CreatableTopicResult(r, m, version)
    return m


def _write_known_tags_of_CreatableTopicResult(outer: Writer, m: Any, version: i64) -> None:
    known: list[tuple[int, Writer]] = []
    if m.topic_config_error_code != 0:
        w = outer.inner()
        out = w.out
        write_i16_be(out, m.topic_config_error_code)
        known.append((0, w))
    outer.tags(known, m.unknown_tagged_fields)


def write_tags_of_CreatableTopicResult(w: Writer, m: Any, version: i64) -> None:
    if w.flexible and (m.topic_config_error_code != 0):
        _write_known_tags_of_CreatableTopicResult(w, m, version)
    else:
        w.unknown_tags("CreatableTopicResult", m.unknown_tagged_fields)


def write_CreatableTopicResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, False)
    if version >= 7:
        w.uuid(m.topic_id)
    write_i16_be(out, m.error_code)
    if version >= 1:
        w.string("error_message", m.error_message, True)
    if version >= 5:
        write_i32_be(out, m.num_partitions)
        write_i16_be(out, m.replication_factor)
        configs = m.configs
        w.array("configs", configs, True)
        for item in configs or ():
            write_CreatableTopicConfigs(w, item, version)
    write_tags_of_CreatableTopicResult(w, m, version)


def read_CreateTopicsResponse(r: Reader, version: i64) -> Any:
    m: Any = _CreateTopicsResponse()
    if version >= 2:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    count = r.count("topics", False, 4)
    m.topics = [read_CreatableTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_CreateTopicsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 2:
        write_i32_be(out, m.throttle_time_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_CreatableTopicResult(w, item, version)
    w.unknown_tags("CreateTopicsResponse", m.unknown_tagged_fields)
