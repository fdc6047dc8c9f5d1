"""The common interface of all clients of a SASL exchange.

Mirrors `javax.security.sasl.SaslClient`. Leaves out security layers, which Kafka never negotiates.
"""

from __future__ import annotations

from typing import Protocol


class SaslClient(Protocol):
    """Call `step(b"")` for the first token, then `step` with each answer until `done`; the result
    of the last call is not sent. SaslError if the server must not be trusted."""

    @property
    def done(self) -> bool: ...

    def step(self, token: bytes) -> bytes: ...
