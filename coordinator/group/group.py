"""One classic group: members, generation, leader, protocol, and its offsets.

Mirrors Kafka's GroupMetadata. This is the data and its own consistency; the steps, their order and
the answers are in `membership.py` and `rebalance.py`.

Invariants: `generation_id` never goes back; `awaiting_join_count` is the number of members with a
waiting JoinGroup; the leader is a member or None; `static_members` maps each group.instance.id of
the group to its current member; `_protocol_support` counts the members that support a protocol;
every client that has an assignment, or is to fetch one, is a member; only a group that is Empty, or
about to rebalance, has no members. A client that was given an id and has not joined is no member
yet.
"""

from collections import Counter
from collections.abc import Collection
from typing import Final

from ...protocol import invariants
from ...protocol.apis.describe_groups import DescribedGroupMember
from ...protocol.apis.join_group import JoinGroupResponseMember
from ...protocol.codec import decode
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.invariants import BrokenInvariant
from ...protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from .changing_group import ChangingGroup
from .consumer.consumer_group import ConsumerGroup
from .members import JoinTicket, Member, MemberProtocol
from .offsets import OffsetStore
from .share.share_group import ShareGroup
from .states import GroupState, check_transition
from .streams.streams_group import StreamsGroup
from .timers import Timer, TimerKind

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_WITH_MEMBERS: Final = (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)
_VERSION_PREFIX_SIZE_BYTES: Final = 2


class InitialDelay:
    """The extendable delay of an empty group's first rebalance."""

    __slots__ = ("delay_ms", "remaining_ms")

    def __init__(self, delay_ms: int, remaining_ms: int) -> None:
        self.delay_ms = delay_ms
        self.remaining_ms = remaining_ms


class Group:
    """One group. `members` keeps the order of joining, so that every choice is deterministic."""

    __slots__ = (
        "_protocol_support",
        "awaiting_join_count",
        "generation_id",
        "group_id",
        "initial_delay",
        "join_timer",
        "leader_id",
        "members",
        "modern",
        "new_member_added",
        "offsets",
        "partition",
        "pending_members",
        "pending_sync_members",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_ms",
        "state_timestamp_ms",
        "static_members",
        "storing_generation_id",
        "subscribed_topics",
        "sync_timer",
    )

    def __init__(self, group_id: str, partition: int, state_since_ms: int | None) -> None:
        # Never changes.
        self.group_id = group_id
        # Of the offsets topic; never changes.
        self.partition = partition
        # The state of a group of another protocol than the classic one (KIP-848, KIP-1071): of what
        # follows, it has only the offsets, and is Empty without members. None: it is a classic one.
        self.modern: ChangingGroup | None = None
        # Set by `transition_to`, and by `loaded`; never Dead in the coordinator's map.
        self.state = GroupState.EMPTY
        # When it entered its state, by the monotonic clock; None: the state was read from the log.
        self.state_since_ms = state_since_ms
        # If it was read: the same time from the log, in ms since the epoch; None: unknown.
        self.state_timestamp_ms: int | None = None
        # The type of the first member, which all others share; None: there never was a member.
        self.protocol_type: str | None = None
        # The protocol of the generation, set by `next_generation`; None without members.
        self.protocol_name: str | None = None
        # Set by `next_generation` only, one more each time; 0: there was no rebalance yet.
        self.generation_id = 0
        # A member, as a rule one that waits in JoinGroup; None without members.
        self.leader_id: str | None = None
        # By member id, in the order of joining.
        self.members: dict[str, Member] = {}
        # From group.instance.id to member id.
        self.static_members: dict[str, str] = {}
        # Ids that were given out and have not joined, with the timer that forgets them.
        self.pending_members: dict[str, Timer] = {}
        # Members that have not sent SyncGroup in this generation.
        self.pending_sync_members: set[str] = set()
        # Members whose `awaiting_join` is set, counted by `set_awaiting_join`.
        self.awaiting_join_count = 0
        # A member joined since the initial delay began, so the delay is extended.
        self.new_member_added = False
        # Of the first rebalance of an empty group only.
        self.initial_delay: InitialDelay | None = None
        # In the coordinator's queue while it rebalances.
        self.join_timer = Timer(TimerKind.JOIN, self)
        # In the queue while `pending_sync_members` is not empty.
        self.sync_timer = Timer(TimerKind.SYNC, self)
        # The generation whose assignment is being appended, if any.
        self.storing_generation_id: int | None = None
        # None: unknown, which counts as subscribed to everything.
        self.subscribed_topics: frozenset[str] | None = None
        self.offsets = OffsetStore()
        self._protocol_support: Counter[str] = Counter()

    @classmethod
    def loaded(
        cls,
        *,
        group_id: str,
        partition: int,
        generation_id: int,
        protocol_type: str,
        protocol_name: str | None,
        leader_id: str | None,
        state_timestamp_ms: int | None,
        members: list[Member],
    ) -> "Group":
        """A group as it was read from the offsets topic: Stable with members, else Empty."""
        group = cls(group_id, partition, None)
        group.state_timestamp_ms = state_timestamp_ms
        group.generation_id = generation_id
        group.protocol_type = protocol_type or None
        group.protocol_name = protocol_name
        for member in members:
            group.add(member)
        group.leader_id = leader_id if leader_id in group.members else group._first_member_id()
        if members:
            group.state = GroupState.STABLE
        group.subscribed_topics = group._compute_subscribed_topics()
        return group

    def begin_classic(self, generation_id: int, members: Collection[Member], now_ms: int) -> None:
        """The consumer group has gone back to the classic protocol, with these members."""
        self.end_classic()
        self.modern = None
        self.generation_id = generation_id
        for member in members:
            self.add(member)
        self.protocol_name = self.select_protocol()
        self.state = GroupState.STABLE
        self.state_since_ms = now_ms
        self.subscribed_topics = self._compute_subscribed_topics()

    def end_classic(self) -> None:
        """The group follows the consumer protocol now: nothing of the classic one is left. Its
        timers were stopped before."""
        for of_members in (self.members, self.static_members, self.pending_members):
            of_members.clear()
        self.pending_sync_members.clear()
        self._protocol_support.clear()
        self.awaiting_join_count = 0
        self.new_member_added = False
        self.initial_delay = self.storing_generation_id = self.subscribed_topics = None
        self.state = GroupState.EMPTY
        self.generation_id = 0
        self.protocol_type = self.protocol_name = self.leader_id = None
        self.state_since_ms = self.state_timestamp_ms = None

    @property
    def consumer(self) -> ConsumerGroup | None:
        """The state of a group of the consumer protocol."""
        return self.modern if isinstance(self.modern, ConsumerGroup) else None

    @property
    def streams(self) -> StreamsGroup | None:
        """The state of the group of a Streams application."""
        return self.modern if isinstance(self.modern, StreamsGroup) else None

    @property
    def is_share(self) -> bool:
        """Whether it is a share group (KIP-932)."""
        return isinstance(self.consumer, ShareGroup)

    @property
    def has_members(self) -> bool:
        """Whether it has members, of any protocol."""
        if self.modern is not None:
            return bool(self.modern.members)
        return self.state is not GroupState.EMPTY

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        check_transition(self.state, state)
        self.state = state
        self.state_since_ms = now_ms
        if invariants.THOROUGH:
            self.check()

    def check(self) -> None:
        """Thorough: members, counts and state agree."""
        members, state = self.members, self.state
        support: Counter[str] = Counter()
        for member in members.values():
            support.update({protocol.name for protocol in member.protocols})
        static = {m.group_instance_id: m.member_id for m in members.values() if m.is_static}
        waiting = sum(member.awaiting_join is not None for member in members.values())
        facts = {
            "member ids": all(member_id == m.member_id for member_id, m in members.items()),
            "protocol types": all(m.protocol_type == self.protocol_type for m in members.values()),
            "static members": self.static_members == static,
            "protocols": self._protocol_support == support,
            "JoinGroups that wait": self.awaiting_join_count == waiting,
            "leader": self.leader_id is None or self.leader_id in members,
            "who is to sync": self.pending_sync_members <= members.keys(),
            "who is to join": self.pending_members.keys().isdisjoint(members),
            "no members": bool(members) or state not in _WITH_MEMBERS,
            "members": not members or state is not GroupState.EMPTY,
        }
        wrong = [name for name, is_right in facts.items() if not is_right]
        if wrong:
            raise BrokenInvariant(f"group {self.group_id!r}, {state.value}: wrong {wrong}")

    def check_assignment(self, assignments: Collection[str]) -> None:
        """Check that exactly the members get an assignment, in the generation that asked for it."""
        if self.members.keys() != set(assignments):
            raise BrokenInvariant(
                f"group {self.group_id!r} has {list(self.members)}, and assigns to {assignments}"
            )

    # Members

    def add(self, member: Member, ticket: JoinTicket | None = None) -> None:
        """Add a member; the first one decides the group's protocol type."""
        instance_id = member.group_instance_id
        if member.member_id in self.members or instance_id in self.static_members:
            raise BrokenInvariant(f"group {self.group_id!r} has {member.member_id}, {instance_id}")
        if instance_id is not None:
            self.static_members[instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        if self.protocol_type != member.protocol_type:
            raise BrokenInvariant(
                f"group {self.group_id!r} is of {self.protocol_type}, not {member.protocol_type}"
            )
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        member.session_timer.owner = self
        self._count_protocols(member, 1)
        self.set_awaiting_join(member, ticket)

    def remove(self, member: Member) -> None:
        """Remove a member; nothing may wait on it any more."""
        if member.awaiting_join is not None or member.awaiting_sync is not None:
            raise BrokenInvariant(f"{member.member_id} of {self.group_id!r} goes, and waits")
        del self.members[member.member_id]
        self._count_protocols(member, -1)
        if member.group_instance_id is not None:
            del self.static_members[member.group_instance_id]
        self.pending_sync_members.discard(member.member_id)
        if self.leader_id == member.member_id:
            self.leader_id = self._first_member_id()

    def rename_static(self, member: Member, new_member_id: str) -> None:
        """Give a static member a new id; it keeps its place, leadership and assignment."""
        assert member.group_instance_id is not None
        old_member_id = member.member_id
        self.members = {
            new_member_id if member_id == old_member_id else member_id: value
            for member_id, value in self.members.items()
        }
        member.member_id = member.session_timer.member_id = new_member_id
        self.static_members[member.group_instance_id] = new_member_id
        if self.leader_id == old_member_id:
            self.leader_id = new_member_id
        if old_member_id in self.pending_sync_members:
            self.pending_sync_members.remove(old_member_id)
            self.pending_sync_members.add(new_member_id)

    def update(
        self,
        member: Member,
        protocols: list[MemberProtocol],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Replace the values from the member's JoinGroup."""
        if protocols != member.protocols:
            self._count_protocols(member, -1)
            member.protocols = protocols
            self._count_protocols(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def set_awaiting_join(self, member: Member, ticket: JoinTicket | None) -> JoinTicket | None:
        """Set the member's waiting JoinGroup; returns the one that waited before."""
        previous = member.awaiting_join
        self.awaiting_join_count += (ticket is not None) - (previous is not None)
        member.awaiting_join = ticket
        if not 0 <= self.awaiting_join_count <= len(self.members):
            raise BrokenInvariant(
                f"group {self.group_id!r}: {self.awaiting_join_count} JoinGroups wait, "
                f"of {len(self.members)} members"
            )
        return previous

    def validate_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Whether this is the current member of that id, and of the instance id if there is one."""
        if group_instance_id is not None:
            current_id = self.static_members.get(group_instance_id)
            if current_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if current_id != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def is_leader(self, member_id: str) -> bool:
        return self.leader_id == member_id

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is a member that waits in JoinGroup; False if none does."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    @property
    def all_members_joined(self) -> bool:
        return len(self.members) == self.awaiting_join_count and not self.pending_members

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest that a member may take to rejoin."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _first_member_id(self) -> str | None:
        return next(iter(self.members), None)

    # Protocols

    def supports_protocols(self, protocol_type: str, names: Collection[str]) -> bool:
        """Whether a member with this protocol type and these protocols may be in the group."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(names)
        if self.protocol_type != protocol_type:
            return False
        everybody = len(self.members)
        return any(self._protocol_support.get(name, 0) == everybody for name in names)

    def select_protocol(self) -> str:
        """The protocol with most votes among those that all members support; ties are decided by
        name.

        Kafka leaves ties to its hash order. Ours depends on nothing but the votes, so a reloaded
        group and another broker choose alike.
        """
        assert self.members
        candidates = [
            name for name, count in self._protocol_support.items() if count == len(self.members)
        ]
        if len(candidates) == 1:
            return candidates[0]
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return min(votes, key=lambda name: (-votes[name], name))

    def next_generation(self, now_ms: int) -> None:
        """Start the next generation: CompletingRebalance with members, Empty without."""
        self.generation_id += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.subscribed_topics = self._compute_subscribed_topics()
        self.pending_sync_members.clear()
        next_state = GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY
        self.transition_to(next_state, now_ms)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.modern is not None:
            return self.modern.is_subscribed_to(topic)
        return self.subscribed_topics is None or topic in self.subscribed_topics

    def _count_protocols(self, member: Member, change: int) -> None:
        for name in {protocol.name for protocol in member.protocols}:
            self._protocol_support[name] += change
            if not self._protocol_support[name]:
                del self._protocol_support[name]

    def _compute_subscribed_topics(self) -> frozenset[str] | None:
        """Topics of all members, read from version 0's fields, which prefix every version."""
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        if not self.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        topics: set[str] = set()
        # The members of one application say all the same.
        distinct = {member.metadata(self.protocol_name): None for member in self.members.values()}
        try:
            for metadata in distinct:
                if len(metadata) < _VERSION_PREFIX_SIZE_BYTES:
                    return None
                subscription = decode(
                    ConsumerProtocolSubscription, 0, metadata, _VERSION_PREFIX_SIZE_BYTES
                )
                topics.update(subscription.topics)
        except ProtocolError:
            return None
        return frozenset(topics)

    # Views for responses

    def join_response_members(self) -> list[JoinGroupResponseMember]:
        """The members with their metadata for the chosen protocol, for the leader's answer."""
        assert self.protocol_name is not None
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        ]

    def describe_members(self) -> list[DescribedGroupMember]:
        """The members; metadata and assignment only when the group is Stable."""
        described = []
        for member in self.members.values():
            view = DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
            )
            if self.state is GroupState.STABLE:
                assert self.protocol_name is not None
                view.member_metadata = member.metadata(self.protocol_name)
                view.member_assignment = member.assignment
            described.append(view)
        return described
