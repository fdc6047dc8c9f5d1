"""Reading ahead beside a dumb twin: a store whose bytes are known, and a list of what is in memory.

Readers read on, begin elsewhere, and pause, while ranges arrive in any order or fail. What they get
is what the store has, and memory and threads stay within their limits.
"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pybroker_kafka.replication.remote.prefetch import IDLE_MS, MOST_AHEAD, Prefetch, Range
from pybroker_kafka.replication.remote.reading import Ahead, RemoteSegmentFile
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from pybroker_kafka.storage.remote.storage_manager import RemoteStorageError

RANGE = 64
PARTITION = TopicIdPartition(bytes(16), "t", 0)


class Store:
    """Reads are counted; only `fetch_log_segment` is there."""

    def __init__(self, sizes: list[int]) -> None:
        bytes_of = random.Random(len(sizes)).randbytes
        self.contents = [bytes_of(size) for size in sizes]
        self.segments = [
            RemoteLogSegmentMetadata(
                RemoteLogSegmentId(PARTITION, bytes(15) + bytes([number])),
                number, number, 0, 1, 0, size, ((0, number),),
            )
            for number, size in enumerate(sizes)
        ]  # fmt: skip
        self.bytes_read = 0
        self.reads = 0

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> bytes:
        self.bytes_read += end - start
        self.reads += 1
        return self.contents[metadata.start_offset][start:end]

    def following(self, metadata: RemoteLogSegmentMetadata) -> RemoteLogSegmentMetadata | None:
        number = metadata.start_offset + 1
        return self.segments[number] if number < len(self.segments) else None


class Reader:
    def __init__(self, world: World) -> None:
        self._world = world
        self._random = world.random
        self.number, self.position = 0, 0
        self.is_at_end = False

    def jump(self) -> None:
        self.number = self._random.randrange(len(self._world.store.segments))
        self.position = self._random.randrange(len(self._world.store.contents[self.number]))
        self.is_at_end = False

    def read(self, size: int, overlap: int = 0) -> None:
        """The next bytes, and then those behind them, except for a batch that was cut."""
        world = self._world
        segment = world.store.segments[self.number]
        file = RemoteSegmentFile(world.store, segment, world.ahead(segment))  # type: ignore[arg-type]
        try:
            found = file.read_at(size, self.position)
        except RemoteStorageError:
            return
        content = world.store.contents[self.number]
        assert found == content[self.position : self.position + size]
        end = self.position + len(found)
        world.note(segment, self.position, end, found)
        if end < len(content):
            self.position = max(self.position + 1, end - overlap)
        elif self.number + 1 < len(world.store.segments):
            self.number, self.position = self.number + 1, 0
        else:
            self.is_at_end = True


class World:
    def __init__(self, seed: int, *, max_bytes: int, max_loading: int, sizes: list[int]) -> None:
        self.random = random.Random(seed)
        self.store = Store(sizes)
        self.plan = Prefetch(max_bytes, max_loading, RANGE)
        self.max_loading = max_loading
        self.limit = max_bytes
        self.held: dict[Range, bytes] = {}
        self.loading: list[Range] = []
        self.fault_rate = 0.0
        self.now_ms = 0

    def ahead(self, segment: RemoteLogSegmentMetadata) -> list[Ahead]:
        return [
            Ahead(one.start, one.end, lambda one=one: self.wait(one))  # type: ignore[misc]
            for one in self.plan.ranges_of(segment)
        ]

    def wait(self, one: Range) -> bytes:
        if one in self.loading and not self.arrive(one):
            raise RemoteStorageError("planned")
        return self.held[one]

    def arrive(self, one: Range) -> bool:
        self.loading.remove(one)
        if self.random.random() < self.fault_rate:
            self.plan.failed(one)
            return False
        data = self.store.fetch_log_segment(one.segment, one.start, one.end)
        self.held[one] = data
        self.plan.loaded(one)
        return True

    def note(self, segment: RemoteLogSegmentMetadata, start: int, end: int, found: bytes) -> None:
        most_bytes = self.random.choice([10**9, 10**9, RANGE])
        kept, to_load = self.plan.read(
            segment, start, end, self.store.following, self.now_ms, most_bytes
        )
        if kept is not None:
            assert (kept.start, kept.end) == (start, end)
            self.held[kept] = found
        self.loading += to_load

    def check(self) -> None:
        self.plan.check()
        self.held = {one: data for one, data in self.held.items() if not one.is_dropped}
        assert len(self.loading) == self.plan.loading <= self.max_loading
        held = sum(map(len, self.held.values())) + sum(one.size for one in self.loading)
        assert self.plan.held_bytes == held <= self.limit

    def play(self, steps: int) -> None:
        readers = [Reader(self) for _ in range(self.random.randint(1, 4))]
        for _ in range(steps):
            reader = self.random.choice(readers)
            match self.random.randrange(20):
                case 0:
                    reader.jump()
                case 1:
                    self.now_ms += self.random.choice([100, 2000, IDLE_MS])
                case 2 | 3 | 4 if self.loading:
                    self.arrive(self.random.choice(self.loading))
                case _:
                    reader.read(self.random.choice([1, 20, 50, 300]), self.random.choice([0, 7]))
            self.check()


def sizes_of(chosen: random.Random) -> list[int]:
    return [chosen.choice([1, 50, 64, 500, 2000]) for _ in range(chosen.randint(1, 6))]


@given(st.integers(0, 2**32))
def test_readers_get_what_the_store_has_within_the_limits(seed: int) -> None:
    chosen = random.Random(seed)
    max_bytes = chosen.choice([0, 10, 200, 1000, 10_000])
    world = World(
        seed, max_bytes=max_bytes, max_loading=chosen.choice([1, 3, 10]), sizes=sizes_of(chosen)
    )
    world.fault_rate = chosen.choice([0, 0.1])
    world.play(150)
    world.now_ms += IDLE_MS
    world.plan.expire(world.now_ms)
    while world.loading:
        world.arrive(world.loading[0])
    world.check()
    assert world.plan.is_idle
    assert not world.plan.held_bytes


@given(st.integers(0, 2**32))
def test_a_reader_that_reads_on_reads_each_byte_once(seed: int) -> None:
    chosen = random.Random(seed)
    world = World(seed, max_bytes=10_000, max_loading=4, sizes=sizes_of(chosen))
    world.random.choice = lambda values: values[0]  # type: ignore[method-assign,assignment]
    reader = Reader(world)
    size = chosen.choice([20, 64, 100])
    while not reader.is_at_end:
        reader.read(size, overlap=chosen.choice([0, 5]))
        world.check()
        while world.loading and chosen.random() < 0.5:
            world.arrive(world.loading[0])
    total = sum(map(len, world.store.contents))
    assert total <= world.store.bytes_read <= total + size


def test_ranges_grow_and_reach_over_the_end_of_a_segment() -> None:
    world = World(0, max_bytes=10_000, max_loading=10, sizes=[100, 1000])
    reader = Reader(world)
    asked: list[tuple[int, int, int]] = []
    for _ in range(4):
        reader.read(10)
        asked += [(one.segment.start_offset, one.start, one.end) for one in world.loading]
        while world.loading:
            world.arrive(world.loading[0])
    assert asked == [(0, 20, 30), (0, 30, 50), (0, 50, 90)]
    while reader.number == 0:
        reader.read(10)
    assert any(one.segment.start_offset == 1 for one in world.loading)
    ahead = sum(one.size for one in world.loading)
    assert ahead < (MOST_AHEAD + 1) * RANGE


def test_a_stream_gives_way_when_it_is_not_read_any_more() -> None:
    world = World(0, max_bytes=300, max_loading=10, sizes=[1000])
    one, other = Reader(world), Reader(world)
    other.position = 500
    for _ in range(4):
        one.read(50)
    before = len(world.loading)
    other.read(50)
    other.read(50)
    world.check()
    assert len(world.loading) == before, "another reader's ranges were dropped"
    world.now_ms += 5000
    while world.loading:
        world.arrive(world.loading[0])
    other.read(50)
    world.check()
    assert world.loading, "the reader that has gone keeps its memory"


def test_less_memory_drops_what_is_held() -> None:
    world = World(0, max_bytes=1000, max_loading=10, sizes=[1000])
    reader = Reader(world)
    for _ in range(3):
        reader.read(50)
    world.plan.resize(10)
    while world.loading:
        world.arrive(world.loading[0])
    world.check()
    assert not world.plan.held_bytes
