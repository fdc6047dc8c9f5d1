"""Of `apis/delete_share_group_offsets.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_DeleteShareGroupOffsetsRequest: Final[Any] = made_by_readers(DeleteShareGroupOffsetsRequest)
_DeleteShareGroupOffsetsRequestTopic: Final[Any] = made_by_readers(
    DeleteShareGroupOffsetsRequestTopic
)
_DeleteShareGroupOffsetsResponse: Final[Any] = made_by_readers(DeleteShareGroupOffsetsResponse)
_DeleteShareGroupOffsetsResponseTopic: Final[Any] = made_by_readers(
    DeleteShareGroupOffsetsResponseTopic
)


def read_DeleteShareGroupOffsetsRequestTopic(r: Reader, version: i64) -> Any:
    m: Any = _DeleteShareGroupOffsetsRequestTopic()
    m.topic_name = r.string("topic_name", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteShareGroupOffsetsRequestTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("topic_name", m.topic_name, False)
    w.unknown_tags("DeleteShareGroupOffsetsRequestTopic", m.unknown_tagged_fields)


def read_DeleteShareGroupOffsetsRequest(r: Reader, version: i64) -> Any:
    m: Any = _DeleteShareGroupOffsetsRequest()
    m.group_id = r.string("group_id", False)
    count = r.count("topics", False, 2)
    m.topics = [read_DeleteShareGroupOffsetsRequestTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteShareGroupOffsetsRequest(w: Writer, m: Any, version: i64) -> None:
    w.string("group_id", m.group_id, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_DeleteShareGroupOffsetsRequestTopic(w, item, version)
    w.unknown_tags("DeleteShareGroupOffsetsRequest", m.unknown_tagged_fields)


def read_DeleteShareGroupOffsetsResponseTopic(r: Reader, version: i64) -> Any:
    m: Any = _DeleteShareGroupOffsetsResponseTopic()
    m.topic_name = r.string("topic_name", False)
    m.topic_id = r.uuid()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteShareGroupOffsetsResponseTopic(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    w.string("topic_name", m.topic_name, False)
    w.uuid(m.topic_id)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("DeleteShareGroupOffsetsResponseTopic", m.unknown_tagged_fields)


def read_DeleteShareGroupOffsetsResponse(r: Reader, version: i64) -> Any:
    m: Any = _DeleteShareGroupOffsetsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("responses", False, 21)
    m.responses = [read_DeleteShareGroupOffsetsResponseTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_DeleteShareGroupOffsetsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_DeleteShareGroupOffsetsResponseTopic(w, item, version)
    w.unknown_tags("DeleteShareGroupOffsetsResponse", m.unknown_tagged_fields)
