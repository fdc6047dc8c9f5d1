"""A client connection as the machines know it, and the session that a stranger requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..protocol.zookeeper.jute import Id

if TYPE_CHECKING:
    from ..protocol.sasl.digest_md5 import DigestServer


class Claim(NamedTuple):
    """The session that a stranger requests: a new one, or one whose password it has shown."""

    session_id: int
    timeout_ms: int
    is_new: bool


class Connection:
    """A client connection as the machine knows it. `token` belongs to the runtime."""

    __slots__ = (
        "answers_read_only",
        "claim",
        "failed_login",
        "identities",
        "is_refused",
        "sasl",
        "session_id",
        "token",
    )

    def __init__(self, token: object, host: str) -> None:
        self.token = token
        self.identities: list[Id] = [Id("ip", host)]
        self.session_id = 0
        # Of a stranger to a closed server; in an ensemble, until the leader has the session.
        self.claim: Claim | None = None
        self.is_refused = False
        self.failed_login = False  # of SASL, or there was none where one is required
        self.sasl: DigestServer | None = None  # since the first token
        self.answers_read_only = False  # its connect request had the flag

    @property
    def awaits_connect(self) -> bool:
        return self.session_id == 0 and self.claim is None
