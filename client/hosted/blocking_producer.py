"""The producer for threads without a loop, see `blocking_consumer`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ...protocol.records.record import Headers, SimpleRecord
from ..errors import ClientError
from ..producer import Producer
from ..producer.chunk import Watcher
from ..producer.completion import ProducerMetrics
from ..producer.coordination import GroupMetadata, Offsets
from ..producer.delivery import RecordMetadata
from ..producer.producer import Content
from .blocking_calls import BlockingBlock, result_of
from .hosted_producer import HostedProducer
from .outbox import HostedDelivery, Outbox


class BlockingDelivery(HostedDelivery):
    """An enqueued record: `delivery.wait()` waits until it is acknowledged."""

    __slots__ = ()

    def wait(self, timeout_seconds: float | None = None) -> RecordMetadata:
        """Wait until the record is acknowledged; returns its place. Raises ClientError if it
        failed, and TimeoutError after the timeout."""
        if not self.is_done:
            wait = _Wait(self)
            self.chunk.watch(wait)
            if not wait.over.wait(timeout_seconds):
                raise TimeoutError
        return self.result()


class _Wait:
    """A thread that waits for a delivery."""

    __slots__ = ("_delivery", "over")

    def __init__(self, delivery: BlockingDelivery) -> None:
        self._delivery = delivery
        self.over = threading.Event()

    @property
    def is_done(self) -> bool:
        return self._delivery.is_done


class BlockingProducer(BlockingBlock):
    """`Producer` for threads: the same arguments, but a `Cluster`."""

    def __init__(self, bootstrap: str, **settings: Any) -> None:
        self._hosted = HostedProducer(bootstrap, settings, _tell)
        self._outbox: Outbox | None = None

    def _begin(self) -> None:
        result_of(self._hosted.host.open())
        self._hosted.start()
        self._outbox = self._hosted.outbox

    def _end(self, error: BaseException | None) -> None:
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
        outbox = self._outbox
        if outbox is None:
            outbox = self._hosted.outbox  # raises
        if outbox.is_full:
            result_of(self._hosted.until_empty())
        chunk, place, timestamp = outbox.put(topic, value, key, partition, headers, timestamp_ms)
        return BlockingDelivery(chunk, place, timestamp)

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


def _tell(done: list[Watcher]) -> None:
    for wait in done:
        assert isinstance(wait, _Wait)
        wait.over.set()
