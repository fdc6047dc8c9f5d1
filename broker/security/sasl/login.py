"""The steps of a login on one connection, and of the next one on it (KIP-368).

Job: the state machine of a login: it takes handshakes and tokens, chooses the mechanism, and
returns the answers and the end.

Invariants:
- The order is that of `_TURNS`: a message at another time is `out of turn`, and ends the login.
- There is a principal from the first success on, and no later login changes it.
- A refusal is an `Outcome` with `ends`, for the log; later messages are not accepted. A client
  learns no more than Kafka tells it.

Mirrors the states of `SaslServerAuthenticator` with its `ReauthInfo`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple

from ....protocol.errors import ErrorCode
from ....protocol.java_hash import java_string_hash
from ....protocol.sasl.errors import SaslAuthenticationError, SaslError
from ..principal import KafkaPrincipal
from .gssapi import GSSAPI
from .mechanism import NewMechanism, ServerMechanism

logger = logging.getLogger("pybroker.broker.security")

MIN_REAUTHENTICATION_INTERVAL_MS = 1000


class LoginRules(NamedTuple):
    """The rules of one listener. `max_session_ms` is 0 for a mechanism with endless sessions."""

    mechanisms: Mapping[str, NewMechanism]
    max_session_ms: Mapping[str, int]

    @property
    def names(self) -> list[str]:
        """The mechanisms in the order in which Kafka sends them, that of a HashSet."""
        return sorted(self.mechanisms, key=_bucket)


class Outcome(NamedTuple):
    """An answer; `ends` says for the log why the connection is closed behind it."""

    token: bytes = b""
    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    lifetime_ms: int = 0
    ends: str | None = None


class Turn(Enum):
    """The kind of message that may come next."""

    FIRST = auto()  # versions or a handshake
    HANDSHAKE = auto()
    TOKEN = auto()
    ANYTHING = auto()  # the client is known
    NOTHING = auto()  # it was refused
    BAD_MECHANISM = auto()  # every message is refused


class Login:
    """Times are in milliseconds: `now_ms` of a clock that never goes back, with its fraction, so
    that a session of 3 ms lasts no less; `epoch_ms` in whole ones since 1970."""

    __slots__ = (
        "_began_again_ms", "_mechanism", "_rules", "_server", "expires_ms", "in_headers",
        "principal", "turn",
    )  # fmt: skip

    def __init__(self, rules: LoginRules) -> None:
        self._rules = rules
        self.turn = Turn.FIRST
        self._mechanism = ""
        self._server: ServerMechanism | None = None
        self._began_again_ms: float | None = None
        self.in_headers = False  # tokens come in SaslAuthenticate
        self.principal: KafkaPrincipal | None = None
        self.expires_ms: float | None = None  # on the clock of `now_ms`

    @property
    def blocks(self) -> bool:
        """Whether the next token may have to wait, for a file for example."""
        return self._server is not None and self._server.blocks

    @property
    def may_speak_gssapi(self) -> bool:
        """Whether the first frame may be a token, without a handshake."""
        return self.turn is Turn.FIRST and GSSAPI in self._rules.mechanisms

    def is_expired(self, now_ms: float) -> bool:
        """Whether the session has ended; one of 0 ms, for an expired token, ends when it begins.
        Kafka compares with `>` in nanoseconds, which no two requests share.
        """
        return self.expires_ms is not None and now_ms >= self.expires_ms

    def may_begin_again(self, now_ms: float) -> bool:
        """Whether a handshake of a known client begins a login; records the beginning if so."""
        if self.expires_ms is None:
            return False
        last = self._began_again_ms
        if last is not None and now_ms - last < MIN_REAUTHENTICATION_INTERVAL_MS:
            return False
        self._began_again_ms = now_ms
        self.turn = Turn.HANDSHAKE
        return True

    def on_api_versions(self) -> None:
        assert self.turn is Turn.FIRST
        self.turn = Turn.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> Outcome:
        assert self.turn in (Turn.FIRST, Turn.HANDSHAKE)
        self.in_headers = version >= 1
        new = self._rules.mechanisms.get(mechanism)
        if new is None:
            self.turn = Turn.NOTHING
            return Outcome(
                error=ErrorCode.UNSUPPORTED_SASL_MECHANISM,
                ends="it asked for a SASL mechanism that is not enabled",
            )
        if self.principal is not None and mechanism != self._mechanism:
            self.turn = Turn.BAD_MECHANISM
            return Outcome()
        self._mechanism = mechanism
        self._server = new()
        self.turn = Turn.TOKEN
        return Outcome()

    def out_of_turn(self, what: str) -> Outcome:
        expected = self.turn
        self.turn = Turn.NOTHING
        if expected is Turn.BAD_MECHANISM:
            ends = f"it reauthenticated with another mechanism than {self._mechanism}"
        else:
            ends = f"it sent {what} during its login"
        return Outcome(error=ErrorCode.ILLEGAL_SASL_STATE, ends=ends)

    def take(self, token: bytes, now_ms: float, epoch_ms: int) -> Outcome:
        """Apply a token of the client. Takes long only where `blocks` says so."""
        assert self.turn is Turn.TOKEN
        server = self._server
        assert server is not None
        self.turn = Turn.NOTHING
        try:
            answer = server.step(token, epoch_ms)
            if not server.done:
                self.turn = Turn.TOKEN
                return Outcome(answer)
            self._check_same(server.principal)
        except SaslAuthenticationError as error:
            return self._refused(str(error), "")
        except Exception as error:
            if not isinstance(error, SaslError):
                logger.exception("A login with %s failed for a reason of ours", self._mechanism)
            again = "" if self.principal is None else "re-"
            text = (
                f"Authentication failed during {again}authentication due to invalid credentials "
                f"with SASL mechanism {self._mechanism}"
            )
            return self._refused(text, f" ({error})" if isinstance(error, SaslError) else "")
        self.principal = server.principal
        self._server = None
        self.turn = Turn.ANYTHING
        return Outcome(answer, lifetime_ms=self._begin_session(server, now_ms, epoch_ms))

    def _refused(self, text: str, for_log: str) -> Outcome:
        self._server = None
        ends = f"its login with {self._mechanism} failed: {text}{for_log}"
        return Outcome(error=ErrorCode.SASL_AUTHENTICATION_FAILED, message=text, ends=ends)

    def _check_same(self, principal: KafkaPrincipal) -> None:
        before = self.principal
        if before is not None and before[:2] != principal[:2]:
            raise SaslAuthenticationError(
                "Cannot change principals during re-authentication from "
                f"{before.type}.{before.name}: {principal.type}.{principal.name}"
            )

    def _begin_session(self, server: ServerMechanism, now_ms: float, epoch_ms: int) -> int:
        """The time until the client has to log in again; 0 for an endless session."""
        longest = self._rules.max_session_ms.get(self._mechanism, 0)
        ends = server.expires_at_ms
        if ends is None and longest <= 0:
            self.expires_ms = None
            return 0
        lasts = longest if ends is None else ends - epoch_ms
        if ends is not None and longest > 0:
            lasts = min(lasts, longest)
        lasts = max(0, lasts)
        self.expires_ms = now_ms + lasts
        return lasts


def _bucket(name: str) -> int:
    code = java_string_hash(name) & 0xFFFFFFFF
    return (code ^ code >> 16) & 15
