"""Filters the frames of a connection of a SASL listener until its client has logged in.

Job: sort each connection's frames into requests allowed before the login, tokens of the login, and
requests for the dispatcher; answer SaslHandshake and SaslAuthenticate, and tokens without a header,
which follow a handshake of version 0, or come at once from clients of Kafka 0.9 with GSSAPI.
`security.sasl.login` keeps the state of a login.

Invariants:
- Before its login a client may send ApiVersions once, a handshake and tokens, in no frame of more
  than `sasl.server.max.receive.size` bytes; any other frame closes its connection.
- A refusal, and the close behind it, comes `connection.failed.authentication.delay.ms` later, and
  nothing is read from the connection meanwhile.
- A client with a session without an end loses its gatekeeper at its login. An expired session is
  closed at its next request, without an answer.

Mirrors `SaslServerAuthenticator`, and the parts of `KafkaChannel` and `Processor` for it. Leaves
out the answers with ILLEGAL_SASL_STATE to requests of other APIs between handshake and login: their
connections are only closed. Beyond Kafka a login has a time limit (`login_tasks`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from struct import Struct
from time import perf_counter
from typing import Any

from ...protocol import framing
from ...protocol.api import API_TABLE, ApiKey
from ...protocol.apis.api_versions import ApiVersionsResponse
from ...protocol.apis.sasl_authenticate import SaslAuthenticateResponse
from ...protocol.apis.sasl_handshake import SaslHandshakeResponse
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.schema import Message
from ..network.bad_input import BadInput
from ..network.connection import SIZE_PREFIX_BYTES, Connection, FrameHandler, Gatekeeper
from ..network.request import Request
from ..observability.metrics import BrokerMetrics
from ..security.sasl.gssapi import GSSAPI
from ..security.sasl.login import Login, LoginRules, Outcome, Turn
from .login_tasks import LoginTasks

AFTER_LOGIN = "SaslAuthenticate request received after successful authentication"

_HEADER = Struct(">hh").unpack_from
_SMALLEST_HEADER_BYTES = 8
_SIZE = Struct(">i").pack


class LoginCounts:
    """The counts of one listener since the start of the broker."""

    __slots__ = ("expired", "failed", "failed_again", "succeeded", "succeeded_again")

    def __init__(self) -> None:
        self.succeeded = self.failed = self.succeeded_again = self.failed_again = 0
        self.expired = 0

    def register(self, metrics: BrokerMetrics, listener: str) -> None:
        prefix = "kafka_server_socketservermetrics_"
        for name, attribute in (
            ("successful_authentication_total", "succeeded"),
            ("failed_authentication_total", "failed"),
            ("successful_reauthentication_total", "succeeded_again"),
            ("failed_reauthentication_total", "failed_again"),
            ("expired_connections_killed_count", "expired"),
        ):
            read = partial(getattr, self, attribute)
            metrics.gauge(prefix + name, read, listener=listener)


@dataclass(slots=True)
class SaslListener:
    """The state that all connections of a listener share. The first two fields may change, for
    later connections.
    """

    rules: LoginRules
    max_receive_bytes: int
    failure_delay_seconds: float
    handle_frame: FrameHandler  # for frames of clients that have logged in
    tasks: LoginTasks
    epoch_ms: Callable[[], int]
    counts: LoginCounts

    def new_gatekeeper(self, connection: Connection) -> Gatekeeper:
        return SaslGatekeeper(self, connection)


class SaslGatekeeper:
    """The gatekeeper of one connection."""

    __slots__ = (
        "_connection", "_is_known", "_listener", "_login", "_max_frame_bytes", "_mechanisms",
    )  # fmt: skip

    def __init__(self, listener: SaslListener, connection: Connection) -> None:
        self._listener = listener
        self._connection = connection
        self._login = Login(listener.rules)
        self._mechanisms = listener.rules.names
        self._is_known = False
        self._max_frame_bytes = connection.max_frame_bytes
        connection.max_frame_bytes = min(listener.max_receive_bytes, connection.max_frame_bytes)
        listener.tasks.expect(connection)

    def __call__(self, connection: Connection) -> float:
        """Take the frame at the front of the buffer, or have it handled."""
        login, listener = self._login, self._listener
        if login.turn is Turn.TOKEN and not login.in_headers:
            return self._take_bare_token()
        if connection.needed < SIZE_PREFIX_BYTES + _SMALLEST_HEADER_BYTES:
            raise BadInput("a frame too short for a request header before its login")
        key, version = _HEADER(connection.buffer, connection.start + SIZE_PREFIX_BYTES)
        if login.turn is Turn.ANYTHING:
            return self._pass(key)
        if login.turn in (Turn.TOKEN, Turn.BAD_MECHANISM):
            if login.turn is Turn.TOKEN and key == ApiKey.SASL_AUTHENTICATE:
                return listener.handle_frame(connection)
            return self._refuse_out_of_turn(key, version)
        if key == ApiKey.API_VERSIONS and login.turn is Turn.FIRST:
            if API_TABLE[ApiKey.API_VERSIONS].supports(version):
                login.on_api_versions()
        elif key not in API_TABLE and login.may_speak_gssapi:
            login.handshake(GSSAPI, version=0)
            return self._take_bare_token()
        elif key != ApiKey.SASL_HANDSHAKE:
            raise BadInput(f"{_what(key)} before its login")
        return listener.handle_frame(connection)

    def connection_closed(self) -> None:
        self._listener.tasks.forget(self._connection)

    # For the handlers of the two APIs

    def handshake(self, request: Request) -> bool:
        """Answer a SaslHandshake; False if it is out of turn."""
        login = self._login
        if login.turn not in (Turn.FIRST, Turn.HANDSHAKE):
            return False
        outcome = login.handshake(request.body.mechanism, request.api_version)
        response = SaslHandshakeResponse(error_code=outcome.error, mechanisms=self._mechanisms)
        self._answer(request, response, outcome)
        return True

    def authenticate(self, request: Request) -> bool:
        """Answer a SaslAuthenticate; False if it is out of turn."""
        if self._login.turn is not Turn.TOKEN:
            return False
        self._step(bytes(request.body.auth_bytes), partial(self._answer_token, request))
        return True

    def _answer_token(self, request: Request, outcome: Outcome) -> None:
        response = SaslAuthenticateResponse(
            error_code=outcome.error, error_message=outcome.message, auth_bytes=outcome.token,
            session_lifetime_ms=outcome.lifetime_ms,
        )  # fmt: skip
        self._answer(request, response, outcome)

    def _answer(self, request: Request, response: Message, outcome: Outcome) -> None:
        if outcome.ends is None:
            request.respond(response)
            return
        request.metrics.error(outcome.error.name)
        parts = framing.encode_response(
            request.api_key, request.api_version, request.correlation_id, response
        )
        self._refuse(parts, outcome.ends)

    # Tokens

    def _take_bare_token(self) -> float:
        connection = self._connection
        begin = connection.start + SIZE_PREFIX_BYTES
        connection.start += connection.needed
        self._step(bytes(connection.view[begin : connection.start]), self._answer_bare_token)
        return perf_counter()

    def _answer_bare_token(self, outcome: Outcome) -> None:
        if outcome.ends is None:
            self._connection.send([_SIZE(len(outcome.token)) + outcome.token])
        else:
            self._refuse(None, outcome.ends)

    def _step(self, token: bytes, answer: Callable[[Outcome], None]) -> None:
        login, listener = self._login, self._listener
        if not login.blocks:
            outcome = login.take(token, _now_ms(), listener.epoch_ms())
            self._apply(outcome, answer)
            return
        outcomes: list[Outcome] = []

        def step() -> None:
            outcomes.append(login.take(token, _now_ms(), listener.epoch_ms()))

        listener.tasks.in_thread(self._connection, step, lambda: self._apply(outcomes[0], answer))

    def _apply(self, outcome: Outcome, answer: Callable[[Outcome], None]) -> None:
        """Apply the outcome of a token, then answer."""
        connection, login, counts = self._connection, self._login, self._listener.counts
        if connection.closed:
            return
        if login.turn is Turn.ANYTHING:
            if self._is_known:
                counts.succeeded_again += 1
            else:
                counts.succeeded += 1
            self._is_known = True
            assert login.principal is not None
            connection.peer.principal = login.principal
            connection.max_frame_bytes = self._max_frame_bytes
            connection.gatekeeper = None if login.expires_ms is None else self
            self._listener.tasks.forget(connection)
        answer(outcome)

    # Requests of known clients, and refusals

    def _pass(self, key: int) -> float:
        """A request of a known client, whose session may have an end."""
        login, connection, now_ms = self._login, self._connection, _now_ms()
        begins_again = key == ApiKey.SASL_HANDSHAKE and login.may_begin_again(now_ms)
        if not begins_again and login.is_expired(now_ms):
            self._listener.counts.expired += 1
            connection.start += connection.needed
            connection.finish("its session has expired, and it did not log in again")
            return perf_counter()
        return self._listener.handle_frame(connection)

    def _refuse_out_of_turn(self, key: int, version: int) -> float:
        connection = self._connection
        frame = bytes(
            connection.view[connection.start + SIZE_PREFIX_BYTES :][: connection.needed - 4]
        )
        connection.start += connection.needed
        silently = self._login.turn is Turn.BAD_MECHANISM
        outcome = self._login.out_of_turn(_what(key))
        parts: list[Any] | None = None
        response: Message | None = None
        if key == ApiKey.API_VERSIONS:
            response = ApiVersionsResponse(error_code=outcome.error)
        elif key == ApiKey.SASL_HANDSHAKE:
            response = SaslHandshakeResponse(error_code=outcome.error)
        if response is not None and not silently and API_TABLE[ApiKey(key)].supports(version):
            try:
                header, _ = framing.decode_request_header(frame)
            except ProtocolError as error:
                raise BadInput(f"a request that cannot be read: {error}") from None
            parts = framing.encode_response(key, version, header.correlation_id, response)
        assert outcome.ends is not None
        self._refuse(parts, outcome.ends)
        return perf_counter()

    def _refuse(self, parts: list[Any] | None, reason: str) -> None:
        """Answer, if there is an answer, and close, after the delay."""
        listener, connection = self._listener, self._connection
        if self._is_known:
            listener.counts.failed_again += 1
        else:
            listener.counts.failed += 1
        end = partial(connection.send_last, parts, reason)
        listener.tasks.later(connection, listener.failure_delay_seconds, end)


def refused_after_login(request: Request) -> None:
    """Refuse either API to a client that has logged in, or on a listener without SASL."""
    code = ErrorCode.ILLEGAL_SASL_STATE
    if request.api_key is ApiKey.SASL_HANDSHAKE:
        request.respond(SaslHandshakeResponse(error_code=code))
    else:
        request.respond(SaslAuthenticateResponse(error_code=code, error_message=AFTER_LOGIN))


def _what(key: int) -> str:
    name = API_TABLE[ApiKey(key)].name if key in API_TABLE else "unknown"
    return f"a request for API {key} ({name})"


def _now_ms() -> float:
    return perf_counter() * 1000
