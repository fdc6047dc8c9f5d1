"""The share consumer for threads without a loop: scripts, notebooks, workers.

    with BlockingShareConsumer("localhost:9092", group_id="mails") as queue:
        queue.subscribe(["orders"])
        for record in queue: ...

It has the methods, settings and promises of `ShareConsumer`, which runs in a thread with a trio
loop; a call blocks until that one has its result. One thread at a time asks for records; any thread
may call `accept`, `release`, `reject`, `renew` and `commit`. Ctrl-C interrupts a call as a
cancellation does.

Left out: an open `Cluster` instead of bootstrap servers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from ..errors import ClientError
from ..share.consumer import ShareConsumer
from ..share.records import SharedRecord
from .blocking_calls import HostedBlock, passed_on, passed_on_at_once
from .host import Host
from .hosted_share import HostedShareConsumer, take_from


class BlockingShareConsumer(HostedBlock[ShareConsumer]):
    """`ShareConsumer` for threads: the same arguments, but a `Cluster`."""

    def __init__(self, bootstrap: str, **options: Any) -> None:
        self._consumer = HostedShareConsumer(bootstrap, **options)
        self._host = Host[ShareConsumer](self._consumer)
        self._asking = threading.Lock()

    subscribe = passed_on(ShareConsumer.subscribe)
    commit = passed_on(ShareConsumer.commit)
    renew = passed_on(ShareConsumer.renew)
    accept = passed_on_at_once(ShareConsumer.accept)
    release = passed_on_at_once(ShareConsumer.release)
    reject = passed_on_at_once(ShareConsumer.reject)

    def __iter__(self) -> Iterator[SharedRecord]:
        """As `ShareConsumer.__aiter__`."""
        while True:
            (record,) = self._take(1, None)
            yield record

    def poll(
        self, timeout_seconds: float = 0.0, max_records: int | None = None
    ) -> list[SharedRecord]:
        """As `ShareConsumer.poll`. Raises ClientError if another thread asks for records."""
        return self._take(max_records, timeout_seconds)

    def _take(self, count: int | None, timeout_seconds: float | None) -> list[SharedRecord]:
        if not self._asking.acquire(blocking=False):
            raise ClientError("one thread at a time asks a BlockingShareConsumer for records")
        try:
            future = take_from(self._host, self._consumer, count, timeout_seconds)
            number, records = self._wait(future)
            self._consumer.received = number
            return records
        finally:
            self._asking.release()
