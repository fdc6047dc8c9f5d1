"""Interceptors see each record before it is enqueued, and its result.

Invariants: interceptors are called in their order, once for each record, regardless of its batch;
the split of a batch completes no record.

An error of `on_acknowledgement` is reported and changes nothing; one of `on_send` reaches the
caller.

Mirrors: ProducerInterceptor, ProducerInterceptors; Java logs errors of `on_send` instead of
raising them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from ..errors import ClientError
from .batch import Batch
from .delivery import Delivery, RecordMetadata

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class OutgoingRecord(NamedTuple):
    """A record as an interceptor sees it, and may replace it."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Interceptor(Protocol):
    """Sees each record before it is enqueued, and its result; must not wait."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord: ...

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: Exception | None
    ) -> None: ...


class Interceptors:
    """The interceptors of one producer; `report` is called with a line about one that fails."""

    def __init__(self, interceptors: Sequence[Interceptor], report: Callable[[str], None]) -> None:
        self._interceptors = tuple(interceptors)
        self._report = report

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """The record after all interceptors, before it is enqueued."""
        for interceptor in self._interceptors:
            record = interceptor.on_send(record)
        return record

    def watch(self, delivery: Delivery, batch: Batch) -> None:
        """Call the interceptors once the record is done; a split batch is not."""

        def told() -> None:
            if not delivery.is_done:
                delivery.current_batch.watchers.append(told)
                return
            metadata, error = None, None
            try:
                metadata = delivery.result()
            except ClientError as failure:
                error = failure
            for interceptor in self._interceptors:
                try:
                    interceptor.on_acknowledgement(metadata, error)
                except Exception as failure:
                    self._report(f"an interceptor failed: {failure!r}")

        batch.watchers.append(told)
