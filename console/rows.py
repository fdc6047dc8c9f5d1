"""Records and markers of one fetch, and the states of their transactions; pure.

A fetch below the last stable offset names the aborted transactions there; all others are committed.
Above it a record is open until its producer's marker is read.
Mirrors: CompletedFetch of the Java client, which leaves out what is shown here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..client.consumer.received import Received
from ..protocol.apis.fetch import AbortedTransaction
from ..protocol.records.batch import BatchHeader
from ..protocol.records.columns import RecordColumns
from ..protocol.records.control import ControlRecordType
from ..protocol.topics import TopicPartition

OPEN: Final = "open"
COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
_ENDS: Final = {ControlRecordType.COMMIT: COMMITTED, ControlRecordType.ABORT: ABORTED}


@dataclass(slots=True)
class Row:
    """`producer` and `state` are of a transaction; a marker has no key and no value."""

    record: Received
    producer: int | None = None
    state: str = ""
    is_marker: bool = False


class Fetched(NamedTuple):
    """The result of a fetch from `position`; `aborted`: None above the last stable offset."""

    place: TopicPartition
    columns: RecordColumns
    position: int
    aborted: Iterable[AbortedTransaction] | None

    def rows(self) -> Iterator[Row]:
        """The rows in the order of their offsets, from the position on."""
        waiting = sorted(
            ((one.first_offset, one.producer_id) for one in self.aborted or ()), reverse=True
        )
        shut: set[int] = set()
        for batch in self.columns.batches:
            header = batch.header
            while waiting and waiting[-1][0] <= header.last_offset:
                shut.add(waiting.pop()[1])
            if batch.control is not None:
                yield from self._marker(header, batch.control)
                shut.discard(header.producer_id)
                continue
            producer, state = None, ""
            if header.is_transactional:
                producer = header.producer_id
                state = ABORTED if producer in shut else COMMITTED
                state = OPEN if self.aborted is None else state
            for row in range(batch.first, batch.end):
                if self.columns.offsets[row] >= self.position:
                    yield Row(self._record(row), producer, state)

    def _marker(self, header: BatchHeader, control: ControlRecordType) -> Iterator[Row]:
        end = _ENDS.get(control)
        if end is not None and header.base_offset >= self.position:
            place = (*self.place, header.base_offset, header.max_timestamp)
            yield Row(Received(*place, None, None), header.producer_id, end, is_marker=True)

    def _record(self, row: int) -> Received:
        columns = self.columns
        return Received(
            *self.place,
            columns.offsets[row],
            columns.timestamps[row],
            columns.key(row),
            columns.value(row),
            columns.headers(row),
        )


class OpenRows:
    """Rows of transactions without an end so far."""

    def __init__(self) -> None:
        self._open: dict[tuple[TopicPartition, int], list[Row]] = {}

    def take(self, row: Row) -> None:
        """Update the states: an open record waits for its producer's marker, which has the
        outcome.
        """
        if row.producer is None:
            return
        key = ((row.record.topic, row.record.partition), row.producer)
        if row.is_marker:
            for waiting in self._open.pop(key, ()):
                waiting.state = row.state
        elif row.state == OPEN:
            self._open.setdefault(key, []).append(row)
