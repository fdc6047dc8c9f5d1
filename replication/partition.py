"""One replica of a partition on this broker: its role, its log, and as leader its followers.

Roles: none (created, no LeaderAndIsr yet), leader, follower. LeaderAndIsr changes the role; a
smaller partition epoch than the known one changes nothing.

Invariants: leader epoch and partition epoch never go back; the high watermark of a leader never
goes back and never passes the log end offset of a member of the maximal ISR, nor (when the log asks
for a flush) the end of the records on disk; it does not move while the committed ISR is smaller
than the effective min.insync.replicas; a replica joins the ISR only at the HW and past the start of
the leader's epoch (KIP-279, KIP-497, KIP-966's first part).

Mirrors Kafka's Partition. Leaves out tiered storage; `log_dir_moves` handles future replicas and
ends with `replace_log`. The replica manager handles waiting operations: methods here report which
offsets have moved.
"""

from typing import Any, Final

from ..protocol import invariants
from ..protocol.apis.leader_and_isr import LeaderAndIsrPartitionState
from ..protocol.errors import ErrorCode, KafkaError
from ..protocol.invariants import BrokenInvariant
from ..protocol.topics import TopicPartition
from ..storage.append_info import AppendInfo
from ..storage.log import Log
from ..storage.validation import AppendInput
from .isr import IsrState, RemoteReplica
from .metadata_cache import MetadataCache
from .types import (
    ACKS_ALL,
    NO_EPOCH,
    UNKNOWN_OFFSET,
    AlterIsr,
    Isolation,
    ReplicatedAppend,
    TopicStats,
)

NO_LEADER: Final = -1

# The controller's answer to an ISR proposal leaves no state to go back to: wait for LeaderAndIsr.
_AWAIT_NEW_STATE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
_ROLL_BACK: Final = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})


class Partition:
    __slots__ = (
        "_max_lag_ms",
        "_metadata",
        "_unflushed_end",
        "_unflushed_from",
        "adding_replicas",
        "broker_id",
        "controller_epoch",
        "effective_min_isr",
        "is_leader",
        "isr",
        "key",
        "leader_epoch",
        "leader_epoch_start_offset",
        "leader_id",
        "leading_since_epoch",
        "log",
        "partition",
        "partition_epoch",
        "quick_answers",
        "remotes",
        "removing_replicas",
        "replicas",
        "stats",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: bytes,
        log: Log,
        *,
        broker_id: int,
        max_lag_ms: int,
        metadata: MetadataCache,
        stats: TopicStats,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.key: TopicPartition = (topic, partition)
        # Zeros while the topic has none that is known here; it never changes to another id.
        self.topic_id = topic_id
        # Another one takes its place only by `replace_log`, and ends at the same offset.
        self.log = log
        # This broker's.
        self.broker_id = broker_id
        # The topic's, shared by all of its partitions.
        self.stats = stats
        # If true, `leader_id` is `broker_id`.
        self.is_leader = False
        # NO_LEADER also while no replica may lead.
        self.leader_id = NO_LEADER
        # Never goes back: `Leadership` refuses a role whose epoch is not newer.
        self.leader_epoch = NO_EPOCH
        # Of a leader: the epoch since which no other broker can have led.
        self.leading_since_epoch = NO_EPOCH
        # Of a leader: where its log ended when its epoch began. Of a follower: unknown.
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        # The version of the controller's state; it never goes back, and changes with the ISR.
        self.partition_epoch = -1
        # Of the controller that gave the role.
        self.controller_epoch = -1
        # All that are assigned, this broker's among them, in order of preference.
        self.replicas: tuple[int, ...] = ()
        # The replicas that a reassignment under way adds and removes.
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        # Of a leader: all of `replicas` but its own. Of a follower: none.
        self.remotes: dict[int, RemoteReplica] = {}
        # Of a follower: empty.
        self.isr = IsrState()
        # min.insync.replicas, but no more than there are replicas, and at least 1.
        self.effective_min_isr = 1
        # replica.lag.time.max.ms: longer behind than that, and a replica is out of sync.
        self._max_lag_ms = max_lag_ms
        # Knows the live brokers.
        self._metadata = metadata
        # By version of Produce, what its answers are made from; the handler of Produce sets it.
        self.quick_answers: dict[int, Any] = {}
        # A leader's: appended, but its flush is under way: [from, end); -1 when there is none.
        self._unflushed_from = -1
        self._unflushed_end = -1

    def __repr__(self) -> str:
        role = "leader" if self.is_leader else f"follower of {self.leader_id}"
        return f"<Partition {self.topic}-{self.partition} {role} epoch {self.leader_epoch}>"

    # Roles

    def make_leader(self, state: LeaderAndIsrPartitionState, now_ms: int) -> bool:
        """Take the leader's role or its new epoch; False if the state is older than the known."""
        if state.partition_epoch < self.partition_epoch:
            return False
        self._check_epoch_of(state)
        # After a gap in the epochs another broker may have led, and followers may have cut their
        # logs: no more is known of them than at a first election. (Kafka keeps their offsets, so
        # that a leader that never learned of its successor can take unreplicated records for
        # replicated.)
        is_new_leader = not self.is_leader or state.leader_epoch > self.leader_epoch + 1
        if is_new_leader:
            self.leading_since_epoch = state.leader_epoch
        isr = frozenset(state.isr)
        self._set_assignment(state)
        remotes = self.remotes
        self.remotes = {
            broker_id: remotes.get(broker_id) or RemoteReplica(broker_id)
            for broker_id in self.replicas
            if broker_id != self.broker_id
        }
        self.isr.commit(isr)
        if state.leader_epoch > self.leader_epoch:
            start_offset = self.log.log_end_offset
            # Even without a record of this epoch: followers with later records must find it.
            self.log.assign_epoch_start(state.leader_epoch, start_offset)
            for replica in self.remotes.values():
                replica.reset(
                    now_ms=now_ms,
                    leader_end_offset=start_offset,
                    is_new_leader=is_new_leader,
                    in_isr=replica.broker_id in isr,
                )
            self.leader_epoch = state.leader_epoch
            self.leader_epoch_start_offset = start_offset
            # Records appended as a follower, or before a restart, count once they are on disk.
            self._unflushed_from = self.log.unflushed_from
            self._unflushed_end = start_offset if self._unflushed_from >= 0 else -1
        self.leader_id = self.broker_id
        self.is_leader = True
        if len(self.remotes) + 1 != len(set(self.replicas)) or self.broker_id in self.remotes:
            raise BrokenInvariant(f"{self!r} follows {self.remotes.keys()} of {self.replicas}")
        return True

    def make_follower(self, state: LeaderAndIsrPartitionState) -> bool:
        """Take the follower's role; True if fetching must start anew (a new leader epoch)."""
        if state.partition_epoch < self.partition_epoch:
            return False
        self._check_epoch_of(state)
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self.is_leader = False
        self.leader_id = state.leader
        self.leader_epoch = state.leader_epoch
        self.leader_epoch_start_offset = UNKNOWN_OFFSET
        self._set_assignment(state)
        self.remotes = {}
        self.isr.commit(frozenset())
        self._unflushed_from = self._unflushed_end = -1
        return is_new_epoch

    def _check_epoch_of(self, state: LeaderAndIsrPartitionState) -> None:
        """`Leadership` has refused an older one."""
        if state.leader_epoch < self.leader_epoch:
            raise BrokenInvariant(f"{self!r} is to go back to epoch {state.leader_epoch}")

    def _set_assignment(self, state: LeaderAndIsrPartitionState) -> None:
        self.controller_epoch = state.controller_epoch
        self.partition_epoch = state.partition_epoch
        self.replicas = tuple(state.replicas)
        self.adding_replicas = tuple(state.adding_replicas)
        self.removing_replicas = tuple(state.removing_replicas)
        self.config_changed()

    def replace_log(self, log: Log) -> None:
        """A copy in another directory takes the log's place; its end is not on disk yet."""
        if log.log_end_offset != self.log.log_end_offset:
            raise BrokenInvariant(f"{log!r} is to replace {self.log!r} of {self!r}")
        self.log = log
        if self.is_leader:
            self._unflushed_from = log.unflushed_from
            self._unflushed_end = log.log_end_offset if self._unflushed_from >= 0 else -1

    def config_changed(self) -> None:
        """min.insync.replicas counts at most as many replicas as there are."""
        self.effective_min_isr = min(self.log.config.min_insync_replicas, len(self.replicas) or 1)

    # Checks

    def check_epoch(self, current_leader_epoch: int) -> ErrorCode:
        """The client's idea of the leader epoch (-1: it has none)."""
        if current_leader_epoch < 0 or current_leader_epoch == self.leader_epoch:
            return ErrorCode.NONE
        if current_leader_epoch < self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.UNKNOWN_LEADER_EPOCH

    def check_access(self, current_leader_epoch: int, only_leader: bool) -> ErrorCode:
        error = self.check_epoch(current_leader_epoch)
        if error:
            return error
        if only_leader and not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    @property
    def durable_end_offset(self) -> int:
        """The end of the part of the leader's log that is as durable as its topic asks.

        Followers get no more: a leader that loses power and returns in the same epoch would write
        other records at the offsets of those that it lost and the followers have.
        """
        return self.log.log_end_offset if self._unflushed_from < 0 else self._unflushed_from

    def readable_end_offset(self, isolation: Isolation) -> int:
        if isolation is Isolation.LOG_END:
            return self.durable_end_offset
        if isolation is Isolation.READ_COMMITTED:
            return self.log.last_stable_offset
        return self.log.high_watermark

    # Appending

    def append_as_leader(self, records: AppendInput, append: ReplicatedAppend) -> AppendInfo:
        """Append, or raise KafkaError; the caller then asks `maybe_advance_high_watermark`."""
        if not self.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if append.required_acks == ACKS_ALL and len(self.isr.committed) < self.effective_min_isr:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"The size of the current ISR {sorted(self.isr.committed)} is insufficient for "
                f"min.insync.replicas {self.effective_min_isr} of {self.topic}-{self.partition}",
            )
        info = self.log.append_as_leader(records, self.leader_epoch, append)
        if info.flush_needed:
            if self._unflushed_from < 0:
                self._unflushed_from = info.first_offset
            self._unflushed_end = info.last_offset + 1
        return info

    def append_as_follower(
        self, records: bytearray | memoryview, *, leader_epoch: int, now_ms: int
    ) -> AppendInfo:
        if self.is_leader or leader_epoch != self.leader_epoch:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.log.append_as_follower(records, now_ms=now_ms)

    def follow_leader_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """Apply the leader's offsets in a fetch response, after its records were appended."""
        if self.is_leader:
            raise BrokenInvariant(f"{self!r} follows the offsets of another leader")
        self.log.update_high_watermark(min(high_watermark, self.log.log_end_offset))
        if log_start_offset > self.log.log_start_offset:
            self.log.maybe_increment_log_start_offset(log_start_offset)

    def flushed(self, offset: int) -> None:
        """Everything below `offset` is on disk."""
        if self._unflushed_from < 0:
            return
        if offset >= self._unflushed_end:
            self._unflushed_from = self._unflushed_end = -1
        else:
            self._unflushed_from = max(self._unflushed_from, offset)

    def is_durable(self, required_offset: int) -> bool:
        """Whether the leader's own copy below `required_offset` is as safe as its topic asks."""
        return self._unflushed_from < 0 or required_offset <= self._unflushed_from

    def is_replicated(self, offset: int) -> bool:
        """Whether every possible next leader has everything below `offset`, by this epoch's
        fetches.

        Unlike the high watermark this does not ask for min.insync.replicas.
        """
        if self.log.high_watermark >= offset:
            return True
        return self.durable_end_offset >= offset and all(
            replica.log_end_offset >= offset
            for replica in self.remotes.values()
            if replica.broker_id in self.isr.maximal
        )

    # High watermark and ISR

    def maybe_advance_high_watermark(self, now_ms: int) -> bool:
        isr = self.isr
        if len(isr.committed) < self.effective_min_isr:
            return False
        log = self.log
        end_offset = log.log_end_offset
        candidate = self.durable_end_offset
        if self.remotes:
            for replica in self.remotes.values():
                if replica.log_end_offset < candidate and (
                    replica.broker_id in isr.maximal
                    or self._is_joining(replica, end_offset, now_ms)
                ):
                    candidate = replica.log_end_offset
        if candidate <= log.high_watermark:
            return False
        if log.update_high_watermark(candidate) != candidate:
            raise BrokenInvariant(f"the HW of {self!r} is to go to {candidate}: {log!r}")
        if invariants.THOROUGH:
            self._check_high_watermark()
        return True

    def _check_high_watermark(self) -> None:
        """Thorough: everything below the HW is as safe as its topic asks, and on each member of the
        maximal ISR."""
        if self.log.high_watermark > self.durable_end_offset:
            raise BrokenInvariant(f"{self!r}: on disk to {self.durable_end_offset}: {self.log!r}")
        for replica in self.remotes.values():
            at = replica.log_end_offset
            if replica.broker_id in self.isr.maximal and at < self.log.high_watermark:
                raise BrokenInvariant(f"{replica.broker_id} of {self!r} is at {at}: {self.log!r}")

    def _is_joining(self, replica: RemoteReplica, end_offset: int, now_ms: int) -> bool:
        """Wait for a replica that keeps up, or it could never reach the moving HW."""
        return replica.is_caught_up(
            end_offset, now_ms, self._max_lag_ms
        ) and self._metadata.is_alive(replica.broker_id)

    def update_follower(
        self,
        replica: RemoteReplica,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: int,
    ) -> bool:
        """A follower has fetched at `fetch_offset`; True if the HW moved."""
        previous_end = replica.log_end_offset
        replica.record_fetch(
            fetch_offset, log_start_offset, leader_end_offset, broker_epoch, now_ms
        )
        return previous_end != fetch_offset and self.maybe_advance_high_watermark(now_ms)

    def propose_isr_expansion(self, replica: RemoteReplica) -> AlterIsr | None:
        broker_id = replica.broker_id
        if self.isr.is_in_flight or broker_id in self.isr.maximal or not self.is_leader:
            return None
        end_offset = replica.log_end_offset
        if end_offset < self.log.high_watermark or end_offset < self.leader_epoch_start_offset:
            return None
        if not self._metadata.is_alive(broker_id):
            return None
        return self._alter_isr(self.isr.propose_expand(broker_id))

    def propose_isr_shrink(self, now_ms: int) -> AlterIsr | None:
        if not self.is_leader or self.isr.is_in_flight:
            return None
        if self.broker_id not in self.isr.committed:  # by order of a controller: no proposal
            return None
        out_of_sync = self.out_of_sync_replicas(now_ms)
        return self._alter_isr(self.isr.propose_shrink(out_of_sync)) if out_of_sync else None

    def out_of_sync_replicas(self, now_ms: int) -> frozenset[int]:
        end_offset = self.log.log_end_offset
        members = self.isr.committed - {self.broker_id}
        lagging = []
        for broker_id in members:
            replica = self.remotes.get(broker_id)
            if replica is None or not replica.is_caught_up(end_offset, now_ms, self._max_lag_ms):
                lagging.append(broker_id)
        return frozenset(lagging)

    def _alter_isr(self, isr: frozenset[int]) -> AlterIsr:
        self._check_proposal(isr)
        return AlterIsr(
            self.topic,
            self.partition,
            self.topic_id,
            self.leader_epoch,
            self.partition_epoch,
            tuple(sorted(isr)),
        )

    def _check_proposal(self, isr: frozenset[int]) -> None:
        """The leader stays; a joining broker is a replica, at the HW and past the start of the
        epoch."""
        committed = self.isr.committed
        if self.broker_id in committed and self.broker_id not in isr:
            raise BrokenInvariant(f"{self!r} proposes {isr}, without itself")
        least = max(self.log.high_watermark, self.leader_epoch_start_offset)
        for broker_id in isr - committed:
            replica = self.remotes.get(broker_id)
            if replica is None or replica.log_end_offset < least:
                at = None if replica is None else replica.log_end_offset
                raise BrokenInvariant(f"{broker_id} at {at} is to join the ISR of {self!r}")

    def isr_altered(
        self, proposal: AlterIsr, error: ErrorCode, isr: frozenset[int], partition_epoch: int
    ) -> AlterIsr | None:
        """The controller's answer; returns the proposal anew when it must be sent again."""
        if (
            not self.isr.is_in_flight
            or proposal.leader_epoch != self.leader_epoch
            or proposal.partition_epoch != self.partition_epoch
        ):
            return None  # A LeaderAndIsr request was faster.
        if error is ErrorCode.NONE:
            if partition_epoch >= self.partition_epoch:
                self.partition_epoch = partition_epoch
                self.isr.commit(isr)
        elif error in _ROLL_BACK:
            self.isr.roll_back()
        elif error not in _AWAIT_NEW_STATE:
            return proposal
        return None

    def low_watermark(self) -> int:
        """The smallest log start offset over the live replicas."""
        low = self.log.log_start_offset
        for replica in self.remotes.values():
            if replica.log_start_offset < low and self._metadata.is_alive(replica.broker_id):
                low = replica.log_start_offset
        return low

    @property
    def is_under_replicated(self) -> bool:
        return self.is_leader and len(self.isr.committed) < len(self.replicas)

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and len(self.isr.committed) < self.effective_min_isr
