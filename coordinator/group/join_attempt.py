"""One JoinGroup with the values that the coordinator needs."""

from typing import Final

from ...protocol.apis.join_group import JoinGroupRequest
from .members import JoinTicket, MemberProtocol, printable_reason

_FIRST_REBALANCE_TIMEOUT_VERSION: Final = 1


class JoinAttempt:
    """A JoinGroup that is to be answered once."""

    __slots__ = (
        "client_host",
        "client_id",
        "protocols",
        "rebalance_timeout_ms",
        "request",
        "ticket",
    )

    def __init__(
        self, ticket: JoinTicket, request: JoinGroupRequest, client_id: str, client_host: str
    ) -> None:
        self.ticket = ticket
        self.request = request
        self.client_id = client_id
        self.client_host = client_host
        # Copied: the request's bytes are views into a network buffer.
        self.protocols = [MemberProtocol(p.name, bytes(p.metadata)) for p in request.protocols]
        self.rebalance_timeout_ms = (
            request.rebalance_timeout_ms
            if ticket.api_version >= _FIRST_REBALANCE_TIMEOUT_VERSION
            else request.session_timeout_ms
        )

    @property
    def reason(self) -> str:
        return printable_reason(self.request.reason)
