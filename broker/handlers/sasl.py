"""SaslHandshake v0-1 and SaslAuthenticate v0-2 (KIP-43, KIP-152, KIP-368).

During a login the gatekeeper of the connection answers them; at any other time, and on listeners
without SASL, they are refused, and the connection lives.

Mirrors `KafkaApis.handleSaslHandshakeRequest` and `handleSaslAuthenticateRequest`.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...protocol.api import ApiKey
from ..logins.sasl_gatekeeper import SaslGatekeeper, refused_after_login
from ..network.connection import Connection
from ..network.request import Handler, Request


class SaslHandlers:
    def handlers(self) -> Mapping[ApiKey, Handler]:
        return {
            ApiKey.SASL_HANDSHAKE: self.handshake,
            ApiKey.SASL_AUTHENTICATE: self.authenticate,
        }

    def handshake(self, request: Request) -> None:
        gatekeeper = _gatekeeper(request)
        if gatekeeper is None or not gatekeeper.handshake(request):
            refused_after_login(request)

    def authenticate(self, request: Request) -> None:
        gatekeeper = _gatekeeper(request)
        if gatekeeper is None or not gatekeeper.authenticate(request):
            refused_after_login(request)


def _gatekeeper(request: Request) -> SaslGatekeeper | None:
    connection = request.connection
    found = connection.gatekeeper if isinstance(connection, Connection) else None
    return found if isinstance(found, SaslGatekeeper) else None
