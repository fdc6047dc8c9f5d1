"""Metadata: the brokers of the cluster, and topics with their partitions and leaders.

Clients send it to any broker.
Versions: in 0 an empty list of topics means all, later null does; 4 can forbid auto creation; 5
tells offline replicas; 7 leader epochs; 8 authorized operations (KIP-430); 9 is flexible; 10 and
12 add topic ids (KIP-516); 13 has an error for the whole request, with which Kafka asks a client to
bootstrap again (KIP-1102).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import DESCRIBE_CLUSTER, AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import AT_EACH_TOO, Api, Handling, elements_together
from ..features import Later
from ..schema import Message, Struct, array, boolean, int16, int32, message, string, uuid


class MetadataRequestTopic(Struct):
    topic_id: bytes = uuid("10+", ignorable=True)
    name: str | None = string(nullable="10+")


@message(api_key=3, kind="request", valid="0-13", flexible="9+")
class MetadataRequest(Message):
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")


class MetadataResponseBroker(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32("7+", default=-1, ignorable=True)
    replica_nodes: list[int] = array("int32")
    isr_nodes: list[int] = array("int32")
    offline_replicas: list[int] = array("int32", "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid("10+", ignorable=True)
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32("8+", default=-2_147_483_648)


@message(api_key=3, kind="response", valid="0-13", flexible="9+")
class MetadataResponse(Message):
    throttle_time_ms: int = int32("3+", ignorable=True)
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32("8-10", default=-2_147_483_648)
    error_code: int = int16("13+", ignorable=True)


API: Final = Api(
    request=MetadataRequest,
    response=MetadataResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.DESCRIBE, ResourceType.TOPIC, "name"),),
                "TOPIC_AUTHORIZATION_FAILED, whether there is such a topic or not; without "
                "its name if asked for by id; left out if all topics are asked for",
            ),
            ByHandler(
                (
                    Question(AclOperation.CREATE, ResourceType.CLUSTER),
                    Question(AclOperation.CREATE, ResourceType.TOPIC, "name"),
                ),
                "of a topic to be created: TOPIC_AUTHORIZATION_FAILED",
            ),
            ByHandler((DESCRIBE_CLUSTER,), "no authorized operations on the cluster"),
        ),
        note="Authorized operations of topics and of the cluster are those that are allowed.",
    ),
    elements=(elements_together("topics", "topics"),),
    failure=AT_EACH_TOO,
    later=Later(13),
    needs_metadata=True,
    handling=Handling.IN_TURNS,
)
