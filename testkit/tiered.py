"""Tests of the contract of remote storage managers, for anyone's manager.

    from pybroker_kafka.testkit.tiered import RemoteStorageManagerTests

    class TestMyStore(RemoteStorageManagerTests):
        def make_manager(self, directory):
            return MyStore({"bucket": "test", "broker.id": "1"})

pytest runs the inherited tests. `make_manager` is called for each broker of a test, with a
directory that the test's brokers share. Each test has topic ids of its own, so a store that is not
emptied between them will do.

The contract is in `storage/remote/storage_manager.py`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from ..storage.remote.storage_manager import (
    IndexType,
    LogSegmentData,
    RemoteResourceNotFoundError,
    RemoteStorageError,
    RemoteStorageManager,
)

LARGE_BYTES: Final = 20 * 1024 * 1024
READERS: Final = 8


class Copied:
    """A segment with its files, as a broker hands it to a manager."""

    def __init__(self, directory: Path, size_bytes: int = 3000, *, aborted: bool = True) -> None:
        directory.mkdir(exist_ok=True, parents=True)
        self.log = os.urandom(size_bytes)
        self.indexes = {
            one: os.urandom(100 + number)
            for number, one in enumerate(IndexType)
            if aborted or one is not IndexType.TRANSACTION
        }
        paths = {one: directory / one.name for one in self.indexes}
        for one, path in paths.items():
            path.write_bytes(self.indexes[one])
        (directory / "log").write_bytes(self.log)
        self.data = LogSegmentData(
            log_segment=str(directory / "log"),
            offset_index=str(paths[IndexType.OFFSET]),
            time_index=str(paths[IndexType.TIMESTAMP]),
            transaction_index=str(paths[IndexType.TRANSACTION]) if aborted else None,
            producer_snapshot=str(paths[IndexType.PRODUCER_SNAPSHOT]),
            leader_epochs=self.indexes[IndexType.LEADER_EPOCH],
        )
        partition = TopicIdPartition(os.urandom(16), "tests.of_a-store", 7)
        self.metadata = RemoteLogSegmentMetadata(
            RemoteLogSegmentId(partition, os.urandom(16)),
            start_offset=1_000,
            end_offset=1_999,
            max_timestamp_ms=1_700_000_000_000,
            broker_id=1,
            event_timestamp_ms=1_700_000_000_001,
            segment_size_bytes=size_bytes,
            segment_leader_epochs=((0, 1_000),),
        )

    def copy_to(self, manager: RemoteStorageManager) -> None:
        custom = manager.copy_log_segment_data(self.metadata, self.data)
        self.metadata = replace(
            self.metadata,
            state=RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
            custom_metadata=custom,
        )

    def check_in(self, manager: RemoteStorageManager) -> None:
        """The store has the segment and its indexes, and no others."""
        found = manager.fetch_log_segment(self.metadata, 0, len(self.log))
        assert bytes(found) == self.log, "other bytes than the segment's"
        for one in IndexType:
            if one in self.indexes:
                found = manager.fetch_index(self.metadata, one)
                assert bytes(found) == self.indexes[one], f"other bytes than the {one.value}'s"
            else:
                _expect_absent(manager, self.metadata, one)

    def check_gone_from(self, manager: RemoteStorageManager) -> None:
        _expect_absent(manager, self.metadata, None)
        for one in IndexType:
            _expect_absent(manager, self.metadata, one)


def _expect_absent(
    manager: RemoteStorageManager, metadata: RemoteLogSegmentMetadata, index: IndexType | None
) -> None:
    try:
        if index is None:
            manager.fetch_log_segment(metadata, 0, metadata.segment_size_bytes)
        else:
            manager.fetch_index(metadata, index)
    except RemoteResourceNotFoundError:
        return
    raise AssertionError(f"there is a {index.value if index else 'segment'}")


class RemoteStorageManagerTests(ABC):
    @abstractmethod
    def make_manager(self, directory: Path) -> RemoteStorageManager:
        """A configured manager that keeps what it stores below a directory."""

    def test_copied_segment_is_read_back(self, tmp_path: Path) -> None:
        manager = self.make_manager(tmp_path / "store")
        segment = Copied(tmp_path / "one")
        segment.copy_to(manager)
        segment.check_in(manager)
        manager.close()

    def test_each_range_is_exact(self, tmp_path: Path) -> None:
        manager = self.make_manager(tmp_path / "store")
        segment = Copied(tmp_path / "one")
        segment.copy_to(manager)
        size = len(segment.log)
        for start, end in _ranges(size):
            found = bytes(manager.fetch_log_segment(segment.metadata, start, end))
            assert found == segment.log[start:end], f"bytes {start} to {end} of {size}"
        manager.close()

    def test_segment_without_aborted_transactions_has_no_transaction_index(
        self, tmp_path: Path
    ) -> None:
        manager = self.make_manager(tmp_path / "store")
        segment = Copied(tmp_path / "one", aborted=False)
        segment.copy_to(manager)
        segment.check_in(manager)
        manager.close()

    def test_segment_that_was_never_copied_is_not_found(self, tmp_path: Path) -> None:
        manager = self.make_manager(tmp_path / "store")
        segment = Copied(tmp_path / "one")
        segment.check_gone_from(manager)
        manager.delete_log_segment_data(segment.metadata)
        manager.close()

    def test_deleted_segment_is_gone_and_may_be_deleted_again(self, tmp_path: Path) -> None:
        manager = self.make_manager(tmp_path / "store")
        segment, other = Copied(tmp_path / "one"), Copied(tmp_path / "other")
        # Another copy of the same offsets, as by another leader.
        other.metadata = replace(
            other.metadata,
            segment_id=RemoteLogSegmentId(segment.metadata.topic_id_partition, os.urandom(16)),
        )
        segment.copy_to(manager)
        other.copy_to(manager)
        segment.metadata = replace(
            segment.metadata, state=RemoteLogSegmentState.DELETE_SEGMENT_STARTED
        )
        for _ in range(2):
            manager.delete_log_segment_data(segment.metadata)
            segment.check_gone_from(manager)
        other.check_in(manager)
        manager.close()

    def test_second_copy_replaces_the_first(self, tmp_path: Path) -> None:
        manager = self.make_manager(tmp_path / "store")
        first, second = Copied(tmp_path / "first"), Copied(tmp_path / "second")
        second.metadata = first.metadata
        first.copy_to(manager)
        second.copy_to(manager)
        second.check_in(manager)
        manager.close()

    def test_other_brokers_read_and_delete(self, tmp_path: Path) -> None:
        first, second = (self.make_manager(tmp_path / "store") for _ in range(2))
        segment = Copied(tmp_path / "one")
        segment.copy_to(first)
        first.close()
        segment.check_in(second)
        second.delete_log_segment_data(segment.metadata)
        segment.check_gone_from(second)
        second.close()

    def test_copy_of_a_missing_file_raises_and_its_parts_can_be_deleted(
        self, tmp_path: Path
    ) -> None:
        manager = self.make_manager(tmp_path / "store")
        segment = Copied(tmp_path / "one")
        nowhere = str(tmp_path / "nowhere")
        for broken in (
            replace(segment.data, log_segment=nowhere),
            replace(segment.data, offset_index=nowhere),
            replace(segment.data, producer_snapshot=nowhere),
        ):
            try:
                manager.copy_log_segment_data(segment.metadata, broken)
            except RemoteStorageError:
                pass
            else:
                raise AssertionError("copied without one of the files")
        manager.delete_log_segment_data(segment.metadata)
        segment.check_gone_from(manager)
        manager.close()

    def test_large_segment_is_whole_and_read_by_many_threads(self, tmp_path: Path) -> None:
        manager = self.make_manager(tmp_path / "store")
        segment = Copied(tmp_path / "one", LARGE_BYTES)
        segment.copy_to(manager)
        step = LARGE_BYTES // READERS + 1

        def read(start: int) -> bytes:
            end = min(start + step, LARGE_BYTES)
            return bytes(manager.fetch_log_segment(segment.metadata, start, end))

        with ThreadPoolExecutor(READERS) as threads:
            found = b"".join(threads.map(read, range(0, LARGE_BYTES, step)))
        assert found == segment.log
        manager.close()

    def test_many_threads_copy_and_delete(self, tmp_path: Path) -> None:
        manager = self.make_manager(tmp_path / "store")
        segments = [Copied(tmp_path / str(number)) for number in range(READERS)]

        def live(segment: Copied) -> None:
            segment.copy_to(manager)
            segment.check_in(manager)
            manager.delete_log_segment_data(segment.metadata)
            segment.check_gone_from(manager)

        with ThreadPoolExecutor(READERS) as threads:
            list(threads.map(live, segments))
        manager.close()


def _ranges(size: int) -> Iterator[tuple[int, int]]:
    yield from ((0, size), (0, 1), (size - 1, size), (size // 3, size // 2))
    yield from ((0, size + 1000), (size - 1, size * 2), (5, 5), (size, size))
