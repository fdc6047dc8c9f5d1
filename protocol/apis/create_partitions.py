"""CreatePartitions: more partitions of topics (KIP-195).

Tools and admin clients send it to the controller.
Versions: 2 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling, elements_together
from ..schema import Message, Struct, array, boolean, int16, int32, message, string


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array("int32")


class CreatePartitionsTopic(Struct):
    name: str = string()
    count: int = int32()
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable="0+"
    )


@message(api_key=37, kind="request", valid="0-3", flexible="2+")
class CreatePartitionsRequest(Message):
    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


class CreatePartitionsTopicResult(Struct):
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@message(api_key=37, kind="response", valid="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    throttle_time_ms: int = int32()
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)


API: Final = Api(
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.ALTER, ResourceType.TOPIC, "name"),),
                "TOPIC_AUTHORIZATION_FAILED for the topic",
            ),
        ),
        note="After NOT_CONTROLLER and duplicates.",
    ),
    elements=(elements_together("topics", "results"),),
    since="1.0",
    needs_metadata=True,
    handling=Handling.WAITS,
)
