"""Envelope: another request inside, which a broker forwards for its client (KIP-590).

Brokers send it to the controller, with KRaft alone.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules
from ..api_page import Api
from ..primitives import Buffer
from ..schema import Message, binary, int16, message


@message(api_key=58, kind="request", valid="0", flexible="0+")
class EnvelopeRequest(Message):
    request_data: Buffer = binary()
    request_principal: Buffer | None = binary(nullable="0+")
    client_host_address: Buffer = binary()


@message(api_key=58, kind="response", valid="0", flexible="0+")
class EnvelopeResponse(Message):
    response_data: Buffer | None = binary(nullable="0+", default=None)
    error_code: int = int16()


API: Final = Api(
    request=EnvelopeRequest,
    response=EnvelopeResponse,
    access=AccessRules(
        note="Nothing is forwarded with ZooKeeper: every connection that sends it is closed."
    ),
)
