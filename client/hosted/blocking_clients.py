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

Left out: the ack mode (`Consumer.deliveries`), and an open `Cluster` instead of bootstrap servers.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar, cast

import trio

from ...protocol.records.record import Headers, SimpleRecord
from ...protocol.topics import TopicPartition
from ..consumer.commits import Offsets as Commits
from ..consumer.consumer import MAX_BATCH_RECORDS, Consumer
from ..consumer.group_work import Callback
from ..consumer.received import Received, ReceivedBatch
from ..errors import ClientError
from ..producer import Producer
from ..producer.completion import ProducerMetrics
from ..producer.coordination import GroupMetadata, Offsets
from ..producer.delivery import RecordMetadata
from ..producer.producer import Content, checked
from .host import Host
from .hosted_producer import HostedProducer
from .outbox import LARGE_BYTES, Arguments, HostedDelivery, Outbox

P = ParamSpec("P")
R = TypeVar("R")

_waiting: Final = threading.Lock()

PlainCallback = Callable[[list[TopicPartition]], None]


def result_of(future: Future[R]) -> R:
    """Wait for the result; an interruption cancels the call."""
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


class BlockingDelivery(HostedDelivery):
    """An enqueued record: `delivery.wait()` waits until it is acknowledged."""

    __slots__ = ("_outcome", "_producer")

    def __init__(self, arguments: Arguments, producer: BlockingProducer) -> None:
        super().__init__(arguments)
        self._producer = producer
        self._outcome: Future[None] | None = None

    def wait(self, timeout_seconds: float | None = None) -> RecordMetadata:
        """Wait until the record is acknowledged; returns its place. Raises ClientError if it
        failed, and TimeoutError after the timeout."""
        if not self.is_done:
            with _waiting:  # several threads may wait for one delivery
                outcome = self._outcome
                if outcome is None:
                    outcome = self._outcome = Future()
                    self.is_watched = True
                    self._producer.outbox.put(self)
            outcome.result(timeout_seconds)
        return self.result()

    def complete(self) -> None:
        """In the trio thread: the delivery is done."""
        outcome = self._outcome
        if outcome is not None and not outcome.done():
            outcome.set_result(None)


class BlockingProducer:
    """`Producer` for threads: the same arguments, but a `Cluster`."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        self._hosted = HostedProducer(bootstrap, settings, _complete)

    def open(self) -> Self:
        """Begin the block without `with`, as a notebook does; then call `close`. Raises
        ClientError."""
        result_of(self._hosted.host.open())
        self._hosted.start()
        return self

    def close(self) -> None:
        """Wait for all enqueued records, and end the block of `open`. Raises ClientError."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        hosted = self._hosted
        try:
            if error is None:
                result_of(hosted.until_empty())
        except BaseException as interruption:
            error = interruption
            raise
        finally:
            hosted.host.close(error).result()
        if error is None and (failure := hosted.outbox.take_failure()) is not None:
            raise failure

    @property
    def outbox(self) -> Outbox:
        """Of its deliveries. Raises ClientError outside of the block."""
        return self._hosted.outbox

    # Records

    def send(
        self,
        topic: str,
        value: Content | None,
        *,
        key: Content | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """As `Producer.send`."""
        delivery = self.enqueue(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )
        return delivery.wait()

    def enqueue(
        self,
        topic: str,
        value: Content | None,
        *,
        key: Content | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> BlockingDelivery:
        """As `Producer.enqueue`, but does not wait for metadata: a record that the producer does
        not take, since there is no such topic or no room, fails in its delivery."""
        is_plain = isinstance(value, bytes) and key is None and partition is None
        if not is_plain or headers or timestamp_ms is not None:
            value, key, headers = checked(value, key, partition, headers, timestamp_ms)
        hosted = self._hosted
        outbox = hosted.outbox
        if outbox.is_full or (value is not None and len(value) > LARGE_BYTES):
            result_of(hosted.until_empty())
        delivery = BlockingDelivery((topic, value, key, partition, headers, timestamp_ms), self)
        outbox.put(delivery)
        return delivery

    def send_all(self, topic: str, records: Iterable[SimpleRecord]) -> list[RecordMetadata]:
        """As `Producer.send_all`."""
        deliveries = [
            self.enqueue(
                topic, record.value, key=record.key, headers=record.headers,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]  # fmt: skip
        with suppress(ClientError):  # the first delivery that failed raises
            self.flush()
        return [delivery.wait() for delivery in deliveries]

    def prepare(self, topic: str) -> int:
        """As `Producer.prepare`."""
        return result_of(self._hosted.prepare(topic))

    def flush(self) -> None:
        """As `Producer.flush`."""
        result_of(self._hosted.flush())

    @property
    def metrics(self) -> ProducerMetrics:
        """As `Producer.metrics`."""
        return result_of(self._hosted.metrics())

    # Transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """As `Producer.transaction`."""
        self.begin_transaction()
        try:
            yield
            self.commit_transaction()
        except BaseException:
            with suppress(ClientError):
                self.abort_transaction()
            raise

    def begin_transaction(self) -> None:
        """As `Producer.begin_transaction`."""
        result_of(self._hosted.begin_transaction())

    def commit_transaction(self) -> None:
        """As `Producer.commit_transaction`."""
        result_of(self._hosted.after_records(Producer.commit_transaction))

    def abort_transaction(self) -> None:
        """As `Producer.abort_transaction`."""
        result_of(self._hosted.after_records(Producer.abort_transaction))

    def send_offsets(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        """As `Producer.send_offsets`."""
        host = self._hosted.host
        result_of(host.call(host.client.send_offsets, offsets, group))


def _complete(delivery: HostedDelivery) -> None:
    assert isinstance(delivery, BlockingDelivery)
    delivery.complete()


def _passed_on(
    method: Callable[Concatenate[Consumer, P], Awaitable[R]],
) -> Callable[Concatenate[BlockingConsumer, P], R]:
    """A method that waits for the consumer's one in the trio thread."""

    @functools.wraps(method)
    def call(self: BlockingConsumer, *arguments: P.args, **keywords: P.kwargs) -> R:
        host = self._host
        return self._wait(host.call(method, host.client, *arguments, **keywords))

    return cast("Callable[Concatenate[BlockingConsumer, P], R]", call)


def _passed_on_at_once(
    method: Callable[Concatenate[Consumer, P], R],
) -> Callable[Concatenate[BlockingConsumer, P], R]:
    """A method that calls the consumer's one in the trio thread."""

    @functools.wraps(method)
    def call(self: BlockingConsumer, *arguments: P.args, **keywords: P.kwargs) -> R:
        host = self._host
        return self._wait(host.call_at_once(method, host.client, *arguments, **keywords))

    return cast("Callable[Concatenate[BlockingConsumer, P], R]", call)


class BlockingConsumer:
    """`Consumer` for a thread: the same arguments, but a `Cluster`."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._host = Host(Consumer(bootstrap, **options))
        # What a waiting call has to do: callbacks to run, futures that are done.
        self._inbox: SimpleQueue[Callable[[], None] | Future[Any]] = SimpleQueue()
        self._user = threading.RLock()

    def open(self) -> Self:
        """Begin the block without `with`, as a notebook does; then call `close`. Raises
        ClientError."""
        result_of(self._host.open())
        return self

    def close(self) -> None:
        """Commit and leave the group: end the block of `open`. Raises ClientError."""
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._wait(self._host.close(error))

    def _wait(self, future: Future[R]) -> R:
        """Wait for a call, and run the callbacks that it asks for. Raises ClientError if another
        thread waits for one."""
        if not self._user.acquire(blocking=False):
            future.cancel()
            raise ClientError("a BlockingConsumer is for one thread at a time")
        try:
            future.add_done_callback(self._inbox.put)
            while not future.done():
                asked = self._inbox.get()
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

    assign = _passed_on(Consumer.assign)
    unsubscribe = _passed_on(Consumer.unsubscribe)

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

    def _next_batch(self, limit: int, timeout_seconds: float | None) -> ReceivedBatch | None:
        """The next batch; one that an interrupted call has not received comes again."""
        host = self._host
        return self._wait(host.call_in_turn(host.client.polling.next_batch, limit, timeout_seconds))

    # Positions

    position = _passed_on_at_once(Consumer.position)
    seek = _passed_on_at_once(Consumer.seek)
    seek_to_timestamp = _passed_on(Consumer.seek_to_timestamp)
    seek_to_beginning = _passed_on(Consumer.seek_to_beginning)
    seek_to_end = _passed_on(Consumer.seek_to_end)
    pause = _passed_on_at_once(Consumer.pause)
    resume = _passed_on_at_once(Consumer.resume)
    lag = _passed_on_at_once(Consumer.lag)
    metrics = _passed_on_at_once(Consumer.metrics)
    group_metadata = _passed_on_at_once(Consumer.group_metadata)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """As `Consumer.paused`."""
        return self._value(lambda consumer: consumer.paused)

    def _value(self, of: Callable[[Consumer], R]) -> R:
        return self._wait(self._host.call_at_once(of, self._host.client))

    # Offsets of logs, and commits

    offsets_at = _passed_on(Consumer.offsets_at)
    beginning_offsets = _passed_on(Consumer.beginning_offsets)
    end_offsets = _passed_on(Consumer.end_offsets)
    commit = _passed_on(Consumer.commit)
    committed = _passed_on(Consumer.committed)

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
