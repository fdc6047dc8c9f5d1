"""A member of a classic group, and the requests with which it waits.

Mirrors Kafka's MemberMetadata. A member waits at most in one JoinGroup and one SyncGroup; the
ticket of a waiting request is answered exactly once, by the code that takes it off the member.
"""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from .timers import Timer, TimerKind

MAX_LOGGED_REASON_CHARS: Final = 255


def printable_reason(reason: str | None) -> str:
    """A client's reason for joining or leaving, fit for one log line."""
    return "not provided" if reason is None else repr(reason[:MAX_LOGGED_REASON_CHARS])


class JoinTicket(NamedTuple):
    """A JoinGroup that waits for its answer."""

    token: Any
    api_version: int


class SyncTicket(NamedTuple):
    """A SyncGroup that waits for its answer."""

    token: Any


class MemberProtocol(NamedTuple):
    """One protocol (assignor) that a member supports, with its metadata for it."""

    name: str
    metadata: bytes


class Member:
    """One member; `is_new` until the first rebalance that it takes part in completes."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "session_timer",
    )

    def __init__(
        self,
        *,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: list[MemberProtocol],
        assignment: bytes = b"",
        is_new: bool = False,
    ) -> None:
        # Ours to give out; only `Group.rename_static` changes it.
        self.member_id = member_id
        # The client's; None: it is no static member. Never changes.
        self.group_instance_id = group_instance_id
        # The values at its join; for display only.
        self.client_id = client_id
        self.client_host = client_host
        # These three are from its last JoinGroup, set by `Group.update`.
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        # The group's; never changes.
        self.protocol_type = protocol_type
        # The assignment of the stored generation; `b""` while there is none.
        self.assignment = assignment
        self.is_new = is_new
        # Set by `Group.set_awaiting_join`, which counts them.
        self.awaiting_join: JoinTicket | None = None
        self.awaiting_sync: SyncTicket | None = None
        self.session_timer: Timer = Timer(TimerKind.SESSION, member_id=member_id)

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def survives_session_expiry(self) -> bool:
        """A member that waits in a rebalance cannot heartbeat; a new one has a limit of its own."""
        if self.is_new:
            return False
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def metadata(self, protocol_name: str) -> bytes:
        """This member's metadata for a protocol that it supports."""
        for protocol in self.protocols:
            if protocol.name == protocol_name:
                return protocol.metadata
        raise AssertionError(f"member {self.member_id} does not support {protocol_name}")

    def vote(self, candidates: Collection[str]) -> str:
        """The member's most preferred protocol among the candidates."""
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        raise AssertionError(f"member {self.member_id} supports none of {candidates}")
