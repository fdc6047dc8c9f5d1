"""AlterPartitionReassignments: other replicas for partitions (KIP-455); null cancels a move.

Tools and admin clients send it to the controller.
Versions: 1 can forbid another replication factor (KIP-860).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import AT_EACH_TOO, Api, Handling, elements
from ..features import Later
from ..schema import Message, Struct, array, boolean, int16, int32, message, string


class ReassignablePartition(Struct):
    partition_index: int = int32()
    replicas: list[int] | None = array("int32", nullable="0+", default=None)


class ReassignableTopic(Struct):
    name: str = string()
    partitions: list[ReassignablePartition] = array(ReassignablePartition)


@message(api_key=45, kind="request", valid="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int = int32(default=60_000)
    allow_replication_factor_change: bool = boolean("1+", default=True)
    topics: list[ReassignableTopic] = array(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")


class ReassignableTopicResponse(Struct):
    name: str = string()
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@message(api_key=45, kind="response", valid="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean("1+", default=True, ignorable=True)
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse)


API: Final = Api(
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    access=AccessRules((on_cluster(AclOperation.ALTER),)),
    elements=(elements("topics.partitions", "responses.partitions"),),
    failure=AT_EACH_TOO,
    since="2.4",
    later=Later(1),
    handling=Handling.WAITS,
)
