"""The producer and the consumer for asyncio.

    async with AsyncioProducer("localhost:9092") as producer:
        await producer.send("orders", b"a book")

    async with AsyncioConsumer("localhost:9092", group_id="billing") as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer: ...

They have the methods, settings and promises of `Producer` and `Consumer`, which run in a thread
with a trio loop. Methods that return at once there are awaited here, since they are passed to that
thread. A cancelled call is cancelled there; as with trio, it loses only its own result.

Left out: the ack mode (`Consumer.deliveries`), and an open `Cluster` instead of bootstrap servers.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

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
from ..producer.delivery import RecordMetadata
from ..producer.producer import Content, checked
from .host import C, Host
from .hosted_producer import HostedProducer
from .outbox import LARGE_BYTES, Arguments, HostedDelivery

P = ParamSpec("P")
R = TypeVar("R")


class _Hosted(Generic[C]):
    """A client in the trio thread, and its block in asyncio."""

    _host: Host[C]

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await asyncio.wrap_future(self._host.open())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # The client closes within its limits of time, also if this task is cancelled meanwhile.
        await asyncio.shield(asyncio.wrap_future(self._host.close(error)))


def _passed_on(
    method: Callable[Concatenate[C, P], Awaitable[R]],
) -> Callable[Concatenate[_Hosted[C], P], Coroutine[Any, Any, R]]:
    """A coroutine function that awaits the client's method in the trio thread."""

    @functools.wraps(method)
    async def call(self: _Hosted[C], *arguments: P.args, **keywords: P.kwargs) -> R:
        host = self._host
        return await asyncio.wrap_future(host.call(method, host.client, *arguments, **keywords))

    return cast("Callable[Concatenate[_Hosted[C], P], Coroutine[Any, Any, R]]", call)


def _passed_on_at_once(
    method: Callable[Concatenate[C, P], R],
) -> Callable[Concatenate[_Hosted[C], P], Coroutine[Any, Any, R]]:
    """A coroutine function that calls the client's method in the trio thread."""

    @functools.wraps(method)
    async def call(self: _Hosted[C], *arguments: P.args, **keywords: P.kwargs) -> R:
        host = self._host
        future = host.call_at_once(method, host.client, *arguments, **keywords)
        return await asyncio.wrap_future(future)

    return cast("Callable[Concatenate[_Hosted[C], P], Coroutine[Any, Any, R]]", call)


class AsyncioDelivery(HostedDelivery):
    """An enqueued record: `await delivery` waits until it is acknowledged."""

    __slots__ = ("_producer", "waiter")

    def __init__(self, arguments: Arguments, producer: AsyncioProducer) -> None:
        super().__init__(arguments)
        self._producer = producer
        self.waiter: asyncio.Future[None] | None = None

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return self.wait().__await__()

    async def wait(self) -> RecordMetadata:
        """Wait until the record is acknowledged; returns its place. Raises ClientError if it
        failed."""
        if not self.is_done:
            await asyncio.shield(self.waiter or self._producer.watch(self))
        return self.result()


class AsyncioProducer(_Hosted[Producer]):
    """`Producer` for asyncio: the same arguments, but a `Cluster`."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        self._hosted = HostedProducer(bootstrap, settings, self._report)
        self._host = self._hosted.host
        self._done: list[AsyncioDelivery] = []  # and watched, not completed in the loop yet

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._hosted.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                await asyncio.wrap_future(self._hosted.until_empty())
            except BaseException as cancelled:
                await super().__aexit__(type(cancelled), cancelled, cancelled.__traceback__)
                raise
        await super().__aexit__(kind, error, trace)
        if error is None and (failure := self._hosted.outbox.take_failure()) is not None:
            raise failure

    # Records

    async def send(
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
        delivery = await self.enqueue(
            topic, value, key=key, partition=partition, headers=headers, timestamp_ms=timestamp_ms
        )
        return await delivery.wait()

    async def enqueue(
        self,
        topic: str,
        value: Content | None,
        *,
        key: Content | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> AsyncioDelivery:
        """As `Producer.enqueue`, but does not wait for metadata: a record that the producer does
        not take, since there is no such topic or no room, fails in its delivery."""
        is_plain = isinstance(value, bytes) and key is None and partition is None
        if not is_plain or headers or timestamp_ms is not None:
            value, key, headers = checked(value, key, partition, headers, timestamp_ms)
        hosted = self._hosted
        outbox = hosted.outbox
        if outbox.is_full or (value is not None and len(value) > LARGE_BYTES):
            await asyncio.wrap_future(hosted.until_empty())
        delivery = AsyncioDelivery((topic, value, key, partition, headers, timestamp_ms), self)
        outbox.put(delivery)
        return delivery

    async def send_all(self, topic: str, records: Iterable[SimpleRecord]) -> list[RecordMetadata]:
        """As `Producer.send_all`."""
        deliveries = [
            await self.enqueue(
                topic, record.value, key=record.key, headers=record.headers,
                timestamp_ms=record.timestamp,
            )
            for record in records
        ]  # fmt: skip
        with suppress(ClientError):  # the first delivery that failed raises
            await self.flush()
        return [await delivery.wait() for delivery in deliveries]

    async def prepare(self, topic: str) -> int:
        """As `Producer.prepare`."""
        return await asyncio.wrap_future(self._hosted.prepare(topic))

    async def flush(self) -> None:
        """As `Producer.flush`."""
        await asyncio.wrap_future(self._hosted.flush())

    async def metrics(self) -> ProducerMetrics:
        """As `Producer.metrics`."""
        return await asyncio.wrap_future(self._hosted.metrics())

    # Transactions

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """As `Producer.transaction`."""
        await self.begin_transaction()
        try:
            yield
            await self.commit_transaction()
        except BaseException:
            with suppress(ClientError):
                await asyncio.shield(self.abort_transaction())
            raise

    async def begin_transaction(self) -> None:
        """As `Producer.begin_transaction`."""
        await asyncio.wrap_future(self._hosted.begin_transaction())

    async def commit_transaction(self) -> None:
        """As `Producer.commit_transaction`."""
        await asyncio.wrap_future(self._hosted.after_records(Producer.commit_transaction))

    async def abort_transaction(self) -> None:
        """As `Producer.abort_transaction`."""
        await asyncio.wrap_future(self._hosted.after_records(Producer.abort_transaction))

    send_offsets = _passed_on(Producer.send_offsets)

    # Deliveries

    def watch(self, delivery: AsyncioDelivery) -> asyncio.Future[None]:
        """A future that is done when the delivery is."""
        waiter = delivery.waiter = self._loop.create_future()
        delivery.is_watched = True
        self._hosted.outbox.put(delivery)
        return waiter

    def _report(self, delivery: HostedDelivery) -> None:
        """In the trio thread: a watched delivery is done."""
        assert isinstance(delivery, AsyncioDelivery)
        self._done.append(delivery)
        if len(self._done) == 1:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._complete)

    def _complete(self) -> None:
        done, self._done = self._done, []
        for delivery in done:
            if delivery.waiter is not None and not delivery.waiter.done():
                delivery.waiter.set_result(None)


class AsyncioConsumer(_Hosted[Consumer]):
    """`Consumer` for asyncio: the same arguments, but a `Cluster`."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._host = Host(Consumer(bootstrap, **options))

    # Subscription and assignment

    async def subscribe(
        self,
        topics: Any,
        *,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """As `Consumer.subscribe`; the callbacks run in this loop."""
        host = self._host
        callbacks = {
            name: self._in_loop(callback)
            for name, callback in (
                ("on_assigned", on_assigned), ("on_revoked", on_revoked), ("on_lost", on_lost),
            )
            if callback is not None
        }  # fmt: skip
        await asyncio.wrap_future(host.call(host.client.subscribe, topics, **callbacks))

    def _in_loop(self, callback: Callback) -> Callback:
        """A callback for the trio thread that awaits one in this loop."""

        async def run(partitions: list[TopicPartition]) -> None:
            done = trio.Event()
            future = asyncio.run_coroutine_threadsafe(_awaiting(callback, partitions), self._loop)
            future.add_done_callback(lambda _: self._host.thread.run_soon(done.set))
            try:
                await done.wait()
            except trio.Cancelled:
                future.cancel()
                raise
            future.result()

        return run

    assign = _passed_on(Consumer.assign)
    unsubscribe = _passed_on(Consumer.unsubscribe)

    async def assignment(self) -> frozenset[TopicPartition]:
        """As `Consumer.assignment`."""
        return await self._value(lambda consumer: consumer.assignment)

    # Records

    async def __aiter__(self) -> AsyncIterator[Received]:
        """As `Consumer.__aiter__`."""
        consumer = self._host.client
        progress = consumer.progress
        while True:
            batch = await self._next_batch(consumer.options.max_poll_records, None)
            assert batch is not None
            for record in batch:
                if progress.batch is not batch:  # the application sought elsewhere
                    break
                progress.last_offset = record.offset
                yield record

    async def batches(self) -> AsyncIterator[ReceivedBatch]:
        """As `Consumer.batches`."""
        while True:
            batch = await self._next_batch(MAX_BATCH_RECORDS, None)
            assert batch is not None
            self._host.client.progress.hold_all(batch)
            yield batch

    async def poll(
        self, timeout_seconds: float = 0.0, max_records: int | None = None
    ) -> list[Received]:
        """As `Consumer.poll`."""
        consumer = self._host.client
        limit = consumer.options.max_poll_records if max_records is None else max_records
        batch = await self._next_batch(limit, timeout_seconds)
        if batch is None:
            return []
        consumer.progress.hold_all(batch)
        return list(batch)

    async def _next_batch(self, limit: int, timeout_seconds: float | None) -> ReceivedBatch | None:
        """The next batch; one that a cancelled call has not received comes again."""
        host = self._host
        future = host.call_in_turn(host.client.polling.next_batch, limit, timeout_seconds)
        return await asyncio.wrap_future(future)

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

    async def paused(self) -> frozenset[TopicPartition]:
        """As `Consumer.paused`."""
        return await self._value(lambda consumer: consumer.paused)

    async def _value(self, of: Callable[[Consumer], R]) -> R:
        return await asyncio.wrap_future(self._host.call_at_once(of, self._host.client))

    # Offsets of logs, and commits

    offsets_at = _passed_on(Consumer.offsets_at)
    beginning_offsets = _passed_on(Consumer.beginning_offsets)
    end_offsets = _passed_on(Consumer.end_offsets)
    commit = _passed_on(Consumer.commit)
    committed = _passed_on(Consumer.committed)

    async def commit_soon(
        self,
        offsets: Commits | None = None,
        on_done: Callable[[ClientError | None], None] | None = None,
    ) -> None:
        """As `Consumer.commit_soon`; `on_done` is called in this loop."""

        def told(error: ClientError | None) -> None:
            assert on_done is not None
            self._loop.call_soon_threadsafe(on_done, error)

        host = self._host
        callback = None if on_done is None else told
        future = host.call_at_once(host.client.commit_soon, offsets, callback)
        await asyncio.wrap_future(future)


async def _awaiting(callback: Callback, partitions: list[TopicPartition]) -> None:
    await callback(partitions)
