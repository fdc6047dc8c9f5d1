"""ShareFetch: acquire records for a member of a share group (KIP-932).

Share consumers send it to leaders; it acknowledges records as well.
Versions: 0 was for early access in Kafka 4.0; 2 adds the mode of acquisition (KIP-1206) and
acknowledgements that renew the lock (KIP-1222).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling, elements_together
from ..features import Feature, Later
from ..primitives import Records
from ..schema import (
    Message,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    message,
    opaque_records,
    string,
    struct,
    uuid,
)


class AcknowledgementBatch(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: list[int] = array("int8")


class FetchPartition(Struct):
    partition_index: int = int32()
    partition_max_bytes: int = int32("0")
    acknowledgement_batches: list[AcknowledgementBatch] = array(AcknowledgementBatch)


class FetchTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic_id: bytes = uuid()
    partitions: list[int] = array("int32")


@message(api_key=78, kind="request", valid="1-2", flexible="0+")
class ShareFetchRequest(Message):
    group_id: str | None = string(nullable="0+", default=None)
    member_id: str | None = string(nullable="0+")
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8("2+", ignorable=True)
    is_renew_ack: bool = boolean("2+")
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic)


class LeaderIdAndEpoch(Struct):
    leader_id: int = int32()
    leader_epoch: int = int32()


class AcquiredRecords(Struct):
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


class PartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    records: Records = opaque_records(nullable=None)
    acquired_records: list[AcquiredRecords] = array(AcquiredRecords)


class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = uuid()
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


@message(api_key=78, kind="response", valid="1-2", flexible="0+")
class ShareFetchResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: list[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint)


API: Final = Api(
    request=ShareFetchRequest,
    response=ShareFetchResponse,
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
