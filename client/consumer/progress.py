"""How far the application has come: what it has in hand, what is done, what may be committed; pure.

A batch is in hand from when it is handed out until more is asked for. Of it the application has
been given records one by one (`last_offset` is the newest), or all of them at once. In ack mode
the ledger says what is settled.

Invariant: what a seek or a rebalance took away is neither handed out again nor committed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ...protocol.topics import TopicPartition
from .deliveries import Ledger
from .positions import Position, Positions
from .received import ReceivedBatch


class Progress:
    """Of one consumer, over the partitions that are assigned to it."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions
        self.batch: ReceivedBatch | None = None  # in hand
        self.last_offset: int | None = None  # of it; None: nothing was handed out yet
        self._attempt = 0  # of its partition, when it was handed out
        self._holds_all = False
        self._is_done = False  # with what it was given: it has asked for more
        self._is_interrupted = False
        self.ledger: Ledger | None = None  # in ack mode

    def hold(self, batch: ReceivedBatch) -> ReceivedBatch:
        """It is in hand, and nothing of it was handed out yet."""
        self.batch = batch
        self._attempt = self._positions[batch.topic, batch.partition].attempt
        self.last_offset = None
        self._holds_all = self._is_done = False
        return batch

    def ask_for_more(self) -> None:
        """The application has done all that it was given, whatever becomes of its call."""
        self._is_done = True

    def hold_all(self, batch: ReceivedBatch) -> None:
        """The application has been given all of it."""
        self.last_offset = batch.offsets[-1]
        self._holds_all = True

    def rest(self) -> ReceivedBatch | None:
        """What an `async for` that was left had not handed out."""
        batch = self.batch
        if batch is None:
            return None
        state = self._positions.get((batch.topic, batch.partition))
        if state is None or state.attempt != self._attempt:
            return None
        return batch if self.last_offset is None else batch.behind(self.last_offset)

    def let_go(self) -> None:
        """Nothing is in hand any more."""
        self.batch = None

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """They have gone: what of them is not settled never will be."""
        if self.ledger is not None:
            self.ledger.drop(partitions)

    def drop(self, partitions: Collection[TopicPartition]) -> None:
        """They are read from elsewhere, and what is in hand of them is not handed out."""
        self.forget(partitions)
        if self.batch is not None and (self.batch.topic, self.batch.partition) in partitions:
            self.batch = None

    def through(self) -> dict[TopicPartition, Position]:
        """Positions behind all that was handed out."""
        found = self._positions.current()
        batch = self.batch
        if batch is not None and (place := (batch.topic, batch.partition)) in found:
            if self.last_offset is None:
                found[place] = Position(batch.offsets[0], batch.leader_epoch)
            elif self.last_offset < batch.offsets[-1]:
                found[place] = Position(self.last_offset + 1, batch.leader_epoch)
        return found

    def next_offset(self, partition: TopicPartition) -> int | None:
        """Behind what was handed out of one partition; None until that is known."""
        state = self._positions.get(partition)
        if state is None or state.position is None:
            return None
        batch = self.batch
        if batch is None or (batch.topic, batch.partition) != partition:
            return state.position.offset
        return self.through()[partition].offset

    def interrupt(self) -> None:
        """The application will not go on: what it is working on is not done."""
        self._is_interrupted = True

    def _finished(self) -> dict[TopicPartition, Position]:
        """`through`, without what the application is still working on."""
        found = self.through()
        batch = self.batch
        if batch is not None and self.last_offset is not None and not self._is_done:
            place = (batch.topic, batch.partition)
            begun = batch.offsets[0] if self._holds_all else self.last_offset
            if place in found:
                found[place] = Position(begun, batch.leader_epoch)
        return found

    def committable(self) -> Mapping[TopicPartition, Position]:
        """Behind all that was handed out; what is worked on does not count once that is
        interrupted. In ack mode what is settled."""
        if self.ledger is None:
            return self._finished() if self._is_interrupted else self.through()
        settled = self.ledger.committable().items()
        return {tp: Position(o) for tp, o in settled if self._positions.get(tp) is not None}
