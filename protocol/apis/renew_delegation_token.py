"""RenewDelegationToken: a token lives longer (KIP-48).

Tools and admin clients send it to any broker.
Versions: 2 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules
from ..api_page import Api, Handling
from ..primitives import Buffer
from ..schema import Message, binary, int16, int32, int64, message


@message(api_key=39, kind="request", valid="0-2", flexible="2+")
class RenewDelegationTokenRequest(Message):
    hmac: Buffer = binary()
    renew_period_ms: int = int64()


@message(api_key=39, kind="response", valid="0-2", flexible="2+")
class RenewDelegationTokenResponse(Message):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


API: Final = Api(
    request=RenewDelegationTokenRequest,
    response=RenewDelegationTokenResponse,
    access=AccessRules(note="The token says who may renew it."),
    since="1.1",
    handling=Handling.WAITS,
)
