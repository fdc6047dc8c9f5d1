"""DeleteShareGroupOffsets: forget topics of a share group without members (KIP-932).

Tools and admin clients send it to the group's coordinator.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, on_each_topic, on_group
from ..acls import AclOperation
from ..api_page import Api, Handling, elements_together
from ..features import Feature, Later
from ..schema import Message, Struct, array, int16, int32, message, string, uuid


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = string()


@message(api_key=92, kind="request", valid="0", flexible="0+")
class DeleteShareGroupOffsetsRequest(Message):
    group_id: str = string()
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array(DeleteShareGroupOffsetsRequestTopic)


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


@message(api_key=92, kind="response", valid="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic
    )


API: Final = Api(
    request=DeleteShareGroupOffsetsRequest,
    response=DeleteShareGroupOffsetsResponse,
    access=AccessRules(
        (on_group(AclOperation.DELETE),),
        on_each_topic(AclOperation.READ, "topic_name")._replace(goes_on=True),
    ),
    later=Later(0, Feature.SHARE),
    elements=(elements_together("topics", "responses"),),
    handling=Handling.WAITS,
)
