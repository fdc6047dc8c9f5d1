"""Records of one topic that another thread has collected for the producer, and their places.

They go into batches together (`Producer.enqueue_chunk`), at a small part of the cost of a call for
each. A record is found by its place in the chunk, before and after.

Invariants: records are only appended, and not any more once the producer takes the chunk; each
record then is in one part, and keeps its place there. A watched place that is done is reported,
perhaps twice. `find`, `is_done` and `watch` work in any thread.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Final, Protocol

from .accumulator import RECORD_OVERHEAD_BYTES, size_of
from .batch import Batch, Fields

STICKY: Final = -1  # without a partition: the producer sticks to one for a while
EACH: Final = -2  # each record is placed by itself, see `Chunk.partitions`


class Refusal:
    """The error of records that the producer did not take."""

    __slots__ = ("_count", "_known", "error")

    def __init__(self, error: BaseException, count: int) -> None:
        self.error = error
        self._count = count
        self._known: set[int] = set()

    def know(self, place: int) -> None:
        """The application has seen the error of this record."""
        self._known.add(place)

    @property
    def is_known(self) -> bool:
        return len(self._known) >= self._count


class Watcher(Protocol):
    """An object that waits for a record."""

    @property
    def is_done(self) -> bool: ...


class _Part:
    """Adjacent records, from a place on, with the batch and the place of the first one there, or
    with their error."""

    __slots__ = ("base", "batch", "refusal", "start")

    def __init__(self, start: int, batch: Batch | None, base: int, refusal: Refusal | None) -> None:
        self.start = start
        self.batch = batch
        self.base = base
        self.refusal = refusal


class Chunk:
    __slots__ = (
        "_opened",
        "_parts",
        "_report",
        "_starts",
        "_watchers",
        "_whole",
        "count",
        "partition",
        "partitions",
        "records",
        "room",
        "size",
        "topic",
    )

    def __init__(self, topic: str, partition: int, report: Callable[[list[Watcher]], None]) -> None:
        self.topic = topic
        self.partition = partition  # or STICKY, or EACH
        self._opened = monotonic()  # trio's clock is for its own thread
        self.records: list[Fields] = []  # until the producer has them
        self.partitions: dict[int, int | None] = {}  # by place, with EACH
        self.size = 0  # bytes of the records, as those of a batch
        self.room = 0  # bytes that it may get; in the end, those that its last batch still may
        self.count = 0  # of the records that the producer has, or has refused
        self._parts: list[_Part] = []
        self._starts: list[int] = []
        # The batch that has all records, if they are in one.
        self._whole: Batch | None = None
        self._report = report  # called for watchers whose records are done
        self._watchers: deque[Watcher] = deque()

    # The producer

    @property
    def age_ms(self) -> int:
        return int((monotonic() - self._opened) * 1000)

    def add_to(self, batch: Batch, end: int, size: int) -> None:
        """Append the next records, up to this place, to a batch."""
        start, records = self.count, self.records
        base = len(batch.records)
        if start or end < len(records):
            batch.records += records[start:end]
        else:
            batch.records += records
            self._whole = batch
        batch.size += size
        self._add_part(end, _Part(start, batch, base, None))
        self._watch_batch(batch)

    def added(self, batch: Batch, base: int) -> None:
        """The next record is in a batch, at this place there."""
        start = self.count
        if self._parts:
            last = self._parts[-1]
            if last.batch is batch and last.base + start - last.start == base:
                self.count = start + 1
                return
        self._add_part(start + 1, _Part(start, batch, base, None))
        self._watch_batch(batch)

    def fail(self, error: BaseException, end: int) -> Refusal | None:
        """The producer does not take the next records, up to this place."""
        start = self.count
        if end <= start:
            return None
        refusal = Refusal(error, end - start)
        self._add_part(end, _Part(start, None, 0, refusal))
        self._tell()
        return refusal

    def _add_part(self, end: int, part: _Part) -> None:
        self._parts.append(part)
        self._starts.append(part.start)
        self.count = end

    def fitting(self, room: int) -> tuple[int, int]:
        """The end of the next records that fit into so many bytes, one at least, and their
        size."""
        start, records = self.count, self.records
        if not start and self.size <= room:
            return len(records), self.size
        place, size = start, 0
        while place < len(records):
            _, key, value, headers = records[place]
            if key or headers:
                more = size_of(key, value, headers)
            else:
                more = RECORD_OVERHEAD_BYTES + (len(value) if value else 0)
            if size + more > room and place > start:
                break
            size += more
            place += 1
        return place, size

    @property
    def next_size(self) -> int:
        _, key, value, headers = self.records[self.count]
        return size_of(key, value, headers)

    # The records

    def find(self, place: int) -> tuple[Batch | None, int, Refusal | None]:
        """The batch of a record and its place there, or its error; nothing before the producer has
        it."""
        if place >= self.count:
            return None, 0, None
        part = self._parts[bisect_right(self._starts, place) - 1]
        return part.batch, part.base + place - part.start, part.refusal

    def is_done(self, place: int) -> bool:
        batch, there, refusal = self.find(place)
        if batch is None:
            return refusal is not None
        return batch.outcome is not None or batch.holder(there)[0].outcome is not None

    def watch(self, watcher: Watcher) -> None:
        """Report the watcher when its record is done."""
        self._watchers.append(watcher)
        if watcher.is_done:  # perhaps since just now
            self._report([watcher])

    def _watch_batch(self, batch: Batch) -> None:
        batch.watchers.append(partial(self._became, batch))

    def _became(self, batch: Batch) -> None:
        """A batch has an outcome, or is split."""
        if batch.outcome is None:
            for part in batch.parts:
                self._watch_batch(part)
        elif self._watchers:
            self._tell()

    def _tell(self) -> None:
        done: list[Watcher] = []
        if self._whole is not None and self._whole.outcome is not None:
            while self._watchers:  # another thread may add one
                done.append(self._watchers.popleft())
        for _ in range(len(self._watchers)):
            watcher = self._watchers.popleft()
            if watcher.is_done:
                done.append(watcher)
            else:
                self._watchers.append(watcher)
        if done:
            self._report(done)
