"""The producer and the consumer for asyncio.

    async with AsyncioProducer("localhost:9092") as producer:
        await producer.send("orders", b"a book")

    async with AsyncioConsumer("localhost:9092", group_id="billing") as consumer:
        await consumer.subscribe(["orders"])
        async for record in consumer: ...

They have the methods, settings and promises of `Producer` and `Consumer`, which run in a thread
with a trio loop. Methods that return at once there are awaited here, since they are passed to that
thread. A cancelled call is cancelled there; as with trio, it loses only its own result.

Left out: an open `Cluster` instead of bootstrap servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
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
from .asyncio_calls import Hosted, passed_on, passed_on_at_once, result_of
from .host import Host

R = TypeVar("R")


class AsyncioAck(HostedAck):
    """A record to acknowledge by `ack`, or to reject by `await delivery.fail()`, after which it is
    delivered again."""

    __slots__ = ()

    async def fail(self) -> bool:
        """As `Delivery.fail`."""
        return await result_of(self._desk.fail(self._delivery))


class AsyncioConsumer(Hosted[Consumer]):
    """`Consumer` for asyncio: the same arguments, but a `Cluster`."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._host = Host(Consumer(bootstrap, **options))
        self._desk = AckDesk(self._host)

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
        await result_of(host.call(host.client.subscribe, topics, **callbacks))

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

    assign = passed_on(Consumer.assign)
    unsubscribe = passed_on(Consumer.unsubscribe)

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

    async def deliveries(
        self, *, max_unacknowledged: int = 10_000, retry: RetryPolicy | None = None
    ) -> AsyncIterator[AsyncioAck]:
        """As `Consumer.deliveries`."""
        desk = self._desk
        while True:
            delivery = desk.take()
            if delivery is None:
                await result_of(desk.fetch(max_unacknowledged, retry))
            else:
                yield AsyncioAck(desk, delivery)

    async def _next_batch(self, limit: int, timeout_seconds: float | None) -> ReceivedBatch | None:
        """The next batch; one that a cancelled call has not received comes again."""
        host = self._host
        future = host.call_in_turn(host.client.polling.next_batch, limit, timeout_seconds)
        return await result_of(future)

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

    async def paused(self) -> frozenset[TopicPartition]:
        """As `Consumer.paused`."""
        return await self._value(lambda consumer: consumer.paused)

    async def _value(self, of: Callable[[Consumer], R]) -> R:
        return await result_of(self._host.call_at_once(of, self._host.client))

    # Offsets of logs, and commits

    offsets_at = passed_on(Consumer.offsets_at)
    beginning_offsets = passed_on(Consumer.beginning_offsets)
    end_offsets = passed_on(Consumer.end_offsets)
    commit = passed_on(Consumer.commit)
    committed = passed_on(Consumer.committed)

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
        await result_of(future)


async def _awaiting(callback: Callback, partitions: list[TopicPartition]) -> None:
    await callback(partitions)
