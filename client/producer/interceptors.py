"""What looks at each record on its way out, and at what became of it.

Invariants: interceptors are asked in their order; each hears once of a record, whatever it was sent
with; a record whose batch was split is not done by that.

What `on_acknowledgement` raises is told and changes nothing; what `on_send` raises is the caller's.

Mirrors: ProducerInterceptor, ProducerInterceptors; the latter also logs what `on_send` raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from ..errors import ClientError
from .batch import Batch
from .delivery import Delivery, RecordMetadata

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class OutgoingRecord(NamedTuple):
    """What an interceptor sees, and may replace."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


class Interceptor(Protocol):
    """Sees each record before it is enqueued, and what became of it; must not wait."""

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord: ...

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: Exception | None
    ) -> None: ...


class Interceptors:
    """Those of one producer; `tell` is given a line about one that fails."""

    def __init__(self, interceptors: Sequence[Interceptor], tell: Callable[[str], None]) -> None:
        self._interceptors = tuple(interceptors)
        self._tell = tell

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        """What becomes of a record before it is enqueued."""
        for interceptor in self._interceptors:
            record = interceptor.on_send(record)
        return record

    def watch(self, delivery: Delivery, batch: Batch) -> None:
        """Tell them once it is done; a batch that was split is not."""

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
                    self._tell(f"an interceptor failed: {failure!r}")

        batch.watchers.append(told)
