"""Ack mode: records are acknowledged one by one, in any order; failed records return; pure.

A record is finished once it is acknowledged or given up. For each partition the offset before which
all records are finished may be committed: a crash loses nothing, and replays the records finished
behind it. Offsets may have gaps (compaction, markers).

Invariants: a record is waiting, held by the application, due again later, or finished;
`committable` never goes back; no more records are taken while `max_unacknowledged` are not
finished. An `ack` or `fail` after the partition was revoked is ignored: another member owns it.

Mirrors: OffsetManager and KafkaSpoutRetryExponentialBackoff of Apache Storm's KafkaSpout.
Leaves out: committing the list of records finished behind the prefix, in the commit's metadata.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from ...protocol import invariants
from ...protocol.invariants import BrokenInvariant
from ...protocol.topics import TopicPartition
from .received import Received

FOREVER: Final = -1  # of retries


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """Wait `first_seconds` before a record is delivered again, then twice as long each time.

    After `max_retries` more attempts the record is given up: finished, and `fail` returns False.
    """

    first_seconds: float = 0.0
    most_seconds: float = 10.0
    max_retries: int = FOREVER

    def delay_ms(self, attempts: int) -> int:
        """The delay after this number of attempts, 1 or more."""
        doubled = self.first_seconds * 2 ** min(attempts - 1, 32)
        return int(1000 * min(self.most_seconds, doubled))


class Delivery:
    """A record to acknowledge by `ack`, or to reject by `fail`, after which it is delivered
    again."""

    __slots__ = ("_ledger", "attempts", "is_finished", "record")

    def __init__(self, ledger: Ledger, record: Received) -> None:
        self._ledger = ledger
        self.record = record
        self.attempts = 0  # the number of its deliveries
        self.is_finished = False

    def __repr__(self) -> str:
        record = self.record
        return f"<{record.topic}-{record.partition} at {record.offset}, attempt {self.attempts}>"

    @property
    def is_held(self) -> bool:
        """Whether it awaits `ack` or `fail`, which have no effect otherwise. Any thread may
        call."""
        return self._ledger.holds(self)

    def ack(self) -> None:
        """The record is done. A second call, or one after `fail`, has no effect."""
        self._ledger.ack(self)

    def fail(self) -> bool:
        """Deliver the record again later; False if it has reached its last attempt and is given
        up."""
        return self._ledger.fail(self)


class _Partition:
    __slots__ = ("next_offset", "unfinished")

    def __init__(self, next_offset: int) -> None:
        self.unfinished: deque[Delivery] = deque()  # by offset; finished records leave at the front
        self.next_offset = next_offset


class Ledger:
    """See the module. Times are in ms of any clock that does not go back."""

    def __init__(
        self, policy: RetryPolicy, max_unacknowledged: int, on_change: Callable[[], None]
    ) -> None:
        self._policy = policy
        self._on_change = on_change  # called when a record is finished, or failed
        self._max_unacknowledged = max_unacknowledged
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._fresh: deque[Delivery] = deque()
        self._due: list[tuple[int, int, Delivery]] = []  # a heap: due time, number, delivery
        self._failures = 0
        self._held: set[Delivery] = set()
        self._open_count = 0
        self.now_ms = 0  # of the last `next`; the delay of failed records counts from it

    @property
    def room(self) -> int:
        """The number of records that may be added."""
        return max(0, self._max_unacknowledged - self._open_count)

    def add(self, records: Iterable[Received], next_offset: int) -> None:
        """Add records of one partition, behind all added before; `next_offset` follows them."""
        for record in records:
            place = (record.topic, record.partition)
            mine = self._partitions.get(place)
            if mine is None:
                mine = self._partitions[place] = _Partition(record.offset)
            delivery = Delivery(self, record)
            mine.unfinished.append(delivery)
            mine.next_offset = next_offset
            self._fresh.append(delivery)
            self._open_count += 1

    def next(self, now_ms: int) -> Delivery | None:
        """The next record that is due again, otherwise the next new one."""
        self.now_ms = now_ms
        delivery = None
        if self._due and self._due[0][0] <= now_ms:
            delivery = heappop(self._due)[2]
        elif self._fresh:
            delivery = self._fresh.popleft()
        if delivery is not None:
            delivery.attempts += 1
            self._held.add(delivery)
        return delivery

    def put_back(self, delivery: Delivery) -> None:
        """Undo `next`: the delivery was not handed out, and is the next one again."""
        delivery.attempts -= 1
        self._held.discard(delivery)
        self._failures += 1
        heappush(self._due, (self.now_ms, -self._failures, delivery))

    def holds(self, delivery: Delivery) -> bool:
        """Whether the application has it, and may acknowledge it. Any thread may call."""
        return delivery in self._held

    def wait_ms(self, now_ms: int) -> int | None:
        """The time until a record is due again; None if none waits."""
        return max(0, self._due[0][0] - now_ms) if self._due else None

    def ack(self, delivery: Delivery) -> None:
        if delivery in self._held:
            self._held.discard(delivery)
            self._finish(delivery)

    def fail(self, delivery: Delivery) -> bool:
        """False if the record is given up, or was not held."""
        if delivery not in self._held:
            return False
        self._held.discard(delivery)
        policy = self._policy
        if policy.max_retries != FOREVER and delivery.attempts > policy.max_retries:
            self._finish(delivery)
            return False
        self._failures += 1
        due_ms = self.now_ms + policy.delay_ms(delivery.attempts)
        heappush(self._due, (due_ms, self._failures, delivery))
        self._on_change()
        return True

    def _finish(self, delivery: Delivery) -> None:
        if delivery.is_finished:
            raise BrokenInvariant(f"{delivery} is finished twice")
        delivery.is_finished = True
        self._open_count -= 1
        if invariants.THOROUGH:
            self._check()
        self._on_change()
        unfinished = self._partitions[delivery.record.topic, delivery.record.partition].unfinished
        while unfinished and unfinished[0].is_finished:
            unfinished.popleft()

    def _check(self) -> None:
        """Thorough: unfinished records are counted, sorted by offset, and each is in one place."""
        open_ones = [
            delivery
            for mine in self._partitions.values()
            for delivery in mine.unfinished
            if not delivery.is_finished
        ]
        places = [*self._fresh, *self._held, *(entry[2] for entry in self._due)]
        if self._open_count != len(open_ones) or set(places) != set(open_ones):
            raise BrokenInvariant(f"{self._open_count} are not finished: {open_ones}, {places}")
        for place, mine in self._partitions.items():
            offsets = [delivery.record.offset for delivery in mine.unfinished]
            if offsets != sorted(set(offsets)) or (offsets and offsets[-1] >= mine.next_offset):
                raise BrokenInvariant(f"{place}: {offsets} are before {mine.next_offset}")

    def committable(self) -> dict[TopicPartition, int]:
        """The next offset of each partition: all records before it are finished."""
        return {
            place: mine.unfinished[0].record.offset if mine.unfinished else mine.next_offset
            for place, mine in self._partitions.items()
        }

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that were revoked, or whose position was changed."""
        gone = set(partitions) & self._partitions.keys()
        if not gone:
            return

        def stays(delivery: Delivery) -> bool:
            return (delivery.record.topic, delivery.record.partition) not in gone

        for place in gone:
            mine = self._partitions.pop(place)
            self._open_count -= sum(not each.is_finished for each in mine.unfinished)
        self._fresh = deque(filter(stays, self._fresh))
        self._held = set(filter(stays, self._held))
        self._due = [entry for entry in self._due if stays(entry[2])]
        self._due.sort()
