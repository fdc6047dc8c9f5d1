"""AddPartitionsToTxn: a transaction is about to write to partitions (KIP-98).

Producers send it to their transaction coordinator, and leaders, to verify a transaction.
Versions: 3 is flexible; 4 is for brokers, with several transactions in one request (KIP-890);
what clients send stands in fields of its own for version 3 and below.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, ByHandler, Question, When, on_cluster
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling, elements_together
from ..schema import Message, Struct, array, boolean, int16, int32, int64, message, string


class AddPartitionsToTxnTopic(Struct):
    name: str = string()
    partitions: list[int] = array("int32")


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = string("4+")
    producer_id: int = int64("4+")
    producer_epoch: int = int16("4+")
    verify_only: bool = boolean("4+")
    topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "4+")


@message(api_key=24, kind="request", valid="0-5", flexible="3+")
class AddPartitionsToTxnRequest(Message):
    transactions: list[AddPartitionsToTxnTransaction] = array(AddPartitionsToTxnTransaction, "4+")
    v3_and_below_transactional_id: str = string("0-3")
    v3_and_below_producer_id: int = int64("0-3")
    v3_and_below_producer_epoch: int = int16("0-3")
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = array(AddPartitionsToTxnTopic, "0-3")


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsToTxnTopicResult(Struct):
    name: str = string()
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = array(
        AddPartitionsToTxnPartitionResult
    )


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = string("4+")
    topic_results: list[AddPartitionsToTxnTopicResult] = array(AddPartitionsToTxnTopicResult, "4+")


@message(api_key=24, kind="response", valid="0-5", flexible="3+")
class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16("4+", ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = array(AddPartitionsToTxnResult, "4+")
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = array(
        AddPartitionsToTxnTopicResult, "0-3"
    )


API: Final = Api(
    request=AddPartitionsToTxnRequest,
    response=AddPartitionsToTxnResponse,
    access=AccessRules(
        (
            on_cluster(AclOperation.CLUSTER_ACTION)._replace(
                when=When("v4+, of brokers", lambda r: r.api_version >= 4)
            ),
        ),
        by_handler=(
            ByHandler(
                (Question(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),),
                "v0-3: TRANSACTIONAL_ID_AUTHORIZATION_FAILED for all partitions",
            ),
            ByHandler(
                (Question(AclOperation.WRITE, ResourceType.TOPIC, "name"),),
                "v0-3: TOPIC_AUTHORIZATION_FAILED for the topic's partitions, and "
                "OPERATION_NOT_ATTEMPTED for all others",
            ),
        ),
    ),
    elements=(
        elements_together(
            "v3_and_below_topics.partitions", "results_by_topic_v3_and_below.results_by_partition"
        ),
    ),
    since="0.11",
    needs_metadata=True,
    has_small_answers=True,
    handling=Handling.IN_TURNS,
)
