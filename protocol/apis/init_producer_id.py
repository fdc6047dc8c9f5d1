"""InitProducerId: a producer's id and epoch, idempotent or transactional (KIP-98).

Producers send it to the coordinator of their transactional id, or to any broker without one.
Versions: 2 is flexible; 3 can continue an epoch (KIP-360).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import ANY_NAME, WRITE_TRANSACTION, AccessRules, Question, When, Whole
from ..acls import AclOperation, ResourceType
from ..api_page import Api, Handling
from ..errors import ErrorCode
from ..schema import Message, int16, int32, int64, message, string


@message(api_key=22, kind="request", valid="0-5", flexible="2+")
class InitProducerIdRequest(Message):
    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64("3+", default=-1)
    producer_epoch: int = int16("3+", default=-1)


@message(api_key=22, kind="response", valid="0-5", flexible="2+")
class InitProducerIdResponse(Message):
    throttle_time_ms: int = int32(ignorable=True)
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()


API: Final = Api(
    request=InitProducerIdRequest,
    response=InitProducerIdResponse,
    access=AccessRules(
        (
            WRITE_TRANSACTION._replace(
                when=When("with a transactional id", lambda r: r.body.transactional_id is not None)
            ),
            Whole(
                (
                    Question(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
                    Question(AclOperation.WRITE, ResourceType.TOPIC, ANY_NAME),
                ),
                ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
                When("without a transactional id", lambda r: r.body.transactional_id is None),
            ),
        )
    ),
    since="0.11",
    has_small_answers=True,
    handling=Handling.WAITS,
)
