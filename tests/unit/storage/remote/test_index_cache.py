"""The cache of remote indexes: what it answers, what it keeps, and what it finds again."""

from __future__ import annotations

import errno
import os
import random
import struct
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pybroker_kafka.protocol.primitives import Buffer
from pybroker_kafka.storage.remote.index_cache import RemoteIndexCache, SegmentIndexes
from pybroker_kafka.storage.remote.segments import RemoteLogSegmentMetadata
from pybroker_kafka.storage.remote.storage_manager import (
    IndexType,
    LogSegmentData,
    RemoteResourceNotFoundError,
    RemoteStorageError,
)
from tests.support.faulty_files import FaultyFiles

from .tiers import started

BASE = 1000
OFFSETS = [(10, 0), (25, 4000), (40, 9000)]  # relative offset, position
TIMES = [(500, 10), (700, 25), (900, 40)]
ABORTED = [(1, 1005, 1020, 1021), (2, 1030, 1038, 1041)]
ENTRY_BYTES = 3 * 8 + 3 * 12 + 2 * 34


class Store:
    """A store with the same indexes for each segment, which counts the questions."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[bytes, IndexType]] = Counter()
        self.indexes: dict[IndexType, bytes] = {
            IndexType.OFFSET: b"".join(struct.pack(">ii", *one) for one in OFFSETS),
            IndexType.TIMESTAMP: b"".join(struct.pack(">qi", *one) for one in TIMES),
            IndexType.TRANSACTION: b"".join(struct.pack(">hqqqq", 0, *one) for one in ABORTED),
        }

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> Buffer:
        self.asked[metadata.segment_id.id, index_type] += 1
        if index_type not in self.indexes:
            raise RemoteResourceNotFoundError(index_type.value)
        return memoryview(self.indexes[index_type])

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, data: LogSegmentData
    ) -> bytes | None:
        raise NotImplementedError

    def fetch_log_segment(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> Buffer:
        raise NotImplementedError

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


def cache_in(directory: Path, store: Store, max_bytes: int = 1 << 20) -> RemoteIndexCache:
    return RemoteIndexCache(str(directory), store, max_bytes, threading.Lock)


def segment(number: int) -> RemoteLogSegmentMetadata:
    return started(number, BASE, BASE + 99)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_questions_are_answered_from_the_entries(tmp_path: Path) -> None:
    entry = cache_in(tmp_path, Store()).entry(segment(1))
    assert [entry.lookup_offset(BASE + one) for one in (0, 9, 10, 24, 25, 99)] == [
        0, 0, 0, 0, 4000, 9000
    ]  # fmt: skip
    assert [entry.lookup_timestamp(one, BASE) for one in (1, 500, 700, 899, 900, 9999)] == [
        0, 0, 4000, 4000, 9000, 9000
    ]  # fmt: skip
    assert entry.lookup_timestamp(1, BASE + 30) == 4000
    assert [entry.upper_bound_offset(0, size) for size in (0, 1, 4000, 4001, 9001)] == [
        BASE + 10, BASE + 25, BASE + 25, BASE + 40, None
    ]  # fmt: skip
    found, is_all = entry.aborted(BASE + 22, BASE + 35)
    assert [one.producer_id for one in found] == [2]
    assert is_all
    assert entry.aborted(BASE, BASE + 2000)[1] is False
    assert entry.size_bytes == ENTRY_BYTES


def test_empty_indexes_answer_with_the_beginning(tmp_path: Path) -> None:
    store = Store()
    store.indexes = {IndexType.OFFSET: b"", IndexType.TIMESTAMP: b""}
    entry = cache_in(tmp_path, store).entry(segment(1))
    assert (entry.lookup_offset(BASE + 5), entry.lookup_timestamp(5, BASE)) == (0, 0)
    assert (entry.upper_bound_offset(0, 1), entry.aborted(0, 9999)) == (None, ([], False))


@pytest.mark.parametrize("seed", range(20))
def test_look_ups_agree_with_a_search_from_the_beginning(seed: int) -> None:
    draw = random.Random(seed)
    count = draw.randrange(30)
    offsets = list(zip(*(sorted(draw.sample(range(1000), count)) for _ in "ab"), strict=True))
    times = list(zip(*(sorted(draw.sample(range(1000), count)) for _ in "ab"), strict=True))
    entry = SegmentIndexes(
        BASE,
        {
            IndexType.OFFSET: b"".join(struct.pack(">ii", *one) for one in offsets),
            IndexType.TIMESTAMP: b"".join(struct.pack(">qi", *one) for one in times),
            IndexType.TRANSACTION: b"",
        },
    )
    for wanted in range(0, 1001, 7):
        position = max((at for one, at in offsets if one <= wanted), default=0)
        assert entry.lookup_offset(BASE + wanted) == position
        upper = min((one for one, at in offsets if at >= wanted), default=None)
        assert entry.upper_bound_offset(0, wanted) == (None if upper is None else BASE + upper)
        offset = max((one for time, one in times if time <= wanted), default=0)
        assert entry.lookup_timestamp(wanted, 0) == entry.lookup_offset(BASE + offset)


def test_an_entry_is_fetched_once_and_found_after_a_restart(tmp_path: Path) -> None:
    store = Store()
    cache = cache_in(tmp_path, store)
    assert cache.entry(segment(1)) is cache.entry(segment(1))
    again = cache_in(tmp_path, store).entry(segment(1))
    assert again.lookup_offset(BASE + 30) == 4000
    assert set(store.asked.values()) == {1}
    assert names(tmp_path) == [
        f"1000_c2VnbWVudCAAAAAAAAAAAQ.{suffix}" for suffix in ("index", "timeindex", "txnindex")
    ]


def test_a_segment_without_aborted_transactions_has_an_empty_file(tmp_path: Path) -> None:
    store = Store()
    del store.indexes[IndexType.TRANSACTION]
    assert cache_in(tmp_path, store).entry(segment(1)).aborted(0, 9999) == ([], False)
    assert cache_in(tmp_path, store).entry(segment(1)).aborted(0, 9999) == ([], False)
    assert len(store.asked) == 3
    assert [path.stat().st_size for path in sorted(tmp_path.iterdir())] == [24, 36, 0]


def test_entries_have_at_most_the_bytes_and_the_oldest_goes(tmp_path: Path) -> None:
    store = Store()
    cache = cache_in(tmp_path, store, 2 * ENTRY_BYTES)
    first = cache.entry(segment(1))
    cache.entry(segment(2))
    cache.entry(segment(1))
    cache.entry(segment(3))
    assert len(names(tmp_path)) == 6
    cache.entry(segment(1))
    assert store.asked[segment(1).segment_id.id, IndexType.OFFSET] == 1
    cache.entry(segment(2))
    assert store.asked[segment(2).segment_id.id, IndexType.OFFSET] == 2
    cache.resize(1)
    assert len(names(tmp_path)) == 3
    assert first.lookup_offset(BASE + 30) == 4000
    cache_in(tmp_path, store, 1)
    assert len(names(tmp_path)) == 3


def test_entries_at_hand_are_those_that_are_mapped_and_stay_while_they_are_used(
    tmp_path: Path,
) -> None:
    store = Store()
    cache = cache_in(tmp_path, store, 2 * ENTRY_BYTES)
    assert cache.at_hand(segment(1)) is None
    first = cache.entry(segment(1))
    cache.entry(segment(2))
    assert cache.at_hand(segment(1)) is first
    cache.entry(segment(3))
    assert cache.at_hand(segment(1)) is first
    assert cache.at_hand(segment(2)) is None
    assert first.has_few_aborted
    assert cache_in(tmp_path, store).at_hand(segment(1)) is None, "not mapped yet"
    cache.resize(1)
    assert len(names(tmp_path)) == 3


def test_removed_segments_are_gone(tmp_path: Path) -> None:
    cache = cache_in(tmp_path, Store())
    cache.entry(segment(1))
    cache.entry(segment(2))
    cache.remove([segment(1).segment_id, segment(7).segment_id])
    assert len(names(tmp_path)) == 3
    assert cache._size == ENTRY_BYTES


def test_incomplete_entries_and_other_files_are_removed_at_the_start(tmp_path: Path) -> None:
    store = Store()
    cache = cache_in(tmp_path, store)
    for number in range(4):
        cache.entry(segment(number))
    paths = sorted(tmp_path.iterdir())
    paths[0].unlink()
    os.truncate(paths[4], 35)
    for name in ("1000_c2VnbWVudCAAAAAAAAAAAg.index.tmp", "x.index", "1_abc.index.deleted"):
        (tmp_path / name).touch()
    assert cache_in(tmp_path, store)._size == 2 * ENTRY_BYTES
    assert len(names(tmp_path)) == 6


def test_files_that_are_gone_are_fetched_again(tmp_path: Path) -> None:
    store = Store()
    cache_in(tmp_path, store).entry(segment(1))
    cache = cache_in(tmp_path, store)
    for path in tmp_path.iterdir():
        path.unlink()
    assert cache.entry(segment(1)).lookup_offset(BASE + 30) == 4000
    assert set(store.asked.values()) == {2}


@pytest.mark.parametrize("operation", ["open", "sync", "rename"])
def test_a_full_disk_costs_the_files_only(tmp_path: Path, operation: str) -> None:
    files, store = FaultyFiles(), Store()
    cache = RemoteIndexCache(str(tmp_path), store, 1 << 20, threading.Lock, files)
    files.fail(operation, errno.ENOSPC, path_part=".timeindex")
    assert cache.entry(segment(1)).lookup_offset(BASE + 30) == 4000
    assert not [name for name in names(tmp_path) if not name.endswith(".tmp")]
    cache.entry(segment(1))
    assert len([name for name in names(tmp_path) if not name.endswith(".tmp")]) == 3


def test_a_damaged_index_and_a_missing_one_are_errors(tmp_path: Path) -> None:
    store = Store()
    store.indexes[IndexType.TIMESTAMP] += b"x"
    cache = cache_in(tmp_path, store)
    with pytest.raises(RemoteStorageError, match=r"time index of .* has 37 bytes"):
        cache.entry(segment(1))
    del store.indexes[IndexType.TIMESTAMP]
    with pytest.raises(RemoteResourceNotFoundError):
        cache.entry(segment(1))
    assert names(tmp_path) == []
    assert cache._fetching == {}


def test_threads_share_one_fetch(tmp_path: Path) -> None:
    store = Store()
    cache = cache_in(tmp_path, store, 3 * ENTRY_BYTES)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: cache.entry(segment(number % 3)), range(200)))
    assert set(store.asked.values()) == {1}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: cache.entry(segment(number % 7)), range(200)))
    assert cache._size == 3 * ENTRY_BYTES
    assert len(names(tmp_path)) == 9
