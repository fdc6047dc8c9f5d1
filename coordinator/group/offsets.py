"""The offsets of one group: committed, pending and expired.

Mirrors the offset part of Kafka's GroupMetadata. A commit becomes visible when its append is
complete, and only if no commit with a later position in the offsets topic was applied before.
Commits of transactions stay aside until their marker arrives.

Invariants: an append id is in `_pending` (or, within a transaction, in its `in_flight`) from the
append until its completion, unless the partition's offsets were removed or the transaction ended
meanwhile: then its completion changes nothing. `record_offset` is
the base offset of the batch in the offsets topic that holds the commit.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from ...protocol.topics import TopicPartition
from ...protocol.wall_clock import NOT_SEEN

INVALID_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_EXPIRE_TIMESTAMP = -1


class OffsetAndMetadata(NamedTuple):
    """One committed offset as the client gave it; timestamps in ms since the epoch.

    `since_ms`: the time of the commit by the monotonic clock, in memory only; NOT_SEEN if the
    offset was read from the log, or the client sent a time of its own."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRE_TIMESTAMP
    since_ms: int = NOT_SEEN

    def age_ms(self, now_ms: int, wall_ms: int | None) -> int | None:
        """The time since its commit; None: only the wall clock could tell, and `wall_ms` is
        None."""
        if self.since_ms != NOT_SEEN:
            return now_ms - self.since_ms
        return None if wall_ms is None else wall_ms - self.commit_timestamp_ms


class CommittedOffset(NamedTuple):
    """A commit together with its place in the offsets topic."""

    record_offset: int
    value: OffsetAndMetadata


class _Transaction:
    """The commits of one producer's open transaction: in the log, and on their way there."""

    __slots__ = ("appended", "in_flight")

    def __init__(self) -> None:
        self.appended: dict[TopicPartition, CommittedOffset] = {}
        self.in_flight: dict[TopicPartition, set[int]] = {}

    def __contains__(self, partition: TopicPartition) -> bool:
        return partition in self.appended or partition in self.in_flight

    @property
    def is_empty(self) -> bool:
        return not (self.appended or self.in_flight)

    def take_in_flight(self, append_id: int, partition: TopicPartition) -> bool:
        append_ids = self.in_flight.get(partition)
        if append_ids is None or append_id not in append_ids:
            return False
        append_ids.discard(append_id)
        if not append_ids:
            del self.in_flight[partition]
        return True


class OffsetStore:
    """The offsets of one group."""

    __slots__ = ("_offsets", "_pending", "_pending_transactions")

    def __init__(self) -> None:
        self._offsets: dict[TopicPartition, CommittedOffset] = {}
        self._pending: dict[TopicPartition, set[int]] = {}
        self._pending_transactions: dict[int, _Transaction] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._offsets)

    @property
    def is_empty(self) -> bool:
        """Whether no offset is committed or pending."""
        return not (self._offsets or self._pending or self._pending_transactions)

    def get(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        committed = self._offsets.get(partition)
        return None if committed is None else committed.value

    def snapshot(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        """All visible offsets (a copy)."""
        return {partition: committed.value for partition, committed in self._offsets.items()}

    def has_pending(self, partition: TopicPartition) -> bool:
        """Whether a commit for this partition is pending (plain or transactional)."""
        return partition in self._pending or any(
            partition in transaction for transaction in self._pending_transactions.values()
        )

    # Commits

    def prepare(self, append_id: int, partitions: Iterable[TopicPartition]) -> None:
        """A commit of these partitions is being appended."""
        for partition in partitions:
            self._pending.setdefault(partition, set()).add(append_id)

    def put(self, record_offset: int, values: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commits that were never pending: they are in the log, and nothing happened meanwhile."""
        for partition, value in values.items():
            self._put_if_newer(partition, CommittedOffset(record_offset, value))

    def complete(
        self, append_id: int, record_offset: int, values: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """The append is in the log (acknowledged): make its offsets visible."""
        for partition, value in values.items():
            if self._take_pending(append_id, partition):
                self._put_if_newer(partition, CommittedOffset(record_offset, value))

    def fail(self, append_id: int, partitions: Iterable[TopicPartition]) -> None:
        """The append failed: forget the commit."""
        for partition in partitions:
            self._take_pending(append_id, partition)

    def _take_pending(self, append_id: int, partition: TopicPartition) -> bool:
        append_ids = self._pending.get(partition)
        if append_ids is None or append_id not in append_ids:
            return False
        append_ids.discard(append_id)
        if not append_ids:
            del self._pending[partition]
        return True

    def _put_if_newer(self, partition: TopicPartition, committed: CommittedOffset) -> None:
        current = self._offsets.get(partition)
        if current is None or current.record_offset < committed.record_offset:
            self._offsets[partition] = committed

    # Loading and transactions

    def load(
        self,
        offsets: Mapping[TopicPartition, CommittedOffset],
        pending_transactions: Mapping[int, Mapping[TopicPartition, CommittedOffset]],
    ) -> None:
        """Take over the offsets read from the offsets topic."""
        self._offsets.update(offsets)
        for producer_id, producer_offsets in pending_transactions.items():
            self._transaction(producer_id).appended.update(producer_offsets)

    def open_producers(self) -> Collection[int]:
        """Producer ids with a transaction whose marker has not come yet."""
        return self._pending_transactions.keys()

    def _transaction(self, producer_id: int) -> _Transaction:
        transaction = self._pending_transactions.get(producer_id)
        if transaction is None:
            transaction = self._pending_transactions[producer_id] = _Transaction()
        return transaction

    def prepare_transactional(
        self, producer_id: int, append_id: int, partitions: Iterable[TopicPartition]
    ) -> None:
        """A commit of these partitions is being appended within a transaction."""
        in_flight = self._transaction(producer_id).in_flight
        for partition in partitions:
            in_flight.setdefault(partition, set()).add(append_id)

    def transactional_appended(
        self,
        producer_id: int,
        append_id: int,
        record_offset: int,
        values: Mapping[TopicPartition, OffsetAndMetadata],
    ) -> None:
        """The append is in the log: its offsets wait for the marker now."""
        transaction = self._pending_transactions.get(producer_id)
        if transaction is None:
            return
        for partition, value in values.items():
            if transaction.take_in_flight(append_id, partition):
                current = transaction.appended.get(partition)
                if current is None or current.record_offset < record_offset:
                    transaction.appended[partition] = CommittedOffset(record_offset, value)

    def transactional_failed(
        self, producer_id: int, append_id: int, partitions: Iterable[TopicPartition]
    ) -> None:
        """The append failed: forget the commit."""
        transaction = self._pending_transactions.get(producer_id)
        if transaction is None:
            return
        for partition in partitions:
            transaction.take_in_flight(append_id, partition)
        if transaction.is_empty:
            del self._pending_transactions[producer_id]

    def complete_transaction(self, producer_id: int, *, committed: bool) -> None:
        """The marker of a transaction was written to the offsets topic."""
        transaction = self._pending_transactions.pop(producer_id, None)
        if transaction is None or not committed:
            return
        for partition, committed_offset in transaction.appended.items():
            self._put_if_newer(partition, committed_offset)

    # Removal

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget these partitions, and commits on their way; return those that need a tombstone.

        A commit on its way may be in the log already, so it needs one too.
        """
        removed = []
        for partition in partitions:
            was_pending = self._pending.pop(partition, None) is not None
            if self._offsets.pop(partition, None) is not None or was_pending:
                removed.append(partition)
            for producer_id, transaction in list(self._pending_transactions.items()):
                transaction.appended.pop(partition, None)
                transaction.in_flight.pop(partition, None)
                if transaction.is_empty:
                    del self._pending_transactions[producer_id]
        return removed

    def remove_all(self) -> list[TopicPartition]:
        """Forget everything; return the partitions that need a tombstone."""
        self._pending_transactions.clear()
        return self.remove([*self._offsets, *(p for p in self._pending if p not in self._offsets)])

    def remove_expired(
        self,
        now_ms: int,
        wall_ms: int | None,
        retention_ms: int,
        idle_ms: int | None = None,
        kept_topics: Collection[str] = (),
    ) -> list[TopicPartition]:
        """Remove and return the partitions whose offsets have outlived their retention.

        Retention counts from `idle_ms` ago, or from each commit if that is None. `wall_ms` None:
        the wall clock must not be used now."""
        expired = []
        for partition, (_, value) in self._offsets.items():
            if partition[0] in kept_topics or partition in self._pending:
                continue
            age_ms, kept_ms = idle_ms, retention_ms
            if value.expire_timestamp_ms != NO_EXPIRE_TIMESTAMP:
                age_ms = value.age_ms(now_ms, wall_ms)
                kept_ms = value.expire_timestamp_ms - value.commit_timestamp_ms
            elif age_ms is None:
                age_ms = value.age_ms(now_ms, wall_ms)
            if age_ms is not None and age_ms >= kept_ms:
                expired.append(partition)
        for partition in expired:
            del self._offsets[partition]
        return expired
