"""Records from other threads on their way to the producer, in the order of the calls.

The caller appends a record to a chunk, as the producer for trio appends to a batch, and goes on; a
task in the trio thread hands whole chunks to the producer, so that neither the hand-over nor an
acknowledgement costs anything for each record. After it has taken records it looks again within
`linger_ms`, without being woken for them: they wait for their batch as long as they would there.

Invariants: records of a topic are handed over in the order of `put`, but one of a signal handler
may precede the one that the handler interrupted. Callers that respect `is_full` keep its memory
within MOST_BYTES, and a record each. A watcher of a record is reported, perhaps twice.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from threading import RLock
from typing import Any, Final

import trio

from ...protocol.records.record import Headers
from ..errors import ClientError, ProducerClosed
from ..producer import Producer
from ..producer.accumulator import RECORD_OVERHEAD_BYTES, size_of
from ..producer.chunk import EACH, STICKY, Chunk, Refusal, Watcher
from ..producer.delivery import Delivery, RecordMetadata
from ..producer.producer import Content, checked
from .trio_thread import TrioThread

_now = time.time

MOST_BYTES: Final = 1024 * 1024  # that may wait to be handed over
MOST_NAP_MS: Final = 20  # before it looks again
MOST_REFUSED: Final = 100  # that `flush` looks at


class HostedDelivery:
    """A record on its way to the producer, or in it; see the subclasses."""

    __slots__ = ("chunk", "place", "timestamp_ms")

    def __init__(self, chunk: Chunk, place: int, timestamp_ms: int) -> None:
        self.chunk = chunk
        self.place = place
        self.timestamp_ms = timestamp_ms

    @property
    def is_done(self) -> bool:
        """Whether the record is acknowledged, or has failed."""
        return self.chunk.is_done(self.place)

    def result(self) -> RecordMetadata:
        """The place of a record that is done. Raises ClientError if it failed."""
        if not self.chunk.is_done(self.place):
            raise ClientError("the record is not acknowledged yet: wait for its delivery")
        batch, place, refusal = self.chunk.find(self.place)
        if refusal is not None:
            refusal.know(self.place)
            raise refusal.error
        assert batch is not None
        return Delivery(batch, place, self.timestamp_ms).result()


class Outbox:
    """`report` is called in the trio thread, or in a caller's, for watchers whose records are
    done."""

    def __init__(
        self, thread: TrioThread, producer: Producer, report: Callable[[list[Watcher]], None]
    ) -> None:
        self._trio_thread = thread
        self._producer = producer
        self._report = report
        settings = producer.settings
        self._full_bytes = producer.full_bytes
        self._most_bytes = min(MOST_BYTES, settings.buffer_memory)
        self._most_plain_bytes = (
            settings.max_request_size if producer.partition_for("", None, None, 0) == STICKY else -1
        )
        self._nap_seconds = min(settings.linger_ms, MOST_NAP_MS) / 1000
        self._lock = RLock()  # a signal handler may call within a call
        self._chunks: list[Chunk] = []  # to hand over, in their order
        # Those of `_chunks` that get more records, by topic and partition. Of a topic there is
        # either one without a partition, or any number with one: they share partitions.
        self._open: dict[str, dict[int, Chunk]] = {}
        # Of the batches that the last chunks are in, by topic and partition: the next chunks are to
        # fill those, since dividing one takes a look at each record.
        self._rooms: dict[tuple[str, int], int] = {}
        self._waiting_bytes = 0
        self._is_awake = False  # the task will look without being woken
        self._is_hurried = False  # it will do so at once
        self._woken = trio.Event()
        self._hurried = trio.Event()
        self._passed: list[trio.Event] = []  # to set once all records are handed over
        self._refused: deque[Refusal] = deque(maxlen=MOST_REFUSED)
        self._has_ended = False

    # From outside

    @property
    def is_full(self) -> bool:
        """Whether the caller has to wait until it is empty before it puts more."""
        return self._waiting_bytes >= self._most_bytes

    def put(
        self,
        topic: str,
        value: Content | None,
        key: Content | None,
        partition: int | None,
        headers: Headers,
        timestamp_ms: int | None,
    ) -> tuple[Chunk, int, int]:
        """Enqueue a record; returns its chunk, its place there, and its timestamp. Raises
        ProducerClosed, and TypeError for arguments of wrong types."""
        if not (
            (value is None or isinstance(value, bytes))
            and (key is None or isinstance(key, bytes))
            and (partition is None or isinstance(partition, int))
            and (timestamp_ms is None or isinstance(timestamp_ms, int))
            and not headers
        ):
            value, key, headers = checked(value, key, partition, headers, timestamp_ms)
        if timestamp_ms is None:
            timestamp_ms = int(_now() * 1000)
        if key is None and not headers:
            size = RECORD_OVERHEAD_BYTES + (len(value) if value is not None else 0)
        else:
            size = size_of(key, value, headers)
        if key is None and partition is None and size <= self._most_plain_bytes:
            chosen = STICKY
        else:
            chosen = self._producer.partition_for(topic, key, partition, size)
        record: Any = (timestamp_ms, key, value, headers)  # a tuple, also when compiled
        with self._lock:
            chunks = self._open.get(topic)
            chunk = None if chunks is None else chunks.get(chosen)
            if chunk is None or chunk.size + size > chunk.room:
                chunk = self._begin(topic, chosen)
            records: list[Any] = chunk.records
            place = len(records)
            records.append(record)
            while records[place] is not record:  # a signal handler has put others
                place += 1
            if chosen == EACH:
                chunk.partitions[place] = partition
            chunk.size += size
            self._waiting_bytes += size
        if not self._is_awake:
            self._is_awake = True
            self._trio_thread.run_soon(self._wake)
        return chunk, place, timestamp_ms

    def _begin(self, topic: str, partition: int) -> Chunk:
        """Begin a chunk, with the lock; the one before takes no more records."""
        if self._has_ended:
            raise _closed()
        chunks = self._open.get(topic)
        if chunks is None:
            chunks = self._open[topic] = {}
        elif partition in chunks:  # a full one waits
            if not self._is_hurried:
                self._is_hurried = True
                self._trio_thread.run_soon(self._hurry)
        elif partition < 0 or STICKY in chunks or EACH in chunks:
            chunks.clear()
        chunk = chunks[partition] = Chunk(topic, partition, self._report)
        room = self._rooms.pop((topic, partition), 0)
        chunk.room = room if room > self._full_bytes // 8 else self._full_bytes
        self._chunks.append(chunk)
        return chunk

    # In the trio thread

    def _wake(self) -> None:
        self._woken.set()

    def _hurry(self) -> None:
        self._hurried.set()

    async def run(self) -> None:
        """Hand records over until it is cancelled; those that are left then fail."""
        try:
            while True:
                self._is_hurried = False
                self._hurried = trio.Event()
                passed, self._passed = self._passed, []
                had_records = await self._hand_over()
                for event in passed:
                    event.set()
                if self._is_hurried or self._passed:
                    continue
                if had_records and self._nap_seconds:
                    with trio.move_on_after(self._nap_seconds):
                        await self._hurried.wait()
                    continue
                self._woken = trio.Event()
                self._is_awake = False
                if not self._chunks:
                    await self._woken.wait()
                self._is_awake = True
        finally:
            self._end()

    async def _hand_over(self) -> bool:
        """Hand over all records put before; False if there were none."""
        with self._lock:
            chunks, self._chunks = self._chunks, []
            self._open.clear()
        for number, chunk in enumerate(chunks):
            size = chunk.size
            try:
                self._refused += await self._producer.enqueue_chunk(chunk)
            except BaseException:  # a cancellation, perhaps in a group
                for left in chunks[number:]:
                    left.fail(_closed(), len(left.records))
                raise
            chunk.records = []
            with self._lock:
                self._waiting_bytes -= size
                self._rooms[chunk.topic, chunk.partition] = chunk.room
        return bool(chunks)

    def _end(self) -> None:
        with self._lock:
            self._has_ended = True
            chunks, self._chunks = self._chunks, []
            self._open.clear()
        for chunk in chunks:
            chunk.fail(_closed(), len(chunk.records))
        for event in self._passed:
            event.set()

    async def until_empty(self) -> None:
        """Wait until all records put before are in the producer, or have failed."""
        if self._has_ended:
            return
        passed = trio.Event()
        self._passed.append(passed)
        self._hurried.set()
        self._woken.set()
        await passed.wait()

    def take_failure(self) -> BaseException | None:
        """The first error since the last call of a record that the producer did not take, unless
        the application has seen it. Any thread may call."""
        while self._refused:
            refusal = self._refused.popleft()
            if not refusal.is_known:
                self._refused.clear()
                return refusal.error
        return None


def _closed() -> ProducerClosed:
    return ProducerClosed("the producer has ended")
