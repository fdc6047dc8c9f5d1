"""Records from another thread on their way to the producer, in the order of the calls.

The caller appends a record and goes on; a task in the trio thread takes all records that are there
and enqueues them, so that the threads meet once for many records. A record's `HostedDelivery` then
has the producer's delivery, and is done when that one is.

Invariants: records are enqueued in the order of `put`. Callers that respect `is_full` and wait for
large records keep its memory within MOST_QUEUED * LARGE_BYTES. Each watched delivery is reported,
perhaps twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import trio

from ...protocol.records.record import Headers
from ..errors import ClientError, ProducerClosed
from ..producer import Producer
from ..producer.delivery import Delivery, RecordMetadata
from ..producer.producer import Content
from .trio_thread import TrioThread

MOST_QUEUED: Final = 2_000  # records
MOST_REFUSED: Final = 100  # records that `flush` looks at
LARGE_BYTES: Final = 16 * 1024  # of a value: its caller waits until the producer has it

# topic, value, key, partition, headers, timestamp
Arguments = tuple[str, Content | None, Content | None, int | None, Headers, int | None]


class HostedDelivery:
    """A record on its way to the producer, or in it; see the subclasses."""

    __slots__ = ("_error", "arguments", "delivery", "is_error_known", "is_watched")

    def __init__(self, arguments: Arguments) -> None:
        self.arguments: Arguments | None = arguments  # until the producer has the record
        self.delivery: Delivery | None = None  # from then on
        self._error: BaseException | None = None  # of a record that the producer did not take
        self.is_error_known = False  # the application has seen it
        self.is_watched = False  # it is reported when it is done

    def fail(self, error: BaseException) -> None:
        """The producer does not take the record."""
        self._error = error

    @property
    def unknown_error(self) -> BaseException | None:
        """The error, if the application has not seen it."""
        return None if self.is_error_known else self._error

    @property
    def is_done(self) -> bool:
        """Whether the record is acknowledged, or has failed."""
        delivery = self.delivery
        return self._error is not None or (delivery is not None and delivery.is_done)

    def result(self) -> RecordMetadata:
        """The place of a record that is done. Raises ClientError if it failed."""
        if self._error is not None:
            self.is_error_known = True
            raise self._error
        if self.delivery is None:
            raise ClientError("the record is not acknowledged yet: wait for its delivery")
        return self.delivery.result()


class Outbox:
    def __init__(self, thread: TrioThread, report: Callable[[HostedDelivery], None]) -> None:
        self._thread = thread
        self._report = report  # called in the trio thread for a watched delivery that is done
        # Records, deliveries to watch, and events to set, in the order of the calls.
        self._queued: deque[HostedDelivery | trio.Event] = deque()
        self._is_woken = False
        self._woken: trio.Event | None = None  # made in the trio thread
        self._refused: deque[HostedDelivery] = deque(maxlen=MOST_REFUSED)  # by the producer
        self._has_ended = False

    # From outside

    @property
    def is_full(self) -> bool:
        """Whether the caller has to wait until it is empty before it puts more."""
        return len(self._queued) >= MOST_QUEUED

    def put(self, delivery: HostedDelivery) -> None:
        """Enqueue a record; or, of a delivery that was put before, report when it is done.

        Raises ProducerClosed.
        """
        if self._has_ended:
            raise _closed()
        self._queued.append(delivery)
        if self._has_ended:  # just now
            self._fail_all()
        if not self._is_woken:
            self._is_woken = True
            self._thread.run_soon(self._wake)

    # In the trio thread

    def _wake(self) -> None:
        self._is_woken = False
        if self._woken is not None:
            self._woken.set()

    async def run(self, producer: Producer) -> None:
        """Enqueue records until it is cancelled; those that are left then fail."""
        self._woken = trio.Event()
        try:
            while True:
                await self._take_all(producer)
                await self._woken.wait()
                self._woken = trio.Event()
        finally:
            self._has_ended = True
            self._fail_all()

    def _fail_all(self) -> None:
        with suppress(IndexError):
            while True:
                left = self._queued.popleft()
                if isinstance(left, trio.Event):
                    left.set()
                elif not left.is_done:
                    left.fail(_closed())
                    self._watch(left)

    async def _take_all(self, producer: Producer) -> None:
        queued = self._queued
        while queued:
            item = queued.popleft()
            if isinstance(item, trio.Event):
                item.set()
                continue
            arguments = item.arguments
            if arguments is not None:
                item.arguments = None
                topic, value, key, partition, headers, timestamp_ms = arguments
                try:
                    item.delivery = await producer.enqueue(
                        topic, value, key=key, partition=partition, headers=headers,
                        timestamp_ms=timestamp_ms,
                    )  # fmt: skip
                except Exception as error:
                    item.fail(error)
                    self._refused.append(item)
                except BaseException:  # a cancellation, perhaps in a group
                    item.fail(_closed())
                    self._watch(item)
                    raise
            if item.is_watched:
                self._watch(item)

    def _watch(self, item: HostedDelivery) -> None:
        if not item.is_watched:
            return
        if item.is_done:
            self._report(item)
        elif item.delivery is not None:
            item.delivery.current_batch.watchers.append(lambda: self._watch(item))

    async def until_empty(self) -> None:
        """Wait until all records put before are in the producer, or have failed."""
        if self._has_ended:
            return
        passed = trio.Event()
        self._queued.append(passed)
        self._wake()
        await passed.wait()

    def take_failure(self) -> BaseException | None:
        """The first error since the last call of a record that the producer did not take, unless
        the application has seen it. Any thread may call."""
        while self._refused:
            error = self._refused.popleft().unknown_error
            if error is not None:
                self._refused.clear()
                return error
        return None


def _closed() -> ProducerClosed:
    return ProducerClosed("the producer has ended")
