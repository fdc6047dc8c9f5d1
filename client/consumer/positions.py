"""Where a consumer stands in each of its partitions, and what it waits for there; pure.

Invariants of a partition: `position` is what the application gets next, `fetch_position` what the
next fetch asks for: the same, or further by what is buffered. A seek makes a new `attempt`, and
what was fetched before it is thrown away; so it is for a partition that went and came back, since
no number of an attempt is used twice. A partition without a position is never fetched; it waits
for the committed offset, or for the reset that `reset_to` names.

Mirrors: SubscriptionState of the Java client; KIP-320, 392.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Final, NamedTuple

from ...protocol.topics import TopicPartition
from ..errors import ClientError

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
# Of one partition, fetched and not taken: one that is read, and one behind it.
MAX_BUFFERED_FETCHES: Final = 2
BEHIND_MS: Final = 30_000  # how long metadata may be older than a position
PREFERRED_REPLICA_MS: Final = 300_000  # how long a follower is read before the leader is asked


class Position(NamedTuple):
    """An offset, and the epoch of the leader that wrote the record before it (-1: unknown)."""

    offset: int
    epoch: int = NO_EPOCH


class PartitionState:
    """See the module. Offsets of the log are -1 until a fetch has told them."""

    __slots__ = (
        "_attempts", "attempt", "awaits_committed", "backoff_until_ms", "behind_since_ms",
        "buffered_count", "fetch_position", "high_watermark", "is_paused", "is_revoked",
        "last_stable_offset", "log_start_offset", "position", "preferred_replica",
        "preferred_until_ms", "reset_to", "validated_epoch",
    )  # fmt: skip

    def __init__(self, attempts: Iterator[int]) -> None:
        self._attempts = attempts
        self.position: Position | None = None
        self.fetch_position: Position | None = None
        self.awaits_committed = False
        self.reset_to: int | None = None
        self.attempt = next(attempts)
        self.is_paused = False
        self.is_revoked = False  # about to go: nothing more of it is handed out
        self.buffered_count = 0
        self.backoff_until_ms = 0
        self.behind_since_ms: int | None = None
        self.high_watermark = self.last_stable_offset = self.log_start_offset = NO_OFFSET
        self.preferred_replica = -1
        self.preferred_until_ms = 0
        self.validated_epoch = NO_EPOCH  # the leader epoch under which the position was checked

    def begin_attempt(self) -> None:
        """What was fetched, or is on its way, is not handed out."""
        self.attempt = next(self._attempts)

    def seek(self, position: Position) -> None:
        """From here on, whatever was fetched or waited for."""
        self.begin_attempt()
        self.position = self.fetch_position = position
        self.buffered_count = 0
        self.reset_to = None
        self.awaits_committed = False
        self.validated_epoch = NO_EPOCH

    def request_reset(self, timestamp: int) -> None:
        """The offset at a timestamp, EARLIEST or LATEST is to be asked for."""
        self.begin_attempt()
        self.position = self.fetch_position = None
        self.buffered_count = 0
        self.awaits_committed = False
        self.reset_to = timestamp

    def take_fetched(self, next_offset: int, epoch: int) -> None:
        """A fetch is buffered: the next one goes on behind it."""
        assert self.fetch_position is not None
        assert next_offset >= self.fetch_position.offset
        self.buffered_count += 1
        self.fetch_position = Position(next_offset, epoch)

    def is_fetchable(self, now_ms: int) -> bool:
        return (
            self.fetch_position is not None
            and not self.is_paused
            and not self.is_revoked
            and self.buffered_count < MAX_BUFFERED_FETCHES
            and self.backoff_until_ms <= now_ms
        )

    def is_ahead_of(self, leader_epoch: int, now_ms: int) -> bool:
        """Whether who leads is not known: the position is of a newer epoch than what is known.

        A leader of that time does not have the position, and would have it reset. Not for ever: the
        topic may be another one, of the same name.
        """
        at = self.fetch_position
        if at is None or leader_epoch == NO_EPOCH or leader_epoch >= at.epoch:
            self.behind_since_ms = None
            return False
        if self.behind_since_ms is None:
            self.behind_since_ms = now_ms
        return now_ms - self.behind_since_ms < BEHIND_MS

    def read_from(self, leader: int, now_ms: int) -> int:
        """The broker to fetch from: the leader, or the follower that it has named (KIP-392)."""
        if self.preferred_replica >= 0 and now_ms < self.preferred_until_ms:
            return self.preferred_replica
        self.preferred_replica = -1
        return leader

    def prefer(self, replica: int, now_ms: int) -> None:
        self.preferred_replica = replica
        self.preferred_until_ms = now_ms + PREFERRED_REPLICA_MS

    def end_offset(self, reads_committed: bool) -> int:
        """As of the last fetch; -1 before it."""
        return self.last_stable_offset if reads_committed else self.high_watermark


class Positions:
    """The partitions that are assigned, by topic and number."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, PartitionState] = {}
        self._attempts = count()

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._states)

    def items(self) -> Iterable[tuple[TopicPartition, PartitionState]]:
        return self._states.items()

    def get(self, partition: TopicPartition) -> PartitionState | None:
        return self._states.get(partition)

    def __getitem__(self, partition: TopicPartition) -> PartitionState:
        """Raises ClientError if it is not assigned."""
        found = self._states.get(partition)
        if found is None:
            raise ClientError(f"{partition[0]}-{partition[1]} is not assigned to this consumer")
        return found

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Exactly these; those that stay keep their positions, others wait for `place`."""
        before, self._states = self._states, {}
        for partition in partitions:
            state = before.pop(partition, None)
            if state is None:
                state = PartitionState(self._attempts)
                state.awaits_committed = True
            state.is_revoked = False
            self._states[partition] = state
        for state in before.values():
            state.begin_attempt()

    def mark_revoked(self, partitions: Iterable[TopicPartition], is_revoked: bool) -> None:
        """Those that are still here."""
        for partition in partitions:
            state = self._states.get(partition)
            if state is not None:
                state.is_revoked = is_revoked

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            state = self._states.pop(partition, None)
            if state is not None:
                state.begin_attempt()

    def awaiting_committed(self) -> list[TopicPartition]:
        return [tp for tp, state in self._states.items() if state.awaits_committed]

    def resets(self, now_ms: int) -> dict[TopicPartition, tuple[int, int]]:
        """Of those that wait for one: the timestamp that is asked for, and the attempt."""
        return {
            tp: (state.reset_to, state.attempt)
            for tp, state in self._states.items()
            if state.reset_to is not None and state.backoff_until_ms <= now_ms
        }

    def place(self, committed: Mapping[TopicPartition, Position], reset_to: int | None) -> None:
        """Give those that wait for it what was committed, or else the reset of the policy.

        Raises ClientError if there is no policy.
        """
        lost = []
        for partition in self.awaiting_committed():
            state = self._states[partition]
            if partition in committed:
                state.seek(committed[partition])
            elif reset_to is not None:
                state.request_reset(reset_to)
            else:
                lost.append("-".join(map(str, partition)))
        if lost:
            raise ClientError(
                f"nothing is committed for {', '.join(sorted(lost))}, and auto_offset_reset is none"
            )

    def current(self) -> dict[TopicPartition, Position]:
        """Of those that have one."""
        return {tp: s.position for tp, s in self._states.items() if s.position is not None}
