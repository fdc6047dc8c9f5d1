"""A member of a classic consumer group, as a state machine: its requests, and when they are due.

    UNJOINED -> JOINING -> (LEADING ->) SYNCING -> STABLE
       ^__________|____________|___________|_________|      rejoin, or any failure

The shell sends the results of `join_request`, `sync_request`, `heartbeat_request` and
`leave_request` and passes the answers back, which returns an `Outcome`. An answer to a request of
an earlier attempt (the generation or the member id has changed since) changes nothing.

Invariants: a member id from a coordinator is kept until the coordinator no longer knows it;
partitions owned before the id or generation was lost are *lost*, not revoked (other members may own
them); after a fatal answer (FENCED_INSTANCE_ID, KIP-345) it is no member.

Mirrors: AbstractCoordinator and Heartbeat of the Java client; KIP-345, 394, 429, 800, 814.
Leaves out: the consumer protocol (KIP-848), which is `epoch_membership`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final

from ...protocol.apis.heartbeat import HeartbeatRequest, HeartbeatResponse
from ...protocol.apis.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ...protocol.apis.leave_group import LeaveGroupRequest, MemberIdentity
from ...protocol.apis.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant

PROTOCOL_TYPE: Final = "consumer"
NO_GENERATION: Final = -1
NO_MEMBER: Final = ""

LOST_COORDINATOR: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)


class State(Enum):
    UNJOINED = auto()
    JOINING = auto()
    LEADING = auto()  # it has all subscriptions, and computes the assignment
    SYNCING = auto()
    STABLE = auto()


class Outcome(Enum):
    """The meaning of an answer for the shell."""

    GO_ON = auto()  # send the next request of the state
    RETRY = auto()  # ask again after a pause
    FIND_COORDINATOR = auto()  # send it again, to another coordinator
    FATAL = auto()  # `fatal` has the code
    IGNORED = auto()  # the answer belongs to an earlier attempt


_LEGAL: Final[Mapping[State, frozenset[State]]] = {
    State.UNJOINED: frozenset({State.JOINING}),
    State.JOINING: frozenset({State.UNJOINED, State.LEADING, State.SYNCING}),
    State.LEADING: frozenset({State.UNJOINED, State.SYNCING}),
    State.SYNCING: frozenset({State.UNJOINED, State.STABLE}),
    State.STABLE: frozenset({State.UNJOINED}),
}


class Membership:
    """Times are in ms of any clock that does not go back."""

    def __init__(
        self,
        group_id: str,
        *,
        instance_id: str | None,
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        max_poll_interval_ms: int,
        protocol_type: str = PROTOCOL_TYPE,
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.instance_id = instance_id
        self.session_timeout_ms = session_timeout_ms
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.max_poll_interval_ms = max_poll_interval_ms
        self.state = State.UNJOINED
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION
        self.protocol = ""
        self.has_lost_partitions = False  # since it was last STABLE
        self.fatal: ErrorCode | None = None
        self.rejoin_reason: str | None = "the member joins"  # None: nothing to join for
        self.assignment = b""
        self.members: dict[str, tuple[bytes, str | None]] = {}  # of a leader: metadata, instance
        self.skips_assignment = False  # the coordinator keeps the assignments (KIP-814)
        self.rebalances = 0  # completed ones
        self._heard_ms = 0  # the time of the coordinator's last answer
        self._heartbeat_ms = 0  # when the last heartbeat was sent
        self._polled_ms = 0

    def _go(self, state: State) -> None:
        if state is not self.state:
            if state not in _LEGAL[self.state]:
                raise BrokenInvariant(f"a member goes from {self.state.name} to {state.name}")
            self.state = state

    @property
    def needs_rejoin(self) -> bool:
        return self.rejoin_reason is not None and self.fatal is None

    def awaits_sync(self) -> bool:
        """Whether a join was answered, and the assignment is next."""
        return self.state in (State.LEADING, State.SYNCING)

    @property
    def is_leading(self) -> bool:
        return self.state is State.LEADING

    @property
    def is_member(self) -> bool:
        """Whether commits may name a generation."""
        return self.generation != NO_GENERATION

    def rejoin(self, reason: str) -> None:
        """The subscription, its topics or the assignment has changed: join again."""
        self.rejoin_reason = reason

    # Joining

    def join_request(self, protocols: Sequence[tuple[str, bytes]], now_ms: int) -> JoinGroupRequest:
        """Begin a rebalance, from any state; `protocols` are assignors with their metadata."""
        self._go(State.UNJOINED)
        self._go(State.JOINING)
        self._heard_ms = now_ms
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.max_poll_interval_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=data) for n, data in protocols],
            reason=self.rejoin_reason,
        )
        self.rejoin_reason = None
        return request

    def on_join(self, answer: JoinGroupResponse, now_ms: int) -> Outcome:
        """Handle the answer: a leader is LEADING afterwards and has `members`; other members are
        SYNCING."""
        if self.state is not State.JOINING:
            return Outcome.IGNORED
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            self._heard_ms = self._heartbeat_ms = now_ms
            self.member_id, self.generation = answer.member_id, answer.generation_id
            self.protocol = answer.protocol_name or ""
            is_leader = answer.leader == answer.member_id
            self.skips_assignment = answer.skip_assignment
            self.members = {
                each.member_id: (bytes(each.metadata), each.group_instance_id)
                for each in answer.members
            }
            self._go(State.LEADING if is_leader else State.SYNCING)
            return Outcome.GO_ON
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            return self._again("the coordinator has given a member id", Outcome.GO_ON)
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget_member()
            return self._again("the member id was not known", Outcome.RETRY)
        return self._not_served(code)

    def sync_request(self, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        """The request; a leader passes the `assignments` of all members, other members none."""
        if self.state is State.LEADING:
            self._go(State.SYNCING)
        if self.state is not State.SYNCING:
            raise BrokenInvariant(f"a member that is {self.state.name} asks for its assignment")
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=data)
                for member, data in assignments.items()
            ],
        )

    def on_sync(self, answer: SyncGroupResponse, now_ms: int) -> Outcome:
        """Handle the answer: STABLE afterwards, with `assignment`, or it must join again."""
        if self.state is not State.SYNCING:
            return Outcome.IGNORED
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            self._heard_ms = self._heartbeat_ms = now_ms
            self.assignment = bytes(answer.assignment)
            self.rebalances += 1
            self._go(State.STABLE)
            return Outcome.GO_ON
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            return self._again("another rebalance has started", Outcome.GO_ON)
        return self._not_served(code)

    def _not_served(self, code: ErrorCode) -> Outcome:
        """Errors that JoinGroup, SyncGroup and heartbeats share."""
        if code in LOST_COORDINATOR:
            return self._again("the coordinator has moved", Outcome.FIND_COORDINATOR)
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget_member()
            return self._again("the member is not known any more", Outcome.RETRY)
        if code == ErrorCode.ILLEGAL_GENERATION:
            self._forget_generation()
            return self._again("the generation has ended", Outcome.RETRY)
        if code.retriable or code == ErrorCode.REBALANCE_IN_PROGRESS:
            return self._again(f"the coordinator answered {code.name}", Outcome.RETRY)
        self.fatal = code
        self._forget_member()
        self._go(State.UNJOINED)
        return Outcome.FATAL

    def _again(self, reason: str, outcome: Outcome) -> Outcome:
        self.rejoin_reason = reason
        self._go(State.UNJOINED)
        return outcome

    def _forget_generation(self) -> None:
        if self.generation != NO_GENERATION:
            self.has_lost_partitions = True
        self.generation = NO_GENERATION

    def _forget_member(self) -> None:
        self._forget_generation()
        self.member_id = NO_MEMBER

    def take_loss(self) -> bool:
        """Whether owned partitions were lost since the last call; then the shell drops them."""
        lost, self.has_lost_partitions = self.has_lost_partitions, False
        return lost

    def abandon_attempt(self, reason: str) -> None:
        """The connection failed, or the assignment cannot be computed: join from the start."""
        self.rejoin(reason)
        self._go(State.UNJOINED)

    # Heartbeats

    def heartbeat_due_ms(self, now_ms: int) -> int:
        """The time until the next heartbeat; 0: now."""
        return max(0, self._heartbeat_ms + self.heartbeat_interval_ms - now_ms)

    def heartbeat_request(self, now_ms: int) -> HeartbeatRequest | None:
        """The request; None without a generation or during a rebalance."""
        if self.state is not State.STABLE:
            return None
        self._heartbeat_ms = now_ms
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def on_heartbeat(
        self, answer: HeartbeatResponse, asked: HeartbeatRequest, now_ms: int
    ) -> Outcome:
        """Handle the answer: after REBALANCE_IN_PROGRESS the member joins again, and keeps its
        partitions until then."""
        is_ours = (asked.generation_id, asked.member_id) == (self.generation, self.member_id)
        if self.state is not State.STABLE or not is_ours:
            return Outcome.IGNORED
        code = ErrorCode(answer.error_code)
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._heard_ms = now_ms
            if code == ErrorCode.REBALANCE_IN_PROGRESS:
                self.rejoin("the group rebalances")
            return Outcome.GO_ON
        if code in LOST_COORDINATOR:
            return Outcome.FIND_COORDINATOR
        return self._not_served(code)

    def fail_commit(self, code: ErrorCode) -> Outcome:
        """The consequence of a commit's error, in the present generation, for the membership."""
        if self.state is State.STABLE and code == ErrorCode.REBALANCE_IN_PROGRESS:
            self.rejoin("the group rebalances")
            return Outcome.GO_ON
        if code in LOST_COORDINATOR:
            return Outcome.FIND_COORDINATOR
        fences = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        if code in fences or code == ErrorCode.FENCED_INSTANCE_ID:
            return self._not_served(code)
        return Outcome.GO_ON

    def session_is_over(self, now_ms: int) -> bool:
        """Whether the coordinator has been silent for longer than the session timeout."""
        return self.state is State.STABLE and now_ms - self._heard_ms > self.session_timeout_ms

    # The application's pace

    def polled(self, now_ms: int) -> None:
        """The application has requested records."""
        self._polled_ms = now_ms

    def poll_is_overdue(self, now_ms: int) -> bool:
        """Whether the last request is older than max.poll.interval.ms: the member leaves until the
        next."""
        return self.is_member and now_ms - self._polled_ms > self.max_poll_interval_ms

    # Leaving

    def leave_request(
        self, reason: str, *, version_names_members: bool
    ) -> LeaveGroupRequest | None:
        """Leave; None for a static member, which is expected back, and without a member id.

        It is no member afterwards, regardless of the coordinator's answer.
        """
        member_id = self.member_id
        self._forget_member()
        self.rejoin("the member had left")
        self._go(State.UNJOINED)
        if member_id == NO_MEMBER or self.instance_id is not None:
            return None
        if not version_names_members:
            return LeaveGroupRequest(group_id=self.group_id, member_id=member_id)
        member = MemberIdentity(member_id=member_id, reason=reason)
        return LeaveGroupRequest(group_id=self.group_id, members=[member])
