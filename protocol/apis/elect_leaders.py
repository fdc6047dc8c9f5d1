"""ElectLeaders: the preferred replicas of partitions lead again, or any replica does (KIP-183).

Tools and admin clients send it to the controller.
Versions: 1 adds unclean elections (KIP-460), 2 is flexible; null topics mean all.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import AT_EACH_TOO, Api, Handling, elements
from ..schema import Message, Struct, array, int8, int16, int32, message, string


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


API: Final = Api(
    request=ElectLeadersRequest,
    response=ElectLeadersResponse,
    access=AccessRules((on_cluster(AclOperation.ALTER),)),
    elements=(
        elements("topic_partitions.partitions", "replica_election_results.partition_result"),
    ),
    failure=AT_EACH_TOO,
    since="2.2",
    handling=Handling.WAITS,
)
