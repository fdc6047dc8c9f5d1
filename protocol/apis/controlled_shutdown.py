"""ControlledShutdown: a broker is about to stop, and hands its leaders over before.

Brokers send it to the controller.
Versions: 0 has a header of its own, without a client id; 2 adds the broker epoch (KIP-380); 3 is
flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import BROKERS_ONLY
from ..api_page import Api, Handling
from ..schema import Message, Struct, array, int16, int32, int64, message, string


@message(api_key=7, kind="request", valid="0-3", flexible="3+")
class ControlledShutdownRequest(Message):
    broker_id: int = int32()
    broker_epoch: int = int64("2+", default=-1, ignorable=True)


class RemainingPartition(Struct):
    topic_name: str = string()
    partition_index: int = int32()


@message(api_key=7, kind="response", valid="0-3", flexible="3+")
class ControlledShutdownResponse(Message):
    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)


API: Final = Api(
    request=ControlledShutdownRequest,
    response=ControlledShutdownResponse,
    access=BROKERS_ONLY,
    is_exempt=True,
    handling=Handling.WAITS,
)
