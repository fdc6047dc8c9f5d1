"""DescribeTransactions: the state of transactional ids (KIP-664).

Tools and admin clients send it to transaction coordinators.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, Each, Hidden, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, elements
from ..errors import ErrorCode
from ..schema import Message, Struct, array, int16, int32, int64, message, string


@message(api_key=65, kind="request", valid="0", flexible="0+")
class DescribeTransactionsRequest(Message):
    transactional_ids: list[str] = array("string")


class DescribeTransactionsResponseTopicData(Struct):
    topic: str = string()
    partitions: list[int] = array("int32")


class DescribeTransactionsResponseTransactionState(Struct):
    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[DescribeTransactionsResponseTopicData] = array(
        DescribeTransactionsResponseTopicData
    )


@message(api_key=65, kind="response", valid="0", flexible="0+")
class DescribeTransactionsResponse(Message):
    throttle_time_ms: int = int32()
    transaction_states: list[DescribeTransactionsResponseTransactionState] = array(
        DescribeTransactionsResponseTransactionState
    )


API: Final = Api(
    request=DescribeTransactionsRequest,
    response=DescribeTransactionsResponse,
    access=AccessRules(
        each=Each(
            "transactional_ids",
            Question(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        hidden=(
            Hidden(
                ("transaction_states", "topics"),
                Question(AclOperation.DESCRIBE, ResourceType.TOPIC, "topic"),
            ),
        ),
    ),
    elements=(elements("transactional_ids", "transaction_states"),),
    since="3.0",
    has_distinct_elements=True,
)
