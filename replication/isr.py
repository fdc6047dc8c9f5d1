"""The leader's view of its followers: progress of each replica, and the in-sync replica set.

Invariants: `committed` is the ISR that the controller has confirmed; `maximal` holds the replicas
that the high watermark must wait for. While a change is proposed, an expansion counts the newcomer
in `maximal` at once and a shrink keeps the old members in it, so `committed <= maximal` always
holds and no member lacks an offset below the HW, independently of the controller's decision. One
proposal at a time.

Mirrors Replica / ReplicaState and the PartitionState classes of Kafka's Partition (KIP-497).
"""

from ..protocol.invariants import BrokenInvariant
from .types import UNKNOWN_OFFSET


class RemoteReplica:
    """Progress of one follower, as its leader knows it.

    `record_fetch` sets all of it at each fetch, `reset` when a leader epoch begins. Times are in ms
    of the monotonic clock.
    """

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        # Never changes; never the leader's own.
        self.broker_id = broker_id
        # The log start in its last fetch; UNKNOWN_OFFSET: no fetch in this leadership.
        self.log_start_offset = UNKNOWN_OFFSET
        # The offset of its last fetch: it has everything below. UNKNOWN_OFFSET: no fetch in this
        # leadership. Goes back if the replica has lost its log; the high watermark does not.
        self.log_end_offset = UNKNOWN_OFFSET
        # The leader's log end at its last fetch; never goes back within a leader epoch.
        self.last_fetch_leader_end_offset = 0
        # When its last fetch came; 0: none since the epoch began, unless it was in the ISR.
        self.last_fetch_ms = 0
        # When it last had all that the leader had; never goes back within a leader epoch. 0: never.
        self.last_caught_up_ms = 0
        # Of the life of the broker that fetched last; -1: no fetch, or one without a broker epoch.
        self.broker_epoch = -1

    def record_fetch(
        self,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: int,
    ) -> None:
        """A fetch at an offset acknowledges everything below it."""
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_end_offset:
            # It has all that the leader had at its previous fetch: it was caught up then.
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_end_offset = max(
            self.last_fetch_leader_end_offset, leader_end_offset
        )
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_still_caught_up(self, now_ms: int) -> None:
        """A fetch at the log end, where the one before it was, too."""
        if now_ms > self.last_caught_up_ms:
            self.last_caught_up_ms = now_ms
        self.last_fetch_ms = now_ms

    def reset(
        self, *, now_ms: int, leader_end_offset: int, is_new_leader: bool, in_isr: bool
    ) -> None:
        """A leader epoch begins: fetches to an earlier leader do not count for a new one."""
        self.last_caught_up_ms = now_ms if in_isr else 0
        if is_new_leader:
            self.log_start_offset = UNKNOWN_OFFSET
            self.log_end_offset = UNKNOWN_OFFSET
            self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
            self.last_fetch_ms = 0
            self.broker_epoch = -1
        else:
            self.last_fetch_leader_end_offset = leader_end_offset
            self.last_fetch_ms = now_ms if in_isr else 0

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        return (
            self.log_end_offset == leader_end_offset
            or now_ms - self.last_caught_up_ms <= max_lag_ms
        )


class IsrState:
    """The ISR that is committed, the one that is proposed, and the larger of the two (`maximal`),
    which the high watermark has to respect."""

    __slots__ = ("committed", "maximal", "proposed")

    def __init__(self, committed: frozenset[int] = frozenset()) -> None:
        # The ISR that the controller has sent or accepted; set by `commit` only.
        self.committed = committed
        # `committed` and the proposed newcomers; it holds every member of `committed`.
        self.maximal = committed
        # The proposal that the controller has not answered; None: no proposal.
        self.proposed: frozenset[int] | None = None

    @property
    def is_in_flight(self) -> bool:
        return self.proposed is not None

    def commit(self, isr: frozenset[int]) -> None:
        self.committed = isr
        self.maximal = isr
        self.proposed = None

    def propose_expand(self, broker_id: int) -> frozenset[int]:
        self._check_none_proposed()
        if broker_id in self.committed:
            raise BrokenInvariant(f"{broker_id} is to join the ISR, and is in {self.committed}")
        self.proposed = self.maximal = self.committed | {broker_id}
        return self.proposed

    def propose_shrink(self, out_of_sync: frozenset[int]) -> frozenset[int]:
        self._check_none_proposed()
        if not out_of_sync < self.committed:
            raise BrokenInvariant(f"{out_of_sync} are to leave the ISR {self.committed}")
        self.proposed = self.committed - out_of_sync
        return self.proposed

    def _check_none_proposed(self) -> None:
        if self.proposed is not None:
            raise BrokenInvariant(f"an ISR change beside the one to {self.proposed}")

    def roll_back(self) -> None:
        """The controller did not try the proposal: the committed ISR stays."""
        self.commit(self.committed)
