"""Fetch: read record batches, as a consumer or as a follower.

Consumers and followers send it to leaders; consumers to followers as well (KIP-392).
Versions: 3 adds the limit for the whole response; 4 the isolation level and aborted transactions;
5 the log start offset; 7 incremental sessions (KIP-227); 9 the leader epoch check (KIP-320); 11
racks and followers as sources (KIP-392); 12 is flexible and tells where logs diverge (KIP-595);
13 names topics by id (KIP-516); 15 moves the replica id into a tagged struct (KIP-903); 16 names
the new leader's endpoint (KIP-951); 17 adds the directory id of a replica (KIP-853) and 18 the high
watermark known to it (KIP-1166), which only KRaft uses.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Any, Final

from ..access_rules import AccessRules, AnyRequest, ByHandler, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Failure, elements_together
from ..features import Later
from ..primitives import Records
from ..schema import (
    Message,
    Struct,
    array,
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


class ReplicaState(Struct):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Struct):
    partition: int = int32()
    current_leader_epoch: int = int32("9+", default=-1, ignorable=True)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid("17+", ignorable=True, tag=0)
    high_watermark: int = int64("18+", default=0x7FFFFFFFFFFFFFFF, ignorable=True, tag=1)


class FetchTopic(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    topic: str = string("7-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[int] = array("int32", "7+")


@message(api_key=1, kind="request", valid="0-18", flexible="12+")
class FetchRequest(Message):
    cluster_id: str | None = string("12+", nullable="12+", default=None, ignorable=True, tag=0)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState = struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32("3+", default=0x7FFFFFFF, ignorable=True)
    isolation_level: int = int8("4+", ignorable=True)
    session_id: int = int32("7+", ignorable=True)
    session_epoch: int = int32("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+", ignorable=True)


class FetchResponseEpochEndOffset(Struct):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class FetchResponseLeaderIdAndEpoch(Struct):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Struct):
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class FetchResponsePartitionData(Struct):
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64("4+", default=-1, ignorable=True)
    log_start_offset: int = int64("5+", default=-1, ignorable=True)
    diverging_epoch: FetchResponseEpochEndOffset = struct(FetchResponseEpochEndOffset, "12+", tag=0)
    current_leader: FetchResponseLeaderIdAndEpoch = struct(
        FetchResponseLeaderIdAndEpoch, "12+", tag=1
    )
    snapshot_id: SnapshotId = struct(SnapshotId, "12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(
        AbortedTransaction, "4+", nullable="4+", ignorable=True
    )
    preferred_read_replica: int = int32("11+", default=-1)
    records: Records | None = opaque_records()


class FetchableTopicResponse(Struct):
    topic: str = string("0-12", ignorable=True)
    topic_id: bytes = uuid("13+", ignorable=True)
    partitions: list[FetchResponsePartitionData] = array(FetchResponsePartitionData)


class FetchResponseNodeEndpoint(Struct):
    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)


@message(api_key=1, kind="response", valid="0-18", flexible="12+")
class FetchResponse(Message):
    throttle_time_ms: int = int32("1+", ignorable=True)
    error_code: int = int16("7+", ignorable=True)
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[FetchResponseNodeEndpoint] = array(FetchResponseNodeEndpoint, "16+", tag=0)


def _with_session(request: AnyRequest, answer: Any, code: int) -> Any:
    """From version 7 on the error belongs to the session; Kafka repeats the code at partitions only
    for requests without a session before version 13."""
    answer.session_id = request.body.session_id
    return answer


API: Final = Api(
    request=FetchRequest,
    response=FetchResponse,
    access=AccessRules(
        by_handler=(
            ByHandler(
                (Question(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),),
                "of a follower: TOPIC_AUTHORIZATION_FAILED for every partition",
            ),
            ByHandler(
                (Question(AclOperation.READ, ResourceType.TOPIC, "topic"),),
                "of a consumer: TOPIC_AUTHORIZATION_FAILED for the topic's partitions",
            ),
        ),
        note="Asked at each fetch of a session, for all partitions of the session.",
    ),
    elements=(
        elements_together("topics.partitions", "responses.partitions", partition="partition_index"),
    ),
    failure=Failure(values={"high_watermark": -1, "records": b""}, finish=_with_session),
    later=Later(18),
    is_repeated=True,
    has_small_answers=True,
)
