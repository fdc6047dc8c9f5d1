"""ListPartitionReassignments: the moves of partitions that are under way (KIP-455).

Tools and admin clients send it to the controller.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_cluster
from ..acls import AclOperation
from ..api_page import AT_EACH_TOO, Api, Handling, elements
from ..schema import Message, Struct, array, int16, int32, message, string


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


API: Final = Api(
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
    access=AccessRules((on_cluster(AclOperation.DESCRIBE),)),
    elements=(elements("topics.partition_indexes", "topics.partitions"),),
    failure=AT_EACH_TOO,
    since="2.4",
    handling=Handling.WAITS,
)
