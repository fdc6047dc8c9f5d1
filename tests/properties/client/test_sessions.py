"""Sessions that end (KIP-368): a client logs in again in time, at a played broker, in virtual time.

The broker's own machine of logins is the judge: of who may begin again, and of what comes too late.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair

from pybroker_kafka.broker.security.sasl.login import Login, LoginRules, Turn
from pybroker_kafka.broker.security.sasl.plain import PlainPasswords, PlainServer
from pybroker_kafka.client.connection import Connection, Connections
from pybroker_kafka.client.errors import ClientError, LoginError
from pybroker_kafka.client.exchanges import STREAM_ERRORS
from pybroker_kafka.client.frames import FramesReader
from pybroker_kafka.client.security.connector import Connector
from pybroker_kafka.client.security.settings import login_from
from pybroker_kafka.protocol.api import ApiKey
from pybroker_kafka.protocol.apis.api_versions import ApiVersion, ApiVersionsResponse
from pybroker_kafka.protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from pybroker_kafka.protocol.apis.sasl_authenticate import SaslAuthenticateResponse
from pybroker_kafka.protocol.apis.sasl_handshake import SaslHandshakeResponse
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.framing import encode_response
from tests.support.frames import decode_request, joined

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": f'{MODULE} username="alice" password="old";',
}
SERVED = (
    (ApiKey.API_VERSIONS, 3),
    (ApiKey.HEARTBEAT, 4),
    (ApiKey.SASL_HANDSHAKE, 1),
    (ApiKey.SASL_AUTHENTICATE, 2),
)
VERSIONS = ApiVersionsResponse(
    api_keys=[ApiVersion(api_key=key, min_version=0, max_version=last) for key, last in SERVED]
)


class PlayedBroker:
    """Answers in order, each request after `delay_seconds`; requests have numbers."""

    def __init__(self, session_ms: int, delay_seconds: float = 0) -> None:
        self.session_ms = session_ms
        self.delay_seconds = delay_seconds
        self.password = "old"
        self.takes_logins_again = True
        self.is_silent = False
        self.streams = self.logins = 0
        self.expired = 0  # requests that came too late

    async def serve(self, stream: Any) -> None:
        self.streams += 1
        rules = LoginRules({"PLAIN": self._new_server}, {"PLAIN": self.session_ms})
        login, frames = Login(rules), FramesReader()
        with suppress(*STREAM_ERRORS):
            while True:
                header, body = decode_request(await frames.read(stream))
                await trio.sleep(self.delay_seconds)
                if self.is_silent:
                    continue
                answer, is_last = self._answer(login, ApiKey(header.api_key), body)
                if answer is not None:
                    parts = encode_response(
                        header.api_key, header.api_version, header.correlation_id, answer
                    )
                    await stream.send_all(joined(parts))
                if is_last:
                    await stream.aclose()

    def _new_server(self) -> PlainServer:
        return PlainServer(PlainPasswords({"user_alice": self.password}))

    def _answer(self, login: Login, key: ApiKey, body: Any) -> tuple[Any, bool]:
        """And whether the connection ends behind it."""
        now_ms = int(trio.current_time() * 1000)
        if login.turn is Turn.ANYTHING:
            is_handshake = key is ApiKey.SASL_HANDSHAKE
            if not (is_handshake and self.takes_logins_again and login.may_begin_again(now_ms)):
                if login.is_expired(now_ms):
                    self.expired += not is_handshake
                    return None, True
                if is_handshake:
                    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE), False
        if key is ApiKey.API_VERSIONS:
            if login.turn is Turn.FIRST:
                login.on_api_versions()
            return VERSIONS, False
        if key is ApiKey.SASL_HANDSHAKE:
            outcome = login.handshake(body.mechanism, 1)
            return SaslHandshakeResponse(error_code=outcome.error), outcome.ends is not None
        if key is ApiKey.SASL_AUTHENTICATE:
            outcome = login.take(bytes(body.auth_bytes), now_ms, now_ms)
            self.logins += outcome.ends is None
            answer = SaslAuthenticateResponse(
                error_code=outcome.error,
                error_message=outcome.message,
                auth_bytes=outcome.token,
                session_lifetime_ms=outcome.lifetime_ms,
            )
            return answer, outcome.ends is not None
        assert login.turn is Turn.ANYTHING
        return HeartbeatResponse(throttle_time_ms=body.generation_id), False


@asynccontextmanager
async def meeting(broker: PlayedBroker) -> AsyncIterator[Connection]:
    async with trio.open_nursery() as nursery, Connections() as connections:

        async def reach(_host: str, _port: int) -> trio.abc.Stream:
            ours, theirs = memory_stream_pair()
            nursery.start_soon(broker.serve, theirs)
            return ours

        yield await connections.open("h", 9092, Connector(None, login_from(SETTINGS.get), reach))
        nursery.cancel_scope.cancel()


async def beat(connection: Connection, number: int) -> None:
    request = HeartbeatRequest(group_id="g", generation_id=number, member_id="m")
    answer = await connection.request(ApiKey.HEARTBEAT, request, HeartbeatResponse)
    assert answer.throttle_time_ms == number


@given(
    session_ms=st.integers(400, 20_000),
    gaps=st.lists(st.just(0.0) | st.floats(0, 1.5), max_size=30),
    is_slow=st.booleans(),
    takes_logins_again=st.booleans(),
)
def test_no_request_comes_too_late(
    session_ms: int, gaps: list[float], is_slow: bool, takes_logins_again: bool
) -> None:
    """`gaps` are in sessions. All that wait for answers are less than what is left of a session."""
    broker = PlayedBroker(session_ms, session_ms / 1_000 / 1_000 if is_slow else 0)
    broker.takes_logins_again = takes_logins_again

    async def main() -> None:
        async with meeting(broker) as connection, trio.open_nursery() as nursery:
            for number, gap in enumerate(gaps):
                await trio.sleep(gap * session_ms / 1000)
                nursery.start_soon(beat, connection, number)

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert broker.expired == 0
    if takes_logins_again and session_ms >= 1_300:
        assert broker.streams == 1
    if sum(gaps) >= 1 and gaps[-1] >= 1:
        assert broker.logins > 1


@pytest.fixture
def broker() -> PlayedBroker:
    return PlayedBroker(10_000)


async def test_a_login_again_too_soon_takes_a_new_stream(
    broker: PlayedBroker, autojump_clock: MockClock
) -> None:
    broker.session_ms = 500
    async with meeting(broker) as connection:
        for number in range(3):
            await trio.sleep(0.48)
            await beat(connection, number)
    # In place, on a new stream, and there in place again.
    assert (broker.logins, broker.streams, broker.expired) == (4, 2, 0)


async def test_a_new_password_ends_it_at_the_next_login(
    broker: PlayedBroker, autojump_clock: MockClock
) -> None:
    async with meeting(broker) as connection:
        broker.password = "new"
        await beat(connection, 1)
        await trio.sleep(9.9)
        with pytest.raises(LoginError, match=r"^h:9092: the login of alice with PLAIN failed"):
            await beat(connection, 2)
        assert not connection.is_open


async def test_a_broker_that_falls_silent_in_a_login(
    broker: PlayedBroker, autojump_clock: MockClock
) -> None:
    async with meeting(broker) as connection:
        await trio.sleep(9.9)
        broker.is_silent = True
        with pytest.raises(ClientError, match="does not answer") as caught:
            await beat(connection, 1)
        assert type(caught.value) is ClientError, "the request has not left"
        assert not connection.is_open


async def test_who_is_cancelled_in_a_login_leaves_nothing_half_done(
    broker: PlayedBroker, autojump_clock: MockClock
) -> None:
    broker.delay_seconds = 1
    async with meeting(broker) as connection:
        await trio.sleep(9.9)
        with trio.move_on_after(0.5) as limit:
            await beat(connection, 1)
        assert limit.cancelled_caught
        with pytest.raises(ClientError, match="is closed"):
            await beat(connection, 2)
