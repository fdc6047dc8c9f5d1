"""Random histories of a tiered partition on two brokers, beside a dumb twin: a list of its records.

Produce, roll, replicate, copy, delete locally, expire, delete records, elect (cleanly or not), and
restart; the store and the metadata fail at any step, and brokers crash in them. After each step
every record that counts is read from the leader, from its log or from the tier, and is the twin's.
In the end all that is in the store belongs to a segment with metadata.

The tasks are the real ones (`RemoteLogManager`); only their threads are not.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.remote.remote_log_manager import RemoteLogManager, RemoteSettings, _Tasks
from pybroker_kafka.protocol.errors import KafkaError
from pybroker_kafka.protocol.records.batch import iter_records
from pybroker_kafka.protocol.wall_clock import WallClock
from pybroker_kafka.replication.remote import copying, expiry, reading
from pybroker_kafka.replication.types import TopicStats
from pybroker_kafka.storage.local_log import CutNotNoted
from pybroker_kafka.storage.log import Log
from pybroker_kafka.storage.remote.index_cache import RemoteIndexCache
from pybroker_kafka.storage.remote.segments import RemoteLogSegmentMetadata, TopicIdPartition
from pybroker_kafka.storage.remote.storage_manager import (
    IndexType,
    LogSegmentData,
    RemoteResourceNotFoundError,
    RemoteStorageError,
)
from pybroker_kafka.storage.retention import delete_old_segments
from tests.support.appends import append_as_leader
from tests.support.remote_metadata import SharedMetadata
from tests.unit.storage.helpers import batch_of, manager_of
from tests.unit.storage.tiered import tiered_config

HISTORIES = 60
STEPS = 60
NAME = TopicIdPartition(bytes(range(16)), "t", 0)
SIZE = len(batch_of(b"v000"))


class Crash(BaseException):
    """The broker is killed."""


class Store:
    """Objects in memory; `trouble` is called before and after each change."""

    def __init__(self, trouble: Callable[[], None]) -> None:
        self.objects: dict[bytes, tuple[bytes, dict[IndexType, bytes]]] = {}
        self._trouble = trouble

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        self._trouble()
        indexes = {
            IndexType.OFFSET: Path(data.offset_index).read_bytes(),
            IndexType.TIMESTAMP: Path(data.time_index).read_bytes(),
            IndexType.PRODUCER_SNAPSHOT: Path(data.producer_snapshot).read_bytes(),
            IndexType.LEADER_EPOCH: data.leader_epochs,
        }
        segment = Path(data.log_segment).read_bytes()
        assert len(segment) == metadata.segment_size_bytes
        self.objects[metadata.segment_id.id] = segment, indexes
        self._trouble()
        return None

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        return self._of(metadata)[0][start:end]

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> bytes:
        indexes = self._of(metadata)[1]
        if index_type not in indexes:
            raise RemoteResourceNotFoundError(str(index_type))
        return indexes[index_type]

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        self._trouble()
        self.objects.pop(metadata.segment_id.id, None)
        self._trouble()

    def close(self) -> None:
        pass

    def _of(self, metadata: RemoteLogSegmentMetadata) -> tuple[bytes, dict[IndexType, bytes]]:
        found = self.objects.get(metadata.segment_id.id)
        if found is None:
            raise RemoteResourceNotFoundError(str(metadata.segment_id))
        return found


class TroubledMetadata(SharedMetadata):
    def __init__(self, trouble: Callable[[], None]) -> None:
        super().__init__()
        self._trouble = trouble

    async def add(self, metadata: Any) -> None:
        self._trouble()
        await super().add(metadata)
        self._trouble()

    async def update(self, update: Any) -> None:
        self._trouble()
        await super().update(update)
        self._trouble()


class Hosted:
    """A partition, as far as the tasks know it."""

    key = ("t", 0)

    def __init__(self, log: Log) -> None:
        self.log = log
        self.stats = TopicStats()


class Replicas:
    """AppliedReplicas, as far as the tasks know them."""

    def __init__(self) -> None:
        self.manager = self
        self.partitions: dict[Any, Any] = {}
        self.waiting = self
        self.wall = WallClock()
        self.now_ms = 10_000_000
        self.applying = self

    def clock(self) -> int:
        return self.now_ms

    def check(self, _key: object) -> None:
        pass

    def __enter__(self) -> Replicas:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Tasks(RemoteLogManager):
    async def _in_thread(self, call: Any, limiter: trio.CapacityLimiter) -> Any:
        return call()


class Broker:
    def __init__(self, number: int, directory: str, world: World) -> None:
        self.number = number
        self.directory = directory
        self._world = world
        self.start()

    def start(self) -> None:
        config = tiered_config(
            segment_bytes=3 * SIZE, local_retention_bytes=4 * SIZE, retention_ms=-1,
            retention_bytes=self._world.retention_bytes, index_interval_bytes=SIZE,
            segment_ms=10**12, file_delete_delay_ms=0,
        )  # fmt: skip
        self.logs = manager_of(self.directory, config=config, now_ms=10_000_000)
        log = self.logs.get_or_create_log("t", 0, NAME.topic_id, None, 10_000_000)
        self.hosted = Hosted(log)
        world = self._world
        cache = f"{self.directory}-cache"
        self.tasks = Tasks(
            world.replicas,  # type: ignore[arg-type]
            world.store,
            world.metadata,
            RemoteIndexCache(cache, world.store, 10_000, Lock),
            RemoteSettings(self.number),
            lambda: world.random.randbytes(16),
        )
        self.role = _Tasks(NAME, is_leader=False)

    @property
    def log(self) -> Log:
        return self.hosted.log


class World:
    """Two brokers, the tier and the twin."""

    def __init__(self, seed: int, directory: str) -> None:
        self.random = random.Random(seed)
        self.fault_rate = self.random.choice([0, 0.05, 0.2])
        self.is_calm = False
        self.retention_bytes = self.random.choice([-1, 12 * SIZE])
        self.replicas = Replicas()
        self.store = Store(self._trouble)
        self.metadata = TroubledMetadata(self._trouble)
        self.brokers = [Broker(n, f"{directory}/{n}", self) for n in range(2)]
        self.leader, self.follower = self.brokers
        self.epoch = 0
        # Of each broker, by offset; those of the leader count.
        self.held: dict[int, list[bytes]] = {0: [], 1: []}
        self.count = 0
        # Whether the follower has reconciled its log with the leader's since the election.
        self.is_following = True

    def _trouble(self) -> None:
        if not self.is_calm and self.random.random() < self.fault_rate:
            if self.random.random() < 0.3:
                raise Crash
            raise RemoteStorageError("planned")

    @property
    def records(self) -> list[bytes]:
        return self.held[self.leader.number]

    # Steps

    async def produce(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            value = b"v%03d" % self.count
            self.count += 1
            batch = batch_of(value, timestamp=1000 + self.count)
            append_as_leader(self.leader.log, batch, leader_epoch=self.epoch, now_ms=10_000_000)
            self.records.append(value)
        # The follower is not in sync, unless it replicates: what the leader has counts.
        self.leader.log.update_high_watermark(self.leader.log.log_end_offset)

    async def roll(self) -> None:
        if self.leader.log.segments.active.size:
            self.leader.log.roll(10_000_000)

    async def replicate(self) -> None:
        """The follower gets all, by rebuilding its log behind the tier if it has to."""
        source, log = self.leader.log, self.follower.log
        epochs = source.leader_epochs
        while log.log_end_offset > 0 and log.latest_epoch is not None:
            epoch, end = source.end_offset_for_epoch(log.latest_epoch)
            own_epoch, own_end = log.end_offset_for_epoch(epoch)
            cut = end if epoch == log.latest_epoch else min(own_end, end) if own_epoch >= 0 else 0
            if cut >= log.log_end_offset or epoch < 0:
                break
            self._cut(log, partial(log.truncate_to, max(cut, 0), 10_000_000))
        if log.log_end_offset > source.log_end_offset:
            self._cut(log, partial(log.truncate_to, source.log_end_offset, 10_000_000))
        if log.log_end_offset < source.local_log_start_offset:
            start = source.local_log_start_offset
            before = epochs.epoch_for_offset(start - 1)
            found = None if before is None else self.metadata.segment(NAME, before, start - 1)
            if found is None:
                self._cut(log, partial(log.truncate_fully_and_start_at, start, 10_000_000))
            else:
                state = await self.follower.tasks._state_before(NAME, before or 0, start)
                low = min(source.log_start_offset, state.next_offset)
                restart = partial(log.restart_behind_tier, state.next_offset, low)
                self._cut(log, partial(restart, state.epochs, state.snapshot, 10_000_000))
        while log.log_end_offset < source.log_end_offset:
            read = source.read(log.log_end_offset, 10_000, upper_bound_offset=source.log_end_offset)
            log.append_as_follower(bytearray(read.records.read()), now_ms=10_000_000)
        self.held[self.follower.number] = list(self.records)
        self.is_following = True
        log.update_high_watermark(source.high_watermark)
        if source.log_start_offset > log.log_start_offset:
            log.maybe_increment_log_start_offset(source.log_start_offset)

    def _cut(self, log: Log, cut: Callable[[], object]) -> None:
        try:
            cut()
        except CutNotNoted:
            log.flush()
            cut()

    async def copy(self) -> None:
        await self._task(self.leader, "_copy")

    async def expire(self) -> None:
        await self._task(self.leader, "_expire")

    async def look(self) -> None:
        if self.is_following:
            await self._task(self.follower, "_look")

    async def retain(self) -> None:
        delete_old_segments(self.leader.log, 10_000_000)
        if self.is_following:
            delete_old_segments(self.follower.log, 10_000_000)

    async def delete_records(self) -> None:
        log = self.leader.log
        if log.high_watermark > log.log_start_offset and self.random.random() < 0.3:
            offset = self.random.randint(log.log_start_offset, log.high_watermark)
            log.maybe_increment_log_start_offset(offset)

    async def elect(self) -> None:
        if self.random.random() < 0.7 or not self.is_following:
            await self.replicate()
        # Some elections are unclean: the records that only the old leader has count no longer.
        self.leader, self.follower = self.follower, self.leader
        self.is_following = False
        self.epoch += 1
        log = self.leader.log
        log.assign_epoch_start(self.epoch, log.log_end_offset)
        log.update_high_watermark(log.log_end_offset)
        # The first thing that its copies do: a follower may not know that the start has moved.
        log.maybe_increment_log_start_offset(copying.log_start_in_tier(log, NAME, self.metadata))
        for broker in self.brokers:
            broker.role = _Tasks(NAME, is_leader=broker is self.leader)

    async def restart(self) -> None:
        broker = self.random.choice(self.brokers)
        broker.logs.clean_shutdown()
        broker.start()

    async def _task(self, broker: Broker, name: str) -> None:
        try:
            await getattr(broker.tasks, name)(broker.role, broker.hosted)
        except (RemoteStorageError, KafkaError):
            pass
        except Crash:
            broker.logs.clean_shutdown()
            broker.start()

    # Checks

    def check(self) -> None:
        log = self.leader.log
        assert log.log_end_offset == len(self.records)
        assert log.log_start_offset <= log.local_log_start_offset <= log.high_watermark
        for offset in range(log.log_start_offset, log.log_end_offset):
            assert self._value_at(log, offset) == self.records[offset], f"{offset} of {log}"

    def _value_at(self, log: Log, offset: int) -> bytes | None:
        if offset >= log.local_log_start_offset:
            data = log.read(offset, 1, upper_bound_offset=log.log_end_offset).records.read()
        else:
            metadata = reading.segment_at(log, NAME, self.metadata, offset)
            assert metadata is not None, f"{offset} of {log} is nowhere"
            file = reading.RemoteSegmentFile(self.store, metadata)
            end_offset = reading.end_of_valid(log, metadata, offset)
            found = reading.read_batches(
                file, metadata.segment_size_bytes, 0, offset, 1, min_one_batch=True,
                strict_limit=False, end_offset=end_offset,
            )  # fmt: skip
            assert found is not None
            data = found.records.read()
        (record,) = (one for one in iter_records(data) if one.offset == offset)
        return None if record.value is None else bytes(record.value)

    async def settle(self) -> None:
        """Without faults, and after a while, nothing is in the store that has no metadata."""
        self.is_calm = True
        end = max((one.end_offset for one in self.metadata.known.values()), default=0)
        while self.leader.log.log_end_offset <= end + 1:
            await self.produce()  # past the orphans of logs that were longer
        await self.roll()
        await self.copy()
        for _ in range(3):
            self.replicas.now_ms += 2 * expiry.ORPHAN_AGE_MS
            await self.expire()
        self.check()
        known = {one.segment_id.id for one in self.metadata.known.values()}
        assert set(self.store.objects) == known
        states = {one.state.name for one in self.metadata.known.values()}
        assert states <= {"COPY_SEGMENT_FINISHED"}, states


async def history(seed: int) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(seed, directory)
        world.leader.role = _Tasks(NAME, is_leader=True)
        steps = [
            world.produce, world.produce, world.roll, world.replicate, world.copy, world.copy,
            world.retain, world.expire, world.look, world.delete_records, world.elect,
            world.restart,
        ]  # fmt: skip
        try:
            for _ in range(STEPS):
                await world.random.choice(steps)()
                world.check()
            await world.settle()
        finally:
            for broker in world.brokers:
                broker.logs.release()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_record_that_counts_is_read(seed: int) -> None:
    trio.run(history, seed)


# Planted faults


def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The local segment may go before the metadata of its copy is written."""
    copy = Tasks._copy_segment

    async def copy_early(
        self: Tasks, tasks: Any, hosted: Any, log: Log, candidate: copying.Candidate
    ) -> None:
        log.update_highest_offset_in_remote_storage(candidate.next_offset - 1)
        await copy(self, tasks, hosted, log, candidate)

    monkeypatch.setattr(Tasks, "_copy_segment", copy_early)


def _any_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader takes the copies of another one, of other epochs, for its own."""

    def highest(_log: Log, partition: TopicIdPartition, known: Any) -> int:
        return max((one.end_offset for one in known.segments(partition)), default=-1)

    monkeypatch.setattr(copying, "highest_copied_offset", highest)


def _no_orphans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "_is_orphan", lambda *_: False)


def _late_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Segments are deleted, and the log start stays."""
    look = expiry.look

    def look_without(*arguments: Any, **options: Any) -> expiry.Expiry:
        return look(*arguments, **options)._replace(log_start_offset=None)

    monkeypatch.setattr(expiry, "look", look_without)


@pytest.mark.parametrize("plant", [_early, _any_epoch, _no_orphans, _late_start])
def test_planted_faults_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in range(HISTORIES):
        try:
            trio.run(history, seed)
        except (AssertionError, KafkaError):
            return
    pytest.fail(f"{HISTORIES} histories do not show it")
