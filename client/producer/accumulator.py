"""Waiting records, in batches by partition, within a limit of memory.

Pure: the time is an argument, batches are returned. A batch is ready once it is full, has lingered,
a flush waits, or other calls wait for room.
Invariants: the bytes held are those of the records of all batches without an outcome; they exceed
the limit only by a single record larger than it (`has_room`). The producer appends and counts each
record in place, in `PartitionQueue.open` or `open_batch`, since that is done for each record.
Mirrors: RecordAccumulator and BufferPool. Leaves out the reuse of buffers.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ...protocol import invariants
from ...protocol.invariants import BrokenInvariant
from ...protocol.records.record import Headers
from .batch import Batch, Outcome
from .partition_queue import PartitionQueue

# Bytes of a record at most beside key, value and headers; of a header, beside name and value.
RECORD_OVERHEAD_BYTES: Final = 21
HEADER_OVERHEAD_BYTES: Final = 10
BATCH_OVERHEAD_BYTES: Final = 61


class Limits(NamedTuple):
    """The limits of a producer, in bytes and ms."""

    batch_bytes: int
    linger_ms: int
    buffer_bytes: int
    delivery_ms: int
    in_flight: int  # batches of a partition


class Accumulator:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.full_bytes = max(0, limits.batch_bytes - BATCH_OVERHEAD_BYTES)  # of a batch's records
        self.held_bytes = 0
        self.most_bytes = limits.buffer_bytes
        self.flushes = 0  # the number of flushes that wait
        self.waiting_for_room = 0
        self._queues: dict[str, list[PartitionQueue]] = {}
        self._busy: dict[PartitionQueue, None] = {}  # queues with batches

    def queues(self, topic: str, count: int) -> list[PartitionQueue]:
        """The queues of a topic's partitions, at least `count`."""
        queues = self._queues.setdefault(topic, [])
        while len(queues) < count:
            queues.append(PartitionQueue(topic, len(queues)))
        return queues

    @property
    def busy(self) -> list[PartitionQueue]:
        """The queues with batches, in order of their turns."""
        return list(self._busy)

    def incomplete(self) -> list[Batch]:
        """All batches without an outcome."""
        return [batch for queue in self._busy for batch in queue.batches]

    def has_room(self, size: int) -> bool:
        return self.held_bytes + size <= self.most_bytes or not self.held_bytes

    def open_batch(self, queue: PartitionQueue, now_ms: int) -> Batch:
        """Open another batch; the last one takes no more records."""
        if not queue.batches:
            self._busy[queue] = None
        batch = queue.open = Batch(queue.topic, queue.partition, now_ms)
        queue.batches.append(batch)
        return batch

    def add_ready(self, queue: PartitionQueue, batch: Batch) -> None:
        """Add a batch that takes no records; the open batch before it takes no more either."""
        if not queue.batches:
            self._busy[queue] = None
        queue.open = None
        queue.batches.append(batch)
        self.held_bytes += batch.size

    def ready(self, queue: PartitionQueue, now_ms: int) -> Batch | None:
        """The batch of a queue to send now, if there is one."""
        batch = queue.candidate(now_ms, self.limits.in_flight)
        if batch is not queue.open or self.flushes or self.waiting_for_room:
            return batch
        if batch is None:
            return None
        is_due = now_ms - batch.created_ms >= self.limits.linger_ms
        return batch if is_due or batch.size >= self.full_bytes else None

    def next_due_ms(self, now_ms: int) -> int | None:
        """The time at which a batch becomes ready, or too old, by the clock alone."""
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
        """Batches that are not in flight and past their delivery timeout."""
        oldest = now_ms - self.limits.delivery_ms
        return [
            (queue, batch)
            for queue in self._busy
            if queue.batches[0].created_ms <= oldest
            for batch in queue.batches
            if batch.created_ms <= oldest and not batch.is_in_flight
        ]

    def complete(self, queue: PartitionQueue, batch: Batch, outcome: Outcome) -> None:
        """Remove a batch with its outcome; its bytes are free."""
        self.held_bytes -= batch.size
        queue.complete(batch, outcome)
        if not queue.batches:
            del self._busy[queue]
        if self.held_bytes < 0 or invariants.THOROUGH:
            self._check_held()

    def _check_held(self) -> None:
        """Check that the bytes held are those of the batches without an outcome."""
        held = sum(batch.size for batch in self.incomplete())
        if self.held_bytes != held:
            raise BrokenInvariant(f"{self.held_bytes} bytes are counted, the batches have {held}")

    def take_turn(self, queue: PartitionQueue) -> None:
        """The queue has had its turn: others precede it the next time."""
        if queue in self._busy:
            del self._busy[queue]
            self._busy[queue] = None


def size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """The bytes that a record takes at most in an uncompressed batch."""
    size = RECORD_OVERHEAD_BYTES
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        size += HEADER_OVERHEAD_BYTES + 4 * len(name) + len(content or b"")
    return size
