"""AllocateProducerIds: a block of producer ids for a broker (KIP-730).

Brokers send it to the controller.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import BROKERS_ONLY
from ..api_page import Api, Failure, Handling
from ..schema import Message, int16, int32, int64, message


@message(api_key=67, kind="request", valid="0", flexible="0+")
class AllocateProducerIdsRequest(Message):
    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)


@message(api_key=67, kind="response", valid="0", flexible="0+")
class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id_start: int = int64()
    producer_id_len: int = int32()


API: Final = Api(
    request=AllocateProducerIdsRequest,
    response=AllocateProducerIdsResponse,
    access=BROKERS_ONLY,
    failure=Failure(values={"producer_id_start": -1}),
    handling=Handling.WAITS,
)
