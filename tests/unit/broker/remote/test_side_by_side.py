"""Calls that wait for one another end, and the indexes of a segment are fetched like this."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pybroker_kafka.broker.remote.side_by_side import side_by_side
from pybroker_kafka.protocol.primitives import Buffer
from pybroker_kafka.storage.remote.index_cache import RemoteIndexCache
from pybroker_kafka.storage.remote.segments import RemoteLogSegmentMetadata
from pybroker_kafka.storage.remote.storage_manager import (
    IndexType,
    RemoteResourceNotFoundError,
    RemoteStorageError,
)
from tests.unit.storage.remote.test_index_cache import Store, segment

LONGEST_SECONDS = 60


class Meeting(Store):
    """Each index is answered when three are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.barrier = threading.Barrier(3)

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> Buffer:
        self.barrier.wait(LONGEST_SECONDS)
        return super().fetch_index(metadata, index_type)


def cache_of(store: Store, directory: Path) -> RemoteIndexCache:
    return RemoteIndexCache(
        str(directory), store, 1 << 20, threading.Lock, side_by_side=side_by_side
    )


def test_the_indexes_of_a_segment_are_fetched_at_once(tmp_path: Path) -> None:
    store = Meeting()
    indexes = cache_of(store, tmp_path).entry(segment(1))
    assert indexes.lookup_offset(1030) == 4000
    assert sorted(store.asked.values()) == [1, 1, 1]
    del store.indexes[IndexType.TRANSACTION]
    assert cache_of(store, tmp_path).entry(segment(2)).aborted(1000, 1050) == ([], False)
    del store.indexes[IndexType.OFFSET]
    with pytest.raises(RemoteResourceNotFoundError, match=IndexType.OFFSET.value):
        cache_of(store, tmp_path).entry(segment(3))


def test_results_and_errors_come_in_the_order_of_the_calls() -> None:
    def fail(text: str) -> int:
        raise RemoteStorageError(text)

    caller = threading.get_ident()
    first, second = side_by_side([threading.get_ident, threading.get_ident])
    assert first == caller != second
    with pytest.raises(RemoteStorageError, match="one"):
        side_by_side([threading.get_ident, lambda: fail("one"), lambda: fail("two")])
