"""Over which connections tokens can be had at all."""

from __future__ import annotations

import pytest

from pybroker_kafka.broker.handlers.delegation_tokens import DelegationTokenHandlers
from pybroker_kafka.broker.network.request import Request
from pybroker_kafka.broker.network.turns import Steps
from pybroker_kafka.broker.security.delegation_tokens import DelegationTokens
from pybroker_kafka.broker.security.principal import ANONYMOUS, KafkaPrincipal
from pybroker_kafka.broker.zk.delegation_token_store import DelegationTokenStore
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.describe_delegation_token import DescribeDelegationTokenRequest
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.wall_clock import WallClock
from tests.support.handlers import Call

ALICE = KafkaPrincipal("User", "alice")
REFUSED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


@pytest.mark.parametrize(
    ("protocol", "principal", "secret", "error"),
    [
        ("PLAINTEXT", ANONYMOUS, b"s", REFUSED),
        ("PLAINTEXT", ALICE, b"", REFUSED),
        ("SSL", ANONYMOUS, b"s", REFUSED),
        ("SSL", KafkaPrincipal("User", "CN=alice"), b"s", ErrorCode.NONE),
        ("SASL_PLAINTEXT", ALICE, b"s", ErrorCode.NONE),
        ("SASL_SSL", ALICE, b"s", ErrorCode.NONE),
        ("SASL_SSL", ALICE, b"", ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        ("SASL_SSL", ALICE._replace(token_authenticated=True), b"s", REFUSED),
    ],
)
def test_over_which_connections(
    protocol: str, principal: KafkaPrincipal, secret: bytes, error: ErrorCode
) -> None:
    tokens = DelegationTokens(secret, max_lifetime_ms=1, expiry_ms=1)
    store = DelegationTokenStore(None, tokens, lambda: 0, lambda: "id", WallClock())  # type: ignore[arg-type]
    handlers = DelegationTokenHandlers(store)

    class FromThere:
        def handlers(self) -> dict[ApiKey, object]:
            return {ApiKey.DESCRIBE_DELEGATION_TOKEN: self.describe}

        def describe(self, request: Request) -> Steps:
            request.peer.security_protocol = protocol
            request.peer.principal = principal
            return handlers.describe(request)

    request = DescribeDelegationTokenRequest(owners=None)
    answer = Call(FromThere(), ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, request).answer
    assert (answer.error_code, answer.tokens) == (error, [])
