"""A share consumer in the trio thread, as its faces for asyncio and for threads have it in common.

Job: `HostedShareConsumer` gives records to another thread, `take_from` asks it.

Invariant: records of a call that its caller has not received (it was cancelled) go back to the
buffer before anything is accepted, and are handed out again.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from ..share.consumer import ShareConsumer
from ..share.records import SharedRecord
from .host import Host

Given = tuple[int, list[SharedRecord]]  # with a number for `received`


class HostedShareConsumer(ShareConsumer):
    def __init__(self, bootstrap: str, **options: Any) -> None:
        super().__init__(bootstrap, **options)
        self.received = 0  # the last number that the face has received; the face sets it
        self._given: Given = 0, []

    async def take(self, count: int, timeout_seconds: float | None) -> Given:
        records = await self._next(count, timeout_seconds)
        self._given = self._given[0] + 1, records
        return self._given

    def _accept_held(self) -> None:
        number, records = self._given
        if self.received != number:
            self._state.take_back(records)
            self._given = self.received, []
        super()._accept_held()


def take_from(
    host: Host[ShareConsumer],
    consumer: HostedShareConsumer,
    count: int | None,
    timeout_seconds: float | None,
) -> Future[Given]:
    """The next records; the face sets `received` once it has them."""
    most = count or consumer.options.max_poll_records
    return host.call_in_turn(consumer.take, most, timeout_seconds)
