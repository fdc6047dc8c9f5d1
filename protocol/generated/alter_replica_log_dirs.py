"""Of `apis/alter_replica_log_dirs.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
    AlterReplicaLogDirTopicResult,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AlterReplicaLogDir: Final[Any] = made_by_readers(AlterReplicaLogDir)
_AlterReplicaLogDirPartitionResult: Final[Any] = made_by_readers(AlterReplicaLogDirPartitionResult)
_AlterReplicaLogDirTopic: Final[Any] = made_by_readers(AlterReplicaLogDirTopic)
_AlterReplicaLogDirTopicResult: Final[Any] = made_by_readers(AlterReplicaLogDirTopicResult)
_AlterReplicaLogDirsRequest: Final[Any] = made_by_readers(AlterReplicaLogDirsRequest)
_AlterReplicaLogDirsResponse: Final[Any] = made_by_readers(AlterReplicaLogDirsResponse)


def read_AlterReplicaLogDirTopic(r: Reader, version: i64) -> Any:
    m: Any = _AlterReplicaLogDirTopic()
    m.name = r.string("name", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterReplicaLogDirTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("AlterReplicaLogDirTopic", m.unknown_tagged_fields)


def read_AlterReplicaLogDir(r: Reader, version: i64) -> Any:
    m: Any = _AlterReplicaLogDir()
    m.path = r.string("path", False)
    count = r.count("topics", False, 3)
    m.topics = [read_AlterReplicaLogDirTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterReplicaLogDir(w: Writer, m: Any, version: i64) -> None:
    w.string("path", m.path, False)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_AlterReplicaLogDirTopic(w, item, version)
    w.unknown_tags("AlterReplicaLogDir", m.unknown_tagged_fields)


def read_AlterReplicaLogDirsRequest(r: Reader, version: i64) -> Any:
    m: Any = _AlterReplicaLogDirsRequest()
    count = r.count("dirs", False, 3)
    m.dirs = [read_AlterReplicaLogDir(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterReplicaLogDirsRequest(w: Writer, m: Any, version: i64) -> None:
    dirs = m.dirs
    w.array("dirs", dirs, False)
    for item in dirs:
        write_AlterReplicaLogDir(w, item, version)
    w.unknown_tags("AlterReplicaLogDirsRequest", m.unknown_tagged_fields)


def read_AlterReplicaLogDirPartitionResult(r: Reader, version: i64) -> Any:
    m: Any = _AlterReplicaLogDirPartitionResult()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterReplicaLogDirPartitionResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.unknown_tags("AlterReplicaLogDirPartitionResult", m.unknown_tagged_fields)


def read_AlterReplicaLogDirTopicResult(r: Reader, version: i64) -> Any:
    m: Any = _AlterReplicaLogDirTopicResult()
    m.topic_name = r.string("topic_name", False)
    count = r.count("partitions", False, 6)
    m.partitions = [read_AlterReplicaLogDirPartitionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterReplicaLogDirTopicResult(w: Writer, m: Any, version: i64) -> None:
    w.string("topic_name", m.topic_name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_AlterReplicaLogDirPartitionResult(w, item, version)
    w.unknown_tags("AlterReplicaLogDirTopicResult", m.unknown_tagged_fields)


def read_AlterReplicaLogDirsResponse(r: Reader, version: i64) -> Any:
    m: Any = _AlterReplicaLogDirsResponse()
    m.throttle_time_ms = r.int32()
    count = r.count("results", False, 3)
    m.results = [read_AlterReplicaLogDirTopicResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterReplicaLogDirsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    results = m.results
    w.array("results", results, False)
    for item in results:
        write_AlterReplicaLogDirTopicResult(w, item, version)
    w.unknown_tags("AlterReplicaLogDirsResponse", m.unknown_tagged_fields)
