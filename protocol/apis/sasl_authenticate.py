"""SaslAuthenticate: the tokens of a login (KIP-152).

Clients send it after SaslHandshake.
Versions: 1 tells how long the session lasts (KIP-368); 2 is flexible.

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules
from ..api_page import Api
from ..primitives import Buffer
from ..schema import Message, binary, int16, int64, message, string


@message(api_key=36, kind="request", valid="0-2", flexible="2+")
class SaslAuthenticateRequest(Message):
    auth_bytes: Buffer = binary()


@message(api_key=36, kind="response", valid="0-2", flexible="2+")
class SaslAuthenticateResponse(Message):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: Buffer = binary()
    session_lifetime_ms: int = int64("1+", ignorable=True)


API: Final = Api(
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
    access=AccessRules(note="Before anybody is known; afterwards ILLEGAL_SASL_STATE."),
    since="1.0",
    has_small_answers=True,
)
