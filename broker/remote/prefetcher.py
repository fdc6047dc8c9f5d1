"""Reads ahead of consumers that read the remote tier one range after the other.

`replication.remote.prefetch` decides which ranges; here each one is read by a thread of its own,
and kept. A consumer's read waits for a range that is on its way, and fails with it. A range that
begins a segment brings the segment's indexes along.

Invariants: what is read counts for the quota of reads from the tier, once, when it is there; with a
quota that is used up nothing is read ahead. Threads that read ahead are never those that read for
consumers: a store without an answer keeps no reader from another segment.

Mirrors: nothing of Apache Kafka's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

import trio

from ...protocol.primitives import Buffer
from ...replication.remote.prefetch import Following, Prefetch, Range
from ...replication.remote.reading import Ahead, ReadRange, RemoteSegmentFile
from ...replication.throttle import ReplicationQuota
from ...storage.remote.index_cache import RemoteIndexCache
from ...storage.remote.segments import RemoteLogSegmentMetadata
from ...storage.remote.storage_manager import RemoteStorageManager
from ..resources.memory import keep_large_blocks

logger = logging.getLogger("pybroker.broker.remote.prefetcher")

LOOK_SECONDS = 1.0  # for ranges without a reader


class _Content:
    """The bytes of a range, for threads and tasks that wait for them."""

    __slots__ = ("arrived", "bytes")

    def __init__(self) -> None:
        self.bytes: Future[Buffer] = Future()
        self.arrived = trio.Event()


class Prefetcher:
    def __init__(
        self,
        store: RemoteStorageManager,
        indexes: RemoteIndexCache,
        quota: ReplicationQuota,
        clock: Callable[[], int],
        *,
        threads: int,
    ) -> None:
        self._store = store
        self._indexes = indexes
        self._quota = quota
        self._clock = clock
        self._threads = trio.CapacityLimiter(threads)
        self.plan = Prefetch(0, threads)
        self._contents: dict[Range, _Content] = {}
        self._nursery: trio.Nursery | None = None
        self._begun = trio.Event()  # replaced when nothing is kept any more

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            task_status.started()
            while True:
                await self._begun.wait()
                keep_large_blocks(is_on=True)
                try:
                    while not self.plan.is_idle:
                        await trio.sleep(LOOK_SECONDS)
                        self.plan.expire(self._clock())
                        self._forget()
                finally:
                    keep_large_blocks(is_on=False)
                self._begun = trio.Event()

    def resize(self, max_bytes: int) -> None:
        self.plan.resize(max_bytes)
        self._forget()

    def of(self, segment: RemoteLogSegmentMetadata) -> list[Ahead]:
        """What a read of the segment finds."""
        found = []
        for one in self.plan.ranges_of(segment):
            result = self._contents[one].bytes.result
            found.append(Ahead(one.start, one.end, result, None if one.is_loading else result()))
        return found

    async def arrival(self, segment: RemoteLogSegmentMetadata, awaited: Ahead) -> None:
        """Wait for bytes that are on their way; raises what their read has raised."""
        for one in self.plan.ranges_of(segment):
            if one.start == awaited.start and one.is_loading:
                content = self._contents[one]
                await content.arrived.wait()
                content.bytes.result()
                return

    def read(
        self, segment: RemoteLogSegmentMetadata, found: ReadRange, following: Following
    ) -> None:
        """A consumer gets these records: read on."""
        if self._nursery is None:
            return
        now_ms = self._clock()
        start, held = found.records.position, found.records.held
        end = start + len(held)
        most_bytes = self._quota.left(now_ms) - self.plan.loading_bytes
        kept, to_load = self.plan.read(segment, start, end, following, now_ms, most_bytes)
        if kept is not None:
            content = self._contents[kept] = _Content()
            content.bytes.set_result(held)
        for one in to_load:
            self._contents[one] = _Content()
            self._nursery.start_soon(self._load, one)
        self._forget()
        self._begun.set()

    def _forget(self) -> None:
        """The bytes of ranges that were dropped."""
        for one in [one for one in self._contents if one.is_dropped and not one.is_loading]:
            del self._contents[one]

    async def _load(self, one: Range) -> None:
        content = self._contents[one]
        try:
            await trio.to_thread.run_sync(
                partial(self._read, one, content.bytes),
                limiter=self._threads,
                abandon_on_cancel=True,
            )
        except Exception as error:
            logger.info("Reading %s ahead failed: %s", one.segment.segment_id, error)
            self.plan.failed(one)
        else:
            self.plan.loaded(one)
            self._quota.record(one.size, self._clock())
        content.arrived.set()
        self._forget()

    def _read(self, one: Range, content: Future[Buffer]) -> None:
        """In a thread. A reader that waits learns of it at once."""
        try:
            data = RemoteSegmentFile(self._store, one.segment).read_range(one.start, one.end)
            if one.start == 0:
                self._indexes.entry(one.segment)
        except BaseException as error:
            content.set_exception(error)
            raise
        content.set_result(data)
