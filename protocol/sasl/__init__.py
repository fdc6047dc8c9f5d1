"""SASL mechanisms: their messages and formulas, and both sides of each exchange.

Each side is a small synchronous object: `step(token)` takes the message of the other side (a client
begins with `b""`) and returns the next message. Salts, nonces, times and passwords are passed in.
"""

from typing import Protocol

from .errors import SaslAuthenticationError, SaslError
from .oauthbearer import OAUTHBEARER, OAuthBearerClient, OAuthBearerMessage
from .plain import PLAIN, PlainClient, PlainMessage
from .scram import (
    MECHANISMS,
    ScramCredential,
    ScramHash,
    credential_from_password,
    credential_from_salted_password,
)
from .scram_exchange import FoundCredential, ScramClient, ScramServer

__all__ = [
    "MECHANISMS",
    "OAUTHBEARER",
    "PLAIN",
    "FoundCredential",
    "OAuthBearerClient",
    "OAuthBearerMessage",
    "PlainClient",
    "PlainMessage",
    "SaslAuthenticationError",
    "SaslClient",
    "SaslError",
    "ScramClient",
    "ScramCredential",
    "ScramHash",
    "ScramServer",
    "credential_from_password",
    "credential_from_salted_password",
]


class SaslClient(Protocol):
    """Call `step(b"")` for the first token, then `step` with each answer until `done`; the result
    of the last call is not sent. SaslError if the server must not be trusted. Leaves out security
    layers, which Kafka never negotiates."""

    @property
    def done(self) -> bool: ...

    def step(self, token: bytes) -> bytes: ...
