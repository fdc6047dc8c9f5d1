"""Where replicas and leaders are: partition reassignments and ElectLeaders.

Reassignments are KIP-455; null replicas cancel one. ElectLeaders: version 1 adds unclean
elections (KIP-460), 2 is flexible; null topics mean all.

Mirrors: the schemas of the same names in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from ..schema import Message, Struct, array, int8, int16, int32, message, string


class ReassignablePartition(Struct):
    partition_index: int = int32()
    replicas: list[int] | None = array("int32", nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@message(api_key=45, kind="request", valid="0", flexible="0+")
class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int = int32(default=60_000)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReassignableTopicResponse(Struct):
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@message(api_key=45, kind="response", valid="0", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)


class ListPartitionReassignmentsTopics(Struct):
    name: str = string()
    partition_indexes: list[int] = array("int32")


@message(api_key=46, kind="request", valid="0", flexible="0+")
class ListPartitionReassignmentsRequest(Message):
    timeout_ms: int = int32(default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable="0+", default=None
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = int32()
    replicas: list[int] = array("int32")
    adding_replicas: list[int] = array("int32")
    removing_replicas: list[int] = array("int32")


class OngoingTopicReassignment(Struct):
    name: str = string()
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@message(api_key=46, kind="response", valid="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment)


class ElectLeadersRequestTopicPartitions(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


@message(api_key=43, kind="request", valid="0-2", flexible="2+")
class ElectLeadersRequest(Message):
    election_type: int = int8("1+")
    topic_partitions: list[ElectLeadersRequestTopicPartitions] | None = array(
        ElectLeadersRequestTopicPartitions, nullable="0+"
    )
    timeout_ms: int = int32(default=60_000)


class PartitionResult(Struct):
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReplicaElectionResult(Struct):
    topic: str = string()
    partition_result: list[PartitionResult] = array(PartitionResult)


@message(api_key=43, kind="response", valid="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult)
