"""Members of a group of the consumer protocol, and the book of what the coordinators tell them.

A member heartbeats, gives up at once what it should not have, and commits offsets of what it has.
At times it stands still for longer than its session, or goes and comes again with another id.
After an error or no answer it says everything, as clients do.

The book checks what holds whatever coordinator answers, also one that is none any more: in an epoch
a partition belongs to one member; a member's epoch does not go back; a new member is not told an
epoch below one that was told before it asked first; a commit of a partition is refused when, as
it was sent, another member had it in a later epoch. And what one coordinator promises: it gives no
partition to a member while another has it, whose last heartbeat it has answered within the session.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pybroker_kafka.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from pybroker_kafka.protocol.apis.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pybroker_kafka.protocol.errors import ErrorCode
from pybroker_kafka.protocol.topics import OFFSETS_TOPIC
from tests.simulation.clients import RETRY_MS, Client
from tests.simulation.cluster import TOPIC

if TYPE_CHECKING:
    from tests.simulation.groups import GroupsCluster

GROUP = "group"
SESSION_MS = 1_200
REBALANCE_MS = 60_000
HEARTBEAT_MS = 80
STANDSTILLS_MS = (900, 1_800, 3_500)
STANDSTILL_SHARE = 0.02
LEAVE_SHARE = 0.02
COMMIT_SHARE = 0.3
HEARTBEAT_VERSION = 1
COMMIT_VERSION = 9
KEY = (OFFSETS_TOPIC, 0)

_FENCED = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)


class Told(NamedTuple):
    """A member has a partition since this epoch."""

    member_id: str
    epoch: int


class Seen(NamedTuple):
    """A heartbeat that the coordinator of this leader epoch answered, and when it was sent."""

    leader_epoch: int
    sent_ms: int


class GroupBook:
    def __init__(self, cluster: GroupsCluster) -> None:
        self._cluster = cluster
        self._owners: dict[tuple[int, int], str] = {}
        self._latest: dict[int, Told] = {}
        self.highest = 0
        self.commits = 0

    def joined(self, member: GroupMember, floor: int) -> None:
        if member.epoch < floor:
            self._fail(f"{member.member_id} joins in epoch {member.epoch}, after {floor} was told")

    def told(self, member: GroupMember, new: set[int], broker_id: int) -> None:
        """A member was answered its epoch and what it has, some of it `new`."""
        self.highest = max(self.highest, member.epoch)
        for partition in member.owned:
            owner = self._owners.setdefault((partition, member.epoch), member.member_id)
            if owner != member.member_id:
                self._fail(
                    f"in epoch {member.epoch} {partition} belongs to {owner}, and to "
                    f"{member.member_id}"
                )
            latest = self._latest.get(partition)
            if latest is None or latest.epoch <= member.epoch:
                self._latest[partition] = Told(member.member_id, member.epoch)
        leader_epoch = self.leader_epoch_of(broker_id)
        if leader_epoch is None:
            return
        for other in self._cluster.members:
            both = new & other.owned
            if other is not member and both and other.is_seen(leader_epoch):
                self._fail(f"{member.member_id} is given {both}, which {other.member_id} has")

    def leader_epoch_of(self, broker_id: int) -> int | None:
        """The epoch in which this broker coordinates the group; None if it does not."""
        state = self._cluster.audit.ledger(KEY).state
        partition = self._cluster.brokers[broker_id].manager.partitions.get(KEY)
        if state is None or state.leader != broker_id or partition is None:
            return None
        return state.leader_epoch if partition.leader_epoch == state.leader_epoch else None

    def is_stale(self, partition: int, member_id: str, epoch: int) -> bool:
        latest = self._latest.get(partition)
        return latest is not None and latest.member_id != member_id and latest.epoch > epoch

    def committed(self, member_id: str, partition: int, epoch: int, *, was_stale: bool) -> None:
        self.commits += 1
        if was_stale:
            self._fail(f"{member_id} commits {partition} in epoch {epoch}, and another has it")

    def _fail(self, text: str) -> None:
        self._cluster.audit.fail(text)


class GroupMember(Client):
    cluster: GroupsCluster

    def __init__(self, cluster: GroupsCluster, name: str) -> None:
        super().__init__(cluster, name, KEY)
        self.is_stopping = False
        self.is_idle = False
        self.epoch = 0
        self.owned: set[int] = set()
        self._life = 0
        self._is_new = True  # nobody has heard of it
        self._says_all = True
        self._seen: Seen | None = None
        self._turn = 0  # answers of before a standstill are not waited for

    @property
    def member_id(self) -> str:
        return f"{self.name}.{self._life}"

    def start(self) -> None:
        self.later(self.kernel.random.randint(0, 300), self._beat, 0)

    def is_seen(self, leader_epoch: int) -> bool:
        """Whether this coordinator cannot have ended its session."""
        seen = self._seen
        if seen is None or seen.leader_epoch != leader_epoch:
            return False
        return self.kernel.now_ms - seen.sent_ms < SESSION_MS

    def _beat(self, turn: int) -> None:
        if turn != self._turn:
            return
        kernel = self.kernel
        if not self.is_stopping and kernel.chance(STANDSTILL_SHARE):
            self._go_on(kernel.random.choice(STANDSTILLS_MS))
            return
        if not self.is_stopping and self.epoch and kernel.chance(LEAVE_SHARE):
            self._leave()
            return
        if self.owned and not self.is_stopping and kernel.chance(COMMIT_SHARE):
            self._commit()  # also of what it lost while it stood still
        leader = self.ask_for_leader(KEY)
        if leader is None:
            self._go_on(RETRY_MS)
            return
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch
        )
        if not self.epoch or self._says_all:
            request.rebalance_timeout_ms = REBALANCE_MS
            request.subscribed_topic_names = [TOPIC]
        request.topic_partitions = []
        if self.owned:
            topic_id = self.cluster.topic_ids[TOPIC]
            partitions = sorted(self.owned)
            request.topic_partitions.append(
                ConsumerGroupHeartbeatRequestTopicPartitions(
                    topic_id=topic_id, partitions=partitions
                )
            )
        floor = self.cluster.book.highest if self._is_new else 0
        self._is_new = False
        asked = (self._turn, leader, kernel.now_ms, floor)
        self.call(leader, request, HEARTBEAT_VERSION, partial(self._beaten, asked))

    def _beaten(self, asked: tuple[int, int, int, int], answer: Any) -> None:
        turn, broker_id, sent_ms, floor = asked
        if turn != self._turn:
            return
        self._says_all = answer is None or bool(answer.error_code)
        if answer is None or answer.error_code:
            if answer is not None and answer.error_code in _FENCED:
                self.epoch, self.owned, self._seen = 0, set(), None
            self.is_idle = False
            self._go_on(RETRY_MS)
            return
        if answer.member_epoch < self.epoch:
            self.cluster.audit.fail(f"{self.member_id}: {self.epoch}, then {answer.member_epoch}")
        self.epoch = answer.member_epoch
        before = set(self.owned)
        if answer.assignment is not None:
            self.owned = {p for one in answer.assignment.topic_partitions for p in one.partitions}
        book = self.cluster.book
        leader_epoch = book.leader_epoch_of(broker_id)
        if leader_epoch is not None:
            self._seen = Seen(leader_epoch, sent_ms)
        book.joined(self, floor)
        book.told(self, self.owned - before, broker_id)
        self.is_idle = self.is_stopping
        self._go_on(HEARTBEAT_MS)

    def _go_on(self, pause_ms: int) -> None:
        self._turn += 1
        self.later(pause_ms, self._beat, self._turn)

    def _leave(self) -> None:
        leader = self.ask_for_leader(KEY)
        if leader is not None:
            request = ConsumerGroupHeartbeatRequest(
                group_id=GROUP, member_id=self.member_id, member_epoch=-1
            )
            self.call(leader, request, HEARTBEAT_VERSION, lambda _answer: None)
        self._life += 1
        self._is_new = True
        self.epoch, self.owned, self._seen = 0, set(), None
        self._go_on(RETRY_MS)

    def _commit(self) -> None:
        leader = self.ask_for_leader(KEY)
        if leader is None:
            return
        partition = self.kernel.random.choice(sorted(self.owned))
        entry = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=self.cluster.book.commits
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=self.member_id,
            generation_id_or_member_epoch=self.epoch,
            topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[entry])],
        )
        book, member_id, epoch = self.cluster.book, self.member_id, self.epoch
        was_stale = book.is_stale(partition, member_id, epoch)

        def done(answer: Any) -> None:
            if answer is not None and not answer.topics[0].partitions[0].error_code:
                book.committed(member_id, partition, epoch, was_stale=was_stale)

        self.call(leader, request, COMMIT_VERSION, done)
