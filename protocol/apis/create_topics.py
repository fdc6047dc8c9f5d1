"""CreateTopics: new topics with their partitions, replicas and configuration.

Tools and admin clients send it to the controller.
Versions: 1 can validate only; 4 takes the broker's default counts (KIP-464); 5 is flexible and
returns the configuration (KIP-525); 7 the topic id.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling, elements_together
from ..schema import Message, Struct, array, boolean, int8, int16, int32, message, string, uuid


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32()
    broker_ids: list[int] = array("int32")


class CreatableTopicConfig(Struct):
    name: str = string()
    value: str | None = string(nullable="0+")


class CreatableTopic(Struct):
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig)


@message(api_key=19, kind="request", valid="0-7", flexible="5+")
class CreateTopicsRequest(Message):
    topics: list[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60_000)
    validate_only: bool = boolean("1+")


class CreatableTopicConfigs(Struct):
    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+")


class CreatableTopicResult(Struct):
    name: str = string()
    topic_id: bytes = uuid("7+", ignorable=True)
    error_code: int = int16()
    error_message: str | None = string("1+", nullable="0+", ignorable=True)
    topic_config_error_code: int = int16("5+", ignorable=True, tag=0)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, "5+", nullable="5+", ignorable=True
    )


@message(api_key=19, kind="response", valid="0-7", flexible="5+")
class CreateTopicsResponse(Message):
    throttle_time_ms: int = int32("2+", ignorable=True)
    topics: list[CreatableTopicResult] = array(CreatableTopicResult)


API: Final = Api(
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (
                    Question(AclOperation.CREATE, ResourceType.CLUSTER),
                    Question(AclOperation.CREATE, ResourceType.TOPIC, "name"),
                ),
                "TOPIC_AUTHORIZATION_FAILED for the topic",
            ),
            ByHandler(
                (Question(AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, "name"),),
                "the topic's configs, partitions and replicas are not told",
            ),
        ),
        note="After NOT_CONTROLLER and what is wrong with the names.",
    ),
    elements=(elements_together("topics", "topics"),),
    since="0.10.1",
    needs_metadata=True,
    handling=Handling.WAITS,
)
