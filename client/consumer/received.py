"""Records for the application: one by one, or a partition's batch as columns; pure.

    async for record in consumer: record.topic, record.offset, record.key, record.value
    async for batch in consumer.batches(): batch.offsets, batch.timestamps, batch.values()

Invariants: a batch is of one partition, its offsets grow, and it has no records of aborted
transactions if these are to be left out. Reading continues at `next_offset`, which skips offsets
without records (markers, aborted or compacted records).

Mirrors: ConsumerRecord and CompletedFetch of the Java client.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, Final, NamedTuple, final

from ...protocol.apis.fetch import AbortedTransaction
from ...protocol.records.columns import RecordColumns
from ...protocol.records.control import ControlRecordType
from ...protocol.records.loops.places import contents_at
from ...protocol.records.record import Headers
from ...protocol.topics import TopicPartition

NO_EPOCH: Final = -1
_NULL: Final = array("q", [-1])  # the length of a null
_ZERO: Final = array("q", [0])


class Received(NamedTuple):
    """A record and its origin; `timestamp` is in ms since 1970, -1 for none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@final
class ReceivedBatch:
    """Rows `first` to `end` of a partition in one fetch; nothing is copied.

    `offsets` and `timestamps` are views of int64 (`memoryview` with format "q"), which `np.asarray`
    and `pa.array` accept.
    """

    __slots__ = ("columns", "end", "first", "leader_epoch", "next_offset", "partition", "topic")

    def __init__(
        self,
        partition: TopicPartition,
        columns: RecordColumns,
        rows: tuple[int, int],
        next_offset: int,
        leader_epoch: int = NO_EPOCH,
    ) -> None:
        self.topic, self.partition = partition
        self.columns = columns
        self.first, self.end = rows
        self.next_offset = next_offset
        self.leader_epoch = leader_epoch

    def __len__(self) -> int:
        return self.end - self.first

    def __repr__(self) -> str:
        return f"<{len(self)} records of {self.topic}-{self.partition} up to {self.next_offset}>"

    @property
    def offsets(self) -> memoryview:
        return memoryview(self.columns.offsets)[self.first : self.end]

    @property
    def timestamps(self) -> memoryview:
        return memoryview(self.columns.timestamps)[self.first : self.end]

    def keys(self) -> list[bytes | None]:
        """The key of each record."""
        columns = self.columns
        return self._contents(columns.key_starts, columns.key_lengths)

    def values(self) -> list[bytes | None]:
        """The value of each record."""
        columns = self.columns
        return self._contents(columns.value_starts, columns.value_lengths)

    def _contents(self, starts: array[int], lengths: array[int]) -> list[bytes | None]:
        data = self.columns.data
        rows = slice(self.first, self.end)
        sizes = lengths[rows]
        if sizes == _NULL * len(sizes):  # compares memory without making numbers
            return [None] * len(sizes)
        return contents_at(data, starts[rows], sizes)

    def headers(self) -> list[Headers]:
        """The headers of each record, as names and contents."""
        columns = self.columns
        if columns.header_counts[self.first : self.end] == _ZERO * len(self):
            return [()] * len(self)
        return [columns.headers(row) for row in range(self.first, self.end)]

    def __iter__(self) -> Iterator[Received]:
        columns = self.columns
        rows = slice(self.first, self.end)
        return map(
            tuple.__new__,  # bypasses the named tuple's own
            repeat(Received),
            zip(
                repeat(self.topic, len(self)),
                repeat(self.partition),
                columns.offsets[rows],
                columns.timestamps[rows],
                self.keys(),
                self.values(),
                self.headers(),
                strict=False,
            ),
        )

    def to_numpy(self) -> dict[str, Any]:
        """Arrays `offset` and `timestamp` (int64), `key` and `value` (objects). Needs NumPy."""
        import numpy as np

        contents = {"key": self.keys(), "value": self.values()}
        return {
            "offset": np.asarray(self.offsets),
            "timestamp": np.asarray(self.timestamps),
            **{name: np.array(each, dtype=object) for name, each in contents.items()},
        }

    def to_arrow(self) -> Any:
        """A pyarrow.RecordBatch of topic, partition, offset, timestamp, key and value.

        Makes no Python object per record. Needs pyarrow.
        """
        import pyarrow as pa

        from .arrow import contents_of, numbers_of

        count, rows = len(self), (self.first, self.end)
        columns = self.columns
        data = pa.py_buffer(columns.data)
        found = {
            "topic": pa.repeat(self.topic, count),
            "partition": pa.repeat(pa.scalar(self.partition, pa.int32()), count),
            "offset": numbers_of(columns.offsets, *rows),
            "timestamp": numbers_of(columns.timestamps, *rows).cast(pa.timestamp("ms", "UTC")),
            "key": contents_of(data, columns.key_starts, columns.key_lengths, *rows),
            "value": contents_of(data, columns.value_starts, columns.value_lengths, *rows),
        }
        return pa.RecordBatch.from_pydict(found)

    def split(self, count: int) -> tuple[ReceivedBatch, ReceivedBatch | None]:
        """The first `count` records, and the rest if there is any."""
        if count >= len(self):
            return self, None
        middle = self.first + count
        place = (self.topic, self.partition)
        epoch = self.leader_epoch
        behind = self.columns.offsets[middle - 1] + 1
        return (
            ReceivedBatch(place, self.columns, (self.first, middle), behind, epoch),
            ReceivedBatch(place, self.columns, (middle, self.end), self.next_offset, epoch),
        )

    def behind(self, offset: int) -> ReceivedBatch | None:
        """The batch's records after an offset; None if there are none."""
        row = self.columns.first_row(offset + 1)
        if row >= self.end:
            return None
        rows = (max(row, self.first), self.end)
        place = (self.topic, self.partition)
        return ReceivedBatch(place, self.columns, rows, self.next_offset, self.leader_epoch)


def batches_of(
    partition: TopicPartition,
    columns: RecordColumns,
    position: int,
    aborted: Iterable[AbortedTransaction] | None,
) -> list[ReceivedBatch]:
    """The batches of a fetch from `position`, without aborted records unless `aborted` is None.

    There is at least one batch, perhaps an empty one, if the fetch extends beyond `position`.
    """
    rows = [(columns.first_row(position), len(columns))]
    if aborted is not None:
        rows = _committed_rows(columns, rows[0][0], aborted)
    if not columns.batches:
        return []
    last = columns.batches[-1].header
    next_offset = last.next_offset
    if next_offset <= position:
        return []
    epoch = last.partition_leader_epoch
    rows = [(first, end) for first, end in rows if first < end] or [(len(columns), len(columns))]
    found = []
    for index, (first, end) in enumerate(rows):
        is_last = index == len(rows) - 1
        behind = next_offset if is_last else columns.offsets[end - 1] + 1
        found.append(ReceivedBatch(partition, columns, (first, end), behind, epoch))
    return found


def _committed_rows(
    columns: RecordColumns, first_row: int, aborted: Iterable[AbortedTransaction]
) -> list[tuple[int, int]]:
    """Ranges of rows outside aborted transactions."""
    waiting = sorted(((each.first_offset, each.producer_id) for each in aborted), reverse=True)
    open_aborted: set[int] = set()
    rows: list[tuple[int, int]] = []
    for batch in columns.batches:
        header = batch.header
        while waiting and waiting[-1][0] <= header.last_offset:
            open_aborted.add(waiting.pop()[1])
        if batch.control is ControlRecordType.ABORT:
            open_aborted.discard(header.producer_id)
            continue
        if header.is_transactional and header.producer_id in open_aborted:
            continue
        first = max(batch.first, first_row)
        if first >= batch.end:
            continue
        if rows and rows[-1][1] == first:
            rows[-1] = (rows[-1][0], batch.end)
        else:
            rows.append((first, batch.end))
    return rows
