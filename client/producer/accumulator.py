"""Records that wait, in batches by partition, within a limit of memory.

Pure: the time comes in, batches go out. A batch may go once it is full, has lingered, somebody
flushes, or others wait for room.
Invariants: the bytes held are those of the records of all batches without an outcome; they pass
the limit only by a single record that is larger than it (`has_room`). Whoever appends does it in
place, into `PartitionQueue.open` or `open_batch`, and counts: it is done for each record.
Mirrors: RecordAccumulator and BufferPool. Leaves out buffers that are used again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ...protocol import invariants
from ...protocol.invariants import BrokenInvariant
from ...protocol.records.record import Headers
from .batch import Batch, Outcome
from .partition_queue import PartitionQueue

# What a record takes at most beside key, value and headers; of a header, beside name and value.
RECORD_OVERHEAD_BYTES: Final = 21
HEADER_OVERHEAD_BYTES: Final = 10
BATCH_OVERHEAD_BYTES: Final = 61


class Limits(NamedTuple):
    """Of a producer: bytes and ms."""

    batch_bytes: int
    linger_ms: int
    buffer_bytes: int
    delivery_ms: int
    in_flight: int  # batches of a partition


class Accumulator:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.full_bytes = max(0, limits.batch_bytes - BATCH_OVERHEAD_BYTES)  # of the records
        self.held_bytes = 0
        self.most_bytes = limits.buffer_bytes
        self.flushes = 0  # how many wait for all that there is
        self.waiting_for_room = 0
        self._queues: dict[str, list[PartitionQueue]] = {}
        self._busy: dict[PartitionQueue, None] = {}  # those with batches

    def queues(self, topic: str, count: int) -> list[PartitionQueue]:
        """Of the partitions of a topic, `count` at least."""
        queues = self._queues.setdefault(topic, [])
        while len(queues) < count:
            queues.append(PartitionQueue(topic, len(queues)))
        return queues

    @property
    def busy(self) -> list[PartitionQueue]:
        """The queues that have batches, in turns."""
        return list(self._busy)

    def incomplete(self) -> list[Batch]:
        """All batches without an outcome."""
        return [batch for queue in self._busy for batch in queue.batches]

    def has_room(self, size: int) -> bool:
        return self.held_bytes + size <= self.most_bytes or not self.held_bytes

    def open_batch(self, queue: PartitionQueue, now_ms: int) -> Batch:
        """Another one; the last takes no more."""
        if not queue.batches:
            self._busy[queue] = None
        batch = queue.open = Batch(queue.topic, queue.partition, now_ms)
        queue.batches.append(batch)
        return batch

    def add_ready(self, queue: PartitionQueue, batch: Batch) -> None:
        """One that takes no records; what is open before it takes no more."""
        if not queue.batches:
            self._busy[queue] = None
        queue.open = None
        queue.batches.append(batch)
        self.held_bytes += batch.size

    def ready(self, queue: PartitionQueue, now_ms: int) -> Batch | None:
        """The batch of a queue that goes now, if there is one."""
        batch = queue.candidate(now_ms, self.limits.in_flight)
        if batch is not queue.open or self.flushes or self.waiting_for_room:
            return batch
        if batch is None:
            return None
        is_due = now_ms - batch.created_ms >= self.limits.linger_ms
        return batch if is_due or batch.size >= self.full_bytes else None

    def next_due_ms(self, now_ms: int) -> int | None:
        """When a batch becomes ready, or too old, by time alone."""
        due: int | None = None
        for queue in self._busy:
            for batch in queue.batches:
                if batch.is_in_flight:
                    continue
                times = [batch.created_ms + self.limits.delivery_ms]
                if batch.attempts:
                    times.append(batch.retry_at_ms)
                elif batch is queue.open:
                    times.append(batch.created_ms + self.limits.linger_ms)
                for at in times:
                    if at > now_ms and (due is None or at < due):
                        due = at
                break
        return due

    def expired(self, now_ms: int) -> list[tuple[PartitionQueue, Batch]]:
        """Those that are not on their way, and should have been acknowledged by now."""
        oldest = now_ms - self.limits.delivery_ms
        return [
            (queue, batch)
            for queue in self._busy
            if queue.batches[0].created_ms <= oldest
            for batch in queue.batches
            if batch.created_ms <= oldest and not batch.is_in_flight
        ]

    def settle(self, queue: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        """Take a batch out; its bytes are free."""
        self.held_bytes -= batch.size
        queue.settle(batch, outcome)
        if not queue.batches:
            del self._busy[queue]
        if self.held_bytes < 0 or invariants.THOROUGH:
            self._check_held()

    def _check_held(self) -> None:
        """The bytes that are held are those of the batches without an outcome."""
        held = sum(batch.size for batch in self.incomplete())
        if self.held_bytes != held:
            raise BrokenInvariant(f"{self.held_bytes} bytes are counted, the batches have {held}")

    def take_turn(self, queue: PartitionQueue) -> None:
        """It has had its turn: others come before it the next time."""
        if queue in self._busy:
            del self._busy[queue]
            self._busy[queue] = None


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """What a record takes at most in a batch that is not compressed."""
    size = RECORD_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + 4 * len(name) + len(content or b"")
    return size
