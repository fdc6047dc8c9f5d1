"""The share consumer for asyncio.

    async with AsyncioShareConsumer("localhost:9092", group_id="mails") as queue:
        await queue.subscribe(["orders"])
        async for record in queue: ...

It has the methods, settings and promises of `ShareConsumer`, which runs in a thread with a trio
loop; `accept`, `release` and `reject` are awaited, since they are passed to that thread. A
cancelled call for records loses none.

Left out: an open `Cluster` instead of bootstrap servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from ..share.consumer import ShareConsumer
from ..share.records import SharedRecord
from .asyncio_calls import Hosted, passed_on, passed_on_at_once, result_of
from .host import Host
from .hosted_share import HostedShareConsumer, take_from


class AsyncioShareConsumer(Hosted[ShareConsumer]):
    """`ShareConsumer` for asyncio: the same arguments, but a `Cluster`."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._consumer = HostedShareConsumer(bootstrap, **options)
        self._host = Host[ShareConsumer](self._consumer)
        self._asking = asyncio.Lock()

    subscribe = passed_on(ShareConsumer.subscribe)
    commit = passed_on(ShareConsumer.commit)
    renew = passed_on(ShareConsumer.renew)
    accept = passed_on_at_once(ShareConsumer.accept)
    release = passed_on_at_once(ShareConsumer.release)
    reject = passed_on_at_once(ShareConsumer.reject)

    async def __aiter__(self) -> AsyncIterator[SharedRecord]:
        """As `ShareConsumer.__aiter__`."""
        while True:
            (record,) = await self._take(1, None)
            yield record

    async def poll(
        self, timeout_seconds: float = 0.0, max_records: int | None = None
    ) -> list[SharedRecord]:
        """As `ShareConsumer.poll`."""
        return await self._take(max_records, timeout_seconds)

    async def _take(self, count: int | None, timeout_seconds: float | None) -> list[SharedRecord]:
        # One task at a time: another one's call may not yet have its records.
        async with self._asking:
            future = take_from(self._host, self._consumer, count, timeout_seconds)
            number, records = await result_of(future)
            self._consumer.received = number
            return records
