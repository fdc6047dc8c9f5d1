"""The producer and the consumer for threads without a loop: scripts, notebooks, Django, Celery.

    with BlockingProducer("localhost:9092") as producer:
        producer.send("orders", b"a book")

    with BlockingConsumer("localhost:9092", group_id="billing") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer: ...

They have the methods, settings and promises of `Producer` and `Consumer`, which run in a thread
with a trio loop; a call blocks until that one has its result. Any number of threads may use a
producer; a consumer is for one thread at a time, as Kafka's is. Ctrl-C interrupts a call as a
cancellation does.

Left out: an open `Cluster` instead of bootstrap servers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

import trio

from ...protocol.topics import TopicPartition
from ..consumer.commits import Offsets as Commits
from ..consumer.consumer import MAX_BATCH_RECORDS, Consumer
from ..consumer.deliveries import RetryPolicy
from ..consumer.group_work import Callback
from ..consumer.received import Received, ReceivedBatch
from ..errors import ClientError
from .ack_mode import AckDesk, HostedAck
from .blocking_calls import HostedBlock, passed_on, passed_on_at_once, result_of
from .host import Host

R = TypeVar("R")

PlainCallback = Callable[[list[TopicPartition]], None]


class BlockingAck(HostedAck):
    """A record to acknowledge by `ack`, or to reject by `fail`, after which it is delivered
    again; any thread may call them."""

    __slots__ = ()

    def fail(self) -> bool:
        """As `Delivery.fail`."""
        return result_of(self._desk.fail(self._delivery))


class BlockingConsumer(HostedBlock[Consumer]):
    """`Consumer` for a thread: the same arguments, but a `Cluster`."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._host = Host(Consumer(bootstrap, **options))
        self._desk = AckDesk(self._host)
        # What a waiting call has to do: callbacks to run, futures that are done.
        self._inbox: SimpleQueue[Callable[[], None] | Future[Any]] = SimpleQueue()
        self._user = threading.RLock()

    def _wait(self, future: Future[R]) -> R:
        """Wait for a call, and run the callbacks that it asks for. Raises ClientError if another
        thread waits for one."""
        if not self._user.acquire(blocking=False):
            future.cancel()
            raise ClientError("a BlockingConsumer is for one thread at a time")
        try:
            future.add_done_callback(self._inbox.put)
            # Up to the future itself: the callbacks before it belong to what it has waited for.
            while (asked := self._inbox.get()) is not future:
                if not isinstance(asked, Future):
                    asked()
            return future.result()
        except BaseException:
            future.cancel()
            raise
        finally:
            self._user.release()

    # Subscription and assignment

    def subscribe(
        self,
        topics: Any,
        *,
        on_assigned: PlainCallback | None = None,
        on_revoked: PlainCallback | None = None,
        on_lost: PlainCallback | None = None,
    ) -> None:
        """As `Consumer.subscribe`; the callbacks are plain functions, and run in the thread that
        asks for records."""
        host = self._host
        callbacks = {
            name: self._in_caller(callback)
            for name, callback in (
                ("on_assigned", on_assigned), ("on_revoked", on_revoked), ("on_lost", on_lost),
            )
            if callback is not None
        }  # fmt: skip
        self._wait(host.call(host.client.subscribe, topics, **callbacks))

    def _in_caller(self, callback: PlainCallback) -> Callback:
        """A callback for the trio thread that has one run by the thread that waits for a call."""

        async def run(partitions: list[TopicPartition]) -> None:
            done = trio.Event()
            outcome: Future[None] = Future()
            outcome.add_done_callback(lambda _: self._host.thread.run_soon(done.set))

            def call() -> None:
                if outcome.set_running_or_notify_cancel():
                    try:
                        callback(partitions)
                    except BaseException as error:
                        outcome.set_exception(error)
                    else:
                        outcome.set_result(None)

            self._inbox.put(call)
            try:
                await done.wait()
            except trio.Cancelled:
                outcome.cancel()
                raise
            outcome.result()

        return run

    assign = passed_on(Consumer.assign)
    unsubscribe = passed_on(Consumer.unsubscribe)

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """As `Consumer.assignment`."""
        return self._value(lambda consumer: consumer.assignment)

    # Records

    def __iter__(self) -> Iterator[Received]:
        """As `Consumer.__aiter__`."""
        consumer = self._host.client
        progress = consumer.progress
        while True:
            batch = self._next_batch(consumer.options.max_poll_records, None)
            assert batch is not None
            for record in batch:
                if progress.batch is not batch:  # the application sought elsewhere
                    break
                progress.last_offset = record.offset
                yield record

    def batches(self) -> Iterator[ReceivedBatch]:
        """As `Consumer.batches`."""
        while True:
            batch = self._next_batch(MAX_BATCH_RECORDS, None)
            assert batch is not None
            self._host.client.progress.hold_all(batch)
            yield batch

    def poll(self, timeout_seconds: float = 0.0, max_records: int | None = None) -> list[Received]:
        """As `Consumer.poll`."""
        consumer = self._host.client
        limit = consumer.options.max_poll_records if max_records is None else max_records
        batch = self._next_batch(limit, timeout_seconds)
        if batch is None:
            return []
        consumer.progress.hold_all(batch)
        return list(batch)

    def deliveries(
        self, *, max_unacknowledged: int = 10_000, retry: RetryPolicy | None = None
    ) -> Iterator[BlockingAck]:
        """As `Consumer.deliveries`; other threads may answer, one asks for more."""
        desk = self._desk
        while True:
            delivery = desk.take()
            if delivery is None:
                self._wait(desk.fetch(max_unacknowledged, retry))
            else:
                yield BlockingAck(desk, delivery)

    def _next_batch(self, limit: int, timeout_seconds: float | None) -> ReceivedBatch | None:
        """The next batch; one that an interrupted call has not received comes again."""
        host = self._host
        return self._wait(host.call_in_turn(host.client.polling.next_batch, limit, timeout_seconds))

    # Positions

    position = passed_on_at_once(Consumer.position)
    seek = passed_on_at_once(Consumer.seek)
    seek_to_timestamp = passed_on(Consumer.seek_to_timestamp)
    seek_to_beginning = passed_on(Consumer.seek_to_beginning)
    seek_to_end = passed_on(Consumer.seek_to_end)
    pause = passed_on_at_once(Consumer.pause)
    resume = passed_on_at_once(Consumer.resume)
    lag = passed_on_at_once(Consumer.lag)
    metrics = passed_on_at_once(Consumer.metrics)
    group_metadata = passed_on_at_once(Consumer.group_metadata)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """As `Consumer.paused`."""
        return self._value(lambda consumer: consumer.paused)

    def _value(self, of: Callable[[Consumer], R]) -> R:
        return self._wait(self._host.call_at_once(of, self._host.client))

    # Offsets of logs, and commits

    offsets_at = passed_on(Consumer.offsets_at)
    beginning_offsets = passed_on(Consumer.beginning_offsets)
    end_offsets = passed_on(Consumer.end_offsets)
    commit = passed_on(Consumer.commit)
    committed = passed_on(Consumer.committed)

    def commit_soon(
        self,
        offsets: Commits | None = None,
        on_done: Callable[[ClientError | None], None] | None = None,
    ) -> None:
        """As `Consumer.commit_soon`; `on_done` runs in a later call of this consumer."""
        told = None if on_done is None else self._later(on_done)
        self._value(lambda consumer: consumer.commit_soon(offsets, told))

    def _later(
        self, on_done: Callable[[ClientError | None], None]
    ) -> Callable[[ClientError | None], None]:
        return lambda error: self._inbox.put(lambda: on_done(error))
