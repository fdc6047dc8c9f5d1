"""PushTelemetry: metrics of a client, in the form of OpenTelemetry (KIP-714).

Clients send it to the broker that they have asked for a subscription, at the interval that it
answered, and once more when they end.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules
from ..api_page import Api, Handling
from ..features import Later
from ..primitives import Buffer
from ..schema import Message, binary, boolean, int8, int16, int32, message, uuid


@message(api_key=72, kind="request", valid="0", flexible="0+")
class PushTelemetryRequest(Message):
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: Buffer = binary()


@message(api_key=72, kind="response", valid="0", flexible="0+")
class PushTelemetryResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()


API: Final = Api(
    request=PushTelemetryRequest,
    response=PushTelemetryResponse,
    access=AccessRules(note="Every client may push metrics of its own."),
    since="3.7",
    later=Later(0),
    handling=Handling.WAITS,
)
