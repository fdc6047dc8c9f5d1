"""PLAIN: one message with the password in it (RFC 4616).

Mirrors `PlainSaslServer.extractTokens` with its messages, and `PlainSaslClient`. As in Kafka,
invalid UTF-8 is replaced, not refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import SaslAuthenticationError, SaslError

PLAIN = "PLAIN"

_SEPARATOR = "\0"


@dataclass(frozen=True, slots=True)
class PlainMessage:
    """`authorization_id` is empty where the client asks for no other name than its own."""

    authorization_id: str
    username: str
    password: str = field(repr=False)

    @classmethod
    def parse(cls, token: bytes) -> PlainMessage:
        # A fourth part would hold the whole rest: the split stops there.
        parts = str(token, "utf-8", "replace").split(_SEPARATOR, 3)
        if len(parts) != 3:
            raise SaslAuthenticationError(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}"
            )
        message = cls(*parts)
        if not message.username:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not message.password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        return message

    def to_bytes(self) -> bytes:
        return _SEPARATOR.join((self.authorization_id, self.username, self.password)).encode()


class PlainClient:
    """Its message, and an answer without content."""

    __slots__ = ("_message", "_sent", "done")

    def __init__(self, username: str, password: str, authorization_id: str = "") -> None:
        if _SEPARATOR in username + password + authorization_id:
            raise ValueError("a name or password for PLAIN cannot have a NUL in it")
        self._message = PlainMessage(authorization_id, username, password)
        self._sent = False
        self.done = False

    def step(self, token: bytes) -> bytes:
        if self.done:
            raise SaslError("the PLAIN exchange has ended")
        if self._sent:
            self.done = True
            return b""
        self._sent = True
        return self._message.to_bytes()
