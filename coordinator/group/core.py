"""Shared parts of the group coordinator: configuration, state, effects, appends, timers.

Effects are collected while a request, a completion or a tick is processed; the runtime takes them
in order. Appends to one partition must reach the log in that order, which is also the order in
which the records must be replayed.

Invariant: every Append with acks that was handed out is answered by exactly one `appended` call.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from ...protocol.apis.initialize_share_group_state import InitializeShareGroupStateRequest
from ...protocol.errors import ErrorCode
from ...protocol.invariants import BrokenInvariant
from ...protocol.records.builder import build_batch
from ...protocol.records.compression import Compression
from ...protocol.records.plain_batch import build_plain_batch
from ...protocol.records.record import SimpleRecord
from ...protocol.timer_wheel import TimerWheel
from ...protocol.wall_clock import WallClock
from .group import Group
from .loader import PartitionLoad
from .placement import partition_for_key
from .timers import Timer, TimerKind

ACKS_NONE: Final = 0
ACKS_ALL: Final = -1


class GroupConfig(NamedTuple):
    """The coordinator's configuration (broker keys group.* and offsets.*)."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_compression: Compression = Compression.NONE
    commit_required_acks: int = -1
    proves: bool = True  # pybroker.coordinator.proof


class Reply(NamedTuple):
    """Effect: answer the request that came with `token`."""

    token: Any
    response: Any


class Append(NamedTuple):
    """Effect: append a batch to a partition of `__consumer_offsets`.

    With `required_acks` 0 the runtime must not call `appended`. `verification` is the value that
    the runtime passed with a transactional commit, for the log to check.
    """

    append_id: int
    partition: int
    batch: bytearray
    required_acks: int
    verification: Any = None


class InitializeStates(NamedTuple):
    """Effect: begin the states of share partitions, and report the answer with
    `states_initialized`."""

    request: InitializeShareGroupStateRequest


Effect = Reply | Append | InitializeStates

# Called with (append_id, error, base offset of the batch or -1, now_ms).
AppendCompletion = Callable[[int, ErrorCode, int, int], None]


class GroupStats:
    """Counts since the start, as Kafka's group-coordinator-metrics."""

    __slots__ = (
        "consumer_rebalances",
        "offsets_committed",
        "offsets_deleted",
        "offsets_expired",
        "rebalances_completed",
        "share_rebalances",
        "streams_rebalances",
    )

    def __init__(self) -> None:
        self.offsets_committed = 0
        self.offsets_deleted = 0
        self.offsets_expired = 0
        self.rebalances_completed = 0
        # Epochs that members began, of groups of the consumer protocol.
        self.consumer_rebalances = 0
        # The same of share groups, and of groups of Streams applications.
        self.share_rebalances = 0
        self.streams_rebalances = 0


class Core:
    """State and services that the parts of the coordinator share."""

    __slots__ = (
        "_appends",
        "_effects",
        "_next_append_id",
        "config",
        "expiry_timer",
        "groups",
        "groups_by_producer",
        "is_active",
        "loading",
        "new_uuid",
        "owned",
        "partition_count",
        "partition_epochs",
        "stats",
        "timers",
        "wall",
    )

    def __init__(
        self, config: GroupConfig, new_uuid: Callable[[], str], wall: WallClock | None = None
    ) -> None:
        self.config = config
        self.wall = wall or WallClock()  # beside the `now_ms` of all calls: timestamps are its
        self.new_uuid = new_uuid
        self.is_active = False
        self.stats = GroupStats()
        self.partition_count = 0
        self.groups: dict[str, Group] = {}
        # Producer id -> groups with offsets of its open transaction.
        self.groups_by_producer: dict[int, set[str]] = {}
        self.owned: set[int] = set()
        self.loading: dict[int, PartitionLoad] = {}
        self.partition_epochs: dict[int, int] = {}
        self.timers = TimerWheel[Timer](0)
        self.expiry_timer = Timer(TimerKind.OFFSET_EXPIRY)
        self._effects: list[Effect] = []
        self._appends: dict[int, AppendCompletion] = {}
        self._next_append_id = 1

    # Checks

    def partition_for(self, group_id: str) -> int:
        return partition_for_key(group_id, self.partition_count)

    def check_group(self, group_id: str | None, *, allow_empty_id: bool = False) -> ErrorCode:
        """Whether this coordinator may answer for the group: NONE, or the error.

        A known group is in an owned partition: its name need not be hashed.
        """
        if group_id and group_id in self.groups and self.is_active:
            return ErrorCode.NONE
        if group_id is None or not (group_id or allow_empty_id):
            return ErrorCode.INVALID_GROUP_ID
        if not self.is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(group_id)
        if partition in self.loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if partition not in self.owned:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE

    def create_group(self, group_id: str, now_ms: int) -> Group:
        group = Group(group_id, self.partition_for(group_id), now_ms)
        self.groups[group_id] = group
        return group

    def is_current(self, group: Group) -> bool:
        """Whether this object is still the group (not deleted, unloaded or loaded again)."""
        return self.groups.get(group.group_id) is group

    def forget_group(self, group: Group) -> None:
        """Remove a Dead group with all its timers."""
        del self.groups[group.group_id]
        timers = [group.join_timer, group.sync_timer, *group.pending_members.values()]
        timers.extend(member.session_timer for member in group.members.values())
        if group.modern is not None:
            timers.extend(group.modern.timers())
        for timer in timers:
            self.timers.cancel(timer)
        for producer_id in [p for p, g in self.groups_by_producer.items() if group.group_id in g]:
            self.groups_by_producer[producer_id].discard(group.group_id)
            if not self.groups_by_producer[producer_id]:
                del self.groups_by_producer[producer_id]

    # Effects

    def reply(self, token: object, response: object) -> None:
        self._effects.append(Reply(token, response))

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def append(
        self, partition: int, records: Iterable[SimpleRecord], completion: AppendCompletion
    ) -> int:
        """Append records; `completion` is called when the outcome is known. Returns the id."""
        batch = build_batch(records, compression=self.config.offsets_topic_compression)
        append_id = self._emit_append(partition, batch, self.config.commit_required_acks)
        self._appends[append_id] = completion
        return append_id

    def append_values(
        self,
        partition: int,
        records: Sequence[tuple[bytes, bytes | None]],
        now_ms: int,
        completion: AppendCompletion,
    ) -> int:
        """Like `append`, for pairs of key and value, all with the timestamp of `now_ms`."""
        stamp_ms = self.wall.stamp_ms(now_ms)
        compression = self.config.offsets_topic_compression
        if compression is Compression.NONE:
            batch = build_plain_batch(stamp_ms, records)
        else:
            batch = build_batch(
                (SimpleRecord(stamp_ms, key, value) for key, value in records),
                compression=compression,
            )
        append_id = self._emit_append(partition, batch, self.config.commit_required_acks)
        self._appends[append_id] = completion
        return append_id

    def append_transactional(
        self,
        partition: int,
        records: Iterable[SimpleRecord],
        completion: AppendCompletion,
        producer_id: int,
        producer_epoch: int,
        verification: object,
    ) -> int:
        """Append records as part of a producer's transaction."""
        batch = build_batch(
            records,
            compression=self.config.offsets_topic_compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=0,  # as Kafka writes it: a coordinator's sequences are not checked
            is_transactional=True,
        )
        required_acks = self.config.commit_required_acks
        append_id = self._emit_append(partition, batch, required_acks, verification)
        self._appends[append_id] = completion
        return append_id

    def append_proof(
        self, partition: int, records: Iterable[SimpleRecord], completion: AppendCompletion
    ) -> None:
        """Append records that change nothing, to learn whether the ISR follows this broker."""
        append_id = self._emit_append(partition, build_batch(records), ACKS_ALL)
        self._appends[append_id] = completion

    def append_and_forget(self, partition: int, records: Iterable[SimpleRecord]) -> None:
        """Append records that are only a clean-up (tombstones): if lost, they are made again."""
        batch = build_batch(records, compression=self.config.offsets_topic_compression)
        self._emit_append(partition, batch, ACKS_NONE)

    def take_completion(self, append_id: int) -> AppendCompletion:
        """Remove and return the completion of an append; called exactly once for each."""
        completion = self._appends.pop(append_id, None)
        if completion is None:
            raise BrokenInvariant(f"append {append_id} is answered twice, or was never handed out")
        return completion

    @property
    def appends_in_flight(self) -> int:
        return len(self._appends)

    def take_effects(self) -> list[Effect]:
        effects = self._effects
        self._effects = []
        return effects

    def next_append_id(self) -> int:
        append_id = self._next_append_id
        self._next_append_id += 1
        return append_id

    @property
    def may_repeat_commits(self) -> bool:
        """Whether commits may go straight to the log: nothing emitted waits to go before them."""
        return (
            self.is_active
            and not self._effects
            and self.config.offsets_topic_compression is Compression.NONE
            and self.config.commit_required_acks != ACKS_NONE
        )

    def _emit_append(
        self, partition: int, batch: bytearray, required_acks: int, verification: object = None
    ) -> int:
        append_id = self.next_append_id()
        self._effects.append(Append(append_id, partition, batch, required_acks, verification))
        return append_id
