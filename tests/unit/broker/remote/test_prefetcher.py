"""Reads ahead in threads: what waits for them, what they count for, and when they are forgotten."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio

from pybroker_kafka.broker.remote import prefetcher as prefetcher_module
from pybroker_kafka.broker.remote.prefetcher import Prefetcher
from pybroker_kafka.replication.remote.prefetch import IDLE_MS
from pybroker_kafka.replication.remote.reading import NotInMemory, ReadRange, RemoteSegmentFile
from pybroker_kafka.replication.throttle import ReplicationQuota
from pybroker_kafka.storage.files import CopiedRange, FileSlice
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError
from tests.support.patience import eventually

SIZE = 4_000_000
PIECE = 300_000


def segment_of(topic: str) -> RemoteLogSegmentMetadata:
    name = RemoteLogSegmentId(TopicIdPartition(bytes(16), topic, 0), topic.encode().zfill(16))
    return RemoteLogSegmentMetadata(name, 0, 9, 0, 1, 0, SIZE, ((0, 0),))


class Store:
    """Reads of topic "slow" wait for the gate; those of "broken" fail."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.reads: list[tuple[str, int, int]] = []

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        topic = metadata.topic_id_partition.topic
        self.reads.append((topic, start, end))
        if topic == "slow":
            self.gate.wait()
        if topic == "broken":
            raise RemoteStorageError("planned")
        return bytes(end - start)


class Times:
    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def prefetcher_of(store: Any, clock: Times, threads: int = 4) -> Prefetcher:
    indexes: Any = None
    made = Prefetcher(store, indexes, ReplicationQuota(1), clock, threads=threads)
    made.resize(10_000_000)
    return made


def read(prefetcher: Prefetcher, topic: str, start: int) -> None:
    held = bytes(PIECE)
    slice_ = FileSlice(CopiedRange("x", held, start), start, len(held), held)
    prefetcher.read(segment_of(topic), ReadRange(slice_, 0), lambda _: None)


async def test_a_reader_waits_for_its_own_range_alone() -> None:
    store, clock = Store(), Times()
    prefetcher = prefetcher_of(store, clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(prefetcher.run)
        for topic in ("slow", "fast"):
            read(prefetcher, topic, 0)
            read(prefetcher, topic, PIECE)
        await eventually(lambda: ("fast", 2 * PIECE, 3 * PIECE) in store.reads)
        await eventually(lambda: prefetcher.plan.loading == 1)
        (kept, ahead) = prefetcher.of(segment_of("slow"))
        assert (kept.start, ahead.start, ahead.end) == (PIECE, 2 * PIECE, 3 * PIECE)
        waiting = RemoteSegmentFile(store, segment_of("slow"), [kept, ahead])  # type: ignore[arg-type]
        done = trio.Event()

        async def wait() -> None:
            await trio.to_thread.run_sync(waiting.read_at, PIECE, 2 * PIECE)
            done.set()

        nursery.start_soon(wait)
        fast = RemoteSegmentFile(store, segment_of("fast"), prefetcher.of(segment_of("fast")))  # type: ignore[arg-type]
        assert len(fast.read_at(2 * PIECE, PIECE)) == 2 * PIECE
        assert not done.is_set()
        store.gate.set()
        await done.wait()
        assert waiting.bytes_read == fast.bytes_read == 0
        nursery.cancel_scope.cancel()


async def test_a_range_that_fails_fails_its_reader_and_is_forgotten() -> None:
    store, clock = Store(), Times()
    prefetcher = prefetcher_of(store, clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(prefetcher.run)
        read(prefetcher, "broken", 0)
        read(prefetcher, "broken", PIECE)
        (_, ahead) = prefetcher.of(segment_of("broken"))
        await eventually(lambda: prefetcher.plan.loading == 0)
        with pytest.raises(RemoteStorageError, match="planned"):
            ahead.wait()
        assert [one.start for one in prefetcher.of(segment_of("broken"))] == [PIECE]
        nursery.cancel_scope.cancel()


async def test_a_task_that_waits_for_a_range_holds_no_thread() -> None:
    store, clock = Store(), Times()
    prefetcher = prefetcher_of(store, clock)
    segment = segment_of("slow")
    async with trio.open_nursery() as nursery:
        await nursery.start(prefetcher.run)
        read(prefetcher, "slow", 0)
        read(prefetcher, "slow", PIECE)

        def file() -> RemoteSegmentFile:
            return RemoteSegmentFile(store, segment, prefetcher.of(segment), in_memory=True)  # type: ignore[arg-type]

        assert len(file().read(PIECE, PIECE)) == PIECE, "the read before is kept"
        with pytest.raises(NotInMemory) as missing:
            file().read(PIECE, 2 * PIECE)
        ahead = missing.value.ahead
        assert ahead is not None
        with pytest.raises(NotInMemory) as unknown:
            file().read(PIECE, 0)
        assert unknown.value.ahead is None
        store.gate.set()
        await prefetcher.arrival(segment, ahead)
        found = file().read(1000, 2 * PIECE)
        (_, ahead) = prefetcher.of(segment)
        assert isinstance(found, memoryview)
        assert found.obj is ahead.data, "it was not copied"
        nursery.cancel_scope.cancel()


async def test_a_task_fails_with_the_range_that_it_waits_for() -> None:
    store, clock = Store(), Times()
    prefetcher = prefetcher_of(store, clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(prefetcher.run)
        read(prefetcher, "broken", 0)
        read(prefetcher, "broken", PIECE)
        (_, ahead) = prefetcher.of(segment_of("broken"))
        with pytest.raises(RemoteStorageError, match="planned"):
            await prefetcher.arrival(segment_of("broken"), ahead)
        nursery.cancel_scope.cancel()


async def test_ranges_count_for_the_quota_which_limits_them() -> None:
    store, clock = Store(), Times()
    prefetcher = prefetcher_of(store, clock)
    quota = prefetcher._quota
    async with trio.open_nursery() as nursery:
        await nursery.start(prefetcher.run)
        read(prefetcher, "fast", 0)
        read(prefetcher, "fast", PIECE)
        await eventually(lambda: prefetcher.plan.loading == 0)
        assert quota.rate() == PIECE
        quota.limit = PIECE
        read(prefetcher, "fast", 2 * PIECE)
        assert prefetcher.plan.loading == 0
        nursery.cancel_scope.cancel()


async def test_ranges_that_nobody_reads_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetcher_module, "LOOK_SECONDS", 0.01)
    store, clock = Store(), Times()
    prefetcher = prefetcher_of(store, clock)
    async with trio.open_nursery() as nursery:
        await nursery.start(prefetcher.run)
        read(prefetcher, "slow", 0)
        read(prefetcher, "slow", PIECE)
        clock.now_ms = IDLE_MS
        await eventually(lambda: prefetcher.plan.is_idle)
        assert prefetcher.plan.held_bytes == PIECE, "a range that loads still has its memory"
        store.gate.set()
        await eventually(lambda: prefetcher.plan.held_bytes == 0)
        assert not prefetcher._contents
        nursery.cancel_scope.cancel()
