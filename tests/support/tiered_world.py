"""A tiered partition on two brokers, and a dumb twin of it: a list of its records for each broker.

The store and the metadata topic fail at any step, tear what they are given, answer late or twice;
brokers are killed in the midst of it. A deposed leader may not know for a while that it is one, and
copies and deletes on. After each step every record that counts is read from the leader, from its
log or from the tier, and is the twin's; so is each record that a read_committed consumer gets.

The tasks and the reads are the real ones; only their threads are not. At most one task is awake at
a time, so a history is a function of its seed.
"""

from __future__ import annotations

import hashlib
import random
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from threading import Lock
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import trio
from outcome import Error
from trio.testing import wait_all_tasks_blocked

from pybroker_kafka.broker.remote.remote_log_manager import RemoteLogManager, RemoteSettings, _Tasks
from pybroker_kafka.broker.remote.remote_reads import RemoteReads
from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.protocol.records.batch import iter_batch_headers, iter_records
from pybroker_kafka.protocol.records.builder import build_end_txn_marker
from pybroker_kafka.protocol.records.control import ControlRecordType, EndTxnMarker
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.replication.purgatory import Operation
from pybroker_kafka.replication.remote import copying, expiry
from pybroker_kafka.replication.remote.reading import Ahead
from pybroker_kafka.replication.types import RemoteRead, RemoteRecords, TopicStats
from pybroker_kafka.storage.append_info import AppendOrigin
from pybroker_kafka.storage.local_log import FlushFirst
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.remote.deletions import TierDeletions
from pybroker_kafka.storage.remote.index_cache import RemoteIndexCache
from pybroker_kafka.storage.remote.metadata_cache import RemoteLogMetadataCache
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentMetadata as Segment,
)
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError
from pybroker_kafka.storage.retention import delete_old_segments
from tests.support.appends import append_as_leader
from tests.support.tiered_store import LOG, Parked, TroubledStore
from tests.unit.storage.helpers import batch_of, manager_of
from tests.unit.storage.tiered import tiered_config

STEPS = 60
READ_ATTEMPTS = 200  # of a store that fails one in five
NAME = TopicIdPartition(bytes(range(16)), "t", 0)
SIZE = len(batch_of(b"v000"))
NOW_MS = 10_000_000

Record = Segment | RemoteLogSegmentMetadataUpdate


class Crash(BaseException):
    """The broker is killed."""


class Nowhere(AssertionError):
    """No broker and no tier has the offset."""


class Held(NamedTuple):
    """A record of the twin; `commits` is set in a marker only."""

    value: bytes
    producer_id: int = -1
    commits: bool | None = None


class Hosted:
    """A partition, as far as tasks and reads know it."""

    key = ("t", 0)
    topic_id = NAME.topic_id

    def __init__(self, log: Log) -> None:
        self.log = log
        self.stats = TopicStats()


class Replicas:
    """AppliedReplicas, as far as tasks and reads know them."""

    broker_id = 0

    def __init__(self, hosted: Hosted, clock: Callable[[], int]) -> None:
        self.manager = self.waiting = self.applying = self.config = self.hosted = self
        self.partitions = {Hosted.key: hosted}
        self.wall = WallClock()
        self.clock = clock
        self._stats = TopicStats()

    def stats_of(self, _topic: str) -> TopicStats:
        return self._stats

    def check(self, _key: object) -> None:
        pass

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class View:
    """A broker's RemoteLogMetadataManager: it reads the world's topic, some of them late."""

    def __init__(self, world: World, number: int) -> None:
        self._world = world
        self._number = number
        self._cache = RemoteLogMetadataCache()
        self._position = 0

    async def add(self, metadata: Segment) -> None:
        await self._world.call(self._number, partial(self._write, metadata))

    async def update(self, update: RemoteLogSegmentMetadataUpdate) -> None:
        await self._world.call(self._number, partial(self._write, update))

    def _write(self, record: Record) -> None:
        world = self._world
        world.trouble()
        if record.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            world.deletes(self._number, record)
        world.topic.append(record)
        reason = self._read_on()
        world.trouble()
        if reason is not None:
            raise RemoteStorageError(reason)

    def _read_on(self) -> str | None:
        reason = None
        while self._position < len(self._world.topic):
            reason = self._cache.apply(self._world.topic[self._position])
            self._position += 1
        self._cache.check()
        return reason

    def _now(self) -> RemoteLogMetadataCache:
        world = self._world
        if world.leader.number == self._number or world.random.random() < 0.5:
            self._read_on()
        return self._cache

    def segment(self, _partition: TopicIdPartition, epoch: int, offset: int) -> Segment | None:
        return self._now().segment_for(epoch, offset)

    def highest_offset(self, _partition: TopicIdPartition, epoch: int) -> int | None:
        return self._now().highest_offset_for_epoch(epoch)

    def segments(self, _partition: TopicIdPartition, epoch: int | None = None) -> list[Segment]:
        cache = self._now()
        return cache.segments() if epoch is None else cache.segments_of_epoch(epoch)


class Tasks(RemoteLogManager):
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]

    async def _in_thread(self, call: Any, limiter: trio.CapacityLimiter) -> Any:
        return await self.in_thread(call)


class Reads(RemoteReads):
    async def _in_thread(self, call: Any) -> Any:
        return call()

    def in_memory(self, wanted: RemoteRead) -> RemoteRecords | None:
        """The read as if each segment had been read ahead, if that alone is enough for it."""
        ahead, self.ahead = self.ahead, cast(Any, AllAhead(cast(Any, self._store)))
        try:
            return self._at_hand(wanted)
        finally:
            self.ahead = ahead


class AllAhead:
    """Reads ahead that have the whole store in memory."""

    def __init__(self, store: TroubledStore) -> None:
        self._store = store
        self.plan = SimpleNamespace(is_idle=False)

    def of(self, segment: Segment) -> list[Ahead]:
        data = self._store.objects.get((segment.segment_id.id, LOG), b"")
        return [Ahead(0, len(data), lambda: data, data)]

    def read(self, *_: object) -> None:
        pass


class Broker:
    def __init__(self, number: int, directory: str, world: World) -> None:
        self.number = number
        self.directory = directory
        self._world = world
        self.start()

    def start(self) -> None:
        world = self._world
        config = tiered_config(
            segment_bytes=3 * SIZE, local_retention_bytes=4 * SIZE, retention_ms=-1,
            retention_bytes=world.retention_bytes, index_interval_bytes=SIZE,
            segment_ms=10**12, file_delete_delay_ms=0,
        )  # fmt: skip
        self.logs = manager_of(self.directory, config=config, now_ms=NOW_MS)
        self.log = self.logs.get_or_create_log("t", 0, NAME.topic_id, None, NOW_MS)
        self.hosted = Hosted(self.log)
        self.scopes: dict[str, trio.CancelScope] = {}  # of its tasks that run
        replicas: Any = Replicas(self.hosted, lambda: world.now_ms)
        self.metadata = cast(Any, View(world, self.number))
        indexes = RemoteIndexCache(f"{self.directory}-cache", world.store, 10_000, Lock)
        self.tasks = Tasks(
            replicas, world.store, self.metadata, indexes, RemoteSettings(self.number),
            lambda: world.random.randbytes(16), TierDeletions(f"{self.directory}-deletions"),
        )  # fmt: skip
        self.tasks.in_thread = partial(world.call, self.number)
        self.reads = Reads(replicas, world.store, self.metadata, indexes, threads=1, max_pending=1)
        self.role = _Tasks(NAME, is_leader=False)

    def cancel_tasks(self) -> None:
        for scope in self.scopes.values():
            scope.cancel()
        self.scopes = {}


class World:
    """Two brokers, the tier and the twin."""

    def __init__(self, seed: int, directory: str, nursery: trio.Nursery) -> None:
        self.random = random.Random(seed)
        self.nursery = nursery
        self.fault_rate = self.random.choice([0, 0.05, 0.2])
        self.late_rate = self.random.choice([0, 0.1, 0.3])
        self.is_calm = False
        self.retention_bytes = self.random.choice([-1, 12 * SIZE])
        self.now_ms = NOW_MS
        self.store = TroubledStore(self.trouble, self._cut)
        self.parked: list[Parked] = []
        self.topic: list[Record] = []
        self.brokers = [Broker(n, f"{directory}/{n}", self) for n in range(2)]
        self.leader, self.follower = self.brokers
        self.leader.role = _Tasks(NAME, is_leader=True)
        self.epoch = 0
        # Of each broker, by offset; those of the leader count.
        self.held: dict[int, list[Held]] = {0: [], 1: []}
        self.count = 0
        self.forgotten_offset = 0  # a leader may not know of deletions below it
        self.forgets_transactions = False
        # Whether the follower has reconciled its log with the leader's since the election.
        self.is_following = True

    @property
    def records(self) -> list[Held]:
        return self.held[self.leader.number]

    # Faults

    def trouble(self) -> None:
        if not self.is_calm and self.random.random() < self.fault_rate:
            if self.random.random() < 0.3:
                raise Crash
            raise RemoteStorageError("planned")

    def _cut(self, data: bytes) -> bytes:
        if not self.is_calm and data and self.random.random() < self.fault_rate:
            return data[: self.random.randrange(len(data))]
        return data

    def deletes(self, number: int, record: Record) -> None:
        """Note how far a broker that does not lead has deleted."""
        begun = {one.segment_id: one for one in self.topic if isinstance(one, Segment)}
        if number != self.leader.number:
            end = begun[record.segment_id].end_offset + 1
            self.forgotten_offset = max(self.forgotten_offset, end)

    async def call(self, number: int, call: Callable[[], Any]) -> Any:
        """Do it now, or later."""
        if self.is_calm or self.random.random() >= self.late_rate:
            await trio.lowlevel.checkpoint()
            return call()
        parked = Parked(number, call)
        self.parked.append(parked)
        return await parked.wait()

    async def answer(self) -> None:
        """Do one of the calls that wait, the oldest one or another."""
        if not self.parked:
            return
        oldest = self.random.random() < 0.5
        index = 0 if oldest else self.random.randrange(len(self.parked))
        parked = self.parked.pop(index)
        is_write = isinstance(parked.call, partial) and isinstance(parked.call.args[-1], Record)
        parked.answer(twice=not is_write and self.random.random() < 0.2)
        if isinstance(parked.outcome, Error) and isinstance(parked.outcome.error, Crash):
            self.crash(self.brokers[parked.broker])
        await wait_all_tasks_blocked()

    def crash(self, broker: Broker) -> None:
        """The process is gone, and so is all that waits in it. (Power cuts are not played here.)"""
        self.parked = [one for one in self.parked if one.broker != broker.number]
        was_leading = broker.role.is_leader
        broker.cancel_tasks()
        broker.logs.clean_shutdown()
        broker.start()
        broker.role = _Tasks(NAME, is_leader=was_leading and broker is self.leader)

    # Records

    async def produce(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            self._append(*self._next())
        # The follower is not in sync, unless it replicates: what the leader has counts.
        self.leader.log.update_high_watermark(self.leader.log.log_end_offset)

    def _append(self, batch: bytearray, held: Held) -> None:
        is_marker = held.commits is not None
        origin = AppendOrigin.COORDINATOR if is_marker else AppendOrigin.CLIENT
        log = self.leader.log
        append_as_leader(log, batch, leader_epoch=self.epoch, now_ms=NOW_MS, origin=origin)
        self.records.append(held)

    def _next(self) -> tuple[bytearray, Held]:
        """A record, of no transaction or of one, or a marker."""
        self.count += 1
        value, timestamp = b"v%03d" % self.count, 1000 + self.count
        open_ones = open_transactions(self.records)
        draw = self.random.random()
        if draw < 0.6:
            return batch_of(value, timestamp=timestamp), Held(value)
        if draw < 0.8 or not open_ones:
            sequence, producer_id = 0, self.count
            if open_ones and self.random.random() < 0.5:
                producer_id = self.random.choice(open_ones)
                sequence = sum(one.producer_id == producer_id for one in self.records)
            batch = batch_of(
                value, timestamp=timestamp, producer_id=producer_id, epoch=0, sequence=sequence,
                transactional=True,
            )  # fmt: skip
            return batch, Held(value, producer_id)
        return self._marker(self.random.choice(open_ones), timestamp)

    def _marker(self, producer_id: int, timestamp: int) -> tuple[bytearray, Held]:
        commits = self.random.random() < 0.5
        kind = ControlRecordType.COMMIT if commits else ControlRecordType.ABORT
        marker = EndTxnMarker(kind, 0)
        batch = build_end_txn_marker(
            marker, timestamp=timestamp, producer_id=producer_id, producer_epoch=0
        )
        return batch, Held(marker.value(), producer_id, commits)

    async def roll(self) -> None:
        if self.leader.log.segments.active.size:
            self.leader.log.roll(NOW_MS)

    # Replication

    async def hear(self) -> None:
        """A deposed leader hears of it."""
        if self.follower.role.is_leader:
            self.follower.cancel_tasks()
            self.follower.role = _Tasks(NAME, is_leader=False)
            await wait_all_tasks_blocked()

    async def replicate(self) -> None:
        """The follower gets all, by rebuilding its log behind the tier if it has to."""
        await self.hear()
        follower = self.follower
        late_rate, self.late_rate = self.late_rate, 0
        try:
            await self._replicate()
        except RemoteStorageError:
            return  # later
        except Crash:
            self.crash(follower)
            return
        finally:
            self.late_rate = late_rate
        self.held[follower.number] = list(self.records)
        self.is_following = True
        log, source = follower.log, self.leader.log
        log.update_high_watermark(source.high_watermark)
        if source.log_start_offset > log.log_start_offset:
            log.maybe_increment_log_start_offset(source.log_start_offset)

    async def _replicate(self) -> None:
        source, log = self.leader.log, self.follower.log
        epochs = source.leader_epochs
        while log.log_end_offset > 0 and log.latest_epoch is not None:
            epoch, end = source.end_offset_for_epoch(log.latest_epoch)
            own_epoch, own_end = log.end_offset_for_epoch(epoch)
            cut = end if epoch == log.latest_epoch else min(own_end, end) if own_epoch >= 0 else 0
            if cut >= log.log_end_offset or epoch < 0:
                break
            self._truncate(log, max(cut, 0))
        if log.log_end_offset > source.log_end_offset:
            self._truncate(log, source.log_end_offset)
        if log.log_end_offset < source.local_log_start_offset:
            start = source.local_log_start_offset
            before = epochs.epoch_for_offset(start - 1)
            view = self.leader.metadata  # of all records: the real one waits until it has them
            found = None if before is None else view.segment(NAME, before, start - 1)
            if found is None:
                _cut(log, partial(log.truncate_fully_and_start_at, start, NOW_MS))
            else:
                state = await self.follower.tasks._state_before(NAME, before or 0, start)
                low = min(source.log_start_offset, state.next_offset)
                restart = partial(log.restart_behind_tier, state.next_offset, low)
                _cut(log, partial(restart, state.epochs, state.snapshot, NOW_MS))
                if log.needs_flush_of_epochs:
                    log.flush()
        while log.log_end_offset < source.log_end_offset:
            read = source.read(log.log_end_offset, 10_000, upper_bound_offset=source.log_end_offset)
            log.append_as_follower(bytearray(read.records.read()), now_ms=NOW_MS)

    def _truncate(self, log: Log, offset: int) -> None:
        # As in Kafka: transactions that are open below the log's segments are forgotten then.
        self.forgets_transactions |= offset < log.local_log_start_offset
        _cut(log, partial(log.truncate_to, offset, NOW_MS))

    async def elect(self) -> None:
        if self.random.random() < 0.7 or not self.is_following:
            await self.replicate()
            if not self.is_following:
                return
        # Some elections are unclean: the records that only the old leader has count no longer.
        self.leader, self.follower = self.follower, self.leader
        self.is_following = False
        self.epoch += 1
        log = self.leader.log
        log.assign_epoch_start(self.epoch, log.log_end_offset)
        log.update_high_watermark(log.log_end_offset)
        # The first thing that its copies do: a follower may not know that the start has moved.
        metadata = self.leader.metadata
        log.maybe_increment_log_start_offset(copying.log_start_in_tier(log, NAME, metadata))
        if not self.leader.role.is_leader:
            self.leader.cancel_tasks()
            self.leader.role = _Tasks(NAME, is_leader=True)
        await wait_all_tasks_blocked()

    async def restart(self) -> None:
        self.crash(self.random.choice(self.brokers))
        await wait_all_tasks_blocked()

    # Tasks

    async def copy(self) -> None:
        await self._task(self._a_leader(), "_copy")

    async def expire(self) -> None:
        await self._task(self._a_leader(), "_expire")

    def _a_leader(self) -> Broker:
        """The leader, or one that does not know that it is deposed."""
        deposed = self.follower.role.is_leader and self.random.random() < 0.4
        return self.follower if deposed else self.leader

    async def look(self) -> None:
        if self.is_following:
            await self._task(self.follower, "_look")

    async def _task(self, broker: Broker, name: str) -> None:
        if name not in broker.scopes:
            broker.scopes[name] = trio.CancelScope()
            self.nursery.start_soon(self._run, broker, broker.role, name, broker.scopes[name])
        await wait_all_tasks_blocked()

    async def _run(self, broker: Broker, role: _Tasks, name: str, scope: trio.CancelScope) -> None:
        with scope:
            try:
                await getattr(broker.tasks, name)(role, broker.hosted)
            except (RemoteStorageError, KafkaError):
                pass
            except Crash:
                if broker.scopes.get(name) is scope:
                    self.crash(broker)
        if broker.scopes.get(name) is scope:
            del broker.scopes[name]

    async def grow_old(self) -> None:
        self.now_ms += 2 * expiry.ORPHAN_AGE_MS

    async def retain(self) -> None:
        for broker in self.brokers if self.is_following else [self.leader]:
            for _ in range(2):  # epochs must be on disk first
                delete_old_segments(broker.log, NOW_MS)
                if broker.log.leader_epochs.needs_sync:
                    broker.log.flush()

    async def delete_records(self) -> None:
        log = self.leader.log
        if log.high_watermark > log.log_start_offset and self.random.random() < 0.3:
            offset = self.random.randint(log.log_start_offset, log.high_watermark)
            log.maybe_increment_log_start_offset(offset)
            # A follower that leads next, uncleanly, does not know of it.
            self.forgotten_offset = max(self.forgotten_offset, offset)

    # Checks

    async def check(self) -> None:
        log = self.leader.log
        assert log.log_end_offset == len(self.records)
        assert log.log_start_offset <= log.local_log_start_offset <= log.high_watermark
        # What a deposed leader has deleted is forgotten with the next look of the leader.
        readable = copying.first_readable(log, NAME, self.leader.metadata)
        first = max(log.log_start_offset, min(readable, self.forgotten_offset))
        is_whole = True
        for offset in range(first, log.log_end_offset):
            try:
                data, _ = await self._read(offset, 1)
            except Nowhere:
                data = b""
            here = [one for one in iter_records(data) if one.offset == offset]
            if not here and offset < self.forgotten_offset:
                is_whole = False
                assert all(one.offset > offset for one in iter_records(data))
                continue
            (record,) = here
            assert bytes(record.value or b"") == self.records[offset].value, f"{offset} of {log}"
        stable = log.last_stable_offset
        if (
            stable > first
            and is_whole
            and not self.forgets_transactions
            and self.random.random() < 0.3
        ):
            start = self.random.randrange(first, stable)
            found = await self._read_committed(start)
            expected = committed(self.records, start, stable)
            assert found == expected, f"{found} instead of {expected} from {start} on"

    async def _read(
        self, offset: int, max_bytes: int, *, stable: bool = False
    ) -> tuple[bytes, list[Any]]:
        """The batches from an offset on; `stable`: as for read_committed, with the aborted
        transactions."""
        log, reads = self.leader.log, self.leader.reads
        if offset >= log.local_log_start_offset:
            upper = log.last_stable_offset if stable else log.log_end_offset
            read = log.read(offset, max_bytes, upper_bound_offset=upper, include_aborted=True)
            return read.records.read(), list(read.aborted_transactions or ())
        wanted = RemoteRead(
            Operation(None), Hosted.key, offset, max_bytes, True, False, stable, 500
        )
        for attempt in range(READ_ATTEMPTS):
            try:
                found = reads.in_memory(wanted) if attempt == 0 and offset % 2 else None
                if found is None:
                    found = await reads._records(wanted)
            except KafkaError as error:
                raise Nowhere(f"{offset} of {log} is nowhere: {error}") from error
            except RemoteStorageError:
                continue
            return found.records.read(), found.aborted
        raise AssertionError(f"{offset} of {log} cannot be read")

    async def _read_committed(self, offset: int) -> list[bytes]:
        """What a consumer of read_committed is given, as Kafka's consumers choose it."""
        found: list[bytes] = []
        log = self.leader.log
        while offset < log.last_stable_offset:
            max_bytes = self.random.randint(SIZE, 5 * SIZE)
            data, aborted = await self._read(offset, max_bytes, stable=True)
            waiting = sorted(aborted, key=lambda one: one.first_offset)
            dropped: set[int] = set()
            begun = offset
            for position, header in iter_batch_headers(data):
                if position + header.size_in_bytes > len(data):
                    break
                while waiting and waiting[0].first_offset <= header.last_offset:
                    dropped.add(waiting.pop(0).producer_id)
                (record,) = iter_records(data, position)
                if header.is_control:
                    if not _commits(record):
                        dropped.discard(header.producer_id)
                elif record.offset >= offset and header.producer_id not in dropped:
                    found.append(bytes(record.value or b""))
                offset = header.last_offset + 1
            assert offset > begun, f"no whole batch at {offset} of {log}"
        return found

    async def settle(self) -> None:
        """Without faults, and after a while, nothing is in the store that has no metadata."""
        self.is_calm = True
        while self.parked:
            await self.answer()
        await self.hear()
        await self.replicate()
        # As an operator ends hanging transactions: those whose first records were of an old leader,
        # below the start of the next one's log, which no truncation reaches.
        open_ones = self.leader.log.producer_state.transactions.ongoing.values()
        hanging = [one.producer_id for one in open_ones]
        for producer_id in dict.fromkeys([*open_transactions(self.records), *hanging]):
            self._append(*self._marker(producer_id, 1))
        end = max((one.end_offset for one in self.leader.metadata.segments(NAME)), default=0)
        while self.leader.log.log_end_offset <= end + 1 or open_transactions(self.records):
            for producer_id in open_transactions(self.records):
                self._append(*self._marker(producer_id, 1))
            await self.produce()  # past the orphans of logs that were longer
        await self.roll()
        self.leader.log.update_high_watermark(self.leader.log.log_end_offset)
        await self._task(self.leader, "_copy")
        for _ in range(3):
            self.now_ms += 2 * expiry.ORPHAN_AGE_MS
            await self._task(self.leader, "_expire")
        log = self.leader.log
        assert log.log_start_offset >= copying.first_readable(log, NAME, self.leader.metadata)
        await self.check()
        known = self.leader.metadata.segments(NAME)
        assert self.store.segment_ids == {one.segment_id.id for one in known}
        states = {one.state.name for one in known}
        assert states <= {"COPY_SEGMENT_FINISHED"}, states

    @property
    def digest(self) -> str:
        return hashlib.sha256(repr((self.topic, self.held)).encode()).hexdigest()


def open_transactions(records: list[Held]) -> list[int]:
    last = {one.producer_id: one for one in records if one.producer_id >= 0}
    return [number for number, one in last.items() if one.commits is None]


def committed(records: list[Held], start: int, end: int) -> list[bytes]:
    """The values that read_committed shows, of records from `start` to `end`."""
    fate = {one.producer_id: one.commits for one in records if one.commits is not None}
    return [
        one.value
        for one in records[start:end]
        if one.commits is None and (one.producer_id < 0 or fate[one.producer_id])
    ]


def _commits(marker: Any) -> bool:
    return EndTxnMarker.parse(marker.key, marker.value).kind is ControlRecordType.COMMIT


def _cut(log: Log, cut: Callable[[], object]) -> None:
    try:
        cut()
    except FlushFirst:
        log.flush()
        cut()


async def history(seed: int, steps: int = STEPS) -> str:
    """Play one; the digest of what it has done."""
    with tempfile.TemporaryDirectory() as directory:
        async with trio.open_nursery() as nursery:
            world = World(seed, directory, nursery)
            ways = [
                world.produce, world.produce, world.roll, world.replicate, world.copy, world.copy,
                world.retain, world.expire, world.look, world.delete_records, world.elect,
                world.restart, world.answer, world.answer, world.hear, world.grow_old,
            ]  # fmt: skip
            try:
                for _ in range(steps):
                    await world.random.choice(ways)()
                    await world.check()
                await world.settle()
            finally:
                nursery.cancel_scope.cancel()
                for broker in world.brokers:
                    broker.logs.release()
        return world.digest
