"""Input and output of the replica manager: parameters, results, completions, effects.

Rules: a call that may wait returns `Done(result)` or `Parked(operation)`; a parked operation comes
back later as `Completion(token, result)`, where `token` is the object that the caller gave at
entry. Effects are work that the driver does for the manager (fsync, requests to the controller) and
reports back by a method call. All are slotted and hold no reference back to their owner.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ..protocol.apis.fetch import AbortedTransaction, FetchResponsePartitionData
from ..protocol.apis.leader_and_isr import LeaderAndIsrPartitionState
from ..protocol.errors import ErrorCode
from ..protocol.topics import INTERNAL_TOPICS, TopicPartition
from ..storage.append_info import Append, AppendOrigin
from ..storage.files import FileSlice
from ..storage.log import Log
from ..storage.verification import VerificationGuard
from .purgatory import Operation

ZERO_TOPIC_ID: Final = bytes(16)
UNKNOWN_OFFSET: Final = -1
NO_EPOCH: Final = -1
CONSUMER_REPLICA_ID: Final = -1
DEBUG_REPLICA_ID: Final = -2

ACKS_ALL: Final = -1

ResultT = TypeVar("ResultT")


class Done(Generic[ResultT]):
    __slots__ = ("result",)

    def __init__(self, result: ResultT) -> None:
        self.result = result


class Parked:
    __slots__ = ("operation",)

    def __init__(self, operation: Operation) -> None:
        self.operation = operation


class Completion(NamedTuple):
    token: Any
    result: Any


class Isolation(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
    LOG_END = 2


class ReplicatedAppend(Append):
    """The arguments of an append to partitions that this broker leads."""

    __slots__ = ("internal_topics_allowed", "required_acks", "timeout_ms")

    def __init__(
        self,
        required_acks: int,
        timeout_ms: int,
        now_ms: int,
        request_version: int | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guards: Mapping[TopicPartition, VerificationGuard] | None = None,
        *,
        internal_topics_allowed: bool = True,
        transaction_version: int = 0,
    ) -> None:
        super().__init__(now_ms, request_version, origin, guards, transaction_version)
        self.required_acks = required_acks  # ACKS_ALL, 1 or 0
        self.timeout_ms = timeout_ms  # of the wait for followers
        self.internal_topics_allowed = internal_topics_allowed


class ProduceResult:
    """Outcome of an append to one partition; `required_offset` is where HW must be for acks=all."""

    __slots__ = (
        "base_offset",
        "error_code",
        "error_message",
        "is_pending",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "required_offset",
    )

    def __init__(
        self,
        error_code: ErrorCode = ErrorCode.NONE,
        base_offset: int = UNKNOWN_OFFSET,
        log_append_time_ms: int = -1,
        log_start_offset: int = UNKNOWN_OFFSET,
        required_offset: int = UNKNOWN_OFFSET,
        error_message: str | None = None,
        record_errors: Iterable[tuple[int, str | None]] = (),
    ) -> None:
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.required_offset = required_offset
        self.error_message = error_message
        self.record_errors = record_errors
        # Appended, but not yet on the requested replicas or disk.
        self.is_pending = False


ProduceResults = dict[TopicPartition, ProduceResult]


class FetchEntry:
    """One partition of a fetch. `topic` is None while a topic id has no known name."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "latest",
        "log_start_offset",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str | None,
        partition: int,
        *,
        fetch_offset: int,
        max_bytes: int,
        topic_id: bytes = ZERO_TOPIC_ID,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        log_start_offset: int = UNKNOWN_OFFSET,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        # In a session: the last result, until the client asks for something else.
        self.latest: FetchResponsePartitionData | None = None


@dataclass(slots=True, frozen=True)
class ClientMetadata:
    """The client of a fetch, for the choice of a read replica (KIP-392; Fetch v11 and later)."""

    rack_id: str
    client_id: str
    listener: str


class FetchParams:
    """The parameters common to all partitions of a fetch. `strict_limit` (Fetch v0-2): not even the
    first batch may exceed the limit. `client` is known for consumers from Fetch v11 on."""

    __slots__ = (
        "client",
        "is_from_follower",
        "isolation",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "only_from_leader",
        "replica_epoch",
        "replica_id",
        "strict_limit",
    )

    def __init__(
        self,
        replica_id: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation: Isolation,
        replica_epoch: int = -1,
        strict_limit: bool = False,
        client: ClientMetadata | None = None,
    ) -> None:
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation
        self.replica_epoch = replica_epoch
        self.strict_limit = strict_limit
        self.client = client
        self.is_from_follower = replica_id >= 0
        self.only_from_leader = replica_id != DEBUG_REPLICA_ID and client is None


# Results in the order of the entries; they are the wire's own structs, so that nothing is copied.
FetchResults = list[FetchResponsePartitionData]


class DeleteRecordsResult(NamedTuple):
    error_code: ErrorCode
    low_watermark: int = UNKNOWN_OFFSET


DeleteRecordsResults = dict[TopicPartition, DeleteRecordsResult]


class FlushNeeded(NamedTuple):
    """Make the log durable up to `offset`, then call `ReplicaManager.flushed`."""

    topic: str
    partition: int
    offset: int
    log: Log


class AlterIsr(NamedTuple):
    """Ask the controller for a new ISR; the answer goes to `IsrChanges.altered`."""

    topic: str
    partition: int
    topic_id: bytes
    leader_epoch: int
    partition_epoch: int
    # Without broker epochs (KIP-903): a ZooKeeper controller does not look at them.
    isr: tuple[int, ...]


class RebuildProducers(NamedTuple):
    """Appends wait for the producers of this log: call `Log.rebuild_some`, between other tasks,
    until it returns True or raises."""

    log: Log


class FailedLogDir(NamedTuple):
    """A directory and these partitions are offline: the controller must be notified."""

    directory: str
    partitions: tuple[TopicPartition, ...]


class FollowersWait(NamedTuple):
    """Followers' fetches are complete: call `WaitingOperations.answer_followers`, at once if
    urgent."""

    is_urgent: bool


class MoreToAnswer(NamedTuple):
    """More operations are due than can be answered at once: call `WaitingOperations.answer_more`,
    between other tasks, until it returns False."""


class RemoteRecords(NamedTuple):
    """Records that were read from the remote tier, and the transactions of theirs that aborted."""

    records: FileSlice
    aborted: list[AbortedTransaction]


class RemoteRead(NamedTuple):
    """A fetch waits at most `wait_ms` for records that are in the remote tier only: read them, and
    call `WaitingOperations.remote_read`."""

    operation: Operation
    key: TopicPartition
    offset: int
    max_bytes: int
    min_one_batch: bool
    strict_limit: bool  # a first batch that is larger is cut, as old clients want it
    include_aborted: bool
    wait_ms: int


class RebuildFromTier(NamedTuple):
    """A follower's records begin behind those that its leader has in the remote tier only: read the
    epochs and producers before `local_start_offset` there, for `FollowerFetcher.tier_read`."""

    key: TopicPartition
    topic_id: bytes
    epoch: int  # of the record before `local_start_offset`
    local_start_offset: int  # of the leader
    state: Any  # the follower's, which tells this question from later ones


class TakeOverTier(NamedTuple):
    """A replica that never had a record is to lead a tiered partition that was led before: look
    what the remote tier has of it, for `Leadership.tier_read`."""

    key: TopicPartition
    topic_id: bytes


class TierState(NamedTuple):
    """The state of a log at the end of a remote segment."""

    next_offset: int
    epochs: list[tuple[int, int]]
    snapshot: bytes  # of the producers


class ShareFetchesDue(NamedTuple):
    """The partition changed, and members of share groups wait for it
    (`WaitingOperations.shared`)."""

    topic: str
    partition: int


Effect = (
    FlushNeeded
    | AlterIsr
    | FailedLogDir
    | FollowersWait
    | MoreToAnswer
    | RebuildFromTier
    | RebuildProducers
    | RemoteRead
    | ShareFetchesDue
    | TakeOverTier
)


class TopicStats:
    """Counters of one topic; the metrics exporter reads them as they are."""

    __slots__ = (
        "build_remote_aux_requests",
        "bytes_in",
        "bytes_out",
        "failed_build_remote_aux_requests",
        "failed_fetch_requests",
        "failed_produce_requests",
        "failed_remote_copy_requests",
        "failed_remote_delete_requests",
        "failed_remote_fetch_requests",
        "fetch_message_conversions",
        "fetch_requests",
        "invalid_record_batches",
        "messages_in",
        "produce_message_conversions",
        "produce_requests",
        "remote_copy_bytes",
        "remote_copy_requests",
        "remote_delete_requests",
        "remote_fetch_bytes",
        "remote_fetch_requests",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.messages_in = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0
        self.invalid_record_batches = 0
        self.produce_message_conversions = 0
        self.fetch_message_conversions = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self.build_remote_aux_requests = 0
        self.failed_build_remote_aux_requests = 0
        self.failed_remote_copy_requests = 0
        self.failed_remote_delete_requests = 0
        self.failed_remote_fetch_requests = 0
        self.remote_copy_bytes = 0
        self.remote_copy_requests = 0
        self.remote_delete_requests = 0
        self.remote_fetch_bytes = 0
        self.remote_fetch_requests = 0


@dataclass(slots=True, frozen=True)
class ReplicaConfig:
    broker_id: int
    replica_lag_time_max_ms: int = 30_000
    fetch_max_bytes: int = 57_671_680
    remote_fetch_max_wait_ms: int = 500
    internal_topics: frozenset[str] = INTERNAL_TOPICS


class RoleChange(NamedTuple):
    topic: str
    partition: int
    leader_id: int
    leader_epoch: int


@dataclass(slots=True)
class LeadershipResult:
    """Outcome of LeaderAndIsr: a code for each partition, and the roles that really changed."""

    error_code: ErrorCode
    partition_errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    became_leader: list[RoleChange] = field(default_factory=list)
    became_follower: list[RoleChange] = field(default_factory=list)


class RefusedRole(NamedTuple):
    """The state that the controller sent for a replica whose role could not begin: there were no
    file descriptors, or the remote tier is looked at first."""

    topic_id: bytes
    state: LeaderAndIsrPartitionState


@dataclass(slots=True)
class StopResult:
    error_code: ErrorCode
    partition_errors: dict[TopicPartition, ErrorCode] = field(default_factory=dict)
    stopped: list[RoleChange] = field(default_factory=list)
    deleted: list[TopicPartition] = field(default_factory=list)
    # Of `deleted`, the tiered ones whose topic is deleted, and whose segments in the tier this
    # broker is to delete: with the topic's id.
    deleted_with_topic: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    # The same of followers: their segments are deleted by the leader, or here if it does not.
    deleted_by_leader: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
