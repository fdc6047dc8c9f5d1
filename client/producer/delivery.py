"""The delivery of one record: awaited, or checked later."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

import trio

from .batch import Batch, Outcome


class RecordMetadata(NamedTuple):
    """The place of a record. `offset` is -1 with acks=0, and if the record was written but its
    answer was lost. `timestamp_ms` is the broker's if the topic is configured so."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class Delivery:
    """An enqueued record: `await delivery` waits until it is acknowledged."""

    __slots__ = ("_batch", "_place", "_timestamp")

    def __init__(self, batch: Batch, place: int, timestamp: int) -> None:
        self._batch = batch
        self._place = place
        self._timestamp = timestamp

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return self.wait().__await__()

    async def wait(self) -> RecordMetadata:
        """Wait until the record is acknowledged; returns its place. Raises ClientError if it
        failed."""
        batch, place = self._batch.holder(self._place)
        while batch.outcome is None:
            await something_became_of(batch)
            batch, place = batch.holder(place)
        self._batch, self._place = batch, place
        return self.result()

    @property
    def current_batch(self) -> Batch:
        """The batch that holds the record now."""
        return self._batch.holder(self._place)[0]

    @property
    def current_place(self) -> tuple[Batch, int]:
        """That batch, and the record's place there."""
        return self._batch.holder(self._place)

    @property
    def is_done(self) -> bool:
        """Whether the record is acknowledged, or has failed."""
        return self._batch.holder(self._place)[0].outcome is not None

    def result(self) -> RecordMetadata:
        """The place of a record that is done. Raises ClientError if it failed."""
        batch, place = self._batch.holder(self._place)
        outcome = batch.outcome
        assert outcome is not None, "it is not done"
        if outcome.error is not None:
            # Each raise needs a traceback of its own.
            raise _copy(outcome.error)
        offset = outcome.base_offset + place if outcome.base_offset >= 0 else -1
        appended = outcome.append_time_ms
        timestamp = self._timestamp if appended < 0 else appended
        return RecordMetadata(batch.topic, batch.partition, offset, timestamp)


async def something_became_of(batch: Batch) -> None:
    """Wait until the batch has an outcome, or is split."""
    if batch.outcome is None and not batch.parts:
        told = trio.Event()
        batch.watchers.append(told.set)
        await told.wait()


async def outcomes_of(batch: Batch) -> list[Outcome]:
    """Wait for the outcomes of all its parts."""
    await something_became_of(batch)
    if batch.outcome is not None:
        return [batch.outcome]
    return [outcome for part in batch.parts for outcome in await outcomes_of(part)]


def _copy(error: Exception) -> Exception:
    copy = error.__class__.__new__(error.__class__)
    copy.args = error.args
    copy.__dict__.update(error.__dict__)
    copy.__cause__ = error
    return copy
