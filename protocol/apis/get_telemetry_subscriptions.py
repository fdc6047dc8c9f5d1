"""GetTelemetrySubscriptions: the metrics of its own that a client shall push (KIP-714).

Clients send it to one broker of theirs, when they start and after an error of PushTelemetry.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules
from ..api_page import Api
from ..features import Later
from ..schema import Message, array, boolean, int16, int32, message, uuid


@message(api_key=71, kind="request", valid="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Message):
    client_instance_id: bytes = uuid()


@message(api_key=71, kind="response", valid="0", flexible="0+")
class GetTelemetrySubscriptionsResponse(Message):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: bytes = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array("int8")
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array("string")


API: Final = Api(
    request=GetTelemetrySubscriptionsRequest,
    response=GetTelemetrySubscriptionsResponse,
    access=AccessRules(note="Every client may ask for its own subscription."),
    since="3.7",
    later=Later(0),
)
