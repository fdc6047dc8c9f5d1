"""The interface between a login and its mechanism.

Mirrors `javax.security.sasl.SaslServer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from ..principal import KafkaPrincipal


class ServerMechanism(Protocol):
    """One exchange. SaslError ends it; only the text of a SaslAuthenticationError is for the
    client. The principal and the end of its credential are known once it is `done`."""

    @property
    def blocks(self) -> bool:
        """Whether a step may have to wait, so that it needs a thread."""

    @property
    def done(self) -> bool: ...

    @property
    def principal(self) -> KafkaPrincipal: ...

    @property
    def expires_at_ms(self) -> int | None:
        """The end of the client's credential, in milliseconds since the epoch."""

    def step(self, token: bytes, now_ms: int) -> bytes:
        """The answer to the client's token."""


NewMechanism: TypeAlias = Callable[[], ServerMechanism]
