"""EndTxn: commit or abort a transaction (KIP-98).

Producers send it to their transaction coordinator.
Versions: 3 is flexible; 5 raises the epoch with the end, and answers the producer id and epoch of
the next transaction (KIP-890, part 2).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import WRITE_TRANSACTION, AccessRules
from ..api_page import Api
from ..features import Later
from ..schema import Message, boolean, int16, int32, int64, message, string


@message(api_key=26, kind="request", valid="0-5", flexible="3+")
class EndTxnRequest(Message):
    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


@message(api_key=26, kind="response", valid="0-5", flexible="3+")
class EndTxnResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1, ignorable=True)
    producer_epoch: int = int16("5+", default=-1, ignorable=True)


API: Final = Api(
    request=EndTxnRequest,
    response=EndTxnResponse,
    access=AccessRules((WRITE_TRANSACTION,)),
    since="0.11",
    later=Later(5),
    has_small_answers=True,
)
