"""Of `apis/delete_topics.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import ZERO_UUID, made_by_readers
from ..writer import Writer

_DeletableTopicResult: Final[Any] = made_by_readers(DeletableTopicResult)
_DeleteTopicState: Final[Any] = made_by_readers(DeleteTopicState)
_DeleteTopicsRequest: Final[Any] = made_by_readers(DeleteTopicsRequest)
_DeleteTopicsResponse: Final[Any] = made_by_readers(DeleteTopicsResponse)


def read_DeleteTopicState(r: Reader, version: i64) -> Any:
    m: Any = _DeleteTopicState()
    m.name = r.string("name", True)
    m.topic_id = r.uuid()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteTopicState(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, True)
    w.uuid(m.topic_id)
    w.unknown_tags("DeleteTopicState", m.unknown_tagged_fields)


def read_DeleteTopicsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DeleteTopicsRequest()
    if version >= 6:
        count = r.count("topics", False, 18)
        m.topics = [read_DeleteTopicState(r, version) for _ in range(count)]
    else:
        m.topics = []
    if version <= 5:
        m.topic_names = r.strings("topic_names", False)
    else:
        m.topic_names = []
    m.timeout_ms = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteTopicsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 6:
        topics = m.topics
        w.array("topics", topics, False)
        for item in topics:
            write_DeleteTopicState(w, item, version)
    elif m.topics != []:
        w.refuse("DeleteTopicsRequest.topics")
    if version <= 5:
        w.strings("topic_names", m.topic_names, False)
    write_i32_be(out, m.timeout_ms)
    w.unknown_tags("DeleteTopicsRequest", m.unknown_tagged_fields)


def read_DeletableTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _DeletableTopicResult()
    m.name = r.string("name", version >= 6)
    if version >= 6:
        m.topic_id = r.uuid()
    else:
        m.topic_id = ZERO_UUID
    m.error_code = r.int16()
    if version >= 5:
        m.error_message = r.string("error_message", True)
    else:
        m.error_message = None
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeletableTopicResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("name", m.name, version >= 6)
    if version >= 6:
        w.uuid(m.topic_id)
    write_i16_be(out, m.error_code)
    if version >= 5:
        w.string("error_message", m.error_message, True)
    w.unknown_tags("DeletableTopicResult", m.unknown_tagged_fields)


def read_DeleteTopicsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DeleteTopicsResponse()
    if version >= 1:
        m.throttle_time_ms = r.int32()
    else:
        m.throttle_time_ms = 0
    count = r.count("responses", False, 4)
    m.responses = [read_DeletableTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteTopicsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 1:
        write_i32_be(out, m.throttle_time_ms)
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_DeletableTopicResult(w, item, version)
    w.unknown_tags("DeleteTopicsResponse", m.unknown_tagged_fields)
