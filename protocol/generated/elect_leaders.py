"""Of `apis/elect_leaders.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..apis.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_ElectLeadersRequest: Final[Any] = made_by_readers(ElectLeadersRequest)
_ElectLeadersRequestTopicPartitions: Final[Any] = made_by_readers(
    ElectLeadersRequestTopicPartitions
)
_ElectLeadersResponse: Final[Any] = made_by_readers(ElectLeadersResponse)
_PartitionResult: Final[Any] = made_by_readers(PartitionResult)
_ReplicaElectionResult: Final[Any] = made_by_readers(ReplicaElectionResult)


def read_ElectLeadersRequestTopicPartitions(r: Reader, version: i64) -> Any:
    m: Any = _ElectLeadersRequestTopicPartitions()
    m.topic = r.string("topic", False)
    m.partitions = r.int32s("partitions", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ElectLeadersRequestTopicPartitions(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    w.int32s("partitions", m.partitions, False)
    w.unknown_tags("ElectLeadersRequestTopicPartitions", m.unknown_tagged_fields)


def read_ElectLeadersRequest(r: Reader, version: i64) -> Any:
    m: Any = _ElectLeadersRequest()
    if version >= 1:
        m.election_type = r.int8()
    else:
        m.election_type = 0
    count = r.count("topic_partitions", True, 3)
    m.topic_partitions = (
        None
        if count < 0
        else [read_ElectLeadersRequestTopicPartitions(r, version) for _ in range(count)]
    )
    m.timeout_ms = r.int32()
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ElectLeadersRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    if version >= 1:
        w.int8(m.election_type)
    elif m.election_type != 0:
        w.refuse("ElectLeadersRequest.election_type")
    topic_partitions = m.topic_partitions
    w.array("topic_partitions", topic_partitions, True)
    for item in topic_partitions or ():
        write_ElectLeadersRequestTopicPartitions(w, item, version)
    write_i32_be(out, m.timeout_ms)
    w.unknown_tags("ElectLeadersRequest", m.unknown_tagged_fields)


def read_PartitionResult(r: Reader, version: i64) -> Any:
    m: Any = _PartitionResult()
    m.partition_id = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_PartitionResult(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_id)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("PartitionResult", m.unknown_tagged_fields)


def read_ReplicaElectionResult(r: Reader, version: i64) -> Any:
    m: Any = _ReplicaElectionResult()
    m.topic = r.string("topic", False)
    count = r.count("partition_result", False, 8)
    m.partition_result = [read_PartitionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReplicaElectionResult(w: Writer, m: Any, version: i64) -> None:
    w.string("topic", m.topic, False)
    partition_result = m.partition_result
    w.array("partition_result", partition_result, False)
    for item in partition_result:
        write_PartitionResult(w, item, version)
    w.unknown_tags("ReplicaElectionResult", m.unknown_tagged_fields)


def read_ElectLeadersResponse(r: Reader, version: i64) -> Any:
    m: Any = _ElectLeadersResponse()
    m.throttle_time_ms = r.int32()
    if version >= 1:
        m.error_code = r.int16()
    else:
        m.error_code = 0
    count = r.count("replica_election_results", False, 3)
    m.replica_election_results = [read_ReplicaElectionResult(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ElectLeadersResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    if version >= 1:
        write_i16_be(out, m.error_code)
    elif m.error_code != 0:
        w.refuse("ElectLeadersResponse.error_code")
    replica_election_results = m.replica_election_results
    w.array("replica_election_results", replica_election_results, False)
    for item in replica_election_results:
        write_ReplicaElectionResult(w, item, version)
    w.unknown_tags("ElectLeadersResponse", m.unknown_tagged_fields)
