"""ListTransactions: the transactional ids that a broker coordinates (KIP-664).

Tools and admin clients send it to every broker.
Versions: 1 filters by duration (KIP-994), 2 by a pattern of transactional ids (KIP-1152).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules, Hidden, Question
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling
from ..features import Later
from ..schema import Message, Struct, array, int16, int32, int64, message, string


@message(api_key=66, kind="request", valid="0-2", flexible="0+")
class ListTransactionsRequest(Message):
    state_filters: list[str] = array("string")
    producer_id_filters: list[int] = array("int64")
    duration_filter: int = int64("1+", default=-1)
    transactional_id_pattern: str | None = string("2+", nullable="2+", default=None)


class ListTransactionsResponseTransactionState(Struct):
    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


@message(api_key=66, kind="response", valid="0-2", flexible="0+")
class ListTransactionsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array("string")
    transaction_states: list[ListTransactionsResponseTransactionState] = array(
        ListTransactionsResponseTransactionState
    )


API: Final = Api(
    request=ListTransactionsRequest,
    response=ListTransactionsResponse,
    access=AccessRules(
        hidden=(
            Hidden(
                ("transaction_states",),
                Question(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),
            ),
        )
    ),
    since="3.0",
    later=Later(2),
    handling=Handling.IN_TURNS,
)
