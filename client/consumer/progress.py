"""The application's progress: its current batch, and the positions that may be committed; pure.

A batch is current from its delivery until more is requested. The application has received its
records one by one (`last_offset` is the newest), or all of them at once. In ack mode the ledger has
the finished records.

Invariant: records dropped by a seek or a rebalance are neither returned again nor committed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...protocol.topics import TopicPartition
from .deliveries import Ledger
from .positions import Position, Positions
from .received import ReceivedBatch


class Progress:
    """The progress of one consumer, over its assigned partitions."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self.batch: ReceivedBatch | None = None  # the current one
        self.last_offset: int | None = None  # of the batch; None: no record was returned yet
        self._attempt = 0  # of its partition, at the delivery
        self._holds_all = False
        self._is_done = False  # the application has asked for more
        self._is_interrupted = False
        self.ledger: Ledger | None = None  # in ack mode

    def hold(self, batch: ReceivedBatch) -> ReceivedBatch:
        """Make a batch current; none of its records was returned yet."""
        self.batch = batch
        self._attempt = self._positions[batch.topic, batch.partition].attempt
        self.last_offset = None
        self._holds_all = self._is_done = False
        return batch

    def ask_for_more(self) -> None:
        """The application has processed all its records, even if its call fails."""
        self._is_done = True

    def hold_all(self, batch: ReceivedBatch) -> None:
        """The application has received all records of the batch."""
        self.last_offset = batch.offsets[-1]
        self._holds_all = True

    def rest(self) -> ReceivedBatch | None:
        """The records that an abandoned `async for` had not returned."""
        batch = self.batch
        if batch is None:
            return None
        state = self._positions.get((batch.topic, batch.partition))
        if state is None or state.attempt != self._attempt:
            return None
        return batch if self.last_offset is None else batch.behind(self.last_offset)

    def end_batch(self) -> None:
        """No batch is current any more."""
        self.batch = None

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Partitions were revoked: their unfinished records never will be finished."""
        if self.ledger is not None:
            self.ledger.drop(partitions)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """The positions have changed: the rest of the current batch is not returned."""
        self.forget(partitions)
        if self.batch is not None and (self.batch.topic, self.batch.partition) in partitions:
            self.batch = None

    def through(self) -> dict[TopicPartition, Position]:
        """Positions behind the last returned records."""
        found = self._positions.current()
        batch = self.batch
        if batch is not None and (place := (batch.topic, batch.partition)) in found:
            if self.last_offset is None:
                found[place] = Position(batch.offsets[0], batch.leader_epoch)
            elif self.last_offset < batch.offsets[-1]:
                found[place] = Position(self.last_offset + 1, batch.leader_epoch)
        return found

    def next_offset(self, partition: TopicPartition) -> int | None:
        """The offset behind the last returned record of a partition; None until it is known."""
        state = self._positions.get(partition)
        if state is None or state.position is None:
            return None
        batch = self.batch
        if batch is None or (batch.topic, batch.partition) != partition:
            return state.position.offset
        return self.through()[partition].offset

    def interrupt(self) -> None:
        """The application stops: the records that it is processing are not done."""
        self._is_interrupted = True

    def _finished(self) -> dict[TopicPartition, Position]:
        """`through`, without the records that the application is still processing."""
        found = self.through()
        batch = self.batch
        if batch is not None and self.last_offset is not None and not self._is_done:
            place = (batch.topic, batch.partition)
            begun = batch.offsets[0] if self._holds_all else self.last_offset
            if place in found:
                found[place] = Position(begun, batch.leader_epoch)
        return found

    def committable(self) -> Mapping[TopicPartition, Position]:
        """Positions behind the last returned records; after `interrupt`, without those in
        processing. In ack mode the finished positions."""
        if self.ledger is None:
            return self._finished() if self._is_interrupted else self.through()
        finished = self.ledger.committable().items()
        return {tp: Position(o) for tp, o in finished if self._positions.get(tp) is not None}
