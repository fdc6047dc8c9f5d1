"""The producer for asyncio, see `asyncio_consumer`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from types import TracebackType
from typing import Any, Self

from ...protocol.records.record import Headers, SimpleRecord
from ..errors import ClientError
from ..producer import Producer
from ..producer.chunk import Chunk, Watcher
from ..producer.completion import ProducerMetrics
from ..producer.coordination import GroupMetadata, Offsets
from ..producer.delivery import RecordMetadata
from ..producer.producer import Content
from .asyncio_calls import close, result_of
from .hosted_producer import HostedProducer
from .outbox import HostedDelivery, Outbox


class AsyncioDelivery(HostedDelivery):
    """An enqueued record: `await delivery` waits until it is acknowledged."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, Any, RecordMetadata]:
        return self.wait().__await__()

    async def wait(self) -> RecordMetadata:
        """Wait until the record is acknowledged; returns its place. Raises ClientError if it
        failed."""
        if not self.is_done:
            await _done(self.chunk, self.place)
        return self.result()


class _Wait:
    """A task that waits for a record."""

    __slots__ = ("chunk", "future", "place")

    def __init__(self, chunk: Chunk, place: int, future: asyncio.Future[None]) -> None:
        self.chunk = chunk
        self.place = place
        self.future = future

    @property
    def is_done(self) -> bool:
        return self.chunk.is_done(self.place)


def _done(chunk: Chunk, place: int) -> asyncio.Future[None]:
    """Completes when the record at a place of a chunk is done."""
    wait = _Wait(chunk, place, asyncio.get_running_loop().create_future())
    chunk.watch(wait)
    return wait.future


class _InTransaction:
    """The block of a transaction."""

    def __init__(self, producer: AsyncioProducer) -> None:
        self._producer = producer

    async def __aenter__(self) -> None:
        await self._producer.begin_transaction()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                await self._producer.commit_transaction()
                return
        except BaseException:
            await self._abort()
            raise
        await self._abort()

    async def _abort(self) -> None:
        with suppress(ClientError):
            await asyncio.shield(self._producer.abort_transaction())


class AsyncioProducer:
    """`Producer` for asyncio: the same arguments, but a `Cluster`."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        self._hosted = HostedProducer(bootstrap, settings, self._report)
        self._outbox: Outbox | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: deque[Watcher] = deque()  # and not completed in the loop yet
        self._will_complete = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        await result_of(self._hosted.host.open())
        self._hosted.start()
        self._outbox = self._hosted.outbox
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                await result_of(self._hosted.until_empty())
            except BaseException as cancelled:
                await close(self._hosted.host, cancelled)
                raise
        await close(self._hosted.host, error)
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
        outbox = self._outbox
        if outbox is None or outbox.is_full:
            delivery = await self.enqueue(
                topic, value, key=key, partition=partition, headers=headers,
                timestamp_ms=timestamp_ms,
            )  # fmt: skip
            return await delivery.wait()
        # The same without a coroutine for each of the two steps, which many senders would pay.
        chunk, place, timestamp = outbox.put(topic, value, key, partition, headers, timestamp_ms)
        await _done(chunk, place)
        return AsyncioDelivery(chunk, place, timestamp).result()

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
        outbox = self._outbox
        if outbox is None:
            outbox = self._hosted.outbox  # raises
        if outbox.is_full:
            await result_of(self._hosted.until_empty())
        chunk, place, timestamp = outbox.put(topic, value, key, partition, headers, timestamp_ms)
        return AsyncioDelivery(chunk, place, timestamp)

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
        return await result_of(self._hosted.prepare(topic))

    async def flush(self) -> None:
        """As `Producer.flush`."""
        await result_of(self._hosted.flush())

    async def metrics(self) -> ProducerMetrics:
        """As `Producer.metrics`."""
        return await result_of(self._hosted.metrics())

    # Transactions

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """As `Producer.transaction`."""
        return _InTransaction(self)

    async def begin_transaction(self) -> None:
        """As `Producer.begin_transaction`."""
        await result_of(self._hosted.begin_transaction())

    async def commit_transaction(self) -> None:
        """As `Producer.commit_transaction`."""
        await result_of(self._hosted.after_records(Producer.commit_transaction))

    async def abort_transaction(self) -> None:
        """As `Producer.abort_transaction`."""
        await result_of(self._hosted.after_records(Producer.abort_transaction))

    async def send_offsets(self, offsets: Offsets, group: GroupMetadata | str) -> None:
        """As `Producer.send_offsets`."""
        host = self._hosted.host
        await result_of(host.call(host.client.send_offsets, offsets, group))

    # Deliveries

    def _report(self, done: list[Watcher]) -> None:
        """In any thread: records that tasks wait for are done."""
        self._done += done
        if not self._will_complete:
            self._will_complete = True
            assert self._loop is not None
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._complete)

    def _complete(self) -> None:
        self._will_complete = False
        while self._done:
            wait = self._done.popleft()
            assert isinstance(wait, _Wait)
            if not wait.future.done():  # or cancelled
                wait.future.set_result(None)
