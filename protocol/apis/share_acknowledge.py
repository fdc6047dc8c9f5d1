"""ShareAcknowledge: results of records that a share group's member has acquired (KIP-932).

Share consumers send it to leaders.
Versions: 0 was for early access in Kafka 4.0; 2 adds acknowledgements that renew the lock
(KIP-1222).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling, elements_together
from ..features import Feature, Later
from ..schema import (
    Message,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    message,
    string,
    struct,
    uuid,
)


class AcknowledgementBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array("int8")


class AcknowledgePartition(Struct):
    partition_index: int = int32()
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class AcknowledgeTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[AcknowledgePartition] = array(AcknowledgePartition)


@message(api_key=79, kind="request", valid="1-2", flexible="0+")
class ShareAcknowledgeRequest(Message):
    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean("2+")
    topics: list[AcknowledgeTopic] = array(AcknowledgeTopic)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message(api_key=79, kind="response", valid="1-2", flexible="0+")
class ShareAcknowledgeResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32("2+", ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)


API: Final = Api(
    request=ShareAcknowledgeRequest,
    response=ShareAcknowledgeResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.READ, ResourceType.GROUP, "group_id"),),
                "GROUP_AUTHORIZATION_FAILED",
            ),
            ByHandler(
                (Question(AclOperation.READ, ResourceType.TOPIC, "topic_id"),),
                "by the topic's name: TOPIC_AUTHORIZATION_FAILED for the topic's partitions",
            ),
        ),
    ),
    later=Later(1, Feature.SHARE),
    handling=Handling.IN_TURNS,
    elements=(elements_together("topics.partitions", "responses.partitions"),),
)
