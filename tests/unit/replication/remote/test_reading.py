"""Records of remote segments that are in memory: which slice a fetch gets, and what is copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pybroker_kafka.protocol.records.batch import iter_batch_headers
from pybroker_kafka.protocol.records.builder import build_batch
from pybroker_kafka.protocol.records.record import SimpleRecord
from pybroker_kafka.replication.remote import reading
from pybroker_kafka.replication.remote.reading import (
    COPIED_BYTES,
    Ahead,
    NotInMemory,
    ReadRange,
    RemoteSegmentFile,
    read_batches,
    segment_behind,
)
from pybroker_kafka.storage.remote.segments import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from tests.unit.replication.remote.test_expiry import DELETING, FINISHED, NAME, Tier, log_of

BATCHES = [
    bytes(build_batch([SimpleRecord(1, None, bytes(20_000))], base_offset=number))
    for number in range(10)
]
SIZE = len(BATCHES[0])
DATA = b"".join(BATCHES)
SEGMENT = RemoteLogSegmentMetadata(
    RemoteLogSegmentId(TopicIdPartition(bytes(16), "t", 0), bytes(16)),
    0, 9, 0, 1, 0, len(DATA), ((0, 0),),
)  # fmt: skip
SPLIT = 4 * SIZE + 100  # within the fifth batch


def never() -> bytes:
    raise AssertionError("this read must not block")


def read(offset: int, max_bytes: int, *ahead: Ahead) -> ReadRange:
    store: Any = None
    file = RemoteSegmentFile(store, SEGMENT, ahead, in_memory=True)
    found = read_batches(
        file, len(DATA), 0, offset, max_bytes, min_one_batch=True, strict_limit=False
    )
    assert found is not None
    held = found.records.held
    position = found.records.position
    assert bytes(held) == DATA[position : position + len(held)]
    assert found.records.read() == bytes(held)
    assert next(iter_batch_headers(held))[1].base_offset == offset == found.first_offset
    return found


def in_memory(start: int, end: int) -> Ahead:
    return Ahead(start, end, never, DATA[start:end])


def test_a_slice_of_one_range_is_not_copied() -> None:
    whole = in_memory(0, len(DATA))
    held = read(3, 4 * SIZE, whole).records.held
    assert isinstance(held, memoryview)
    assert held.obj is whole.data
    assert len(held) == 4 * SIZE


def test_few_bytes_are_copied_to_keep_no_range_in_memory() -> None:
    held = read(3, SIZE, in_memory(0, len(DATA))).records.held
    assert isinstance(held, bytes)
    assert len(held) == SIZE <= COPIED_BYTES


def test_a_read_ends_with_its_range_where_that_spares_a_copy() -> None:
    ranges = in_memory(0, SPLIT), in_memory(SPLIT, len(DATA))
    held = read(1, 4 * SIZE, *ranges).records.held
    assert isinstance(held, memoryview)
    assert 1 * SIZE + len(held) == SPLIT
    assert isinstance(read(4, 4 * SIZE, *ranges).records.held, bytes), "of two ranges"
    assert len(read(4, 4 * SIZE, *ranges).records.held) == 4 * SIZE


@pytest.mark.parametrize("max_bytes", [1, 4 * SIZE])
def test_a_batch_of_which_a_part_is_missing_is_waited_for(max_bytes: int) -> None:
    loading = Ahead(SPLIT, len(DATA), never)
    for ahead in ([loading], []):
        with pytest.raises(NotInMemory) as missing:
            read(4, max_bytes, in_memory(0, SPLIT), *ahead)
        assert missing.value.ahead is (loading if ahead else None)


def test_what_is_joined_of_several_ranges_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "JOINED_BYTES", 2 * SIZE)
    ranges = in_memory(0, SPLIT), in_memory(SPLIT, len(DATA))
    assert len(read(4, 6 * SIZE, *ranges).records.held) == 2 * SIZE
    assert len(read(4, 1, *ranges).records.held) == SIZE, "a batch is whole"


def test_the_segment_behind_a_hole(tmp_path: Path) -> None:
    log, tier = log_of(tmp_path), Tier()
    tier.add(0, FINISHED)
    behind = tier.add(20, FINISHED)
    for offset, expected in ((10, behind), (19, behind), (20, None), (29, None)):
        found = segment_behind(log, NAME, tier, offset)
        assert (found and found.segment_id) == expected
    tier.end(behind, DELETING)
    assert segment_behind(log, NAME, tier, 10) is None
