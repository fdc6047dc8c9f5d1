"""Of `messages/reassignments.py`. Written by `python -m tests.codecs`: see there."""

from __future__ import annotations

from typing import Any, Final

from mypy_extensions import i64

from ..messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    PartitionResult,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
    ReplicaElectionResult,
)
from ..packed import write_i16_be, write_i32_be
from ..reader import Reader
from ..schema import made_by_readers
from ..writer import Writer

_AlterPartitionReassignmentsRequest: Final[Any] = made_by_readers(
    AlterPartitionReassignmentsRequest
)
_AlterPartitionReassignmentsResponse: Final[Any] = made_by_readers(
    AlterPartitionReassignmentsResponse
)
_ElectLeadersRequest: Final[Any] = made_by_readers(ElectLeadersRequest)
_ElectLeadersRequestTopicPartitions: Final[Any] = made_by_readers(
    ElectLeadersRequestTopicPartitions
)
_ElectLeadersResponse: Final[Any] = made_by_readers(ElectLeadersResponse)
_ListPartitionReassignmentsRequest: Final[Any] = made_by_readers(ListPartitionReassignmentsRequest)
_ListPartitionReassignmentsResponse: Final[Any] = made_by_readers(
    ListPartitionReassignmentsResponse
)
_ListPartitionReassignmentsTopics: Final[Any] = made_by_readers(ListPartitionReassignmentsTopics)
_OngoingPartitionReassignment: Final[Any] = made_by_readers(OngoingPartitionReassignment)
_OngoingTopicReassignment: Final[Any] = made_by_readers(OngoingTopicReassignment)
_PartitionResult: Final[Any] = made_by_readers(PartitionResult)
_ReassignablePartition: Final[Any] = made_by_readers(ReassignablePartition)
_ReassignablePartitionResponse: Final[Any] = made_by_readers(ReassignablePartitionResponse)
_ReassignableTopic: Final[Any] = made_by_readers(ReassignableTopic)
_ReassignableTopicResponse: Final[Any] = made_by_readers(ReassignableTopicResponse)
_ReplicaElectionResult: Final[Any] = made_by_readers(ReplicaElectionResult)


def read_ReassignablePartition(r: Reader, version: i64) -> Any:
    m: Any = _ReassignablePartition()
    m.partition_index = r.int32()
    m.replicas = r.int32s("replicas", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReassignablePartition(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    w.int32s("replicas", m.replicas, True)
    w.unknown_tags("ReassignablePartition", m.unknown_tagged_fields)


def read_ReassignableTopic(r: Reader, version: i64) -> Any:
    m: Any = _ReassignableTopic()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 6)
    m.partitions = [read_ReassignablePartition(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReassignableTopic(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_ReassignablePartition(w, item, version)
    w.unknown_tags("ReassignableTopic", m.unknown_tagged_fields)


def read_AlterPartitionReassignmentsRequest(r: Reader, version: i64) -> Any:
    m: Any = _AlterPartitionReassignmentsRequest()
    m.timeout_ms = r.int32()
    count = r.count("topics", False, 3)
    m.topics = [read_ReassignableTopic(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterPartitionReassignmentsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.timeout_ms)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_ReassignableTopic(w, item, version)
    w.unknown_tags("AlterPartitionReassignmentsRequest", m.unknown_tagged_fields)


def read_ReassignablePartitionResponse(r: Reader, version: i64) -> Any:
    m: Any = _ReassignablePartitionResponse()
    m.partition_index = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReassignablePartitionResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    w.unknown_tags("ReassignablePartitionResponse", m.unknown_tagged_fields)


def read_ReassignableTopicResponse(r: Reader, version: i64) -> Any:
    m: Any = _ReassignableTopicResponse()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 8)
    m.partitions = [read_ReassignablePartitionResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ReassignableTopicResponse(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_ReassignablePartitionResponse(w, item, version)
    w.unknown_tags("ReassignableTopicResponse", m.unknown_tagged_fields)


def read_AlterPartitionReassignmentsResponse(r: Reader, version: i64) -> Any:
    m: Any = _AlterPartitionReassignmentsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("responses", False, 3)
    m.responses = [read_ReassignableTopicResponse(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_AlterPartitionReassignmentsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    responses = m.responses
    w.array("responses", responses, False)
    for item in responses:
        write_ReassignableTopicResponse(w, item, version)
    w.unknown_tags("AlterPartitionReassignmentsResponse", m.unknown_tagged_fields)


def read_ListPartitionReassignmentsTopics(r: Reader, version: i64) -> Any:
    m: Any = _ListPartitionReassignmentsTopics()
    m.name = r.string("name", False)
    m.partition_indexes = r.int32s("partition_indexes", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListPartitionReassignmentsTopics(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    w.int32s("partition_indexes", m.partition_indexes, False)
    w.unknown_tags("ListPartitionReassignmentsTopics", m.unknown_tagged_fields)


def read_ListPartitionReassignmentsRequest(r: Reader, version: i64) -> Any:
    m: Any = _ListPartitionReassignmentsRequest()
    m.timeout_ms = r.int32()
    count = r.count("topics", True, 3)
    m.topics = (
        None
        if count < 0
        else [read_ListPartitionReassignmentsTopics(r, version) for _ in range(count)]
    )
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListPartitionReassignmentsRequest(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.timeout_ms)
    topics = m.topics
    w.array("topics", topics, True)
    for item in topics or ():
        write_ListPartitionReassignmentsTopics(w, item, version)
    w.unknown_tags("ListPartitionReassignmentsRequest", m.unknown_tagged_fields)


def read_OngoingPartitionReassignment(r: Reader, version: i64) -> Any:
    m: Any = _OngoingPartitionReassignment()
    m.partition_index = r.int32()
    m.replicas = r.int32s("replicas", False)
    m.adding_replicas = r.int32s("adding_replicas", False)
    m.removing_replicas = r.int32s("removing_replicas", False)
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OngoingPartitionReassignment(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.partition_index)
    w.int32s("replicas", m.replicas, False)
    w.int32s("adding_replicas", m.adding_replicas, False)
    w.int32s("removing_replicas", m.removing_replicas, False)
    w.unknown_tags("OngoingPartitionReassignment", m.unknown_tagged_fields)


def read_OngoingTopicReassignment(r: Reader, version: i64) -> Any:
    m: Any = _OngoingTopicReassignment()
    m.name = r.string("name", False)
    count = r.count("partitions", False, 8)
    m.partitions = [read_OngoingPartitionReassignment(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_OngoingTopicReassignment(w: Writer, m: Any, version: i64) -> None:
    w.string("name", m.name, False)
    partitions = m.partitions
    w.array("partitions", partitions, False)
    for item in partitions:
        write_OngoingPartitionReassignment(w, item, version)
    w.unknown_tags("OngoingTopicReassignment", m.unknown_tagged_fields)


def read_ListPartitionReassignmentsResponse(r: Reader, version: i64) -> Any:
    m: Any = _ListPartitionReassignmentsResponse()
    m.throttle_time_ms = r.int32()
    m.error_code = r.int16()
    m.error_message = r.string("error_message", True)
    count = r.count("topics", False, 3)
    m.topics = [read_OngoingTopicReassignment(r, version) for _ in range(count)]
    m.unknown_tagged_fields = r.unknown_tags()
    return m


def write_ListPartitionReassignmentsResponse(w: Writer, m: Any, version: i64) -> None:
    out = w.out
    write_i32_be(out, m.throttle_time_ms)
    write_i16_be(out, m.error_code)
    w.string("error_message", m.error_message, True)
    topics = m.topics
    w.array("topics", topics, False)
    for item in topics:
        write_OngoingTopicReassignment(w, item, version)
    w.unknown_tags("ListPartitionReassignmentsResponse", m.unknown_tagged_fields)


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
