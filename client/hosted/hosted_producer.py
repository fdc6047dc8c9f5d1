"""A producer in the trio thread, as its faces for asyncio and for threads have it in common.

Each method returns a future; what concerns records put before waits until the producer has them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from ..errors import ClientError
from ..producer import Producer
from ..producer.chunk import Watcher
from ..producer.completion import ProducerMetrics
from .host import Host
from .outbox import Outbox

R = TypeVar("R")


class HostedProducer:
    def __init__(
        self, bootstrap: str, settings: dict[str, Any], report: Callable[[list[Watcher]], None]
    ) -> None:
        self.host = Host(Producer(bootstrap, **settings))
        self._producer = self.host.client
        self._report = report
        self._outbox: Outbox | None = None

    def start(self) -> None:
        """Begin to enqueue records; the producer is open."""
        self._outbox = Outbox(self.host.thread, self._producer, self._report)
        self.host.call(self._outbox.run)

    @property
    def outbox(self) -> Outbox:
        """Raises ClientError outside of the producer's block."""
        if self._outbox is None:
            raise ClientError("use a producer inside its `with` or `async with`")
        return self._outbox

    def until_empty(self) -> Future[None]:
        """Until the producer has all records put before, or has refused them."""
        return self.host.call(self.outbox.until_empty)

    def prepare(self, topic: str) -> Future[int]:
        return self.host.call(self._producer.prepare, topic)

    def flush(self) -> Future[None]:
        return self.host.call(self._flush)

    async def _flush(self) -> None:
        await self.outbox.until_empty()
        failure = self.outbox.take_failure()
        await self._producer.flush()
        if failure is not None:
            raise failure

    def begin_transaction(self) -> Future[None]:
        return self.host.call(self._begin_transaction)

    async def _begin_transaction(self) -> None:
        await self.outbox.until_empty()
        self._producer.begin_transaction()

    def after_records(self, method: Callable[[Producer], Awaitable[R]]) -> Future[R]:
        """Call a method of the producer, behind the records put before."""
        return self.host.call(self._after_records, method)

    async def _after_records(self, method: Callable[[Producer], Awaitable[R]]) -> R:
        await self.outbox.until_empty()
        return await method(self._producer)

    def metrics(self) -> Future[ProducerMetrics]:
        return self.host.call_at_once(lambda: self._producer.metrics)
