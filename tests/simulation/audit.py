"""What must hold after every step, whatever happens.

Job: keep, beside the cluster, a shadow of every replica (its batches) and the ledger of each
partition: the batches that some leader's high watermark has passed. From then on:
- a HW passes only what every member of the ISR (as ZooKeeper has it) holds; the ledger only grows;
- whoever is elected holds the ledger as it was at the election; whoever joins the ISR holds it;
- nobody has other bytes where the ledger has some, below its own HW;
- the HW of a leader never goes back in an epoch; LSO <= HW <= LEO; one leader an epoch;
- an acks=all answer is for batches of the ledger that min.insync.replicas replicas hold;
- consumers see the ledger, in order;
- nothing is deleted: all records are of the last minute, whatever a wall clock says;
- a broker does not obey a controller older than one that it has heard of, nor one that means its
  former life.

A replica that lost power is excused ("lossy") until it has left the ISR: that Kafka does not flush
is made good by the other members, of which the faults leave one alone (see faults.py). Where
unclean elections are allowed there is no ledger: nothing is promised but epochs, offsets and
convergence.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from pybroker_kafka.protocol.apis.leader_and_isr import LeaderAndIsrRequest
from pybroker_kafka.protocol.apis.produce import ProduceRequest, ProduceResponse
from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.protocol.topics import SHARE_STATE_TOPIC, TopicPartition
from pybroker_kafka.replication.controller import znodes
from pybroker_kafka.replication.controller.znodes import LeaderAndIsr
from pybroker_kafka.replication.types import ACKS_ALL
from pybroker_kafka.storage.log import Log
from tests.simulation.kernel import Process

if TYPE_CHECKING:
    from tests.simulation.broker import Broker
    from tests.simulation.cluster import Cluster

MAX_READ_BYTES = 1 << 30


class InvariantBroken(AssertionError):
    """The run has found something."""


class BatchRecord(NamedTuple):
    base: int
    end: int
    epoch: int
    crc: int


class Replica:
    """The shadow of one replica: what its log holds, and where it stood when last seen."""

    __slots__ = (
        "batches",
        "epoch",
        "hw",
        "is_leader",
        "leo",
        "log",
        "start",
        "truncations",
        "verified",
    )

    def __init__(self) -> None:
        self.log: Log | None = None
        self.truncations = 0
        self.start = 0
        self.batches: list[BatchRecord] = []
        self.leo = 0
        self.hw = 0
        self.epoch = -1
        self.is_leader = False
        # So many batches are as in the ledger.
        self.verified = 0

    def read(self, log: Log, ledger: "Ledger") -> None:
        """Bring the shadow up with the log; of what was pruned, the ledger has it.

        A follower may keep batches of its own below the log start of a leader that knows no epoch
        of them any more, until the same fetch raises its log start: nobody reads them.
        """
        start = log.log_start_offset
        if start > self.start:
            kept = [batch for batch in self.batches if batch.end > start]
            self.batches = ledger.batches[: ledger.count(start)] + kept
            self.verified = 0
        self.start = start
        if log is not self.log or log.local.truncations != self.truncations:
            self.batches = ledger.batches[: ledger.count(start)]
            self.verified = 0
            self.leo = self.batches[-1].end if self.batches else 0
        self.log = log
        self.truncations = log.local.truncations
        if self.leo < start:
            first, last = ledger.count(self.leo), ledger.count(start)
            self.batches += ledger.batches[first:last]
            self.leo = self.batches[-1].end if self.batches else 0
        while max(self.leo, start) < log.log_end_offset:
            before = self.leo
            position = max(before, start)
            found = log.read(position, MAX_READ_BYTES, upper_bound_offset=log.log_end_offset)
            for _, header in iter_batch_headers(found.records.read()):
                if header.base_offset >= before:
                    base, end = header.base_offset, header.next_offset
                    epoch = header.partition_leader_epoch
                    self.batches.append(BatchRecord(base, end, epoch, header.crc))
                    self.leo = header.next_offset
            assert self.leo > before, f"{log} cannot be read at {before}"


class Ledger:
    """The committed batches of a partition, and what ZooKeeper says of it."""

    def __init__(self) -> None:
        self.batches: list[BatchRecord] = []
        self.leaders: dict[int, int] = {}
        # Where the ledger ended when a leader of this epoch was elected.
        self.end_at_election: dict[int, int] = {}
        self.state: LeaderAndIsr | None = None
        self.lossy: set[int] = set()

    @property
    def end(self) -> int:
        return self.batches[-1].end if self.batches else 0

    def count(self, end: int) -> int:
        """How many of the batches lie below `end`."""
        return bisect_right(self.batches, end, key=_end_of)

    def first_difference(self, replica: Replica, end: int) -> str | None:
        """How a replica differs from the ledger below `end`."""
        count = self.count(end)
        start = replica.verified
        batches = replica.batches
        if count <= start or batches[start:count] == self.batches[start:count]:
            replica.verified = max(count, start)
            return None
        for index, batch in enumerate(self.batches[:count]):
            if index >= len(batches):
                return f"ends before {batch}"
            if batches[index] != batch:
                return f"has {batches[index]} where {batch} is committed"
        return None


def _end_of(batch: BatchRecord) -> int:
    return batch.end


def _base_of(batch: BatchRecord) -> int:
    return batch.base


class Audit:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self.ledgers: dict[TopicPartition, Ledger] = {}
        self.replicas: dict[tuple[int, TopicPartition], Replica] = {}
        self._controller_epochs: dict[int, int] = {}
        self._zxid = 0
        self._is_unclean = cluster.settings.unclean_elections
        self.acknowledged_batches = 0

    def fail(self, text: str) -> None:
        raise InvariantBroken(text)

    def ledger(self, key: TopicPartition) -> Ledger:
        ledger = self.ledgers.get(key)
        if ledger is None:
            ledger = self.ledgers[key] = Ledger()
        return ledger

    def replica(self, broker_id: int, key: TopicPartition) -> Replica:
        replica = self.replicas.get((broker_id, key))
        if replica is None:
            replica = self.replicas[broker_id, key] = Replica()
        return replica

    # After a step

    def after_step(self, owner: Process | None) -> None:
        broker = self._cluster.by_process.get(owner) if owner is not None else None
        if broker is not None:
            if broker.process.alive:
                self._look_at(broker)
        elif owner is self._cluster.zookeeper.process:
            self.look_at_zookeeper()

    def _look_at(self, broker: "Broker") -> None:
        broker_id, partitions = broker.broker_id, broker.manager.partitions
        for key, partition in partitions.items():
            log = partition.log
            if log.log_start_offset and key[0] != SHARE_STATE_TOPIC:
                self.fail(f"{broker.name} {key}: records were deleted, up to {log}")
            replica = self.replicas.get((broker_id, key)) or self.replica(broker_id, key)
            hw = log.high_watermark
            if (
                log.log_end_offset == replica.leo
                and hw == replica.hw
                and partition.leader_epoch == replica.epoch
                and partition.is_leader == replica.is_leader
                and log is replica.log
                and log.local.truncations == replica.truncations
            ):
                continue
            ledger = self.ledger(key)
            replica.read(log, ledger)
            self._check_offsets(broker, key, log)
            if self._is_unclean and not partition.is_leader:
                pass
            elif partition.is_leader:
                self._check_leader(broker, key, partition.leader_epoch, replica, hw, ledger)
            elif hw != replica.hw:
                self._check_prefix(broker.broker_id, key, replica, min(hw, ledger.end))
                if hw > ledger.end:
                    self.fail(f"{broker.name} follows {key} to HW {hw}, none leads to it")
            replica.hw, replica.epoch = hw, partition.leader_epoch
            replica.is_leader = partition.is_leader
        if len(partitions) < len(self._cluster.keys):
            self._forget_deleted(broker)

    def _forget_deleted(self, broker: "Broker") -> None:
        """Replicas that a reassignment has taken away."""
        for key in self._cluster.keys:
            found = self.replicas.get((broker.broker_id, key))
            if (
                found is not None
                and found.log is not None
                and broker.log_manager.get_log(*key) is None
            ):
                self.replicas[broker.broker_id, key] = Replica()

    def _check_offsets(self, broker: "Broker", key: TopicPartition, log: Log) -> None:
        ordered = (
            log.log_start_offset
            <= log.last_stable_offset
            <= log.high_watermark
            <= log.log_end_offset
        )
        if not ordered:
            self.fail(f"{broker.name} {key}: {log} with LSO {log.last_stable_offset}")

    def _check_leader(
        self, broker: "Broker", key: TopicPartition, epoch: int, replica: Replica, hw: int,
        ledger: Ledger,
    ) -> None:  # fmt: skip
        broker_id = broker.broker_id
        other = ledger.leaders.setdefault(epoch, broker_id)
        if other != broker_id:
            self.fail(f"{key} has two leaders in epoch {epoch}: {other} and {broker_id}")
        is_same_epoch = replica.is_leader and replica.epoch == epoch
        if is_same_epoch and hw < replica.hw:
            self.fail(f"{broker.name} {key}: the HW went from {replica.hw} to {hw} in {epoch}")
        if self._is_unclean:
            return
        if not is_same_epoch:
            promised = ledger.end_at_election.get(epoch, ledger.end)
            self._check_prefix(broker_id, key, replica, promised)
        if hw > ledger.end:
            self._commit(broker, key, replica, hw, ledger)
        elif hw > replica.hw:
            self._check_prefix(broker_id, key, replica, hw)

    def _commit(
        self, broker: "Broker", key: TopicPartition, replica: Replica, hw: int, ledger: Ledger
    ) -> None:
        self._check_prefix(broker.broker_id, key, replica, ledger.end)
        start = len(ledger.batches)
        ledger.batches += [batch for batch in replica.batches[start:] if batch.end <= hw]
        self._check_members(key, ledger, f"{broker.name} raised the HW of {key} to {hw}, but")

    def _check_members(self, key: TopicPartition, ledger: Ledger, context: str) -> None:
        if ledger.state is None:
            return
        for member in ledger.state.isr:
            if member not in ledger.lossy:
                found = ledger.first_difference(self.replica(member, key), ledger.end)
                if found is not None:
                    self.fail(f"{context} b{member} of the ISR {ledger.state.isr} {found}")

    def _check_prefix(
        self, broker_id: int, key: TopicPartition, replica: Replica, end: int
    ) -> None:
        found = self.ledger(key).first_difference(replica, end)
        if found is not None:
            self.fail(f"b{broker_id} {key} {found}")

    # ZooKeeper

    def look_at_zookeeper(self) -> None:
        tree = self._cluster.zookeeper.machine.tree
        if tree.last_zxid == self._zxid:
            return
        self._zxid = tree.last_zxid
        for key in self._cluster.keys:
            node = tree.get(znodes.partition_state_path(*key))
            ledger = self.ledger(key)
            if node is None or (
                ledger.state is not None and ledger.state.partition_epoch == node.version
            ):
                continue
            state = znodes.decode_partition_state(node.data, node.version)
            self._state_written(key, ledger, ledger.state, state)

    def _state_written(
        self, key: TopicPartition, ledger: Ledger, old: LeaderAndIsr | None, new: LeaderAndIsr
    ) -> None:
        self._cluster.kernel.note(
            f"zookeeper: {key[0]}-{key[1]} leader {new.leader} epoch {new.leader_epoch} "
            f"isr {list(new.isr)} by controller {new.controller_epoch}"
        )
        ledger.state = new
        ledger.lossy &= set(new.isr)
        if old is not None and new.leader_epoch < old.leader_epoch:
            self.fail(f"{key}: the leader epoch went from {old} to {new}")
        if old is not None and new.controller_epoch < old.controller_epoch:
            self.fail(f"{key}: a replaced controller wrote {new} over {old}")
        if new.leader >= 0:
            other = ledger.leaders.setdefault(new.leader_epoch, new.leader)
            if other != new.leader:
                self.fail(f"{key}: {new}, but b{other} leads in this epoch")
            if old is None or new.leader_epoch != old.leader_epoch:
                self._elected(key, ledger, old, new)
        self._check_members(key, ledger, f"with {new} {key}")

    def _elected(
        self, key: TopicPartition, ledger: Ledger, old: LeaderAndIsr | None, new: LeaderAndIsr
    ) -> None:
        if old is not None and new.leader not in old.isr:
            if not self._is_unclean:
                self.fail(f"{key}: unclean election {old} -> {new}")
            self._cluster.kernel.note(f"that was an unclean election of {key}")
        ledger.end_at_election[new.leader_epoch] = ledger.end

    # What brokers and clients report

    def started(self, broker: "Broker") -> None:
        """Recovery is over: what was promised must have survived it."""
        self._controller_epochs[broker.broker_id] = 0
        for key in self._cluster.keys:
            log = broker.log_manager.get_log(*key)
            replica = self.replica(broker.broker_id, key)
            before = replica.batches
            replica.is_leader = False
            replica.hw = replica.epoch = -1
            if log is not None:
                replica.read(log, self.ledger(key))
            else:
                replica.batches, replica.leo, replica.log = [], 0, None
                replica.verified = 0
            ledger = self.ledger(key)
            if broker.broker_id in ledger.lossy:
                continue
            if replica.batches != before and broker.broker_id not in self._cluster.cut_power:
                self.fail(f"{broker.name} {key}: recovery kept {replica.leo}, lost {before[-1:]}")
            if ledger.state is not None and broker.broker_id in ledger.state.isr:
                self._check_prefix(broker.broker_id, key, replica, ledger.end)

    def acknowledged(
        self, broker: "Broker", produce: ProduceRequest, response: ProduceResponse
    ) -> bool:
        """A broker is about to answer a produce; whether it really leads all that was asked for."""
        leads = True
        for topic in response.responses:
            for answer in topic.partition_responses:
                key = (topic.name, answer.index)
                leads &= self.is_leader(broker, key)
                if not answer.error_code and produce.acks == ACKS_ALL:
                    self._check_is_safe(broker, key, answer.base_offset)
        return leads

    def _check_is_safe(self, broker: "Broker", key: TopicPartition, base_offset: int) -> None:
        self.acknowledged_batches += 1
        if self._is_unclean:
            return
        self._look_at(broker)
        ledger = self.ledger(key)
        index = _index_of(ledger.batches, base_offset)
        if index is None:
            self.fail(
                f"{broker.name} acknowledges {key} at {base_offset}, "
                f"committed is up to {ledger.end}"
            )
            return
        batch = ledger.batches[index]
        holders = [
            broker_id
            for broker_id in self._cluster.brokers
            if broker_id in ledger.lossy
            or _holds(self.replica(broker_id, key).batches, index, batch)
        ]
        if len(holders) < self._cluster.settings.min_insync_replicas:
            self.fail(f"{broker.name} acknowledges {key} {batch} held by {holders} only")

    def is_leader(self, broker: "Broker", key: TopicPartition) -> bool:
        """Whether it leads in the newest epoch, and is no zombie that is still to learn of it."""
        state = self.ledger(key).state
        partition = broker.manager.partitions.get(key)
        return (
            state is not None
            and partition is not None
            and partition.is_leader
            and partition.leader_epoch == state.leader_epoch
        )

    def consumed(
        self, who: str, key: TopicPartition, position: int, records: bytes
    ) -> tuple[int, int]:
        """A consumer got these bytes at its position; (next position, batches)."""
        ledger = self.ledger(key)
        count = 0
        if self._is_unclean:
            return position, count
        for _, header in iter_batch_headers(records):
            if header.next_offset <= position:
                continue
            index = _index_of(ledger.batches, header.base_offset)
            if index is None or ledger.batches[index].crc != header.crc:
                self.fail(f"{who} read {key} at {header.base_offset}: not committed")
            if header.base_offset != position:
                self.fail(f"{who} asked {key} for {position} and got {header.base_offset}")
            position = header.next_offset
            count += 1
        return position, count

    def control_request(self, broker: "Broker", request: Any) -> None:
        """Before a broker handles what a controller sent."""
        known = self._controller_epochs[broker.broker_id]
        self._is_stale = request.controller_epoch < known
        self._is_for_former_life = request.broker_epoch < broker.manager.leadership.broker_epoch
        if not self._is_for_former_life:
            if request.controller_epoch > max(self._controller_epochs.values()):
                self._cluster.kernel.note(
                    f"b{request.controller_id} is controller of epoch {request.controller_epoch}"
                )
            self._controller_epochs[broker.broker_id] = max(known, request.controller_epoch)

    def control_response(self, broker: "Broker", request: Any, response: Any) -> None:
        if not hasattr(request, "controller_epoch"):
            return
        if (self._is_stale or self._is_for_former_life) and not response.error_code:
            what = "LeaderAndIsr" if isinstance(request, LeaderAndIsrRequest) else "a request"
            self.fail(
                f"{broker.name} obeys {what} of controller {request.controller_epoch} for broker "
                f"epoch {request.broker_epoch}; it knows controller "
                f"{self._controller_epochs[broker.broker_id]}, its epoch is "
                f"{broker.manager.leadership.broker_epoch}"
            )

    # The end

    def check_producer(
        self, who: str, key: TopicPartition, acknowledged: list[int], sent: list[int],
        is_idempotent: bool,
    ) -> None:  # fmt: skip
        """CRCs of the acknowledged batches, and of all that were sent, in the order of sending."""
        ledger = self.ledger(key)
        counts = Counter(batch.crc for batch in ledger.batches)
        lost = [crc for crc in acknowledged if not counts[crc]]
        if lost:
            self.fail(f"{who}: {len(lost)} of {len(acknowledged)} acknowledged batches are lost")
        places: dict[int, int] = {}
        for index, batch in enumerate(ledger.batches):
            places.setdefault(batch.crc, index)
        order = [places[crc] for crc in sent if crc in places]
        if order != sorted(order):
            self.fail(f"{who}: batches of {key} are out of order")
        if is_idempotent and any(counts[crc] > 1 for crc in sent):
            self.fail(f"{who}: batches of {key} are there more than once")


def _index_of(batches: list[BatchRecord], base: int) -> int | None:
    index = bisect_left(batches, base, key=_base_of)
    return index if index < len(batches) and batches[index].base == base else None


def _holds(batches: list[BatchRecord], index: int, batch: BatchRecord) -> bool:
    return index < len(batches) and batches[index] == batch
