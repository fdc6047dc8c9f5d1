"""DeleteTopics: topics to delete, by name or id.

Tools and admin clients send it to the controller.
Versions: 4 is flexible; 5 has messages with its errors; 6 takes topic ids too (KIP-516).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling, elements_together
from ..schema import Message, Struct, array, int16, int32, message, string, uuid


class DeleteTopicState(Struct):
    name: str | None = string("6+", nullable="6+", default=None)
    topic_id: bytes = uuid("6+")


@message(api_key=20, kind="request", valid="0-6", flexible="4+")
class DeleteTopicsRequest(Message):
    topics: list[DeleteTopicState] = array(DeleteTopicState, "6+")
    topic_names: list[str] = array("string", "0-5", ignorable=True)
    timeout_ms: int = int32()


class DeletableTopicResult(Struct):
    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="5+", default=None, ignorable=True)


@message(api_key=20, kind="response", valid="0-6", flexible="4+")
class DeleteTopicsResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    responses: list[DeletableTopicResult] = array(DeletableTopicResult)


API: Final = Api(
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.TOPIC, "name"),),
                "of a topic asked for by id: TOPIC_AUTHORIZATION_FAILED without its name",
            ),
            ByHandler(
                (Question(AclOperation.DELETE, ResourceType.TOPIC, "name"),),
                "TOPIC_AUTHORIZATION_FAILED, whether there is such a topic or not",
            ),
        ),
        note="After NOT_CONTROLLER, TOPIC_DELETION_DISABLED and UNKNOWN_TOPIC_ID.",
    ),
    elements=(
        elements_together("topic_names", "responses"),
        elements_together("topics", "responses"),
    ),
    since="0.10.1",
    needs_metadata=True,
    handling=Handling.WAITS,
)
