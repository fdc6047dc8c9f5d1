"""OAUTHBEARER: a token and extensions in one message (RFC 7628, KIP-255, KIP-342).

Mirrors `OAuthBearerClientInitialResponse` and `OAuthBearerSaslClient`. The token is opaque here;
the code that validates it knows its content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .errors import SaslAuthenticationError, SaslError

OAUTHBEARER = "OAUTHBEARER"
SEPARATOR = "\x01"
# The client's answer to the server's reason, so that the server may end the exchange.
ACKNOWLEDGED = SEPARATOR.encode()
# Tokens have some kilobytes. Kafka's bound is that of frames, sasl.server.max.receive.size:
# matching and decoding half a megabyte, which any stranger may send, holds up all others for 15 ms.
MAX_MESSAGE_BYTES = 128 * 1024

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_KEY = "[A-Za-z]+"
_VALUE = "[\\x21-\\x7E \t\r\n]+"
_MESSAGE = re.compile(
    f"n,(?:a=(?P<authzid>{_NAME}))?,{SEPARATOR}"
    f"(?P<pairs>(?:{_KEY}={_VALUE}{SEPARATOR})*){SEPARATOR}"
)
_AUTH = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_AUTH_KEY = "auth"


@dataclass(frozen=True, slots=True)
class OAuthBearerMessage:
    """The first message of a client."""

    token: str = field(repr=False)
    authorization_id: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, token: bytes) -> OAuthBearerMessage:
        match = None
        if len(token) <= MAX_MESSAGE_BYTES:
            match = _MESSAGE.fullmatch(str(token, "utf-8", "replace"))
        if match is None:
            raise SaslError("Invalid OAUTHBEARER client first message")
        pairs = match["pairs"].split(SEPARATOR)[:-1]
        extensions = dict(pair.split("=", 1) for pair in pairs)
        auth = extensions.pop(_AUTH_KEY, None)
        if auth is None:
            raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
        found = _AUTH.fullmatch(auth)
        if found is None or found["scheme"].lower() != "bearer":
            raise SaslError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
        return cls(found["token"], match["authzid"] or "", extensions)

    def to_bytes(self) -> bytes:
        name = f"a={self.authorization_id}" if self.authorization_id else ""
        parts = [f"n,{name},", f"auth=Bearer {self.token}"]
        parts += [f"{key}={value}" for key, value in self.extensions.items()]
        return SEPARATOR.join((*parts, "", "")).encode()


class OAuthBearerClient:
    """Its message, then an answer without content, or the reason of a refusal."""

    __slots__ = ("_message", "_reason", "_sent", "done")

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        extensions = extensions or {}
        for key, value in extensions.items():
            if key == _AUTH_KEY or not re.fullmatch(_KEY, key) or not re.fullmatch(_VALUE, value):
                raise ValueError(f"the extension {key} cannot be sent with OAUTHBEARER")
        if not re.fullmatch(r"[-_~+/.a-zA-Z0-9]+=*", token):
            raise ValueError("the token cannot be sent with OAUTHBEARER")
        self._message = OAuthBearerMessage(token, "", extensions)
        self._sent = False
        self._reason = ""
        self.done = False

    def step(self, token: bytes) -> bytes:
        if self.done:
            raise SaslError("the OAUTHBEARER exchange has ended")
        if not self._sent:
            self._sent = True
            return self._message.to_bytes()
        if self._reason:
            raise SaslAuthenticationError(self._reason)
        if token:
            self._reason = str(token, "utf-8", "replace")
            return ACKNOWLEDGED
        self.done = True
        return b""
