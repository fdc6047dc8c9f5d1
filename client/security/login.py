"""The client of a login at a broker: SaslHandshake v1 and SaslAuthenticate.

`log_in` begins a stream; `log_in_again` is the next login on a stream in use (KIP-368), through the
caller's exchanges: it omits ApiVersions, which are known by then.
Invariants: a password or token is sent only in the mechanism's own messages; a broker's text is
shortened for display; the work of SCRAM, whose amount the broker chooses, and that of GSSAPI, which
waits for a KDC, is done in a thread.

Mirrors SaslClientAuthenticator. Leaves out SaslHandshake v0 with raw tokens, which brokers before
1.0 need.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeAlias, cast

import trio

from ...protocol.api import API_TABLE, ApiKey
from ...protocol.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.apis.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ...protocol.apis.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.sasl import SaslClient, SaslError
from ...protocol.schema import Message
from ..errors import LoginError
from ..exchanges import Exchanges

HANDSHAKE_VERSION = 1
MAX_STEPS = 10
MAX_FRAME_BYTES = 1 << 20  # for brokers that are not verified yet
MAX_SHOWN_LENGTH = 300

# An exchange: a message in a version, and its answer.
Ask: TypeAlias = Callable[[Message, int], Awaitable[Message]]


class Login(NamedTuple):
    """`new_client` makes the client side of an exchange; it may read a token's file. If it needs
    the broker's host, `for_host` makes it, and `at` returns the login for that host."""

    mechanism: str
    name: str
    new_client: Callable[[], SaslClient]
    is_slow: bool = False
    user: str | None = None  # of the principal, if known before the login
    for_host: Callable[[str], SaslClient] | None = None

    def at(self, host: str) -> Login:
        return (
            self
            if self.for_host is None
            else self._replace(new_client=partial(self.for_host, host))
        )

    def __repr__(self) -> str:
        return f"Login({self.mechanism} as {self.name})"


async def log_in(stream: trio.abc.Stream, login: Login, client_id: str) -> int:
    """Log in; the session's lifetime in ms, 0 without a limit. Raises LoginError, or errors of a
    broken stream."""
    ask = partial(Exchanges(client_id, max_frame_bytes=MAX_FRAME_BYTES).ask, stream)
    try:
        version = await _authenticate_version(ask)
        return await log_in_again(ask, login, version)
    except ProtocolError as error:
        raise LoginError(
            f"it does not answer as a Kafka broker with SASL ({error}); is security.protocol right "
            "for this port?"
        ) from None


async def log_in_again(ask: Ask, login: Login, version: int) -> int:
    """The next session's lifetime in ms, as `log_in`; `version` is that of SaslAuthenticate.

    Raises LoginError if the broker refuses, after which it closes the connection, or if the last
    login began less than a second before; and the errors of `ask`.
    """
    try:
        await _shake_hands(ask, login)
        return await _authenticate(ask, login, version)
    except SaslError as error:
        raise LoginError(_failed(login, str(error))) from None


async def _authenticate_version(ask: Ask) -> int:
    answer = cast(ApiVersionsResponse, await ask(ApiVersionsRequest(), 0))
    served = {api.api_key: api.max_version for api in answer.api_keys}
    if served.get(ApiKey.SASL_HANDSHAKE, 0) < HANDSHAKE_VERSION:
        raise LoginError("it speaks SASL as brokers before 1.0 do, which this client does not")
    newest = API_TABLE[ApiKey.SASL_AUTHENTICATE].max_version
    return min(newest, served.get(ApiKey.SASL_AUTHENTICATE, 0))


async def _shake_hands(ask: Ask, login: Login) -> None:
    hello = SaslHandshakeRequest(mechanism=login.mechanism)
    answer = cast(SaslHandshakeResponse, await ask(hello, HANDSHAKE_VERSION))
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        enabled = _shown(", ".join(answer.mechanisms))
        raise LoginError(
            f"it does not take sasl.mechanism={login.mechanism}, but {enabled or 'none'}"
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise LoginError(
            "it has no SASL on this port: take SASL_ out of security.protocol, or use another port"
        )
    if answer.error_code:
        raise LoginError(_failed(login, ErrorCode(answer.error_code).name))


async def _authenticate(ask: Ask, login: Login, version: int) -> int:
    async def step(said: bytes) -> bytes:
        return (
            await trio.to_thread.run_sync(client.step, said) if login.is_slow else client.step(said)
        )

    client = login.new_client()
    token = await step(b"")
    for _ in range(MAX_STEPS):
        request = SaslAuthenticateRequest(auth_bytes=token)
        answer = cast(SaslAuthenticateResponse, await ask(request, version))
        if answer.error_code:
            reason = answer.error_message or ErrorCode(answer.error_code).name
            raise LoginError(_failed(login, reason))
        token = await step(bytes(answer.auth_bytes))
        if client.done:
            return int(answer.session_lifetime_ms)
    raise LoginError(_failed(login, f"no end after {MAX_STEPS} messages"))


def _failed(login: Login, reason: str) -> str:
    return (
        f"the login of {login.name} with {login.mechanism} failed: {_shown(reason)}; "
        "see sasl.jaas.config"
    )


def _shown(text: str) -> str:
    """A broker's text, safe for a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text[:MAX_SHOWN_LENGTH])
