"""What a queue promises, and whether it is so: the book of a share group (KIP-932).

Brokers tell it what they give to members, and what they take as acknowledged, at the moment in
which they do (`share_side.ObservedLeader`); members tell what they were handed and what they have
done. A broker that leads no more, and has not heard of it, may still give out records: Kafka
promises nothing of it, but that it cannot store a result. "The leader" is a broker whose leader
epoch is not older than that of the result.
- what the leader has taken as accepted or rejected is not delivered again;
- a record is locked for one member at a time; a lock that has ended is taken back;
- a record is delivered at most as often as the limit says; a released one counts;
- a client accepts what its user has done, hands out nothing whose lock has ended, and what it says
  to have committed, the brokers have stored;
- in the end every record was accepted, rejected, or delivered as often as the limit says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pybroker_kafka.broker.share.share_leader import Served
from pybroker_kafka.client.share.records import SharedRecord
from pybroker_kafka.protocol.apis.share_acknowledge import ShareAcknowledgeRequest
from pybroker_kafka.protocol.apis.share_fetch import ShareFetchRequest
from pybroker_kafka.protocol.topics import TopicPartition
from pybroker_kafka.replication.share.acknowledging import Acknowledgement, AcknowledgeType
from pybroker_kafka.replication.share.in_flight import NO_LOCK, RecordState
from pybroker_kafka.replication.share.share_partition import Phase
from tests.simulation.cluster import TOPIC

if TYPE_CHECKING:
    from tests.simulation.client_cluster import ClientCluster, ServingBroker

GROUP = "queue"
LOOK_MS = 500
# A broker may stand still for a while, and its timers with it.
LATE_LOCK_MS = 8_000

Place = tuple[TopicPartition, int]  # a partition and an offset


class Hold(NamedTuple):
    """A record that a member has."""

    member_id: str
    served: Served
    until_ms: int
    delivery_count: int


class QueueBook:
    def __init__(self, cluster: ClientCluster, limit: int, lock_ms: int) -> None:
        self._cluster = cluster
        self.limit = limit
        self.lock_ms = lock_ms
        self._holds: dict[Place, Hold] = {}
        # The end of each member's last lock.
        self._locks: dict[tuple[str, Place], int] = {}
        # The leader epoch in which it was taken as accepted, or rejected.
        self._settled: dict[Place, int] = {}
        # Deliveries that are stored, and the leader epoch.
        self._released: dict[Place, tuple[int, int]] = {}
        self._asked: dict[Place, set[AcknowledgeType]] = {}
        self._most_delivered: dict[Place, int] = {}
        self._handed: dict[Place, bytes] = {}
        self._done: set[tuple[str, Place]] = set()  # by members
        self.delivered = 0

    def _fail(self, text: str) -> None:
        self._cluster.audit.fail(text)

    @property
    def _now_ms(self) -> int:
        return self._cluster.kernel.now_ms

    # Brokers tell

    def acquired(
        self, broker: ServingBroker, served: Served, member_id: str, first: int, last: int,
        count: int,
    ) -> None:  # fmt: skip
        key = served.partition
        self._cluster.kernel.note(
            f"{broker.name} gives {key[1]}:{first} to {last} to {member_id}, delivery {count}"
        )
        if not 1 <= count <= self.limit:
            self._fail(f"{key} {first} is delivered {count} times of {self.limit}")
        epoch = broker.manager.partitions[key].leader_epoch
        for offset in range(first, last + 1):
            self._acquired(key, offset, Hold(member_id, served, self._now_ms + self.lock_ms, count),
                           epoch)  # fmt: skip

    def _acquired(self, key: TopicPartition, offset: int, hold: Hold, epoch: int) -> None:
        place = key, offset
        self.delivered += 1
        if self._settled.get(place, epoch + 1) <= epoch:
            self._fail(f"{place} was accepted or rejected, and is delivered again")
        count, since = self._released.get(place, (0, 0))
        if hold.delivery_count <= count and since <= epoch:
            self._fail(f"{place} was released after delivery {count}, and this is one again")
        before = self._holds.get(place)
        if before is not None and before.served is hold.served and self._now_ms < before.until_ms:
            self._fail(f"{place} is given to {hold.member_id}, and {before.member_id} has it")
        self._holds[place] = hold
        self._locks[hold.member_id, place] = hold.until_ms
        self._most_delivered[place] = max(self._most_delivered.get(place, 0), hold.delivery_count)

    def asked(self, key: TopicPartition, batches: Sequence[Acknowledgement]) -> None:
        """A broker is about to apply these; whether they are stored is another matter."""
        for offset, kind in _kinds(batches):
            self._asked.setdefault((key, offset), set()).add(kind)

    def acknowledged(
        self, broker: ServingBroker, key: TopicPartition, member_id: str,
        batches: Sequence[Acknowledgement], asked_ms: int,
    ) -> None:  # fmt: skip
        """A broker says that these are stored."""
        partition = broker.manager.partitions.get(key)
        assert partition is not None
        for offset, kind in _kinds(batches):
            place = key, offset
            self._cluster.kernel.note(f"{broker.name} takes {kind.name} of {key[1]}:{offset}")
            hold = self._holds.get(place)
            if kind is AcknowledgeType.RENEW:
                if hold is not None and hold.member_id == member_id:
                    until_ms = asked_ms + self.lock_ms
                    self._holds[place] = hold._replace(until_ms=until_ms)
                    self._locks[member_id, place] = until_ms
                continue
            if hold is not None and hold.member_id == member_id:
                del self._holds[place]
                if kind is AcknowledgeType.RELEASE:
                    self._released[place] = hold.delivery_count, partition.leader_epoch
            if kind in (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT):
                self._settled[place] = partition.leader_epoch

    def session_ended(self, broker: ServingBroker, member_id: str) -> None:
        """A broker gives back what the member has."""
        leader = broker.shares.leader
        mine = [
            place
            for place, hold in self._holds.items()
            if hold.member_id == member_id and leader.served.get(hold.served.key) is hold.served
        ]
        for place in mine:
            del self._holds[place]

    # Members tell

    def hand_out(self, member_id: str, record: SharedRecord) -> None:
        place = (record.topic, record.partition), record.offset
        value = record.value or b""
        self._cluster.kernel.note(f"{member_id} is handed {record.partition}:{record.offset}")
        if self._handed.setdefault(place, value) != value:
            self._fail(f"{member_id} is handed {value!r} at {place}: not the same as before")
        until_ms = self._locks.get((member_id, place))
        if until_ms is None:
            self._fail(f"{member_id} is handed {place}, which no broker has given to it")
        elif until_ms < self._now_ms:
            self._fail(f"{member_id} is handed {place}, whose lock has ended")

    def finish(self, member_id: str, record: SharedRecord) -> None:
        """Its user has done with it: it may be accepted."""
        self._done.add((member_id, ((record.topic, record.partition), record.offset)))

    def confirm(self, member_id: str, accepted: Sequence[SharedRecord]) -> None:
        """A commit has returned without an error."""
        for record in accepted:
            place = (record.topic, record.partition), record.offset
            if place not in self._settled:
                self._fail(f"{member_id} has committed {place}, and no broker has stored it")

    def sent(self, message: ShareFetchRequest | ShareAcknowledgeRequest) -> None:
        """A request leaves a client."""
        assert message.member_id is not None
        for topic in message.topics:
            for part in topic.partitions:
                key = TOPIC, part.partition_index
                batches = [
                    Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                    for batch in part.acknowledgement_batches
                ]
                for offset, kind in _kinds(batches):
                    is_done = (message.member_id, (key, offset)) in self._done
                    if kind is AcknowledgeType.ACCEPT and not is_done:
                        self._fail(f"{message.member_id} accepts {key} {offset}, which is not done")

    # Whether all is well

    def look(self) -> None:
        """Locks that have ended are taken back, in time."""
        for broker in self._cluster.brokers.values():
            if not broker.process.alive or broker.process.paused or not broker.is_serving:
                continue
            for served in broker.shares.leader.served.values():
                if served.machine.phase is not Phase.ACTIVE:
                    continue
                for batch in served.machine.batches:
                    for run in batch.runs:
                        late_ms = self._now_ms - run.lock_ends_ms
                        if (
                            run.state is RecordState.ACQUIRED
                            and run.write is None
                            and run.lock_ends_ms != NO_LOCK
                            and late_ms > LATE_LOCK_MS
                        ):
                            self._fail(
                                f"the lock of {served.partition} {run.first} has ended "
                                f"{late_ms} ms ago"
                            )
        self._cluster.kernel.after(LOOK_MS, None, self.look)

    def what_is_left(self) -> str:
        """Of the records that have no result."""
        cluster = self._cluster
        for key in cluster.data_keys:
            state = cluster.audit.ledger(key).state
            if state is None or state.leader < 0:
                return f"nobody leads {key}"
            broker = cluster.brokers[state.leader]
            partition = broker.manager.partitions.get(key) if broker.process.alive else None
            if partition is None or not partition.is_leader:
                return f"{broker.name} does not lead {key}"
            place = GROUP, cluster.topic_ids[key[0]], key[1]
            served = broker.shares.leader.served.get(place)
            if served is None or served.machine.phase is not Phase.ACTIVE:
                return f"{broker.name} does not serve {key}"
            end = cluster.audit.ledger(key).end
            if partition.log.last_stable_offset < end:
                return f"not all of {key} is stable"
            if served.machine.start_offset < end:
                return f"{key} is done up to {served.machine.start_offset} of {end}"
        return ""

    def check(self) -> None:
        """All members have left, and all is quiet."""
        for key in self._cluster.data_keys:
            log = self._cluster.judge.log(key)
            for offset, value in log.values.items():
                place = key, offset
                is_aborted = offset in log.aborted
                if self._handed.get(place, value) != value:
                    self._fail(f"{self._handed[place]!r} was handed out at {place}: not {value!r}")
                if is_aborted and self._cluster.share_settings.isolation:
                    continue
                asked = self._asked.get(place, set())
                if AcknowledgeType.GAP in asked:
                    self._fail(f"{place} was taken for a gap")
                if asked & {AcknowledgeType.ACCEPT, AcknowledgeType.REJECT}:
                    continue
                if self._most_delivered.get(place, 0) < self.limit:
                    self._fail(f"{place} has no result, and is not delivered any more")


def _kinds(batches: Sequence[Acknowledgement]) -> list[tuple[int, AcknowledgeType]]:
    """Of each offset."""
    return [
        (offset, AcknowledgeType(types[0] if len(types) == 1 else types[offset - first]))
        for first, last, types in batches
        for offset in range(first, last + 1)
    ]
