"""Reads from the remote tier for consumers: of records, and of offsets by time.

At most `remote.log.reader.threads` reads are under way at once, and
`remote.log.reader.max.pending.tasks` more wait; further ones fail at once. Each blocking call runs
in a worker thread; a read of what is in memory already needs neither thread nor task, and counts
for no limit. A slow object delays its own
fetch, which is answered without records after `remote.fetch.max.wait.ms`, and holds one of the
threads.

A read whose fetch has been answered meanwhile goes on to its end, and its result is kept for the
consumer's next fetch of the same offset: so a store that needs longer than the wait is read all the
same. (Kafka cancels the read and begins anew.) Consumers that read on have the next ranges read
ahead of them (`prefetcher`).

Mirrors: RemoteLogReader, RemoteStorageThreadPool, RemoteLogManager.findOffsetByTimestamp.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import trio

from ...protocol.apis.fetch import AbortedTransaction
from ...protocol.errors import ErrorCode, KafkaError
from ...protocol.topics import TopicPartition
from ...replication.remote import reading
from ...replication.remote.reading import NotInMemory, ReadRange, RemoteSegmentFile
from ...replication.throttle import ReplicationQuota
from ...replication.types import RemoteRead, RemoteRecords
from ...storage.files import EMPTY_SLICE
from ...storage.log import Log
from ...storage.log_lookup import TimestampOffset
from ...storage.remote.index_cache import RemoteIndexCache, SegmentIndexes
from ...storage.remote.metadata_topic import RemoteLogNotReadyError
from ...storage.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
from ...storage.remote.storage_manager import RemoteStorageError, RemoteStorageManager
from ...storage.transaction_index import AbortedTransaction as IndexedTransaction
from ..observability.durations import Durations
from ..replicas.applied_replicas import AppliedReplicas
from .metadata_manager import RemoteLogMetadataManager
from .prefetcher import Prefetcher

logger = logging.getLogger("pybroker.broker.remote.remote_reads")

NOT_READY_RETRY_SECONDS = 0.05
NOT_READY_SECONDS = 30
# Results that came too late for their fetches.
MAX_LATE_RESULTS = 16
MAX_FIRST_OPEN = 10_000

ResultT = TypeVar("ResultT")


class RemoteReads:
    def __init__(
        self,
        replicas: AppliedReplicas,
        store: RemoteStorageManager,
        metadata: RemoteLogMetadataManager,
        indexes: RemoteIndexCache,
        *,
        threads: int,
        max_pending: int,
    ) -> None:
        self._replicas = replicas
        self._partitions = replicas.manager.partitions
        self._store = store
        self._metadata = metadata
        self._indexes = indexes
        self._threads = threads
        self._max_pending = max_pending
        self.quota = ReplicationQuota(replicas.manager.config.broker_id)
        self.ahead = Prefetcher(store, indexes, self.quota, replicas.clock, threads=threads)
        self._readers = trio.CapacityLimiter(threads)
        self._in_threads = trio.CapacityLimiter(threads)
        self._late: OrderedDict[tuple[TopicPartition, int], RemoteRecords] = OrderedDict()
        # By segment id, see `_first_open_offset`.
        self._first_open: OrderedDict[bytes, int] = OrderedDict()
        self.times = Durations()
        self.pending = 0
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await nursery.start(self.ahead.run)
            task_status.started()
            await trio.sleep_forever()

    @property
    def queue_size(self) -> int:
        """The reads that wait for a thread."""
        return max(0, self.pending - self._threads)

    @property
    def idle_share(self) -> float:
        return max(0, self._threads - self.pending) / self._threads

    # Records

    def read(self, wanted: RemoteRead) -> None:
        """The effect RemoteRead: its fetch gets the result, or an error."""
        at_hand = self._at_hand(wanted)
        if at_hand is not None:
            self._done(wanted, at_hand)
            return
        if self.pending >= self._threads + self._max_pending or self._nursery is None:
            logger.warning("Too many reads from the remote tier wait: %s-%d gets none", *wanted.key)
            self._done(wanted, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        late = self._late.pop((wanted.key, wanted.offset), None)
        if late is not None:
            self._done(wanted, late)
            return
        self.pending += 1
        self._nursery.start_soon(self._read, wanted)

    def _done(self, wanted: RemoteRead, result: RemoteRecords | ErrorCode) -> None:
        if not wanted.operation.is_waiting:
            if isinstance(result, RemoteRecords) and result.records:
                self._late[wanted.key, wanted.offset] = result
                if len(self._late) > MAX_LATE_RESULTS:
                    self._late.popitem(last=False)
            return
        with self._replicas.applying as manager:
            manager.waiting.remote_read(wanted.operation, result)

    async def _read(self, wanted: RemoteRead) -> None:
        result: RemoteRecords | ErrorCode
        stats = self._replicas.hosted.stats_of(wanted.key[0])
        try:
            async with self._readers:
                if not wanted.operation.is_waiting:
                    return
                stats.remote_fetch_requests += 1
                begun = trio.current_time()
                try:
                    result = await self._records(wanted)
                finally:
                    self.times.record(trio.current_time() - begun)
            stats.remote_fetch_bytes += len(result.records)
        except KafkaError as error:
            result = error.code
        except RemoteStorageError as error:
            stats.failed_remote_fetch_requests += 1
            logger.warning("Reading %s-%d from the remote tier failed: %s", *wanted.key, error)
            result = ErrorCode.UNKNOWN_SERVER_ERROR
        finally:
            self.pending -= 1
        self._done(wanted, result)

    def _at_hand(self, wanted: RemoteRead) -> RemoteRecords | None:
        """The records, if all of the read is in memory: without a task, which costs more than the
        read itself."""
        if self.ahead.plan.is_idle:
            return None
        begun = trio.current_time()
        try:
            log, name = self._log_of(wanted.key)
            segment = reading.segment_at(log, name, self._metadata, wanted.offset)
        except (KafkaError, RemoteLogNotReadyError):
            return None
        indexes = None if segment is None else self._indexes.at_hand(segment)
        if segment is None or indexes is None or _end_offset(log, segment, wanted) is not None:
            return None
        file = RemoteSegmentFile(self._store, segment, self.ahead.of(segment), in_memory=True)
        try:
            with _errors_of_stores():
                batches = _batches_of(file, indexes, segment, wanted, None)
        except (NotInMemory, RemoteStorageError):
            return None
        if batches is None:
            return None
        aborted: Iterable[IndexedTransaction] = ()
        if wanted.include_aborted:
            if not indexes.has_few_aborted:
                return None
            end, aborted, is_complete = _aborted_in(indexes, segment, batches, None, None)
            if not is_complete and self._first_open.get(segment.segment_id.id, -1) < end:
                return None
        self.ahead.read(segment, batches, partial(self._following, log, name))
        stats = self._replicas.hosted.stats_of(wanted.key[0])
        stats.remote_fetch_requests += 1
        stats.remote_fetch_bytes += len(batches.records)
        self.times.record(trio.current_time() - begun)
        return RemoteRecords(batches.records, _for_answer(aborted))

    async def _records(self, wanted: RemoteRead) -> RemoteRecords:
        log, name = self._log_of(wanted.key)
        found: RemoteLogSegmentMetadata | None = None
        while found is None:
            try:
                found = reading.segment_at(log, name, self._metadata, wanted.offset)
                if found is None:
                    found = reading.segment_behind(log, name, self._metadata, wanted.offset)
            except RemoteLogNotReadyError:
                if not wanted.operation.is_waiting:
                    raise
                await trio.sleep(NOT_READY_RETRY_SECONDS)
                continue
            if found is None:
                raise KafkaError(
                    ErrorCode.OFFSET_OUT_OF_RANGE,
                    f"Offset {wanted.offset} of {log.name} is not in the remote tier",
                )
        batches = None
        while found is not None:
            batches = await self._batches(found, wanted, _end_offset(log, found, wanted))
            if batches is not None or wanted.max_bytes <= 0:
                break
            found = reading.segment_at(log, name, self._metadata, found.end_offset + 1)
        if batches is None or found is None:
            return RemoteRecords(EMPTY_SLICE, [])
        self.ahead.read(found, batches, partial(self._following, log, name))
        aborted = []
        if wanted.include_aborted:
            aborted = await self._aborted(log, name, found, batches)
        return RemoteRecords(batches.records, aborted)

    async def _batches(
        self, metadata: RemoteLogSegmentMetadata, wanted: RemoteRead, end_offset: int | None
    ) -> ReadRange | None:
        indexes = await self._indexes_of(metadata)
        while end_offset is None:  # else all headers are read, which may take a while
            file = RemoteSegmentFile(self._store, metadata, self.ahead.of(metadata), in_memory=True)
            try:
                with _errors_of_stores():
                    return _batches_of(file, indexes, metadata, wanted, None)
            except NotInMemory as missing:
                if missing.ahead is None:
                    break
                awaited = missing.ahead
            with _errors_of_stores():
                await self.ahead.arrival(metadata, awaited)
        file = RemoteSegmentFile(self._store, metadata, self.ahead.of(metadata))
        try:
            return await self._in_thread(
                partial(_batches_of, file, indexes, metadata, wanted, end_offset)
            )
        finally:
            self.quota.record(file.bytes_read, self._replicas.clock())

    def _following(
        self, log: Log, name: TopicIdPartition, segment: RemoteLogSegmentMetadata
    ) -> RemoteLogSegmentMetadata | None:
        try:
            return reading.segment_at(log, name, self._metadata, segment.end_offset + 1)
        except RemoteLogNotReadyError:
            return None

    async def _aborted(
        self, log: Log, name: TopicIdPartition, first: RemoteLogSegmentMetadata, batches: ReadRange
    ) -> list[AbortedTransaction]:
        """The aborted transactions that overlap the batches; their markers may be far behind."""
        upper: int | None = None
        found: dict[IndexedTransaction, None] = {}
        metadata: RemoteLogSegmentMetadata | None = first
        is_complete = False
        while metadata is not None and not is_complete:
            start = max(batches.first_offset, metadata.start_offset)
            valid = reading.end_of_valid(log, metadata, start)
            indexes = await self._indexes_of(metadata)
            search = partial(_aborted_in, indexes, metadata, batches, upper, valid)
            is_quick = indexes.has_few_aborted
            end, entries, is_complete = search() if is_quick else await self._in_thread(search)
            upper = end
            found.update(dict.fromkeys(entries))
            if not is_complete and valid is None:
                is_complete = await self._first_open_offset(metadata) >= end
            metadata = reading.segment_at(log, name, self._metadata, metadata.end_offset + 1)
        assert upper is not None
        for segment in log.segments:
            if is_complete:
                break
            entries, is_complete = segment.transaction_index.collect(batches.first_offset, upper)
            found.update(dict.fromkeys(entries))
        return _for_answer(found)

    async def _first_open_offset(self, metadata: RemoteLogSegmentMetadata) -> int:
        """Where the first transaction begins that is open at the end of a segment: later segments
        have markers of open ones only. Without them all segments behind a topic's records would be
        asked, at each fetch, and most topics have no transactions. (Kafka asks them.)"""
        key = metadata.segment_id.id
        known = self._first_open.get(key)
        if known is None:
            known = await self._in_thread(partial(reading.first_open_offset, self._store, metadata))
            self._first_open[key] = known
            if len(self._first_open) > MAX_FIRST_OPEN:
                self._first_open.popitem(last=False)
        return known

    # Offsets by time

    async def offset_by_time(
        self, key: TopicPartition, timestamp: int, start_offset: int
    ) -> TimestampOffset | None:
        """The first record in the tier at or after both; None if there is none. KafkaError."""
        log, name = self._log_of(key)
        waited = 0.0
        while True:
            try:
                found = reading.segment_by_time(log, name, self._metadata, timestamp, start_offset)
                if found is None:
                    return None
                return await self._in_thread(partial(self._search, found, timestamp, start_offset))
            except RemoteLogNotReadyError:
                waited += NOT_READY_RETRY_SECONDS
                if waited > NOT_READY_SECONDS:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT) from None
                await trio.sleep(NOT_READY_RETRY_SECONDS)
            except RemoteStorageError as error:
                logger.warning("Looking up %s-%d by time failed: %s", *key, error)
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None

    def _search(
        self, metadata: RemoteLogSegmentMetadata, timestamp: int, start_offset: int
    ) -> TimestampOffset | None:
        """Blocks."""
        return reading.search_by_time(
            RemoteSegmentFile(self._store, metadata),
            metadata.segment_size_bytes,
            self._indexes.entry(metadata).lookup_timestamp(timestamp, start_offset),
            timestamp,
            start_offset,
        )

    # Small parts

    def _log_of(self, key: TopicPartition) -> tuple[Log, TopicIdPartition]:
        hosted = self._partitions.get(key)
        if hosted is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return hosted.log, TopicIdPartition(hosted.topic_id, *key)

    async def _indexes_of(self, metadata: RemoteLogSegmentMetadata) -> SegmentIndexes:
        indexes = self._indexes.at_hand(metadata)
        if indexes is None:
            indexes = await self._in_thread(partial(self._indexes.entry, metadata))
        return indexes

    async def _in_thread(self, call: Callable[[], ResultT]) -> ResultT:
        """Any error of the storage manager is a RemoteStorageError."""
        with _errors_of_stores():
            return await trio.to_thread.run_sync(
                call, limiter=self._in_threads, abandon_on_cancel=True
            )


@contextmanager
def _errors_of_stores() -> Iterator[None]:
    try:
        yield
    except (RemoteStorageError, KafkaError, NotInMemory):
        raise
    except Exception as error:
        logger.exception("A storage manager has failed")
        raise RemoteStorageError(f"{type(error).__name__}: {error}") from error


def _end_offset(log: Log, segment: RemoteLogSegmentMetadata, wanted: RemoteRead) -> int | None:
    """Where the segment's records cease to be those that the read may have; None: they do not."""
    first = max(wanted.offset, segment.start_offset)
    end_offset = reading.end_of_valid(log, segment, first)
    # After an unclean election, the tier may have records above these.
    limit = log.last_stable_offset if wanted.include_aborted else log.high_watermark
    if limit <= segment.end_offset:
        end_offset = limit if end_offset is None else min(limit, end_offset)
    return end_offset


def _for_answer(found: Iterable[IndexedTransaction]) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in found
    ]


def _batches_of(
    file: RemoteSegmentFile,
    indexes: SegmentIndexes,
    metadata: RemoteLogSegmentMetadata,
    wanted: RemoteRead,
    end_offset: int | None,
) -> ReadRange | None:
    """Blocks, or raises NotInMemory."""
    return reading.read_batches(
        file,
        metadata.segment_size_bytes,
        indexes.lookup_offset(wanted.offset),
        wanted.offset,
        wanted.max_bytes,
        min_one_batch=wanted.min_one_batch,
        strict_limit=wanted.strict_limit,
        end_offset=end_offset,
    )


def _aborted_in(
    indexes: SegmentIndexes,
    metadata: RemoteLogSegmentMetadata,
    batches: ReadRange,
    upper: int | None,
    valid: int | None,
) -> tuple[int, list[IndexedTransaction], bool]:
    """(where the batches end, of the first segment; its aborted transactions; whether others have
    none)."""
    if upper is None:
        upper = indexes.upper_bound_offset(batches.records.position, batches.records.size)
        upper = metadata.end_offset + 1 if upper is None else upper
    return upper, *indexes.aborted(batches.first_offset, upper, valid)
