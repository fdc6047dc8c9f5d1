"""A client that logs in at who knows whom: it ends with a login or a `LoginError`, whatever it is
told, and believes no server that does not know the password.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import memory_stream_pair

from pybroker_kafka.client.errors import LoginError
from pybroker_kafka.client.exchanges import STREAM_ERRORS
from pybroker_kafka.client.security.login import Login, log_in
from pybroker_kafka.client.security.settings import login_from
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from pybroker_kafka.protocol.apis.sasl_authenticate import SaslAuthenticateResponse
from pybroker_kafka.protocol.apis.sasl_handshake import SaslHandshakeResponse
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.framing import encode_response
from tests.support.frames import decode_request, joined

KAFKA = "org.apache.kafka.common.security"
MODULES = {
    "PLAIN": f'{KAFKA}.plain.PlainLoginModule required username="a" password="the-secret";',
    "SCRAM-SHA-256": f'{KAFKA}.scram.ScramLoginModule required username="a" password="the-secret";',
    "OAUTHBEARER": (
        f'{KAFKA}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="a";'
    ),
}

codes = st.sampled_from([0, 0, 0, 0, 33, 34, 58, -1, 999])
tokens = st.binary(max_size=40) | st.sampled_from(
    [b"", b"r=x,s=AA==,i=4096", b"v=AA==", b"e=other-error", b'{"status":"invalid_token"}']
)
served = st.sampled_from(
    [ApiVersion(api_key=key, max_version=newest) for key in (17, 36) for newest in (0, 1, 2, 9)]
)
answers: dict[ApiKey, Any] = {
    ApiKey.API_VERSIONS: st.builds(
        ApiVersionsResponse, error_code=codes, api_keys=st.lists(served, max_size=4)
    )
    | st.just(
        ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=17, max_version=1), ApiVersion(api_key=36, max_version=2)]
        )
    ),
    ApiKey.SASL_HANDSHAKE: st.builds(
        SaslHandshakeResponse,
        error_code=codes,
        mechanisms=st.lists(st.text(max_size=9), max_size=3),
    ),
    ApiKey.SASL_AUTHENTICATE: st.builds(
        SaslAuthenticateResponse,
        error_code=codes,
        error_message=st.none() | st.text(max_size=20),
        auth_bytes=tokens,
    ),
}


async def serve(stream: trio.abc.Stream, draw: Callable[[Any], Any]) -> None:
    """Frames of random bytes, an end, or answers with anything in them."""
    data = b""
    while True:
        try:
            more = await stream.receive_some(65_536)
        except STREAM_ERRORS:
            return
        data += more
        if not more or len(data) < 4:
            return
        size = int.from_bytes(data[:4], "big")
        assert len(data) == 4 + size
        header, _ = decode_request(memoryview(data)[4:])
        data = b""
        what = draw(st.sampled_from(["answer"] * 12 + ["bytes", "end", "size"]))
        if what == "end":
            await stream.aclose()
            return
        if what == "bytes":
            body = header.correlation_id.to_bytes(4, "big") + draw(st.binary(max_size=30))
            await stream.send_all(len(body).to_bytes(4, "big") + body)
        elif what == "size":
            await stream.send_all(draw(st.binary(min_size=4, max_size=4)) + b"x" * 8)
            await stream.aclose()
            return
        else:
            key, version = ApiKey(header.api_key), header.api_version
            message = draw(answers[key])
            if version == 0 and key is ApiKey.SASL_AUTHENTICATE:
                message.session_lifetime_ms = 0
            parts = encode_response(key, version, header.correlation_id, message)
            await stream.send_all(joined(parts))


async def ended(login: Awaitable[int]) -> str:
    """How, in the words of whom it is told."""
    try:
        assert isinstance(await login, int)
    except LoginError as error:
        return str(error)
    except STREAM_ERRORS:
        return "cut"
    return "in"


@pytest.mark.parametrize("mechanism", MODULES)
@given(data=st.data())
def test_whatever_a_server_says(mechanism: str, data: st.DataObject) -> None:
    settings = {"sasl.mechanism": mechanism, "sasl.jaas.config": MODULES[mechanism]}
    login = login_from(settings.get)._replace(is_slow=False)

    async def main() -> None:
        ours, theirs = memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, theirs, data.draw)
            with trio.fail_after(120):
                outcome = await ended(log_in(ours, login, "client"))
            assert "the-secret" not in outcome
            assert outcome.isprintable()
            assert outcome != "in" or mechanism != "SCRAM-SHA-256", "it has proved nothing"
            nursery.cancel_scope.cancel()

    trio.run(main)


def test_a_code_that_is_not_known_is_an_unknown_error() -> None:
    assert ErrorCode(9_999) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "the-secret" not in repr(Login("PLAIN", "a", lambda: None))  # type: ignore[arg-type,return-value]
