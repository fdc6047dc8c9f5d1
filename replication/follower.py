"""One partition that follows a leader: where its fetching stands, and where to cut its log.

`truncation_point` compares the leader's word on an epoch with the follower's own log; it computes
alone, and `FollowerAppends` cuts the log. The leader's answer to the follower's last epoch is an
epoch and an end offset: of the epochs up to the follower's, the largest that the leader has, and
where it ends there. The cases:
  1. The end offset is unknown: nothing is known of the past but the HW; cut there, once.
  2. The epoch is unknown: cut at the end offset, once.
  3. The follower has the epoch: both logs hold it from its start, so they agree up to where it ends
     first.
  4. The follower has older epochs, and not this one: cut where the newest of those ends; as that
     epoch may end earlier on the leader, ask again (KIP-279: epochs of fast leader changes
     interleave).
  5. The follower has newer epochs alone: nothing of them is on the leader, so cut where its oldest
     begins, or at the end offset if that is before.
Never past the own log end.

Invariants: `fetch_offset` is the log end offset from the moment on that fetching begins; a
partition moves along TRANSITIONS only.

Mirrors PartitionFetchState and AbstractFetcherThread.getOffsetTruncationState (KIP-101, KIP-279,
KIP-320, KIP-595), and of TierStateMachine (KIP-405).
"""

from enum import Enum
from typing import NamedTuple

from ..protocol.invariants import BrokenInvariant
from ..protocol.topics import TopicPartition
from ..storage.log import Log
from .partition import Partition
from .types import NO_EPOCH, UNKNOWN_OFFSET

FIRST_EPOCH = 0  # of a leader, in a partition's life


class FollowerState(Enum):
    """The next action or question of the follower."""

    TRUNCATING = "truncating"  # ask the leader where the last epoch ends, or cut to the HW
    FETCHING = "fetching"
    FINDING_END = "finding end"  # out of range: ask for the leader's log end offset
    FINDING_START = "finding start"  # ... it is not behind us: ask where its log starts
    # The leader has our next record in the remote tier only: ask where its own records begin, ...
    FINDING_LOCAL_START = "finding local start"
    FINDING_EARLIER_EPOCH = "finding earlier epoch"  # ... which epoch the record before it is of,
    REBUILDING = "rebuilding"  # ... and wait for the epochs and producers there
    FAILED = "failed"  # until the next LeaderAndIsr


TRANSITIONS = {
    FollowerState.TRUNCATING: {FollowerState.FETCHING, FollowerState.FAILED},
    FollowerState.FETCHING: {
        FollowerState.FINDING_END,
        FollowerState.FINDING_LOCAL_START,
        FollowerState.FAILED,
    },
    FollowerState.FINDING_LOCAL_START: {
        FollowerState.FINDING_EARLIER_EPOCH,
        FollowerState.REBUILDING,
        FollowerState.FETCHING,
        FollowerState.FAILED,
    },
    FollowerState.FINDING_EARLIER_EPOCH: {
        FollowerState.REBUILDING,
        FollowerState.FETCHING,
        FollowerState.FAILED,
    },
    FollowerState.REBUILDING: {FollowerState.FETCHING, FollowerState.FAILED},
    FollowerState.FINDING_END: {
        FollowerState.FINDING_START,
        FollowerState.FETCHING,
        FollowerState.FAILED,
    },
    FollowerState.FINDING_START: {FollowerState.FETCHING, FollowerState.FAILED},
    FollowerState.FAILED: set[FollowerState](),
}


class TruncationPoint(NamedTuple):
    offset: int
    # Whether the logs agree now; else the leader has to be asked about the next older epoch.
    is_final: bool


def truncation_point(
    log: Log, leader_epoch: int, leader_end_offset: int, initial_offset: int
) -> TruncationPoint:
    """The offset at which to cut `log`, by the leader's answer for its last epoch."""
    log_end = log.log_end_offset
    if leader_end_offset == UNKNOWN_OFFSET:  # Case 1
        return TruncationPoint(min(initial_offset, log_end), True)
    if leader_epoch == NO_EPOCH:  # Case 2
        return TruncationPoint(min(leader_end_offset, log_end), True)
    own_epoch, own_end = log.end_offset_for_epoch(leader_epoch)
    if own_end == UNKNOWN_OFFSET:  # The leader answers with an epoch up to ours: no epochs at all.
        return TruncationPoint(min(leader_end_offset, log_end), True)
    if own_epoch == leader_epoch:  # Cases 3 and 5: a missing epoch ends where the oldest begins
        return TruncationPoint(min(own_end, leader_end_offset, log_end), True)
    return TruncationPoint(min(own_end, log_end), False)  # Case 4


class FollowerPartition:
    """The fetch state of one partition in one leader epoch; replaced when the next one begins."""

    __slots__ = (
        "backoff_ms",
        "delayed_until_ms",
        "fetch_offset",
        "initial_offset",
        "key",
        "lag",
        "last_fetched_epoch",
        "leader_end_offset",
        "leader_epoch",
        "leader_local_start",
        "leader_log_start",
        "partition",
        "state",
        "topic_id",
    )

    def __init__(self, partition: Partition, *, truncates_on_fetch: bool) -> None:
        log = partition.log
        # These four never change: a new epoch or a new id makes another one.
        self.partition = partition
        self.key: TopicPartition = partition.key
        self.topic_id = partition.topic_id
        self.leader_epoch = partition.leader_epoch
        # The epoch of the last record in the log, set with `fetch_offset`; NO_EPOCH: it has none.
        self.last_fetched_epoch = log.leader_epochs.latest_epoch
        # The HW when following began.
        self.initial_offset = log.high_watermark
        # The offset of the next fetch: the log end, unless the state is TRUNCATING.
        has_epochs = self.last_fetched_epoch != NO_EPOCH
        self.fetch_offset = log.log_end_offset if has_epochs else log.high_watermark
        self.state = (
            FollowerState.FETCHING
            if has_epochs and truncates_on_fetch
            else FollowerState.TRUNCATING
        )
        # By `delay`: until when the leader is not asked, and how long that was; 0 after a success.
        self.delayed_until_ms = 0
        self.backoff_ms = 0
        # How far the leader's HW is ahead; unknown (-1) until the first answer.
        self.lag = -1
        self.leader_end_offset = UNKNOWN_OFFSET
        # While it rebuilds from the remote tier: the leader's log start, and the first offset and
        # its epoch of the leader's own records.
        self.leader_log_start = UNKNOWN_OFFSET
        self.leader_local_start = (UNKNOWN_OFFSET, NO_EPOCH)

    def __repr__(self) -> str:
        topic, partition = self.key
        return (
            f"<FollowerPartition {topic}-{partition} {self.state.value} at {self.fetch_offset} "
            f"epoch {self.leader_epoch}>"
        )

    @property
    def is_current(self) -> bool:
        """Whether the partition still is a follower of the leader that this was made for."""
        partition = self.partition
        return not partition.is_leader and partition.leader_epoch == self.leader_epoch

    @property
    def is_new(self) -> bool:
        """Whether the partition has just been created: a leader of ours answers our fetch when the
        first records come."""
        return self.leader_epoch == FIRST_EPOCH and self.fetch_offset == 0

    @property
    def is_in_sync(self) -> bool:
        return 0 <= self.lag <= 0

    def move_to(self, state: FollowerState) -> None:
        if state not in TRANSITIONS[self.state]:
            raise BrokenInvariant(f"{self} cannot become {state.value}")
        self.state = state

    def fetch_from(self, offset: int) -> None:
        """Continue to fetch at `offset`, which is the log end."""
        log = self.partition.log
        if offset != log.log_end_offset:
            raise BrokenInvariant(f"{self} is to fetch at {offset}, not at its end: {log}")
        if self.state is not FollowerState.FETCHING:
            self.move_to(FollowerState.FETCHING)
        self.fetch_offset = offset
        self.last_fetched_epoch = log.leader_epochs.latest_epoch

    def delay(self, now_ms: int, first_ms: int, max_ms: int) -> None:
        """Leave the leader alone for a while, longer after each failure in a row."""
        self.backoff_ms = min(max_ms, self.backoff_ms * 2 or first_ms)
        self.delayed_until_ms = now_ms + self.backoff_ms

    def succeeded(self) -> None:
        self.backoff_ms = 0
        self.delayed_until_ms = 0
