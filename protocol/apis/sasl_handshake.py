"""SaslHandshake: the mechanism of a login.

Clients send it first on a connection with SASL.
Versions: after 0 tokens follow as bare frames, after 1 inside SaslAuthenticate (KIP-152).

Mirrors: the schemas of this name in clients/src/main/resources/common/message.
"""

from __future__ import annotations

from typing import Final

from ..access_rules import AccessRules
from ..api_page import Api
from ..schema import Message, array, int16, message, string


@message(api_key=17, kind="request", valid="0-1")
class SaslHandshakeRequest(Message):
    mechanism: str = string()


@message(api_key=17, kind="response", valid="0-1")
class SaslHandshakeResponse(Message):
    error_code: int = int16()
    mechanisms: list[str] = array("string")


API: Final = Api(
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
    access=AccessRules(note="Before anybody is known; afterwards ILLEGAL_SASL_STATE."),
    has_small_answers=True,
)
