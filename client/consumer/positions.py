"""A consumer's positions in its partitions, and the lookups that they wait for; pure.

Invariants of a partition: `position` is the next record for the application, `fetch_position` that
of the next fetch: the same, or ahead by the buffered records. A seek begins a new `attempt`, and
records fetched before it are dropped; the same holds for a partition that was revoked and assigned
again, since the number of an attempt is never used twice. A partition without a position is never
fetched; it waits for the committed offset, or for the reset that `reset_to` names.

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
# Buffered fetches of one partition: one that is being read, and one behind it.
MAX_BUFFERED_FETCHES: Final = 2
BEHIND_MS: Final = 30_000  # how long a position may be ahead of metadata
PREFERRED_REPLICA_MS: Final = 300_000  # how long a follower is read before the leader is asked


class Position(NamedTuple):
    """An offset, and the epoch of the leader that wrote the record before it (-1: unknown)."""

    offset: int
    epoch: int = NO_EPOCH


class PartitionState:
    """See the module. Offsets of the log are -1 until a fetch has returned them."""

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
        self.is_revoked = False  # about to be revoked: no more of its records are returned
        self.buffered_count = 0
        self.backoff_until_ms = 0
        self.behind_since_ms: int | None = None
        self.high_watermark = self.last_stable_offset = self.log_start_offset = NO_OFFSET
        self.preferred_replica = -1
        self.preferred_until_ms = 0
        self.validated_epoch = NO_EPOCH  # the leader epoch under which the position was checked

    def begin_attempt(self) -> None:
        """Records fetched or in flight are not returned."""
        self.attempt = next(self._attempts)

    def seek(self, position: Position) -> None:
        """Continue at this position; buffered records and pending lookups are dropped."""
        self.begin_attempt()
        self.position = self.fetch_position = position
        self.buffered_count = 0
        self.reset_to = None
        self.awaits_committed = False
        self.validated_epoch = NO_EPOCH

    def request_reset(self, timestamp: int) -> None:
        """Wait for the offset at a timestamp, EARLIEST or LATEST."""
        self.begin_attempt()
        self.position = self.fetch_position = None
        self.buffered_count = 0
        self.awaits_committed = False
        self.reset_to = timestamp

    def take_fetched(self, next_offset: int, epoch: int) -> None:
        """A fetch is buffered: the next one continues behind it."""
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
        """Whether the position has a newer epoch than the known leader, so that the leader is
        unknown.

        A leader of an older epoch lacks the position and would cause a reset. Limited to BEHIND_MS:
        the topic may have been created again under the same name.
        """
        at = self.fetch_position
        if at is None or leader_epoch == NO_EPOCH or leader_epoch >= at.epoch:
            self.behind_since_ms = None
            return False
        if self.behind_since_ms is None:
            self.behind_since_ms = now_ms
        return now_ms - self.behind_since_ms < BEHIND_MS

    def read_from(self, leader: int, now_ms: int) -> int:
        """The broker to fetch from: the leader, or the follower that the leader has named
        (KIP-392)."""
        if self.preferred_replica >= 0 and now_ms < self.preferred_until_ms:
            return self.preferred_replica
        self.preferred_replica = -1
        return leader

    def prefer(self, replica: int, now_ms: int) -> None:
        self.preferred_replica = replica
        self.preferred_until_ms = now_ms + PREFERRED_REPLICA_MS

    def end_offset(self, reads_committed: bool) -> int:
        """The end of the log as of the last fetch; -1 before it."""
        return self.last_stable_offset if reads_committed else self.high_watermark


class Positions:
    """The assigned partitions, by topic and number."""

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
        """The state of a partition. Raises ClientError if it is not assigned."""
        found = self._states.get(partition)
        if found is None:
            raise ClientError(f"{partition[0]}-{partition[1]} is not assigned to this consumer")
        return found

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Assign exactly these; known partitions keep their positions, others wait for `place`."""
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
        """Mark those of these partitions that are still assigned."""
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
        """The partitions that wait for a reset: the requested timestamp, and the attempt."""
        return {
            tp: (state.reset_to, state.attempt)
            for tp, state in self._states.items()
            if state.reset_to is not None and state.backoff_until_ms <= now_ms
        }

    def place(self, committed: Mapping[TopicPartition, Position], reset_to: int | None) -> None:
        """Set waiting partitions to their committed offsets, or else request the policy's reset.

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
                f"there is no committed offset for {', '.join(sorted(lost))}, "
                "and auto_offset_reset is none"
            )

    def current(self) -> dict[TopicPartition, Position]:
        """The partitions that have a position."""
        return {tp: s.position for tp, s in self._states.items() if s.position is not None}
